"""Whether this machine can run a target, and what would get it there."""

import os
from dataclasses import dataclass

import torch

from suite.errors import UserError
from suite.targets.base import TargetSpec
from suite.targets.checkpoint import how_to_get, locate, shards

OVERHEAD = 1.2
"""Memory needed over that of the weights: keys and values, logits, the rows of a pass."""


@dataclass(frozen=True)
class Fit:
    """`needs` and `there` in GiB; `where`: the memory that is meant; `get`: what puts the missing weights here."""

    needs: float
    there: float
    where: str
    present: bool
    get: str

    @property
    def good(self) -> bool:
        return self.present and self.needs <= self.there

    @property
    def brief(self) -> str:
        """In a few words for people."""
        needs = f"{self.needs:.0f} GiB" if self.needs >= 1 else "under 1 GiB"
        if self.needs > self.there:
            return f"too big: {self.needs:.0f} of {self.there:.0f} GiB {self.where}"
        return f"ready, {needs}" if self.present else f"no weights, {needs}"


def fit(spec: TargetSpec) -> Fit:
    """In bfloat16 on the GPUs if there are any, else in float32 on the CPU."""
    if count := torch.cuda.device_count():
        size, where = 2, "GPU"
        there = sum(torch.cuda.get_device_properties(n).total_memory for n in range(count))
    else:
        size, where, there = 4, "CPU", os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        shards(spec, locate(spec, fetch=False))
        present = True
    except UserError:
        present = False
    needs = spec.parameters * size * OVERHEAD / 2**30
    return Fit(needs, there / 2**30, where, present, "" if present else how_to_get(spec))
