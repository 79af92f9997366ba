"""The four tiny tasks: seeded generators in the image of GSM8K, MATH, HumanEval and IFEval.

A problem is a prompt with many right ways to answer it, so that a small model trained on them has
something to decide at temperature 1. Which split an item belongs to is a function of its prompt
alone: no prompt can be in two splits, whatever the seed or the order of generation.

`python -m tasks.tiny` writes the frozen `train.jsonl` and `test.jsonl` of every task.
"""

import hashlib
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Split = Literal["train", "test"]

SEED = 2026
ITEMS_PER_SPLIT = {"train": 1000, "test": 200}


@dataclass(frozen=True)
class Problem:
    """`prompt` is what the user says, `answer` one worked solution, `fields` what scoring needs."""

    prompt: str
    answer: str
    fields: dict[str, Any] = field(default_factory=dict)


def split_of(prompt: str) -> Split:
    """One prompt in eight is a test prompt, by its hash."""
    return "test" if hashlib.sha256(prompt.encode()).digest()[0] % 8 == 0 else "train"


def stream(task: str, split: Split, seed: int) -> Iterator[Problem]:
    """Endless problems of `split`; prompts may come again with another worked solution."""
    rng = random.Random(f"{task}/{split}/{seed}")
    while True:
        problem = GENERATORS[task](rng)
        if split_of(problem.prompt) == split:
            yield problem


def unique(task: str, split: Split, seed: int, count: int) -> list[Problem]:
    """The first `count` problems of the stream with distinct prompts."""
    seen: dict[str, Problem] = {}
    for problem in stream(task, split, seed):
        seen.setdefault(problem.prompt, problem)
        if len(seen) == count:
            return list(seen.values())
    raise AssertionError("the stream is endless")


# --- tiny-gsm: two-step word problems, answers in GSM8K's "#### N" form -------------------------

NAMES = ["Tom", "Ann", "Max", "Sue", "Ben", "Eva", "Sam", "Mia", "Leo", "Kim", "Dan", "Zoe"]
OBJECTS = [
    "apples", "pens", "cards", "eggs", "books", "coins", "cups", "hats", "keys", "nuts", "figs", "toys",
]  # fmt: skip
GAINS = ["buys", "finds", "gets", "makes"]
LOSSES = ["sells", "loses", "gives away", "drops"]


def gsm(rng: random.Random) -> Problem:
    kind = rng.choice(["gain and lose", "bags", "together"])
    name, other = rng.sample(NAMES, 2)
    objects = rng.choice(OBJECTS)
    gains, loses = rng.choice(GAINS), rng.choice(LOSSES)
    if kind == "gain and lose":
        a, b = rng.randint(2, 9), rng.randint(2, 9)
        first = a + b
        c = rng.randint(1, min(9, first - 1))
        result = first - c
        prompt = (
            f"{name} has {a} {objects}. {name} {gains} {b} more and {loses} {c}. "
            f"How many {objects} does {name} have now?"
        )
        answer = _weighted(
            rng,
            f"{a} + {b} = {first}. {first} - {c} = {result}.",
            f"First {a} + {b} = {first}, then {first} - {c} = {result}. {name} has {result} {objects}.",
            f"{name} starts with {a} {objects}. With {b} more that is {a} + {b} = {first}. "
            f"Without {c} it is {first} - {c} = {result}.",
            f"Add {b} to {a} and get {first}. Take {c} from {first} and get {result}.",
        )
    elif kind == "bags":
        a, b = rng.randint(2, 5), rng.randint(2, 5)
        first = a * b
        c = rng.randint(1, min(9, first - 1))
        result = first - c
        prompt = (
            f"{name} {gains} {a} bags with {b} {objects} each and {loses} {c} {objects}. How many {objects} are left?"
        )
        answer = _weighted(
            rng,
            f"{a} * {b} = {first}. {first} - {c} = {result}.",
            f"The bags hold {a} * {b} = {first} {objects}. Then {first} - {c} = {result} are left.",
            f"{a} bags with {b} {objects} each make {a} * {b} = {first} {objects}. "
            f"{name} {loses} {c}, so {first} - {c} = {result}.",
        )
    else:
        a, b = rng.randint(2, 6), rng.randint(1, 5)
        first = a + b
        result = a + first
        prompt = (
            f"{name} has {a} {objects}. {other} has {b} more than {name}. How many {objects} do they have together?"
        )
        answer = _weighted(
            rng,
            f"{a} + {b} = {first}. {a} + {first} = {result}.",
            f"{other} has {a} + {b} = {first} {objects}. Together they have {a} + {first} = {result}.",
            f"{name} has {a}. {other} has {a} + {b} = {first}. So {a} + {first} = {result} {objects}.",
        )
    return Problem(prompt, f"{answer}\n#### {result}", {"result": str(result)})


# --- tiny-math: short expressions and equations, answers in MATH's \boxed form ------------------


def math(rng: random.Random) -> Problem:
    ask = rng.choice(["What is", "Compute", "Evaluate", "Find the value of"])
    stop = "?" if ask == "What is" else "."
    kind = rng.choice(["brackets", "product", "difference", "add", "scale"])
    if kind in ("add", "scale"):
        letter = rng.choice("xynkz")
        solve = rng.choice([f"Solve for {letter}:", f"Find {letter} if", f"What is {letter} when"])
        stop = "?" if solve.startswith("What") else "."
        if kind == "add":
            a, result = rng.randint(1, 9), rng.randint(1, 9)
            b = result + a
            equation, move = f"{letter} + {a} = {b}", f"{letter} = {b} - {a}"
            does = f"Subtract {a} from both sides"
        else:
            a, result = rng.randint(2, 5), rng.randint(2, 9)
            b = a * result
            equation, move = f"{a} * {letter} = {b}", f"{letter} = {b} / {a}"
            does = f"Divide both sides by {a}"
        return Problem(
            f"{solve} {equation}{stop}",
            _weighted(
                rng,
                f"{move}, so {letter} = \\boxed{{{result}}}.",
                f"{does}: {move}. The answer is \\boxed{{{result}}}.",
                f"We have {equation}, hence {move} = {result}. The answer is \\boxed{{{result}}}.",
            ),
            {"result": str(result)},
        )
    if kind == "brackets":
        a = rng.randint(1, 8)
        b, c = rng.randint(1, 10 - a - 1), rng.randint(2, 5)
        first, result = a + b, (a + b) * c
        expression, step = f"({a} + {b}) * {c}", f"{a} + {b} = {first}"
        last, word = f"{first} * {c} = {result}", "brackets"
    elif kind == "product":
        a, b, c = rng.randint(2, 5), rng.randint(2, 5), rng.randint(1, 9)
        first, result = a * b, a * b + c
        expression, step = f"{a} * {b} + {c}", f"{a} * {b} = {first}"
        last, word = f"{first} + {c} = {result}", "product"
    else:
        a, c = rng.randint(3, 9), rng.randint(1, 9)
        b = rng.randint(1, a - 1)
        first, result = a - b, a - b + c
        expression, step = f"{a} - {b} + {c}", f"{a} - {b} = {first}"
        last, word = f"{first} + {c} = {result}", "difference"
    return Problem(
        f"{ask} {expression}{stop}",
        _weighted(
            rng,
            f"{step} and {last}. The answer is \\boxed{{{result}}}.",
            f"First the {word}: {step}. Then {last}. The answer is \\boxed{{{result}}}.",
            f"{expression} = {last}, which gives \\boxed{{{result}}}.",
        ),
        {"result": str(result)},
    )


# --- tiny-code: complete a small function; scored by running its tests --------------------------

FUNCTIONS = ["f", "g", "calc", "step", "apply", "change", "solve", "run", "update", "convert"]
LOCALS = ["y", "r", "t", "out"]


def code(rng: random.Random) -> Problem:
    function, local = rng.choice(FUNCTIONS), rng.choice(LOCALS)
    kind = rng.choice(["two steps", "bound", "two arguments", "test"])
    inputs: list[tuple[int, ...]]
    if kind == "two steps":
        arguments = "x"
        steps = [_step(rng), _step(rng)]
        does = f"{steps[0][0].capitalize()}, then {steps[1][0]}."
        first, second = steps[0][1], steps[1][1]
        bodies = [
            f"    {local} = x {first}\n    return {local} {second}",
            f"    x = x {first}\n    return x {second}",
            f"    return (x {first}) {second}",
        ]
        inputs = [(n,) for n in (0, 1, 5, -3)]
    elif kind == "bound":
        arguments = "x"
        k = rng.randint(1, 9)
        most = rng.random() < 0.5
        does = f"Return x, but {'at most' if most else 'at least'} {k}."
        sign = ">" if most else "<"
        bodies = [
            f"    if x {sign} {k}:\n        return {k}\n    return x",
            f"    return {'min' if most else 'max'}(x, {k})",
            f"    return {k} if x {sign} {k} else x",
        ]
        inputs = [(n,) for n in (0, k - 1, k, k + 1, 20)]
    elif kind == "two arguments":
        arguments = "a, b"
        word, sign = rng.choice([("sum", "+"), ("difference", "-"), ("product", "*")])
        text, last = _step(rng)
        does = f"Take the {word} of a and b, then {text}."
        bodies = [
            f"    {local} = a {sign} b\n    return {local} {last}",
            f"    return (a {sign} b) {last}",
            f"    {local} = a {sign} b\n    {local} = {local} {last}\n    return {local}",
        ]
        inputs = [(2, 1), (0, 7), (-3, 4), (5, 5)]
    else:
        arguments = "x"
        k = rng.randint(2, 9)
        word, sign = rng.choice([("greater than", ">"), ("less than", "<"), ("equal to", "==")])
        does = f"Tell whether x is {word} {k}."
        bodies = [
            f"    return x {sign} {k}",
            f"    {local} = x {sign} {k}\n    return {local}",
            f"    if x {sign} {k}:\n        return True\n    return False",
        ]
        inputs = [(n,) for n in (0, k - 1, k, k + 1)]
    head = f"def {function}({arguments}):\n"
    scope: dict[str, Any] = {}
    exec(head + bodies[0], scope)  # our own text, never a model's
    tests = [f"assert {function}({', '.join(map(str, args))}) == {scope[function](*args)!r}" for args in inputs]
    return Problem(
        f"Complete the function.\n{head}    # {does}",
        head + _weighted(rng, *bodies),
        {"entry_point": function, "tests": tests},
    )


def _step(rng: random.Random) -> tuple[str, str]:
    k = rng.randint(2, 9)
    return rng.choice([(f"add {k}", f"+ {k}"), (f"subtract {k}", f"- {k}"), (f"multiply by {k}", f"* {k}")])


# --- tiny-ifeval: lists under verifiable constraints --------------------------------------------

WORDS = {
    "animals": ["cat", "dog", "fox", "owl", "cow", "pig", "hen", "bee", "ant", "bat"],
    "fruits": ["apple", "pear", "plum", "fig", "lime", "kiwi", "mango", "grape"],
    "colors": ["red", "blue", "green", "pink", "gray", "black", "white", "gold"],
    "tools": ["saw", "axe", "drill", "file", "pump", "rope", "knife", "brush"],
}
ENDINGS = ["done", "bye", "over", "thanks"]
COUNTS = {2: "two", 3: "three", 4: "four", 5: "five"}


def ifeval(rng: random.Random) -> Problem:
    category, count = rng.choice(list(WORDS)), rng.choice(list(COUNTS))
    checks: dict[str, Any] = {"count": count, "separator": rng.choice(["comma", "bullet"])}
    asks = {"comma": "Separate them with commas.", "bullet": "Write a bullet list."}
    wishes = [asks[checks["separator"]]]
    for extra in rng.sample(["case", "end", "start", "avoid"], 2):
        if extra == "case":
            checks["case"] = rng.choice(["lower", "upper"])
            wishes.append({"lower": "Use lowercase only.", "upper": "Use capital letters only."}[checks["case"]])
        elif extra == "end":
            checks["end"] = rng.choice(ENDINGS)
            wishes.append(f"Finish with the word {checks['end']}.")
        else:
            free = [word for word in WORDS[category] if word not in (checks.get("start"), checks.get("avoid"))]
            checks[extra] = rng.choice(free)
            wishes.append({"start": "Begin with", "avoid": "Do not mention"}[extra] + f" {checks[extra]}.")
    rng.shuffle(wishes)
    prompt = f"Name {rng.choice([str(count), COUNTS[count]])} {category}. {' '.join(wishes)}"

    words = [word for word in WORDS[category] if word != checks.get("avoid")]
    first = [checks["start"]] if "start" in checks else []
    chosen = first + sorted(rng.sample([word for word in words if word not in first], count - len(first)))
    answer = ", ".join(chosen) if checks["separator"] == "comma" else "\n".join(f"- {word}" for word in chosen)
    if ending := checks.get("end"):
        answer += f"\n{ending}"
    if checks.get("case") == "upper":
        answer = answer.upper()
    return Problem(prompt, answer, {"checks": checks})


GENERATORS: dict[str, Callable[[random.Random], Problem]] = {
    "tiny-gsm": gsm,
    "tiny-math": math,
    "tiny-code": code,
    "tiny-ifeval": ifeval,
}


def _weighted(rng: random.Random, *ways: str) -> str:
    """One of several ways to say it, the first ones more often."""
    return rng.choices(ways, weights=[2 ** (len(ways) - n) for n in range(len(ways))])[0]


def write(folder: Path) -> None:
    """Write every task's splits below `folder`, one JSON object a line."""
    for task in GENERATORS:
        home = folder / task.replace("-", "_")
        home.mkdir(exist_ok=True)
        for split, count in ITEMS_PER_SPLIT.items():
            items = unique(task, split, SEED, count)  # type: ignore[arg-type]
            lines = [
                json.dumps({"id": f"{task}/{split}/{n}", "prompt": item.prompt, "answer": item.answer, **item.fields})
                for n, item in enumerate(items)
            ]
            (home / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(__file__).parent)
