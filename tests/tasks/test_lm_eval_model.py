"""The decoder as a model of lm-eval: the scores of `spotbench run`, and what it refuses."""

import functools
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.instance import Instance
from lm_eval.api.model import CacheHook, CachingLM
from lm_eval.evaluator import simple_evaluate
from lm_eval.tasks import TaskManager

from suite import grid
from suite.errors import UserError
from tasks import harness, lm_eval_model
from tasks.lm_eval_model import Spotbench
from tests.suite.tiny_grid import grid_text, spotbench, store_of

PROMPTS = 3
ARGUMENTS = "target=tiny-sdar-b16,drafter=best-first,rows=8"


@pytest.fixture(scope="module")
def model() -> Spotbench:
    return Spotbench.create_from_arg_string(ARGUMENTS)


@pytest.fixture(autouse=True)
def ours_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without lm-eval's own 14,000 tasks, which take a while to index."""
    small = functools.partial(TaskManager, include_defaults=False)
    monkeypatch.setattr("lm_eval.tasks.TaskManager", small)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_scores_and_the_answers_are_those_of_spotbench_run(temperature: float, tmp_path: Path) -> None:
    file, results = tmp_path / "grid.toml", tmp_path / "results"
    axes = {"tasks": '["tiny-gsm", "tiny-ifeval"]', "temperatures": f"[{temperature}]", "prompts": str(PROMPTS)}
    file.write_text(grid_text(drafters='["best-first"]', rows="[8]", **axes))
    assert spotbench("run", file, "--results", results).code == 0
    cells = [cell for cell in grid.read(str(file)).cells() if cell.rows == 8]
    ours = {cell.task: store_of(results).read(cell) for cell in cells}
    theirs = simple_evaluate(
        model="spotbench",
        model_args=ARGUMENTS,
        tasks=list(ours),
        task_manager=TaskManager(include_path=str(harness.HOME), include_defaults=False),
        apply_chat_template=True,
        gen_kwargs={"do_sample": True, "temperature": temperature} if temperature else None,
        limit=PROMPTS,
        bootstrap_iters=0,
    )
    for task, finished in ours.items():
        metric = finished.manifest["settings"]["metric"]
        assert theirs["results"][task][f"{metric},none"] == finished.result.summary.score
        said = {one["doc_id"]: one["resps"][0][0] for one in theirs["samples"][task]}
        assert said == {sample.doc_id: sample.text for sample in finished.samples}
    told = theirs["config"]
    assert (told["target"], told["drafter"], told["rows"], told["tiny"]) == ("tiny-sdar-b16", "best-first", 8, True)
    assert sum(told["finish"].values()) == 2 * PROMPTS
    assert told["passes"] == sum(finished.result.summary.passes for finished in ours.values())


def test_lm_evals_command_knows_the_model_and_our_tasks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["--model", "spotbench", "--model_args", ARGUMENTS, "--tasks", "tiny-math", "--limit", "1"]
    lm_eval_model.main([*arguments, "--apply_chat_template"])
    table = capsys.readouterr().out
    assert "spotbench ({'target': 'tiny-sdar-b16', 'drafter': 'best-first', 'rows': 8})" in table
    assert "|tiny-math|" in table


def test_of_tasks_that_lm_eval_has_too_ours_is_taken() -> None:
    """Later folders win in its index; ours is the later one."""
    loaded = TaskManager(include_path=str(harness.HOME), include_defaults=False)
    assert str(loaded.task_index["humaneval"].yaml_path).startswith(str(harness.HOME))


def ask(model: Spotbench, prompt: str = "<|im_start|>user\nWhat is 3 + 4?", **options: Any) -> str:
    model._templated = True
    one = Instance("generate_until", {}, (prompt, {"until": [], "max_gen_toks": 32} | options), 0, ("t", 0, 1))
    (said,) = model.generate_until([one])
    return said


def test_answers_come_in_the_order_of_the_requests(model: Spotbench) -> None:
    prompts = [model.apply_chat_template([{"role": "user", "content": f"What is {n} + 4?"}]) for n in (3, 5, 3)]
    requests = [
        Instance("generate_until", {}, (one, {"max_gen_toks": 32}), n, ("t", n, 1)) for n, one in enumerate(prompts)
    ]
    first, second, third = model.generate_until(requests)
    assert first == third
    assert [first, second] == [ask(model, one) for one in prompts[:2]]
    assert model.generate_until(requests[::-1]) == [third, second, first]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"max_gen_toks": None}, "gen_kwargs: none of them; say once how many tokens"),
        ({"max_new_tokens": 16}, "gen_kwargs: max_gen_toks=32, max_new_tokens=16; say once"),
        ({"temperature": 1.0, "do_sample": False}, "do_sample=False contradicts temperature=1"),
        ({"do_sample": True}, "do_sample=True contradicts temperature=0"),
        ({"steps": 8}, "gen_kwargs: steps has no effect here"),
        (
            {"max_gen_toks": 512},
            "8 tokens and 512 new ones exceed the 512 of tiny-sdar-b16; it begins '<|im_start|>user",
        ),
    ],
)
def test_options_that_conflict_are_errors(model: Spotbench, options: dict[str, Any], fault: str) -> None:
    with pytest.raises(UserError) as error:
        ask(model, **options)
    assert fault in str(error.value)


def test_one_room_under_two_names_is_no_conflict(model: Spotbench) -> None:
    assert ask(model, max_new_tokens=32) == ask(model)


def test_the_chat_template_is_asked_for() -> None:
    fresh = Spotbench.create_from_arg_string("target=tiny-sdar-b16")
    with pytest.raises(UserError, match="--apply_chat_template is missing"):
        fresh.generate_until([Instance("generate_until", {}, ("hi", {"max_gen_toks": 16}), 0, ("t", 0, 1))])
    with pytest.raises(UserError, match="gen_prefix"):
        fresh.apply_chat_template([{"role": "assistant", "content": "So"}], add_generation_prompt=False)


def test_a_cache_that_would_give_another_models_answers_is_refused(model: Spotbench, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="use_cache mixes up the answers"):
        CachingLM(model, str(tmp_path / "cache.db"))
    model.set_cache_hook(CacheHook(None))


@pytest.mark.parametrize(
    "arguments", ["target=tiny-sdar-b16,rows=8", "target=tiny-sdar-b16,drafter=chain", "target=tiny-sdar,rows=1"]
)
def test_arguments_without_effect_are_errors(arguments: str) -> None:
    with pytest.raises(UserError):
        Spotbench.create_from_arg_string(arguments)
    with pytest.raises(UserError, match="batch_size"):
        Spotbench(target="tiny-sdar-b16", batch_size=4)


def test_likelihoods_are_refused(model: Spotbench) -> None:
    with pytest.raises(UserError, match="only answers"):
        model.loglikelihood([])
