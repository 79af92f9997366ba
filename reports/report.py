"""`spotbench report`: the tables of a grid as Markdown and CSV and its figures, beside its results."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from reports import claims, duel, figures, frame, tables
from reports.tables import Part
from suite.cells import Cell
from suite.store import Store


def write(name: str, about: str, store: Store, cells: Sequence[Cell]) -> tuple[Path, list[Part]]:
    """Write `report.md`, `report.csv`, `claims.md` and `figures/` beside the results; returns the first and tables."""
    made = list(tables.parts(frame.build(store, cells)))
    missing = sum(not store.done(cell) for cell in cells)
    head = [f"**Incomplete: {missing} of {len(cells)} cells are not done**, and not in here.\n"] if missing else []
    head += [f"{line}\n" for line in remarks(store, cells)]
    text = "\n".join([f"# {name}\n\n{about}\n", *head, *_sections(made)])
    path = store.write_report("report.md", text)
    store.write_report("report.csv", tables.csv(made))
    page = tables.markdown(claims.COLUMNS, claims.rows(made))
    store.write_report("claims.md", "\n".join([f"# {name}: the paper's claims\n", *head, f"{claims.NOTE}\n", page]))
    for file, content in figures.render(made):
        store.write_report(f"figures/{file}", content)
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


def _sections(made: Sequence[Part]) -> Iterator[str]:
    for part in made:
        yield f"## {part.setting.title}\n"
        yield tables.markdown(part.columns, part.lines)
        yield tables.markdown(tables.ACCEPTANCE, part.lines)
        yield tables.markdown(tables.BASELINES, part.baselines)
        for champion in duel.CHAMPIONS:
            if fought := list(duel.duels(part.frame, champion)):
                yield f"**{champion} against**\n"
                yield tables.markdown(duel.COLUMNS, fought)
    notes = "\n\n".join(dict.fromkeys(part.note for part in made))
    yield f"{notes}\n\n{tables.ACCEPTANCE_NOTE}\n\n{tables.BASELINES_NOTE}\n\n{duel.NOTE}\n"
