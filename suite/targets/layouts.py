"""How far the two layouts of a pass lie apart: `python -m suite.targets.layouts tiny-sdar-b16`.

For a few prompts, partly masked states of an answer's first block are evaluated as a batch, packed, and one by one.
What is printed is measured here and now; nothing is asserted.
"""

import argparse
import random
from collections.abc import Iterator, Sequence

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

import drafters
import tasks.harness
from suite.decoding.decode import decode
from suite.decoding.state import MASK, Row, State, masked
from suite.targets import catalog, load
from suite.targets.base import Target
from suite.targets.native import Layout


def passes(target: Target, prompts: int, rows: int) -> Iterator[tuple[list[int], list[State]]]:
    """Contexts, and states of the block that follows with parts of its answer masked, from tiny-gsm's first prompts."""
    task, spec = tasks.harness.load("tiny-gsm"), target.spec
    policy = spec.policy(task.max_new_tokens)
    for request in task.requests(target.chat, prompts):
        ids = target.encode(request.prompt)
        first = spec.first_block(len(ids))
        visits = decode(target, ids, policy, drafters.make("none")).visits
        done = [state for block, state in visits if block == first][-1]
        rng = random.Random(request.doc_id)
        hidden = [set(rng.sample(range(1, len(done)), rng.randint(1, len(done) - 1))) for _ in range(rows)]
        yield (
            ids[: spec.origin(len(ids)) + first * spec.block_size],
            [tuple(MASK if i in some else token for i, token in enumerate(done)) for some in hidden],
        )


def logits(target: Target, ids: Sequence[int], states: Sequence[State]) -> Tensor:
    """Of the states, after the block's first pass: `[rows, B, V]`."""
    context = target.prefill(ids, 4)
    opening = Row((), (MASK,) * target.spec.block_size)
    target.evaluate(context, [opening])
    target.keep(context, opening)
    return target.evaluate(context, [Row((), state) for state in states])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="a target of the catalogue")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--rows", type=int, default=32, help="rows in a pass")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    spec = catalog.spec(options.target)
    title = f"{spec.name}: {options.rows} rows in a pass against one by one"
    table = Table("dtype", "layout", "largest logit gap", "largest logit", "tokens that differ", title=title)
    for dtype in ("float32", "bfloat16", "float16"):
        alone = load.load(spec, options.device, dtype)
        cases = list(passes(alone, options.prompts, options.rows))
        singles = [torch.cat([logits(alone, ids, [state]) for state in states]) for ids, states in cases]
        layouts: list[Layout] = ["batch", "packed"]
        for layout in layouts:
            target = load.load(spec, options.device, dtype, layout)
            gap, largest, flips, total = 0.0, 0.0, 0, 0
            for (ids, states), single in zip(cases, singles, strict=True):
                seen = logits(target, ids, states)
                finite = single.isfinite()
                gap = max(gap, float((seen - single)[finite].abs().max()))
                largest = max(largest, float(single[finite].abs().max()))
                for n, state in enumerate(states):
                    where = masked(state)
                    flips += int((seen[n, where].argmax(-1) != single[n, where].argmax(-1)).sum())
                    total += len(where)
            table.add_row(dtype, layout, f"{gap:.1e}", f"{largest:.0f}", f"{flips} of {total}")
    Console().print(table)


if __name__ == "__main__":
    main()
