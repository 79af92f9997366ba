"""`spotbench doctor`: what this machine can run, and why not."""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from suite import machine
from suite.targets import catalog
from tasks import sandbox


@dataclass(frozen=True)
class Finding:
    good: bool
    what: str
    detail: str


def examine() -> Iterator[Finding]:
    """Findings, most basic first."""
    facts, versions = machine.hardware(), machine.versions()
    yield Finding(True, "machine", f"{machine.name()}: {facts['cores']} cores, {facts['memory_gib']} GiB memory")
    yield Finding(True, "GPU", ", ".join(facts["gpus"]) or "none; tiny targets run on the CPU")
    for package in machine.PACKAGES[1:]:
        there = importlib.util.find_spec(package) is not None
        yield Finding(there, package, versions[package] if there else "missing: pip install spotbench again")
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    yield Finding(free > 1, "disk", f"{free:.0f} GiB free here" + ("" if free > 1 else "; results need about 1"))
    yield Finding(os.access(Path.cwd(), os.W_OK), "results", "this folder can be written to; --results names another")
    closed = "its own namespaces: no network" if sandbox.confined() else "no namespaces here: its network stays open"
    yield Finding(True, "sandbox for model-written code", closed)
    for spec in catalog.CATALOG.values():
        there = (Path(spec.source) / "model.safetensors").is_file()
        yield Finding(there, spec.name, "weights are here" if there else f"no weights at {spec.source}")
