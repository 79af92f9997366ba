"""The traces that a calibration is made from: the baseline's on the train split of some tasks."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import tasks.harness
from suite import trace
from suite.cells import Cell
from suite.decoding.policy import Policy, parse_rule
from suite.targets import catalog, checkpoint, load
from suite.trace import Header, PromptTrace

Begin = Callable[[int], Callable[[str, int, int], None]]
"""Called with a task's index; what it gives is called with the task's name, prompts recorded and prompts in all."""


def train_traces(
    target_name: str,
    rule: str,
    temperature: float,
    task_names: Sequence[str],
    prompts: int,
    root: Path,
    begin: Begin = lambda _: lambda *_: None,
) -> Iterator[tuple[Header, PromptTrace]]:
    """Record what `root` lacks of the first `prompts` train prompts of each task, and read all of it.

    Raises UserError when the target, a task or the rule is none, or a trace in `root` is of something else.
    """
    commit_rule = parse_rule(rule)
    target = load.load(catalog.spec(target_name))
    weights = checkpoint.weights_hash(target.spec)
    for n, name in enumerate(task_names):
        cell = Cell(target_name, name, temperature, str(commit_rule), 0, "none", 1, 0, context=target.context_policy)
        task = tasks.harness.load(name)
        policy = Policy(
            block_size=target.spec.block_size,
            max_new_tokens=task.max_new_tokens,
            rule=commit_rule,
            temperature=temperature,
            confidence=target.spec.family.confidence,
        )
        requests = task.train_requests(target.chat, prompts)
        header = trace.header(cell, target, weights, task, policy, "train")
        made = trace.open_trace(root, cell, "train", header)
        trace.record(made, target, requests, partial(begin(n), name))
        for request in requests:
            yield header, made.read(request.doc_id)
