"""What this machine is: recorded with every result, and the folder results lie in. No host names."""

import hashlib
import importlib.metadata
import os
import platform
import re
import resource
from functools import cache
from pathlib import Path
from typing import Any

from suite.errors import UserError

PACKAGES = ("spotbench", "torch", "transformers", "lm_eval", "numpy")
ROOMS = ("suite", "tasks", "drafters")
SOURCE = (".py", ".yaml", ".jsonl")


def hardware() -> dict[str, Any]:
    """CPU model, cores this process may use, memory [GiB], GPUs."""
    import torch

    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "gpus": [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())],
        "threads": torch.get_num_threads(),
    }


def name() -> str:
    """The results folder of machines like this one, such as `intel-xeon-2c`."""
    facts = hardware()
    label = f"{facts['cpu']} {facts['cores']}c {' '.join(dict.fromkeys(facts['gpus']))}"
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\(r\)|\(tm\)|processor|cpu|@.*?hz", "", label.lower())).strip("-")


def worker_gpus(workers: int, device: str) -> tuple[str, ...]:
    """The GPU of each worker, as CUDA names it; none where the device is the CPU.

    Raises UserError when there are more workers than cores, or than GPUs.
    """
    gpus: tuple[str, ...] = ()
    if device in ("cpu", "replay"):
        there, what = len(os.sched_getaffinity(0)), "cores"
    else:
        import torch

        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        gpus = tuple(visible.split(",") if visible else map(str, range(torch.cuda.device_count())))
        there, what = len(gpus), "GPUs"
    if workers > there:
        raise UserError(f"--workers {workers}: this machine has {there} {what}; give it no more than that")
    return gpus


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


@cache
def code_hash() -> str:
    """Of all the source and task data that can change an output: results with the same hash ran the same code."""
    digest = hashlib.sha256()
    home = Path(__file__).parent.parent
    for room in ROOMS:
        for path in sorted(path for path in (home / room).rglob("*") if path.suffix in SOURCE):
            digest.update(str(path.relative_to(home)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def peak_memory_mib() -> int:
    """Of this process so far: on the GPU if there is one, else resident memory."""
    import torch  # here, not above: reports read the store without torch

    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return torch.cuda.max_memory_allocated() // 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 2**10


def _cpu() -> str:
    try:
        models = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        models = []
    return models[0] if models else platform.machine()
