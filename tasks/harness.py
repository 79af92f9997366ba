"""The tasks, through lm-evaluation-harness: its prompts, its filters, its scoring call.

Beside it only `instructions` imports `lm_eval`; both do once a task is loaded (seconds).
"""

import contextlib
import io
import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

from suite.errors import UserError, first_line
from tasks import data

T = TypeVar("T")
HOME = Path(__file__).parent

FEW = 8
"""Items that the self-check scores where each costs time."""
_CHECKED: set[tuple[str, str]] = set()

Chat = Callable[[list[dict[str, str]]], str]


@dataclass(frozen=True)
class Request:
    """One prompt to answer: `prompt` has the chat template applied, `until` are the stop strings.

    `question`: the hash of what was asked, before any chat template.
    """

    doc_id: int
    prompt: str
    until: tuple[str, ...]
    question: str = ""


def names() -> list[str]:
    """Every folder with a `task.yaml` is a task; `tiny_gsm` is the home of `tiny-gsm`."""
    return sorted(file.parent.name.replace("_", "-") for file in HOME.glob("*/task.yaml"))


def shipped() -> list[str]:
    """The tasks whose data ships beside their `task.yaml`."""
    return [name for name in names() if (_file(name).parent / "test.jsonl").exists()]


@dataclass(frozen=True)
class Facts:
    """What a `task.yaml` says, without the seconds that importing lm-eval takes.

    `version` names the data too, as `Task.version` does; `dataset` is where that comes from and `splits` what is needed
    of it, see `tasks/data.py`. `max_new_tokens`: the room for an answer [tokens].
    """

    about: str
    version: str
    dataset: str
    splits: tuple[str, ...]
    executes_code: bool
    max_new_tokens: int


def facts(name: str) -> Facts:
    config = _config(_file(name))
    metadata, kwargs = config["metadata"], config.get("dataset_kwargs") or {}
    version = f"{metadata['version']}{data.mark(**kwargs)}"
    return Facts(
        about=metadata.get("about", ""),
        version=version,
        dataset=kwargs.get("dataset", ""),
        splits=tuple(kwargs.get("splits", ("test",))),
        executes_code=bool(config.get("unsafe_code")),
        max_new_tokens=config["generation_kwargs"]["max_gen_toks"],
    )


def load(name: str) -> "Task":
    """Load a task with its documents, from this folder and that of `tasks.data`: no network, no cache.

    Raises:
        UserError: there is no such task, or its data is not here or was altered.
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


@cache
def _config(file: Path) -> Any:
    return yaml.load(file.read_text(encoding="utf-8"), Loader=_Untagged)


class _Untagged(yaml.SafeLoader):  # type: ignore[misc]
    """YAML whose `!function` is left out."""


_Untagged.add_multi_constructor("!", lambda *_: None)


class Task:
    """One lm-eval task. `metric` is the primary one of those that `score` returns; empty where there is no score.

    `version` names the data too, where that does not ship with the suite. `max_new_tokens` is the room for an answer
    [tokens]; `executes_code` tells that `score` runs what the model wrote.
    """

    def __init__(self, name: str, task: Any) -> None:
        config = task.config
        if config.gen_prefix:
            raise ValueError(f"{_file(name)}: gen_prefix: the chat template alone opens the answer; remove the key")
        self.name = name
        self.version = f"{task.VERSION}{data.mark(**(config.dataset_kwargs or {}))}"
        self.executes_code = bool(config.unsafe_code)
        self.metric: str = config.metadata.get("metric", "")
        self.max_new_tokens: int = config.generation_kwargs["max_gen_toks"]
        self._has_gold: bool = config.metadata.get("gold", True)
        self._task = task
        self._docs = list(task.eval_docs)
        self._scores: dict[tuple[int, str], dict[str, float]] = {}

    def requests(self, chat: Chat, limit: int | None = None) -> list[Request]:
        """The first `limit` prompts of the test split; `chat` renders messages, answer opened."""

        def template(messages: list[dict[str, str]], add_generation_prompt: bool) -> str:
            return json.dumps(messages)

        with _quiet():
            self._task.build_all_requests(
                limit=limit, apply_chat_template=True, fewshot_as_multiturn=True, chat_template=template
            )
        until = tuple(self._task.config.generation_kwargs["until"])
        return [
            Request(one.doc_id, chat(json.loads(one.args[0])), until, data.sha256(one.args[0].encode())[:16])
            for one in self._task.instances
        ]

    def train_requests(self, chat: Chat, limit: int | None = None) -> list[Request]:
        """The first `limit` prompts of the train split, without examples before them: for training and calibration.

        Raises UserError where there is none.
        """
        if "train" not in self._task.dataset:
            raise UserError(f"task {self.name} has no train split here, so there is nothing to train or calibrate on")
        docs = list(self._task.dataset["train"])[:limit]
        prompts = [chat([{"role": "user", "content": self._task.doc_to_text(doc)}]) for doc in docs]
        until = tuple(self._task.config.generation_kwargs["until"])
        return [Request(n, prompt, until) for n, prompt in enumerate(prompts)]

    def score(self, doc_id: int, text: str) -> dict[str, float]:
        """Metrics in [0, 1] of an answer that `answers.read`; those of a named filter are `metric,filter`.

        Kept for each (doc_id, text), since a lossless drafter gives the text of the baseline.
        """
        if (doc_id, text) not in self._scores:
            self._scores[doc_id, text] = self._score(doc_id, text)
        return dict(self._scores[doc_id, text])

    def score_all(self, answers: Sequence[tuple[int, str]]) -> list[dict[str, float]]:
        """`score` of each (doc_id, text)."""
        return self._each(self.score, answers)

    def _each(self, work: Callable[[int, str], T], answers: Sequence[tuple[int, str]]) -> list[T]:
        """Several at once where they run code, in processes of their own; others may need the main thread."""
        if not self.executes_code:
            return [work(*one) for one in answers]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            return list(pool.map(lambda one: work(*one), answers))

    def self_check(self) -> None:
        """Whether right answers score 1 and wrong ones do not, before anything is decoded; once a process and version.

        Gold answers are scored for every item, for a few where that runs code; then, for a few items, those of two
        others, which may both be right for a quarter or two, by chance. Where there is no gold, an empty answer must
        score 0 and another one must be scored without an error, for every item.
        Raises UserError naming the items (numbers from 0).
        """
        if not self.metric or (self.name, self.version) in _CHECKED:
            return
        every = range(len(self._docs))
        few = every[:: max(1, len(every) // FEW)][:FEW]
        if self._has_gold:
            asked = few if self.executes_code else every
            scores = self._each(self._trial, [(n, self.gold(n)) for n in asked])
            low = [n for n, score in zip(asked, scores, strict=True) if score != 1.0 and not self._excepted(n)]
            self._blame(low, "do not score 1.0 on their gold answers")
            steps = [max(1, len(every) * third // 3) for third in (1, 2)]
            wrong = [(n, self.gold((n + step) % len(every))) for n in few for step in steps]
            scores = self._each(self._trial, wrong)
            high = [n for k, n in enumerate(few) if scores[2 * k] == scores[2 * k + 1] == 1.0]
            self._blame(high if len(high) > max(2, len(few) // 4) else [], "score 1.0 on the answers of other items")
        else:
            self._each(self._trial, [(n, "Yes.") for n in every])
            self._blame([n for n in every if self._trial(n, "")], "score more than 0 on an empty answer")
        _CHECKED.add((self.name, self.version))

    def _trial(self, doc_id: int, text: str) -> float:
        try:
            return self.score(doc_id, text)[self.metric]
        except Exception as error:
            raise UserError(
                f"task {self.name} {self.version}: item {doc_id} cannot be scored ({type(error).__name__}: "
                f"{first_line(error)}); its data or its scoring is broken"
            ) from error

    def _blame(self, items: Sequence[int], fault: str) -> None:
        if items:
            named = ", ".join(map(str, items[:10])) + (f" and {len(items) - 10} more" if len(items) > 10 else "")
            raise UserError(
                f"task {self.name} {self.version}: items {named} {fault}; its data or its scoring is broken"
            )

    def _excepted(self, doc_id: int) -> bool:
        """Whether the gold answer may fail, by `gold_may_fail` in the metadata: ids, by the field they are in."""
        fails: dict[str, list[Any]] = self._task.config.metadata.get("gold_may_fail", {})
        return any(self._docs[doc_id].get(key) in ids for key, ids in fails.items())

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
