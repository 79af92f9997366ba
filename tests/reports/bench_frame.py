"""How long the frame of many cells takes: python -m tests.reports.bench_frame [CELLS] [PROMPTS]."""

import hashlib
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from reports import frame
from suite.cells import Cell
from suite.store import CONTENT, Store
from tests.suite.tiny_grid import finish, made_cell, made_sample


def main(cells: int = 100_000, prompts: int = 4) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "machine" / "grid")
        made = [made_cell(rows=2 + n % 1000, seed=n // 1000, prompts=prompts) for n in range(cells)]
        _write(store, made, prompts)
        for what in ("read", "cached"):
            begun, cpu = time.perf_counter(), time.process_time()
            found = frame.build(store, made)
            print(
                f"{what}: {len(made)} cells, {len(found)} rows in {time.perf_counter() - begun:.1f} s "
                f"({time.process_time() - cpu:.1f} s of CPU)"
            )
        assert "torch" not in sys.modules


def _write(store: Store, cells: list[Cell], prompts: int) -> None:
    """The first one as a run does, the others as it: syncing 100,000 cells to a disk takes hours."""
    finish(store, cells[0], [made_sample(n, depths=[1] * 25, tokens=list(range(60))) for n in range(prompts)])
    files = {name: (store.root / cells[0].id / name).read_bytes() for name in CONTENT}
    manifest = json.loads(files["manifest.json"])
    result = json.loads((store.root / cells[0].id / "result.json").read_bytes())
    for cell in cells[1:]:
        content = files | {"manifest.json": json.dumps(manifest | {"cell_id": cell.id, "cell": asdict(cell)}).encode()}
        known = {name: {"lines": 1, "sha256": hashlib.sha256(data).hexdigest()} for name, data in content.items()}
        content["result.json"] = json.dumps(result | {"cell_id": cell.id, "files": known}).encode()
        folder = store.root / cell.id
        folder.mkdir()
        for name, data in content.items():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
