"""Entries made without a model: figures follow from the passes, as in real ones."""

from collections.abc import Sequence
from typing import Any

from reports.entry import (
    DIGITS,
    VERSION,
    Block,
    Budget,
    Card,
    Entry,
    Line,
    Origin,
    Pooled,
    Result,
    Settings,
    Spread,
    Steps,
)
from suite.measure.stats import ratio

TASKS = ("tiny-gsm", "tiny-math")
PLAIN = [24, 20, 22, 30, 18, 26]


LINES = [Line(rows=9, depth=1, marks="eao", tokens=["b", "c"])]


def made_entry(
    drafter: str = "chain",
    speed: float = 2.0,
    *,
    target: str = "tiny-sdar-b16",
    rule: str = "exact",
    tasks: Sequence[str] = TASKS,
    temperatures: Sequence[float] = (0.0, 1.0),
    rows: Sequence[int] = (3, 9),
    prompts: int = len(PLAIN),
    baseline: Sequence[int] = PLAIN,
    trace: str = "t",
    degenerate: int = 0,
    differ: int = 0,
    speedup: Spread | None = None,
    machine: str = "one",
    device: str = "replay",
    learned_on: Sequence[str] = (),
    **card: Any,
) -> Entry:
    """A drafter that needs about `speed` times fewer passes, more at more rows."""
    plain = list(baseline)[:prompts]

    def passes(budget: int) -> list[int]:
        return [max(1, round(n / (speed * (1 + budget / 50)) + (i % 3) * 0.4)) for i, n in enumerate(plain)]

    def spread(budget: int, of: int) -> Spread:
        return Spread.of(ratio(plain * of, passes(budget) * of, [t for t in tasks[:of] for _ in plain]), DIGITS)

    def budget(n: int) -> Budget:
        return Budget(
            rows=n,
            passes=passes(n),
            pass_reduction=spread(n, 1),
            rows_per_pass=n - 0.5,
            steps_per_pass=speed,
            exact=prompts - differ,
            ties=0,
            speedup=speedup,
        )

    nothing = {"about": "A drafter.", "kind": "training-free", "parameters": 0, "home": "", "split": "", "data": ""}
    return Entry(
        version=VERSION,
        drafter=drafter,
        card=Card(**(nothing | {"tasks": learned_on, "needs_future": False} | card)),
        code="c0de",
        settings=Settings(
            target=target, rule=rule, seed=0, prompts=prompts, top_k=0, top_p=1.0, context="cached",
            commit="fused", layout="batch", dtype="float32", device=device,
        ),
        weights="w",
        tiny=True,
        origin=Origin(spotbench="0.1.0", code="s", machine=machine, date="2026-01-02"),
        results=[
            Result(
                task=task, task_version="1", temperature=t, trace=f"{trace}{task}{t:g}", accuracy=0.5,
                degenerate=degenerate, baseline_passes=plain, budgets=[budget(n) for n in rows],
            )
            for task in tasks
            for t in temperatures
        ],
        pooled=[
            Pooled(temperature=t, rows=n, pass_reduction=spread(n, len(tasks)), speedup=speedup)
            for t in temperatures
            for n in rows
        ],
        steps=Steps(
            task=tasks[0], temperature=temperatures[0], doc_id=0, rows=rows[-1],
            blocks=[Block(index=1, given=1, text=["a", "b", "c"], lines=LINES)],
        ),
    )  # fmt: skip


def bounds() -> list[Entry]:
    return [
        made_entry("oracle", 4.0, kind="bound", needs_future=True),
        made_entry("random", 1.1, kind="bound"),
    ]
