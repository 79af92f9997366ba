"""The page of a report: its tables and figures, and what lies beside it. It needs no script and no network."""

from collections.abc import Iterator, Sequence
from html import escape

from reports import claims, tables
from reports.pooled import Part
from reports.style import Drawing
from reports.tables import Column, T
from reports.typeset import PaperTable

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
th { vertical-align: bottom; } .left { text-align: left; }
.wide { overflow-x: auto; margin: 1rem 0 2rem; }
figure { margin: 0 0 2.5rem; } img { max-width: 100%; background: white; padding: .5rem; box-sizing: border-box; }
figcaption { max-width: 46rem; font-size: 13px; }
.fault { border-left: 4px solid #d55e00; padding: .2rem .8rem; font-weight: 600; }
"""


def page(
    name: str,
    about: str,
    faults: Sequence[str],
    made: Sequence[Part],
    claimed: Sequence[claims.Row],
    drawings: Sequence[Drawing],
    typeset: Sequence[PaperTable],
) -> str:
    body = [
        f"<h1>{escape(name)}</h1><p>{escape(about)}</p>",
        *(f"<p class=fault>{escape(fault)}</p>" for fault in faults),
        "<p>Beside this page: <a href=report.md>report.md</a>, <a href=report.csv>report.csv</a>, "
        "<a href=claims.md>claims.md</a>, <a href=paper/paper.tex>paper/paper.tex</a>.</p>",
        "<h2>The paper's claims</h2>",
        _table(claims.COLUMNS, claimed),
        f"<p>{escape(claims.NOTE)}</p>",
        *(_figures(drawings) if drawings else []),
        "<h2>Methods</h2>",
    ]
    for section in tables.sections(made):
        body += [f"<h3>{escape(section.title)}</h3>", _table(section.columns, section.rows)]
    body += [f"<p>{escape(note)}</p>" for note in dict.fromkeys(tables.note(part) for part in made)]
    body += ["<h2>Tables for a paper</h2><ul>", *map(_links, typeset), "</ul>"] if typeset else []
    head = f"<meta charset=utf-8><meta name=viewport content='width=device-width'><title>{escape(name)}</title>"
    return (
        f"<!doctype html><html lang=en><head>{head}<style>{STYLE}</style></head><body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _figures(drawings: Sequence[Drawing]) -> Iterator[str]:
    yield "<h2>Figures</h2>"
    for one in drawings:
        yield (
            f"<figure><a href=figures/{one.name}.pdf><img src=figures/{one.name}.png alt='{escape(one.name)}' "
            f"width={one.inches * 110:.0f} loading=lazy></a><figcaption>{escape(one.caption)}</figcaption></figure>"
        )


def _table(columns: Sequence[Column[T]], rows: Sequence[T]) -> str:
    def line(tag: str, texts: Sequence[str]) -> str:
        cells = (
            f"<{tag}{' class=left' if column.left else ''}>{escape(text)}</{tag}>"
            for column, text in zip(columns, texts, strict=True)
        )
        return f"<tr>{''.join(cells)}</tr>"

    head = line("th", [column.name for column in columns])
    body = "".join(line("td", [column.show(row) for column in columns]) for row in rows)
    return f"<div class=wide tabindex=0><table><thead>{head}</thead><tbody>{body}</tbody></table></div>"


def _links(table: PaperTable) -> str:
    files = " ".join(f"<a href=paper/{table.name}.{ending}>{ending}</a>" for ending in ("tex", "md", "csv"))
    return f"<li>{escape(table.caption.split('. ')[0])}: {files}</li>"
