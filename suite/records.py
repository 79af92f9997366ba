"""The schemas of everything a run writes to disk, versioned together.

A file of a newer schema is refused, never guessed at.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Self

SCHEMA = 2


@dataclass(frozen=True)
class Divergence:
    """Where a method's states first left the baseline's.

    `step` counts the steps within `block`. The gaps are how far the baseline was from doing what the method
    did: in score for its tokens, in confidence for its positions (infinite where no rounding explains it);
    `tie` says both lie within the numeric tolerance of the dtype.
    """

    block: int
    step: int
    position: int
    token_gap: float
    confidence_gap: float
    tie: bool


@dataclass(frozen=True)
class Stale:
    """What the pass before knew of each step (counts): claim C1's tokens and claim C7's choices.

    `steps` that have an earlier pass in their block; positions they commit; those at which the earlier pass
    already had the token; steps whose whole choice of positions it already had.
    """

    steps: int = 0
    commits: int = 0
    tokens: int = 0
    choices: int = 0


@dataclass(frozen=True)
class Sample:
    """One prompt decoded by one method, with the baseline of the same visit beside it. Times in seconds.

    `depths`: accepted depth of every verify pass. `draft_s`, `verify_s` and `host_s` add up to the decode time,
    prefill excluded. `baseline_*`: the plain decoder on the same prompt, same process, same visit. `stale` is
    counted for the baseline, outside the timed decode. `finish`: see `tasks.answers.Finish`; with "error" there is
    nothing but `error`, what was wrong. `question`: the hash of what was asked, before the chat template.
    """

    doc_id: int
    prompt_hash: str
    prompt_tokens: int
    tokens: list[int]
    text: str
    finish: str
    prefill_passes: int
    verify_passes: int
    commit_passes: int
    rows: int
    depths: list[int]
    prefill_s: float
    draft_s: float
    verify_s: float
    host_s: float
    baseline_passes: int
    baseline_s: float
    exact_match: bool
    empty: bool
    repetitive: bool
    scores: dict[str, float]
    divergence: Divergence | None = None
    stale: Stale | None = None
    question: str = ""
    error: str = ""

    @property
    def decode_s(self) -> float:
        return self.draft_s + self.verify_s + self.host_s

    @property
    def passes(self) -> int:
        """Verify and commit passes; the prefill is counted apart."""
        return self.verify_passes + self.commit_passes

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        divergence, stale = values.get("divergence"), values.get("stale")
        parsed = {
            "divergence": Divergence(**divergence) if divergence else None,
            "stale": Stale(**stale) if stale else None,
        }
        return cls(**values | parsed)


@dataclass(frozen=True)
class Step:
    """One verify pass of one prompt, for the prompts whose steps are kept.

    `committed`: the positions of `block` that each of its steps filled, accepted drafts first, the target's own step
    last. `rejected`: the positions that one path of drafts filled beyond that.
    """

    doc_id: int
    number: int
    rows: int
    depth: int
    draft_s: float
    verify_s: float
    host_s: float
    block: int = 0
    committed: list[list[int]] = field(default_factory=list)
    rejected: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Manifest:
    """What a result was measured with; no paths, no host names, no secrets."""

    schema: int
    cell_id: str
    cell: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, str]
    code: str
    hardware: dict[str, Any]
    attempts: int
    peak_memory_mib: int
    started: str
    finished: str


@dataclass(frozen=True)
class Summary:
    """The totals of a finished cell; everything else is computed from the samples.

    `metric` is empty and `score` None for a task without a score. `errors`: prompts that have no answer, and no score.
    """

    prompts: int
    tokens: int
    passes: int
    baseline_passes: int
    exact_matches: int
    ties: int
    bugs: int
    empty: int
    repetitive: int
    metric: str
    score: float | None
    errors: int = 0


@dataclass(frozen=True)
class Result:
    """Written last: its presence is DONE. `files`: name -> {lines, sha256}."""

    schema: int
    cell_id: str
    summary: Summary
    files: dict[str, dict[str, Any]]

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        files = {name: dict(known) for name, known in values["files"].items()}
        return cls(values["schema"], values["cell_id"], Summary(**values["summary"]), files)


@dataclass(frozen=True)
class Scores:
    """Scores that take the place of those a cell was measured with, which stay in its files.

    `scores`: of each prompt, by its doc_id. `samples`: the sha256 of the answers that were scored. `code`, `versions`:
    what scored them.
    """

    schema: int
    cell_id: str
    task_version: str
    metric: str
    scores: dict[str, dict[str, float]]
    samples: str
    code: str
    versions: dict[str, str]
    when: str


@dataclass(frozen=True)
class Failure:
    """One failed attempt at a cell."""

    schema: int
    cell_id: str
    error: str
    message: str
    traceback: str
    when: str

    @property
    def line(self) -> str:
        """The error in one line."""
        return f"{self.error}: {next(iter(self.message.splitlines()), '')}"


@dataclass(frozen=True)
class Visit:
    """One line of a bundle's partial file: a prompt, and what every method of this process made of it.

    `weights`: the target's, by their hash; `task`: its version. A run does not go on with what others made of a prompt,
    nor with another prompt.
    """

    doc_id: int
    samples: dict[str, Sample]
    steps: dict[str, list[Step]] = field(default_factory=dict)
    weights: str = ""
    task: str = ""

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        return cls(
            values["doc_id"],
            {cell: Sample.from_json(sample) for cell, sample in values["samples"].items()},
            {cell: [Step(**step) for step in steps] for cell, steps in values["steps"].items()},
            values["weights"],
            values["task"],
        )


def summarise(samples: list[Sample], metric: str) -> Summary:
    lossy = [s.divergence for s in samples if s.divergence]
    answered = [s for s in samples if not s.error]
    return Summary(
        prompts=len(samples),
        tokens=sum(len(s.tokens) for s in samples),
        passes=sum(s.passes for s in samples),
        baseline_passes=sum(s.baseline_passes for s in samples),
        exact_matches=sum(s.exact_match for s in samples),
        ties=sum(d.tie for d in lossy),
        bugs=sum(not d.tie for d in lossy),
        empty=sum(s.empty for s in samples),
        repetitive=sum(s.repetitive for s in samples),
        metric=metric,
        score=sum(s.scores[metric] for s in answered) / len(answered) if metric and answered else None,
        errors=len(samples) - len(answered),
    )


def as_json(record: Any) -> dict[str, Any]:
    values: dict[str, Any] = asdict(record)
    return values
