"""`spotbench report`: all that a grid's results say, in files beside them."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from reports import claims, duel, figures, frame, index, maps, paper, pooled, tables, typeset
from reports.pooled import Part
from suite.cells import Cell
from suite.store import Store


def write(
    name: str,
    about: str,
    store: Store,
    cells: Sequence[Cell],
    command: str = "-",
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Path, list[Part]]:
    """Write `report.md`, `report.csv`, `claims.md`, `figures/`, `paper/` and `index.html` beside the results.

    Returns the first and the settings. `command`: what measured the grid; `tell` is called with what is happening.
    """
    tell("reading results")
    missing = frame.missing(store, cells)
    made = list(pooled.parts(frame.build(store, cells), missing))
    faults = list(_faults(made, len(missing), len(cells)))
    head = [f"**{fault}**\n" for fault in faults] + [f"{line}\n" for line in remarks(store, cells)]
    text = "\n".join([f"# {name}\n\n{about}\n", *head, *_sections(made)])
    path = store.write_report("report.md", text)
    store.write_report("report.csv", tables.csv(made))
    claimed = claims.rows(made, command)
    page = tables.markdown(claims.COLUMNS, claimed)
    store.write_report("claims.md", "\n".join([f"# {name}: the paper's claims\n", *head, f"{claims.NOTE}\n", page]))
    tell("drawing figures")
    drawings = figures.draw(made, maps.pick(store, cells, made))
    files = dict(figures.files(drawings))
    for file, content in files.items():
        store.write_report(f"figures/{file}", content)
    store.clear_report("figures", files)
    tell("setting the paper's tables")
    set_ = list(paper.tables(made))
    for table in set_:
        for ending, form in (("tex", typeset.latex), ("md", typeset.markdown), ("csv", typeset.csv)):
            store.write_report(f"paper/{table.name}.{ending}", form(table))
    store.write_report("paper/paper.tex", paper.document(name, set_, drawings))
    store.write_report("index.html", index.page(name, about, faults, made, claimed, drawings, set_))
    return path, made


def remarks(store: Store, cells: Sequence[Cell]) -> list[str]:
    """What a reader must know of how the figures came about: unanswered prompts, new scores, an open sandbox."""
    done = [store.read(cell) for cell in cells if store.done(cell)]
    found = []
    if unanswered := sum(bool(sample.error) for one in done for sample in one.samples):
        found.append(f"**{unanswered} prompts have no answer**, and are in no figure; `spotbench check` names them.")
    if rescored := sum("rescored" in one.manifest["settings"] for one in done):
        found.append(f"The answers of {rescored} cells were scored anew after they were measured.")
    if sandboxes := {one.manifest["settings"].get("sandbox", "") for one in done} - {""}:
        found += [f"Model-written code ran with {told}." for told in sorted(sandboxes)]
    return found


def _faults(made: Sequence[Part], missing: int, cells: int) -> Iterator[str]:
    """What a reader must know before any figure."""
    if missing:
        yield f"Incomplete: {missing} of {cells} cells are not done, and not in here."
    codes = {code for part in made for code in part.frame["code"].unique()}
    if len(codes) > 1:
        yield f"Measured with {len(codes)} versions of the code."


def _sections(made: Sequence[Part]) -> Iterator[str]:
    for section in tables.sections(made):
        yield f"## {section.title}\n"
        yield tables.markdown(section.columns, section.rows)
        if section.plain:
            yield tables.markdown(tables.PLAIN_TASKS, [(part, x) for part in section.parts for x in part.baselines])
            continue
        for part in section.parts:
            yield tables.markdown(tables.ACCEPTANCE, [line for line in part.lines if line.drafter != "none"])
            yield tables.markdown(tables.BASELINES, part.baselines)
            for champion in duel.CHAMPIONS:
                if fought := list(duel.duels(part.frame, champion)):
                    yield f"**{champion} against**\n"
                    yield tables.markdown(duel.COLUMNS, fought)
    notes = "\n\n".join(dict.fromkeys(tables.note(part) for part in made))
    yield f"{notes}\n\n{tables.ACCEPTANCE_NOTE}\n\n{tables.BASELINES_NOTE}\n\n{duel.NOTE}\n"
