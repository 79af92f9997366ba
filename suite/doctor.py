"""`spotbench doctor`: what this machine can run, and why not."""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from suite import machine
from tasks import sandbox


@dataclass(frozen=True)
class Finding:
    """`optional`: what a user may want and get, so that its lack is no fault."""

    good: bool
    what: str
    detail: str
    optional: bool = False

    @property
    def fault(self) -> bool:
        return not self.good and not self.optional


def examine() -> Iterator[Finding]:
    """Findings, most basic first; without its packages nothing more can be found out."""
    versions, complete = machine.versions(), True
    for package in machine.PACKAGES[1:]:
        there = importlib.util.find_spec(package) is not None
        complete &= there
        yield Finding(there, package, versions[package] if there else "missing; install spotbench again")
    if not complete:
        return
    from suite.targets import catalog, fit  # imports torch

    facts = machine.hardware()
    yield Finding(True, "machine", f"{machine.name()}: {facts['cores']} cores, {facts['memory_gib']} GiB memory")
    yield Finding(True, "GPU", ", ".join(facts["gpus"]) or "none; tiny targets run on the CPU")
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    yield Finding(free > 1, "disk", f"{free:.0f} GiB free here" + ("" if free > 1 else "; results need about 1"))
    writable = os.access(Path.cwd(), os.W_OK)
    yield Finding(
        writable, "results", f"this folder can{'' if writable else 'not'} be written to; --results names another"
    )
    yield Finding(True, "sandbox for model-written code", sandbox.walls().told)
    for spec in catalog.CATALOG.values():
        found = fit.fit(spec)
        yield Finding(found.good, spec.name, f"{found.brief}; {found.get}" if found.get else found.brief, not spec.tiny)
