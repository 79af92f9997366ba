"""Cells and bundles: the points of a grid, and the stable names of their results."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Literal

ID_VERSION = 2


@dataclass(frozen=True, order=True)
class Cell:
    """One point of a grid: everything that can change an output or a time, besides the machine.

    `prompts`: the first so many items of the task's test split; 0: all of them.
    """

    target: str
    task: str
    temperature: float
    rule: str
    seed: int
    drafter: str
    rows: int
    prompts: int
    top_k: int = 0
    top_p: float = 1.0
    context: Literal["cached", "whole", "frozen", "prefix"] = "cached"
    commit: Literal["fused", "separate"] = "fused"
    layout: Literal["batch", "packed"] = "batch"
    dtype: str = "float32"
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p"):  # 1 and 1.0, 0.0 and -0.0 are one number and so one id
            object.__setattr__(self, name, float(getattr(self, name)) + 0.0)

    @cached_property
    def id(self) -> str:
        """A readable prefix and a hash of the canonical JSON; the same for a plan and for a stored result.

        A plain file name, whatever the parts are called: the hash tells apart what the prefix cannot.
        """
        canonical = json.dumps([ID_VERSION, asdict(self)], sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(canonical.encode()).hexdigest()[:8]
        parts = [self.target, self.task, f"t{self.temperature:g}", self.rule, self.drafter, f"r{self.rows}", digest]
        return ".".join(re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip("-.") for part in parts)

    @property
    def is_baseline(self) -> bool:
        return self.drafter == "none"

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Cell":
        return cls(**{f.name: values[f.name] for f in fields(cls)})


@dataclass(frozen=True)
class Bundle:
    """What one process runs: the baseline and every drafter and budget on the same target, task, T, rule and seed.

    `source`: where the target's checkpoint is, if the grid says so. `files`: the `file.py:Class` of each drafter that
    is one, by the name in its cells; those know its content, and no path.
    """

    baseline: Cell
    cells: tuple[Cell, ...]
    source: str = ""
    files: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> str:
        return self.baseline.id

    @property
    def title(self) -> str:
        """For people: all that sets it apart within a grid."""
        cell = self.baseline
        context = "" if cell.context == "cached" else f" ({cell.context})"
        return f"{cell.target}{context} {cell.task} T={cell.temperature:g} {cell.rule} seed {cell.seed}"
