"""Made-up rows in the format of each data set, a few of each, and how to put them into a data folder."""

import json
from pathlib import Path
from typing import Any

from tasks import deposit

GSM = [
    {"question": f"Ann has {n} hens and buys {n + 3}. How many?", "answer": f"{n} + {n + 3} = {r}.\n#### {r:,}"}
    for n in range(600, 612)
    for r in [2 * n + 3]
]
MBPP = [
    {
        "task_id": 11 + n,
        "text": f"Write a function to add {n} to a number.",
        "code": f"def add_{n}(x):\r\n    return x + {n}",
        "test_list": [f"assert add_{n}(1) == {n + 1}", f"assert add_{n}(-1) == {n - 1}"],
        "test_setup_code": "",
        "challenge_test_list": [],
    }
    for n in range(3)
]
MATH = [("3", "$1+2=$"), ("\\frac{3}{2}", "Half of 3?"), ("\\text{Evelyn}", "Who?"), ("(1,2)", "Which point?")]
ROWS: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("gsm8k", "test"): GSM[:6],
    ("gsm8k", "train"): GSM[6:],
    ("math500", "test"): [
        {
            "problem": problem,
            "solution": f"So \\[\\boxed{{{answer}}}.\\]",
            "answer": answer,
            "subject": "Algebra",
            "level": 1,
            "unique_id": f"test/algebra/{n}.json",
        }
        for n, (answer, problem) in enumerate(MATH)
    ],
    ("mbpp", "test"): MBPP,
    ("mbpp", "train"): [
        {**MBPP[0], "task_id": 601, "text": "Write a function to add 0  to a number."},  # in the test split as well
        {**MBPP[1], "task_id": 602, "text": "Write another function."},
        {**MBPP[1], "task_id": 603, "text": "Write a function for the root."},  # in the sanitized test split
    ],
    ("mbpp-sanitized", "test"): [
        {
            "source_file": "x.ipynb",
            "task_id": 12,
            "prompt": "Write a function for the root.",
            "code": "def root(x):\n    return math.sqrt(x)",
            "test_imports": ["import math"],
            "test_list": ["assert root(4) == 2"],
        }
    ],
    ("ifeval", "test"): [
        {
            "key": 1000,
            "prompt": "Write three or more sentences without commas.",
            "instruction_id_list": ["punctuation:no_comma", "length_constraints:number_sentences"],
            "kwargs": [{}, {"relation": "at least", "num_sentences": 3}],
        },
        {
            "key": 1001,
            "prompt": "Shout one word.",
            "instruction_id_list": ["change_case:capital_word_frequency"],
            "kwargs": [{"capital_relation": "at least", "capital_frequency": 1}],
        },
    ],
    ("specbench", "test"): [
        {"question_id": 81, "category": "writing", "turns": ["Compose a post.", "Rewrite it."]},
        {"question_id": 161, "category": "qa", "turns": ["Who was it?"], "reference": ["me"]},
    ],
}
DATASETS = sorted({dataset for dataset, _ in ROWS})


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def fill(folder: Path) -> None:
    """All of `ROWS`, through the command's own function; `folder` holds the files, SPOTBENCH_DATA the data."""
    for (dataset, split), rows in ROWS.items():
        deposit.add(dataset, write(folder / f"{dataset}-{split}.jsonl", rows), split, partial=True)
