"""Grids: what is to be measured, read from a TOML file and checked."""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

import drafters
import tasks.harness
from suite import settings
from suite.cells import Bundle, Cell
from suite.decoding.policy import Commit, ContextPolicy
from suite.decoding.rules import parse_rule
from suite.errors import UserError
from suite.targets import catalog
from suite.targets.base import TargetSpec, default_dtype

SHIPPED = Path(__file__).parent / "grids"
Name = Annotated[str, Field(min_length=1)]


class Grid(BaseModel):
    """A grid file. Axes are lists; every combination of them is a cell.

    `drafters`: names, or `file.py:Class`, which becomes the name that its results go by.
    `sources`: folders of targets' checkpoints, by name; a name the catalogue lacks is recognised by its config.json.
    At T = 0 an `-uncoupled` twin is the drafter itself and is left out.
    `max_new_tokens`: less room for an answer than its task gives; 0: all of it.
    `contexts` are for full-attention targets; the others have one. `dtype`: float32 on the CPU, bfloat16 elsewhere.
    `device = "replay"`: from traces, without the target.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=64)]
    about: str = ""
    targets: Annotated[list[Name], Field(min_length=1)]
    sources: dict[Name, Name] = {}
    tasks: Annotated[list[Name], Field(min_length=1)]
    temperatures: Annotated[list[Annotated[float, Field(ge=0, allow_inf_nan=False)]], Field(min_length=1)]
    rules: Annotated[list[Name], Field(min_length=1)] = ["exact"]
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] = [0]
    drafters: Annotated[list[Name], Field(min_length=1)]
    rows: Annotated[list[Annotated[int, Field(ge=1, le=1024)]], Field(min_length=1)]
    prompts: Annotated[int, Field(ge=0)] = 0
    max_new_tokens: Annotated[int, Field(ge=0)] = 0
    top_k: Annotated[int, Field(ge=0)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    contexts: Annotated[list[ContextPolicy], Field(min_length=1)] = ["whole"]
    commit: Commit = "fused"
    layout: Literal["batch", "packed"] = "batch"
    dtype: Literal["", "float32", "float64", "bfloat16", "float16"] = ""
    device: Literal["cpu", "cuda", "auto", "replay"] = "cpu"
    allow_code_execution: bool = False

    @field_validator("tasks")
    @classmethod
    def _tasks(cls, value: list[str]) -> list[str]:
        for name in value:
            if name not in tasks.harness.names():
                raise UserError(f"unknown name {name!r}; known: {', '.join(tasks.harness.names())}")
        return value

    @field_validator("drafters")
    @classmethod
    def _drafters(cls, value: list[str]) -> list[str]:
        return [drafters.known(name) for name in value]

    @field_validator("rules")
    @classmethod
    def _rules(cls, value: list[str]) -> list[str]:
        return [str(parse_rule(text)) for text in value]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if unused := set(self.sources) - set(self.targets):
            raise UserError(f"sources: {min(unused)!r} is none of the grid's targets; add it there, or leave it out")
        try:
            families = [self._spec(target).family for target in self.targets]
        except UserError as error:
            raise UserError(f"targets: {error}") from error
        if "contexts" in self.model_fields_set:
            for context in self.contexts:
                if not any(context in family.contexts for family in families):
                    raise UserError(f"contexts: {context!r} is a context of none of the grid's targets; leave it out")
        if max(self.rows) == 1 and set(self.drafters) != {"none"}:
            raise UserError("rows: [1] leaves no row for a draft; give 2 or more")
        undraftable = [text for text in self.rules if not parse_rule(text).draftable]
        if undraftable and set(self.drafters) != {"none"}:
            raise UserError(
                f"rules: {', '.join(undraftable)}: decoded without drafts only; give such rules a grid of their own, "
                'with drafters = ["none"]'
            )
        for name in self.tasks:
            if self.max_new_tokens > (room := tasks.harness.facts(name).max_new_tokens):
                raise UserError(
                    f"max_new_tokens: {self.max_new_tokens} is more than the {room} of {name}; give less, or 0"
                )
        code = [name for name in self.tasks if tasks.harness.facts(name).executes_code]
        if code and not self.allow_code_execution:
            raise UserError(
                f"allow_code_execution: {', '.join(code)} runs what the model wrote, in a sandbox; "
                "set allow_code_execution = true, or leave the task out"
            )
        return self

    def bundles(self) -> list[Bundle]:
        """Every cell once, bundle by bundle; each bundle holds its baseline whether or not the file names it."""
        return list(self._bundles())

    def cells(self) -> list[Cell]:
        return [cell for bundle in self.bundles() for cell in bundle.cells]

    def _bundles(self) -> Iterator[Bundle]:
        methods = dict.fromkeys(
            [("none", 1), *product([name for name in self.drafters if name != "none"], [r for r in self.rows if r > 1])]
        )
        files = tuple((name, file) for name in dict.fromkeys(self.drafters) if (file := drafters.file_of(name)))
        families = {target: self._spec(target).family for target in self.targets}
        places = [
            (target, context if context in family.contexts else family.contexts[0])
            for target, family in families.items()
            for context in self.contexts
        ]
        for (target, context), task, temperature, rule, seed in dict.fromkeys(
            product(places, self.tasks, self.temperatures, self.rules, self.seeds)
        ):
            commits = families[target].commits
            cells = tuple(
                Cell(
                    target=target,
                    task=task,
                    temperature=float(temperature),
                    rule=rule,
                    seed=seed,
                    drafter=drafter,
                    rows=rows,
                    prompts=self.prompts,
                    top_k=self.top_k,
                    top_p=self.top_p,
                    context=context,
                    commit=self.commit if self.commit in commits else commits[0],
                    layout=self.layout,
                    dtype=self.dtype or default_dtype(self.device),
                    device=self.device,
                    max_new_tokens=self.max_new_tokens,
                )
                for drafter, rows in methods
                if temperature > 0 or not drafters.uncoupled(drafter)
            )
            yield Bundle(cells[0], cells, self.sources.get(target, ""), files)

    def _spec(self, target: str) -> TargetSpec:
        return catalog.spec(target, self.sources.get(target, ""))


def shipped() -> dict[str, Path]:
    """Grid name -> file."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.toml"))}


def read(name_or_path: str, more: Sequence[str] = ()) -> Grid:
    """A shipped grid by name, or a grid file; `more`: drafters besides its own.

    Raises UserError naming the file, the key and the mend.
    """
    path = settings.find("grid", shipped(), name_or_path)
    added = [drafters.known(name) for name in more]
    read = settings.read(path, Grid)
    if not added:
        return read
    try:
        return Grid.model_validate(read.model_dump(exclude_unset=True) | {"drafters": [*read.drafters, *added]})
    except ValidationError as error:
        raise UserError(f"{path}: {settings.explain(error, Grid.model_fields)}") from error


def of_baselines(
    target: str, tasks: list[str], temperatures: list[float], rule: str, context: str, prompts: int, allow: bool
) -> Grid:
    """A grid of the plain decoder alone. Raises UserError as `read` does."""
    return of(
        name="baselines",
        targets=[target],
        tasks=tasks,
        temperatures=temperatures,
        rules=[rule],
        drafters=["none"],
        rows=[1],
        prompts=prompts,
        allow_code_execution=allow,
        **({"contexts": [context]} if context else {}),
    )


def of(**keys: Any) -> Grid:
    """A grid that is in no file. Raises UserError as `read` does."""
    try:
        return Grid.model_validate(keys)
    except ValidationError as error:
        raise UserError(settings.explain(error, Grid.model_fields)) from error
