"""The tasks, through lm-evaluation-harness: its prompts, its filters, its scoring call.

This is the only file that imports `lm_eval`, and only once a task is loaded (seconds).
"""

import contextlib
import io
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.errors import UserError

HOME = Path(__file__).parent

Chat = Callable[[list[dict[str, str]]], str]


@dataclass(frozen=True)
class Request:
    """One prompt to answer: `prompt` has the chat template applied, `until` are the stop strings."""

    doc_id: int
    prompt: str
    until: tuple[str, ...]


def names() -> list[str]:
    """Every folder with a `task.yaml` is a task; `tiny_gsm` is the home of `tiny-gsm`."""
    return sorted(file.parent.name.replace("_", "-") for file in HOME.glob("*/task.yaml"))


def executes_code(name: str) -> bool:
    """What `Task.executes_code` will say, without the seconds that importing lm-eval takes."""
    return re.search(r"^unsafe_code:\s*true", _file(name).read_text(encoding="utf-8"), re.MULTILINE) is not None


def load(name: str) -> "Task":
    """Load a task with its documents, from this folder alone: no network, no cache.

    Raises:
        UserError: there is no such task.
    """
    if name not in names():
        raise UserError(f"unknown task {name!r}; known: {', '.join(names())}")
    # Not HF_HUB_OFFLINE, which would keep this process from fetching a target as well.
    for variable in ("HF_DATASETS_OFFLINE", "HF_EVALUATE_OFFLINE"):
        os.environ.setdefault(variable, "1")
    from lm_eval.tasks import TaskManager

    with _quiet():
        manager = TaskManager(include_path=str(HOME), include_defaults=False)
        # By its path, since a file that cannot be read is an error there and merely missing in the index.
        (task,) = manager.load(str(_file(name)))["tasks"].values()
    return Task(name, task)


def cut(text: str, until: Sequence[str]) -> str:
    """`text` up to the earliest stop string; leading whitespace stays, for code begins with it."""
    return text[: min((at for stop in until if stop and (at := text.find(stop)) >= 0), default=len(text))]


class Task:
    """One lm-eval task. `metric` is the primary one of those that `score` returns.

    `max_new_tokens` is the room for an answer [tokens]; `executes_code` tells that `score` runs what
    the model wrote.
    """

    def __init__(self, name: str, task: Any) -> None:
        config = task.config
        if config.gen_prefix:
            raise ValueError(f"{_file(name)}: gen_prefix: the chat template alone opens the answer; remove the key")
        self.name = name
        self.version = str(task.VERSION)
        self.executes_code = bool(config.unsafe_code)
        self.metric: str = config.metadata["metric"]
        self.max_new_tokens: int = config.generation_kwargs["max_gen_toks"]
        self._task = task
        self._docs = list(task.eval_docs)
        self._scores: dict[tuple[int, str], dict[str, float]] = {}

    def requests(self, chat: Chat, limit: int | None = None) -> list[Request]:
        """The first `limit` prompts of the test split; `chat` renders messages, answer opened."""

        def template(messages: list[dict[str, str]], add_generation_prompt: bool) -> str:
            return chat(messages)

        with _quiet():
            self._task.build_all_requests(
                limit=limit, apply_chat_template=True, fewshot_as_multiturn=True, chat_template=template
            )
        return [Request(one.doc_id, one.args[0], tuple(one.args[1]["until"])) for one in self._task.instances]

    def train_requests(self, chat: Chat, limit: int | None = None) -> list[Request]:
        """The first `limit` prompts of the train split, without examples before them: for training and calibration."""
        docs = list(self._task.dataset["train"])[:limit]
        prompts = [chat([{"role": "user", "content": self._task.doc_to_text(doc)}]) for doc in docs]
        until = tuple(self._task.config.generation_kwargs["until"])
        return [Request(n, prompt, until) for n, prompt in enumerate(prompts)]

    def score(self, doc_id: int, text: str) -> dict[str, float]:
        """Metrics in [0, 1] of an answer that has been `cut`; those of a named filter are `metric,filter`.

        Kept for each (doc_id, text), since a lossless drafter gives the text of the baseline.
        """
        if (doc_id, text) not in self._scores:
            self._scores[doc_id, text] = self._score(doc_id, text)
        return dict(self._scores[doc_id, text])

    def gold(self, doc_id: int) -> str:
        """A worked answer."""
        return str(self._task.doc_to_target(self._docs[doc_id]))

    def splits(self) -> dict[str, list[str]]:
        """The bare prompts of every split, to look for leaks."""
        return {
            split: [self._task.doc_to_text(doc) for doc in docs] for split, docs in sorted(self._task.dataset.items())
        }

    def _score(self, doc_id: int, text: str) -> dict[str, float]:
        doc = self._docs[doc_id]
        request = self._task.construct_requests(doc=doc, ctx="", metadata=(self.name, doc_id, 1))
        request.resps = [text]
        scores: dict[str, float] = {}
        for pipeline in self._task._filters:
            pipeline.apply([request])
            metrics = self._task.process_results(doc, [request.filtered_resps[pipeline.name]])
            suffix = "" if pipeline.name == "none" else f",{pipeline.name}"  # "none" is lm-eval's name for no filter
            scores |= {f"{metric}{suffix}": float(value) for metric, value in metrics.items()}
        return scores


def _file(name: str) -> Path:
    return HOME / name.replace("-", "_") / "task.yaml"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep lm-eval's progress bar and its notes to itself; its exceptions and errors come through."""
    log = logging.getLogger("lm_eval")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        log.setLevel(level)
