"""The published benchmarks: prompts, extraction, scores of right and of wrong answers, and that nothing leaks."""

from pathlib import Path
from typing import Any

import pytest

from suite.errors import UserError
from tasks import harness, scoring
from tasks.harness import Task, load
from tests.tasks.made_up import GSM, ROWS, fill

NAMES = ["gsm8k", "gsm8k-5shot", "humaneval", "ifeval", "math500", "mbpp", "mbpp-sanitized", "specbench"]


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A data folder with all the made-up rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPOTBENCH_DATA", str(tmp_path_factory.mktemp("data")))
        fill(tmp_path_factory.mktemp("files"))
        yield


@pytest.fixture(scope="module")
def tasks(home: None) -> dict[str, Task]:
    return {name: load(name) for name in NAMES}


def chat(messages: list[dict[str, str]]) -> str:
    return "".join(f"<{message['role']}>{message['content']}</>" for message in messages) + "<assistant>"


PROMPTS = {
    "gsm8k": "<user>Ann has 600 hens and buys 603. How many?\n"
    "Please reason step by step, and put your final answer within \\boxed{}.</><assistant>",
    "math500": "<user>$1+2=$\nPlease reason step by step, and put your final answer within \\boxed{}.</><assistant>",
    "mbpp": "<user>You are an expert Python programmer, and here is your task:\n"
    "Write a function to add 0 to a number.\n"
    "Your code should pass these tests:\nassert add_0(1) == 1\nassert add_0(-1) == -1\n"
    "Reply with the code in one ```python block.</><assistant>",
    "mbpp-sanitized": "<user>You are an expert Python programmer, and here is your task:\n"
    "Write a function for the root.\nYour code should pass these tests:\nassert root(4) == 2\n"
    "Reply with the code in one ```python block.</><assistant>",
    "ifeval": "<user>Write three or more sentences without commas.</><assistant>",
    "specbench": "<user>Compose a post.</><assistant>",
}


@pytest.mark.parametrize("name", PROMPTS)
def test_the_prompt_to_the_letter(name: str, tasks: dict[str, Task]) -> None:
    assert tasks[name].requests(chat, limit=1)[0].prompt == PROMPTS[name]


def test_the_prompt_of_humaneval_has_the_whole_stub_in_a_fence(tasks: dict[str, Task]) -> None:
    prompt = tasks["humaneval"].requests(chat, limit=1)[0].prompt
    head = "<user>Complete this Python function. Reply with the whole function in one ```python block.\n```python\n"
    assert prompt.startswith(f"{head}from typing import List\n\n\ndef has_close_elements(")
    assert prompt.endswith('    True\n    """\n```</><assistant>')


def test_five_shots_are_the_first_of_the_train_split_and_show_the_mark(tasks: dict[str, Task]) -> None:
    shots = "".join(f"<user>Question: {one['question']}\nAnswer:</><assistant>{one['answer']}</>" for one in GSM[6:11])
    asked = [f"{shots}<user>Question: {one['question']}\nAnswer:</><assistant>" for one in GSM[:6]]
    assert [one.prompt for one in tasks["gsm8k-5shot"].requests(chat)] == asked
    assert all(scoring.marked_number(one["answer"]) is not None for one in GSM[6:11])


def test_shots_want_a_train_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("tests.tasks.made_up.ROWS", {("gsm8k", "test"): ROWS["gsm8k", "test"]})
    fill(tmp_path)
    load("gsm8k")
    with pytest.raises(UserError, match="gsm8k: no train split .*spotbench data add gsm8k FILE --split train"):
        load("gsm8k-5shot")


@pytest.mark.parametrize("name", NAMES)
def test_what_a_task_file_says(name: str, tasks: dict[str, Task]) -> None:
    """Stops and room are explicit, shots come from another split, and nobody else's task has this name's folder."""
    config = tasks[name]._task.config
    assert config.task == name
    assert isinstance(config.generation_kwargs["until"], list)
    assert "\n\n" not in config.generation_kwargs["until"]
    assert config.generation_kwargs["max_gen_toks"] in (256, 512, 1024, 1280)
    assert not config.num_fewshot or config.fewshot_split == "train"
    assert config.test_split == "test"
    assert tasks[name].executes_code == (name in ("humaneval", "mbpp", "mbpp-sanitized"))
    assert harness.facts(name).about


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("specbench", "ifeval", "humaneval")])
def test_gold_answers_score_one_and_empty_ones_zero(name: str, tasks: dict[str, Task]) -> None:
    task = tasks[name]
    items = range(len(task.requests(chat)))
    assert {value for n in items for value in task.score(n, task.gold(n)).values()} == {1.0}
    assert {value for n in items for value in task.score(n, "").values()} == {0.0}


def test_every_canonical_solution_of_humaneval_scores_one(tasks: dict[str, Task]) -> None:
    task = tasks["humaneval"]
    items = range(len(task.requests(chat)))
    assert task.score_all([(n, task.gold(n)) for n in items]) == [{"pass@1": 1.0}] * 164


@pytest.mark.parametrize("name", NAMES)
def test_the_self_check_passes(name: str, tasks: dict[str, Task], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "_CHECKED", set())
    tasks[name].self_check()


def test_the_self_check_names_the_items_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "_CHECKED", set())
    task = load("gsm8k")
    task._docs[2] = {**task._docs[2], "answer": "It is 5."}
    with pytest.raises(UserError) as error:
        task.self_check()
    assert str(error.value) == (
        f"task gsm8k {task.version}: items 2 do not score 1.0 on their gold answers; its data or its scoring is broken"
    )


def test_the_self_check_finds_a_scorer_that_likes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "_CHECKED", set())
    task = load("gsm8k")
    monkeypatch.setattr(task, "score", lambda n, text: {"exact_match": 1.0})
    with pytest.raises(UserError, match="items 0, 1, 2, 3, 4, 5 score 1.0 on the answers of other items"):
        task.self_check()


def test_the_self_check_names_an_item_whose_scoring_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "_CHECKED", set())
    task = load("ifeval")
    task._docs[1] = {**task._docs[1], "instruction_id_list": ["no:such"]}
    with pytest.raises(UserError, match="item 1 cannot be scored .KeyError"):
        task.self_check()


def test_no_item_is_in_the_prompt_of_another_nor_among_the_train_requests(tasks: dict[str, Task]) -> None:
    """Over all tasks at once: what is evaluated by one is in no prompt of any other either."""
    everything = tasks | {name: load(name) for name in harness.shipped()}
    items = {name: task.splits()["test"] for name, task in everything.items()}
    prompts = {name: [one.prompt for one in task.requests(chat)] for name, task in everything.items()}
    leaks = [
        (name, n, other)
        for name, bare in items.items()
        for n, item in enumerate(bare)
        for other, asked in prompts.items()
        for m, prompt in enumerate(asked)
        if f"<user>{item}</>" in prompt and not _same(name, n, other, m)
    ]
    assert leaks == []
    evaluated = {item for bare in items.values() for item in bare}
    trainable = {name for name, task in everything.items() if "train" in task.splits()}
    assert trainable == {"gsm8k", "gsm8k-5shot", "mbpp", *harness.shipped()}
    trained = {
        one.prompt.removeprefix("<user>").removesuffix("</><assistant>")
        for name in trainable
        for one in everything[name].train_requests(chat)
    }
    assert len(trained) > 1000
    assert not trained & evaluated


def _same(name: str, n: int, other: str, m: int) -> bool:
    return (name, n) == (other, m)


@pytest.mark.parametrize("name", ["math500", "humaneval", "ifeval", "specbench", "mbpp-sanitized"])
def test_a_task_without_a_train_split_says_so(name: str, tasks: dict[str, Task]) -> None:
    with pytest.raises(UserError, match=f"task {name} has no train split here"):
        tasks[name].train_requests(chat)


def test_specbench_has_no_score(tasks: dict[str, Task]) -> None:
    assert (tasks["specbench"].metric, tasks["specbench"].score(0, "anything")) == ("", {})


# --- answers of chat models -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "exact", "flexible"),
    [
        ("So \\boxed{1203}.", 1, 1),
        ("\\[\\boxed{1,203}\\]", 1, 1),
        ("$\\boxed{1{,}203}$", 1, 1),
        ("\\boxed{\\$1203.00}", 1, 1),
        ("\\boxed{1203\\text{ hens}}", 1, 1),
        ("\\boxed{7} no, \\boxed{1203}", 1, 1),
        ("\\boxed{600 + 603 = 1203}", 0, 1),
        ("\\boxed{1203 hens}", 0, 1),
        ("The answer is 1203.", 0, 1),
        ("#### 1203", 0, 1),
        ("\\boxed{1204} of 1203", 0, 0),
        ("\\boxed{120", 0, 0),
        ("", 0, 0),
    ],
)
def test_gsm8k_reads_the_box(text: str, exact: int, flexible: int, tasks: dict[str, Task]) -> None:
    assert tasks["gsm8k"].score(0, text) == {"exact_match": exact, "flexible_match": flexible}


@pytest.mark.parametrize(
    ("item", "text", "exact", "verified"),
    [
        (0, "\\boxed{3}", 1, 1),
        (0, "\\[\n\\boxed{3}\n\\]", 1, 1),
        (0, "\\boxed{1000} then \\boxed{3.0}", 0, 1),
        (0, "\\boxed{3\\%}", 1, 1),
        (0, "3", 0, 0),
        (0, "\\boxed{\\begin{pmatrix}", 0, 0),
        (0, "\\boxed{}", 0, 0),
        (1, "\\boxed{\\dfrac{3}{2}}", 1, 1),
        (1, "\\boxed{1.5}", 0, 1),
        (1, "\\boxed{\\frac{2}{3}}", 0, 0),
        (2, "\\boxed{Evelyn}", 1, 1),
        (2, "\\boxed{Eve}", 0, 0),
        (3, "\\boxed{\\left(1,2\\right)}", 1, 1),
        (3, "\\boxed{(2,1)}", 0, 0),
    ],
)
def test_math500_compares_strings_then_mathematics(
    item: int, text: str, exact: int, verified: int, tasks: dict[str, Task]
) -> None:
    assert tasks["math500"].score(item, text) == {"exact_match": exact, "math_verify": verified}


BODY = (
    "    for a, x in enumerate(numbers):\n        for y in numbers[a + 1:]:\n            if abs(x - y) < threshold:\n"
)
BODY += "                return True\n    return False\n"
WHOLE = f"def has_close_elements(numbers: List[float], threshold: float) -> bool:\n{BODY}"


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        (f"```python\n{WHOLE}```", 1),
        (f"Here it is:\n\n```python\n{WHOLE}```\nIt works.\n```\nnot code\n```", 1),
        (f"```\n{WHOLE}", 1),
        (WHOLE, 1),
        (BODY, 1),
        (BODY.lstrip(), 0),
        (" " + BODY, 0),
        ("```python\npass\n```", 0),
        (f"```python\n{WHOLE.replace('True', 'False')}```", 0),
        (f"Sure!\n{WHOLE}", 0),
        ("raise SystemExit(0)", 0),
    ],
)
def test_humaneval_runs_the_first_fence_or_all_of_it(text: str, passed: int, tasks: dict[str, Task]) -> None:
    assert tasks["humaneval"].score(0, text) == {"pass@1": passed}


def test_mbpp_sets_up_after_the_answer_and_imports_before_it() -> None:
    doc = {"test_setup_code": "root = Node(1)", "test_list": ["assert root.value == 1"]}
    code = "```python\nclass Node:\n    def __init__(self, value):\n        self.value = value\n```"
    assert scoring.score_mbpp(doc, [code]) == {"pass@1": 1.0}
    doc = {"test_imports": ["import math"], "test_list": ["assert HALF == math.pi / 2"]}
    assert scoring.score_mbpp(doc, ["HALF = math.pi / 2"]) == {"pass@1": 1.0}
