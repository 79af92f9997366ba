"""The tasks as lm-eval sees them: prompts, scores of gold and of wrong answers, and what loading leaves behind."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from suite.errors import UserError
from tasks import harness, scoring, tiny
from tasks.harness import Task, load

NAMES = ["tiny-code", "tiny-gsm", "tiny-ifeval", "tiny-math"]
REAL = ["gsm8k", "gsm8k-5shot", "humaneval", "ifeval", "math500", "mbpp", "mbpp-sanitized", "specbench"]


@pytest.fixture(scope="module")
def task(request: pytest.FixtureRequest) -> Task:
    return load(request.param)


every_task = pytest.mark.parametrize("task", NAMES, indirect=True)


def chat(messages: list[dict[str, str]]) -> str:
    return "".join(f"<{message['role']}>{message['content']}</>" for message in messages) + "<assistant>"


@every_task
def test_gold_answers_score_one(task: Task) -> None:
    items = range(len(task.requests(chat)))
    scores = task.score_all([(n, task.gold(n)) for n in items])
    assert (len(items), {value for one in scores for value in one.values()}) == (200, {1.0})


@every_task
def test_answers_of_other_items_score_near_zero(task: Task) -> None:
    """The bound is for chance: results repeat among sums below 20, and of two lists one in eight has the
    count and the separator of the other, before any further constraint."""
    items = list(range(200))
    shuffled = random.Random(0).sample(items, len(items))
    pairs = [(n, other) for n, other in zip(items, shuffled, strict=True) if n != other]
    if task.executes_code:
        pairs = pairs[:50]
    scores = [one[task.metric] for one in task.score_all([(n, task.gold(other)) for n, other in pairs])]
    assert sum(scores) / len(scores) <= 0.2


@every_task
def test_the_self_check_passes(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "_CHECKED", set())
    task.self_check()


@every_task
def test_an_empty_answer_scores_zero(task: Task) -> None:
    assert {value for n in range(3) for value in task.score(n, "").values()} == {0.0}


@every_task
def test_the_chat_template_is_applied_exactly_once(task: Task) -> None:
    seen: list[list[dict[str, str]]] = []

    def spying(messages: list[dict[str, str]]) -> str:
        seen.append(messages)
        return chat(messages)

    prompts = task.splits()["test"]
    requests = task.requests(spying, limit=5)
    assert [one.prompt for one in requests] == [f"<user>{prompt}</><assistant>" for prompt in prompts[:5]]
    assert seen == [[{"role": "user", "content": prompt}] for prompt in prompts[:5]]
    assert [one.doc_id for one in requests] == [0, 1, 2, 3, 4]


@every_task
def test_what_a_task_says_of_itself(task: Task) -> None:
    assert task.version == "1.0"
    assert task.executes_code == (task.name == "tiny-code")
    assert task.max_new_tokens == (48 if task.name == "tiny-ifeval" else 64)
    assert task.metric in task.score(0, task.gold(0))
    assert task.requests(chat, limit=1)[0].until == ("<|im_end|>", "<|endoftext|>")
    assert f"task: {task.name}\n" in (harness.HOME / task.name.replace("-", "_") / "task.yaml").read_text()


@every_task
def test_no_prompt_is_in_two_splits(task: Task) -> None:
    splits = task.splits()
    assert {split: len(prompts) for split, prompts in splits.items()} == tiny.ITEMS_PER_SPLIT
    assert not set(splits["train"]) & set(splits["test"])


@every_task
def test_shots_would_come_from_the_train_split(task: Task) -> None:
    assert task._task.fewshot_cfg.split == "train"
    assert [doc["prompt"] for doc in task._task.sampler.sample(n=2)] == task.splits()["train"][:2]


def test_names_are_the_folders() -> None:
    assert harness.names() == [*REAL, *NAMES]
    assert harness.shipped() == NAMES


def test_an_unknown_task_is_told_the_names_there_are() -> None:
    with pytest.raises(UserError) as error:
        load("tiny-gms")
    assert str(error.value) == f"unknown task 'tiny-gms'; known: {', '.join([*REAL, *NAMES])}"


def test_one_text_is_scored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []
    real = scoring.sandbox.run
    monkeypatch.setattr(scoring.sandbox, "run", lambda program: (runs.append(program), real(program))[1])
    task = load("tiny-code")
    first = task.score(0, task.gold(0))
    first["pass@1"] = 7.0  # the caller's own copy
    assert task.score(0, task.gold(0)) == {"pass@1": 1.0}
    assert len(runs) == 1
    assert task.score(1, task.gold(0)) == {"pass@1": 0.0}
    assert len(runs) == 2


TASK_YAML = """
task: other
custom_dataset: !function score.load
test_split: test
doc_to_text: prompt
doc_to_target: answer
generation_kwargs: {until: [], max_gen_toks: 8}
process_results: !function score.score
metric_list: [{metric: size, aggregation: mean, higher_is_better: true}]
metadata: {version: 2, metric: "size,two"}
"""
FILTERS = """
filter_list:
  - {name: one, filter: [{function: take_first}]}
  - {name: two, filter: [{function: remove_whitespace}, {function: take_first}]}
"""
SCORE = """
import datasets
def load(**_):
    return {"test": datasets.Dataset.from_list([{"prompt": "p", "answer": "a"}])}
def score(doc, results):
    return {"size": len(results[0])}
"""


def write_task(home: Path, text: str) -> None:
    (home / "other").mkdir()
    (home / "other" / "task.yaml").write_text(text)
    (home / "other" / "score.py").write_text(SCORE)


def test_named_filters_keep_their_scores_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "HOME", tmp_path)
    write_task(tmp_path, TASK_YAML + FILTERS)
    task = load("other")
    assert task.score(0, "  abc") == {"size,one": 5.0, "size,two": 3.0}
    assert (task.metric, task.version) == ("size,two", "2")


def test_what_a_task_asks_is_what_its_file_says_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is remembered of an earlier text, neither here nor by lm-eval."""
    monkeypatch.setattr(harness, "HOME", tmp_path)
    write_task(tmp_path, TASK_YAML)
    (before,) = load("other").requests(chat)
    file = tmp_path / "other" / "task.yaml"
    file.write_text(TASK_YAML.replace("doc_to_text: prompt", 'doc_to_text: "{{prompt}}?"'))
    (after,) = load("other").requests(chat)
    assert (before.prompt, after.prompt) == ("<user>p</><assistant>", "<user>p?</><assistant>")
    assert before.question != after.question


def test_a_question_does_not_depend_on_the_chat_template() -> None:
    task = load("tiny-gsm")
    one, other = (task.requests(template, 3) for template in (chat, lambda messages: "another"))
    assert [a.question for a in one] == [b.question for b in other]
    assert len({a.question for a in one}) == 3


def test_a_prefix_of_the_answer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "HOME", tmp_path)
    write_task(tmp_path, TASK_YAML + 'gen_prefix: "A:"\n')
    with pytest.raises(ValueError, match="gen_prefix"):
        load("other")


def test_a_broken_task_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "HOME", tmp_path)
    write_task(tmp_path, "task: [other")
    with pytest.raises(Exception, match=r"while parsing"):
        load("other")


def test_lm_eval_gives_the_same_mean() -> None:
    """Its own `evaluate`, on the same folder and with a scripted model, agrees with `score`."""
    from lm_eval.api.model import LM
    from lm_eval.evaluator import evaluate
    from lm_eval.tasks import TaskManager

    ours = load("tiny-gsm")
    texts = [ours.gold(n if n % 3 else n + 1) for n in range(10)]

    class Scripted(LM):  # type: ignore[misc]
        def generate_until(self, requests: list[Any]) -> list[str]:
            return [texts[request.doc_id] for request in requests]

        def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
            raise NotImplementedError

        def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
            raise NotImplementedError

    manager = TaskManager(include_path=str(harness.HOME), include_defaults=False)
    theirs = evaluate(lm=Scripted(), task_dict=manager.load(["tiny-gsm"]), limit=10, bootstrap_iters=0)
    mean = sum(ours.score(n, text)["exact_match"] for n, text in enumerate(texts)) / len(texts)
    assert 0 < mean < 1
    assert theirs["results"]["tiny-gsm"]["exact_match,none"] == pytest.approx(mean)


FRESH = """
import json, logging, os, sys
from tasks import harness
names = harness.names()
early = "lm_eval" in sys.modules
task = harness.load("tiny-gsm")
task.requests(lambda messages: messages[0]["content"])
print(json.dumps([names, early, "lm_eval" in sys.modules, "torch" in sys.modules, os.environ["HF_DATASETS_OFFLINE"],
                  os.environ["HF_EVALUATE_OFFLINE"], logging.getLogger("lm_eval").level]))
"""


def test_loading_is_lazy_silent_and_leaves_nothing_behind(tmp_path: Path) -> None:
    cache, folder = tmp_path / "cache", tmp_path / "folder"
    cache.mkdir()
    folder.mkdir()
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("HF_")},
        "PYTHONPATH": str(harness.HOME.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HOME": str(cache),
        "HF_EVALUATE_OFFLINE": "0",
    }
    ran = subprocess.run(
        [sys.executable, "-c", FRESH], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(ran.stdout) == [[*REAL, *NAMES], False, True, False, "1", "0", 0]
    assert ran.stderr == ""
    assert [*folder.rglob("*"), *cache.rglob("*")] == []
