"""A paper's table, specified once and set as LaTeX (booktabs), Markdown and CSV."""

import csv as csv_
import io
import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from suite.measure.stats import Interval

LINES = 54
"""Of a table that fits a page; a longer one goes on in another."""
State = Literal["measured", "not measured", "missing"]


@dataclass(frozen=True)
class Entry:
    """One figure as it is shown, and unrounded with its interval (NaN where there is none).

    `by`: what it is compared by, where that is not the figure itself.
    """

    text: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    state: State = "measured"
    best: bool = False
    by: Interval | None = None


NOT_MEASURED = Entry("-", state="not measured")
MISSING = Entry("missing", state="missing")
"""Was to be measured and is not done."""


@dataclass(frozen=True)
class Row:
    """`aside`: beside the contest, such as a bound: never the best, and in italics."""

    labels: tuple[str, ...]
    entries: tuple[Entry, ...]
    aside: bool = False


@dataclass(frozen=True)
class Group:
    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class PaperTable:
    """`labels`: heads of the columns of text; `columns`: of those of figures, (what several have in common, head)."""

    name: str
    caption: str
    labels: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    groups: tuple[Group, ...]


def figure(value: float, digits: int = 2, after: str = "") -> Entry:
    """A figure without an interval; NaN was not measured."""
    return NOT_MEASURED if math.isnan(value) else Entry(f"{value:.{digits}f}{after}", value)


def interval(x: Interval, digits: int = 2, spread: bool = False) -> Entry:
    """A figure with its interval, which is shown where `spread`."""
    if math.isnan(x.value):
        return NOT_MEASURED
    text = f"{x.value:.{digits}f}" + (f" [{x.low:.{digits}f}, {x.high:.{digits}f}]" if spread else "")
    return Entry(text, x.value, x.low, x.high)


def contest(rows: Sequence[Row], columns: Iterable[int]) -> tuple[Row, ...]:
    """The rows with the best ratio of each column marked and all whose intervals overlap with its own, none below 1."""
    made = list(rows)
    for n in columns:
        rivals = {k: x for k, row in enumerate(rows) if not row.aside and (x := _ratio(row.entries[n]))}
        if len(rivals) > 1:
            least = max(1.0, max(rivals.values(), key=lambda x: x.value).low)
            for k in (k for k, x in rivals.items() if x.high >= least):
                entries = list(made[k].entries)
                entries[n] = replace(entries[n], best=True)
                made[k] = replace(made[k], entries=tuple(entries))
    return tuple(made)


def _ratio(x: Entry) -> Interval | None:
    found = x.by or Interval(x.value, x.low, x.high)
    return None if math.isnan(found.low) else found


def markdown(table: PaperTable) -> str:
    heads = [*table.labels, *(f"{over} {head}".strip() for over, head in table.columns)]
    aligned = ["---"] * len(table.labels) + ["---:"] * len(table.columns)
    lines = [f"**{_one_line(table.caption)}**\n"]
    for group in table.groups:
        lines += [f"{_one_line(group.title)}\n"] if group.title else []
        lines += [_bars(map(_cell, heads)), _bars(aligned)]
        for row in group.rows:
            entries = (f"**{_cell(x.text)}**" if x.best else _cell(x.text) for x in row.entries)
            lines.append(_bars([*map(_cell, row.labels), *entries]))
        lines.append("")
    return "\n".join(lines) + "\n"


def csv(table: PaperTable) -> str:
    """A line for each figure, unrounded."""
    text = io.StringIO()
    out = csv_.writer(text, lineterminator="\n")
    out.writerow(["group", *table.labels, "of", "column", "value", "low", "high", "best", "state"])
    for group in table.groups:
        for row in group.rows:
            for (over, head), x in zip(table.columns, row.entries, strict=True):
                numbers = ["" if math.isnan(number) else repr(number) for number in (x.value, x.low, x.high)]
                out.writerow([group.title, *row.labels, over, head, *numbers, int(x.best), x.state])
    return text.getvalue()


def latex(table: PaperTable) -> str:
    """One float, or several where it is too long for a page. Needs the package booktabs."""
    floats = [_float(table, groups, n) for n, groups in enumerate(_pages(table.groups))]
    return "\n".join(floats)


def escape(text: str) -> str:
    """`text` as LaTeX that shows it; what the default fonts lack is written as its code point."""
    return "".join(map(_escaped, unicodedata.normalize("NFKC", text))).replace("--", "-{}-").replace(r" \%", r"\,\%")


SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "`": r"\textasciigrave{}", "[": "{[}", "*": "{*}",
    **{c: "\\" + c for c in "{}$&#_%"},
}  # fmt: skip
"""A bracket or star after the end of a row would be its argument."""


def _escaped(c: str) -> str:
    if c in SPECIAL:
        return SPECIAL[c]
    if c.isascii():
        return c if c.isprintable() else " "
    return rf"\texttt{{U+{ord(c):04X}}}"


def _pages(groups: Sequence[Group]) -> Iterator[list[Group]]:
    page: list[Group] = []
    for group in groups:
        for start in range(0, len(group.rows), LINES - 1):  # a group that is too long for any page is cut
            part = Group(group.title, group.rows[start : start + LINES - 1])
            if page and sum(len(one.rows) + 1 for one in [*page, part]) > LINES:
                yield page
                page = []
            page.append(part)
    if page:
        yield page


def _float(table: PaperTable, groups: Sequence[Group], n: int) -> str:
    first, count = len(table.labels) + 1, len(table.labels) + len(table.columns)
    caption = escape(table.caption) if not n else f"{escape(table.caption.split('. ')[0])}, continued."
    overs, rules, at = [""] * len(table.labels), [], first
    for over, some in groupby(table.columns, key=lambda column: column[0]):
        width = len(list(some))
        overs.append(rf"\multicolumn{{{width}}}{{c}}{{{escape(over)}}}")
        rules += [rf"\cmidrule(lr){{{at}-{at + width - 1}}}"] if over else []
        at += width
    body = []
    for group in groups:
        body += [r"\midrule"]
        if group.title:
            body += [rf"\multicolumn{{{count}}}{{l}}{{\makebox[0pt][l]{{\textit{{{escape(group.title)}}}}}}} \\"]
        body += [_tex_row(row) for row in group.rows]
    heads = [*map(escape, table.labels), *(escape(head) for _, head in table.columns)]
    return "\n".join(
        [
            r"\begin{table*}[htbp]",
            r"\centering\scriptsize\setlength{\tabcolsep}{4pt}\setlength{\belowcaptionskip}{4pt}",
            rf"\caption{{{caption}}}",
            *([rf"\label{{tab:{table.name}}}"] if not n else []),
            rf"\begin{{tabular}}{{{'l' * len(table.labels)}{'r' * len(table.columns)}}}",
            r"\toprule",
            *([" & ".join(overs) + r" \\", "".join(rules)] if rules else []),
            " & ".join(heads) + r" \\",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table*}",
            "",
        ]
    )


def _tex_row(row: Row) -> str:
    entries = [rf"\textbf{{{escape(x.text)}}}" if x.best else escape(x.text) for x in row.entries]
    cells = [*map(escape, row.labels), *entries]
    return " & ".join(rf"\textit{{{cell}}}" if row.aside and cell else cell for cell in cells) + r" \\"


def _bars(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    """`text` as one cell of a Markdown table, whatever it holds."""
    return _one_line(text).replace("\\", "\\\\").replace("|", "\\|")


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())
