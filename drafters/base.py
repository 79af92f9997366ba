"""The one interface of all drafters: what a drafter sees, and what it gives back."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeVar

import torch
from torch import Tensor

from suite.decoding.noise import gumbel, step_key
from suite.decoding.policy import Policy, kept, log_probs
from suite.decoding.state import MASK, State, Visit, masked
from suite.errors import UserError

STALE_TOKENS = 32
"""How many of the target's most likely tokens a drafter sees at each position."""
AHEAD = 8
"""Coming steps whose noise is drawn in one go: small tensors cost as much as larger ones."""


@dataclass(frozen=True)
class Choice:
    """What the stale distributions say about one coming step; `[position][rank]`, best first.

    `tokens` are ranked by the score that the target's own draw takes the maximum of (log-probability plus
    shared noise), `confidences` are their probabilities, `chances` a softmax of the scores.
    """

    tokens: list[list[int]]
    confidences: list[list[float]]
    chances: list[list[float]]


@dataclass(frozen=True)
class DraftView:
    """All a drafter may read: no hidden states, nothing of the vocabulary's size.

    `log_probs` and `token_ids` `[B, k]` are the k most likely tokens at every position that was open in the pass before
    the last commit (stale), tempered, on the CPU; the rows of the others are zero. `before` is the state that this pass
    was about: what is open there and filled in `state` is what was committed last.
    """

    state: State
    before: State
    block: int
    policy: Policy
    log_probs: Tensor
    token_ids: Tensor
    seed: int
    _scores: dict[int | None, Tensor] = field(default_factory=dict, init=False, repr=False)
    _choices: dict[int | None, Choice] = field(default_factory=dict, init=False, repr=False)

    @property
    def offset(self) -> int:
        """The absolute position of the block's first entry."""
        return self.block * self.policy.block_size

    @property
    def committed(self) -> int:
        """How many positions of the block are filled."""
        return len(self.state) - self.state.count(MASK)

    def choice(self, committed: int, *, coupled: bool = True) -> Choice:
        """Tokens for the step made from a state with `committed` filled positions.

        Coupled tokens share the target's noise of that step; uncoupled ones are the most likely ones. At
        T = 0 both are the same.
        """
        key = self._key(committed, coupled)
        if key not in self._choices:
            self._choices[key] = self._rank(self.scores(committed, coupled=coupled))
        return self._choices[key]

    def scores(self, committed: int, *, coupled: bool = True) -> Tensor:
        """`[B, k]`: what the draw of the step made from `committed` filled positions takes the maximum of."""
        key = self._key(committed, coupled)
        if key not in self._scores:
            plain = self.log_probs.masked_fill(~kept(self.log_probs, self.policy), float("-inf"))
            if key is None:
                self._scores[None] = plain
            else:
                steps = range(committed, min(committed + AHEAD, len(self.state) + 1))
                keys = [step_key(self.seed, self.block, step) for step in steps]
                noise = gumbel(keys, torch.arange(len(self.state))[:, None], self.token_ids)
                self._scores.update(zip(steps, plain.double() + noise, strict=True))
        return self._scores[key]

    def _key(self, committed: int, coupled: bool) -> int | None:
        """Which step's noise is shared; None: no noise."""
        return committed if coupled and self.policy.temperature > 0 else None

    def _rank(self, scores: Tensor, ranks: int = 4) -> Choice:
        ranked, order = scores.sort(dim=-1, descending=True, stable=True)
        order = order[:, :ranks]
        return Choice(
            self.token_ids.gather(-1, order).tolist(),
            self.log_probs.gather(-1, order).exp().tolist(),
            ranked.softmax(-1)[:, :ranks].tolist(),
        )


def top_tokens(logits: Tensor, policy: Policy) -> tuple[Tensor, Tensor]:
    """Log-probabilities and ids `[n, k]` of the most likely tokens, best first, given logits `[n, V]`."""
    logp = log_probs(logits, policy.temperature)
    values, ids = (x.cpu() for x in logp.topk(min(STALE_TOKENS, logp.shape[-1]), dim=-1))
    by_id = ids.argsort(dim=-1)
    values, ids = values.gather(-1, by_id), ids.gather(-1, by_id)
    best = values.argsort(dim=-1, descending=True, stable=True)  # ties: the lower id first
    return values.gather(-1, best), ids.gather(-1, best)


def stale_view(logits: Tensor, before: State, state: State, block: int, policy: Policy, seed: int) -> DraftView:
    """The view on `state`, given the logits `[B, V]` of `before`, which it was committed from."""
    return spread(*top_tokens(logits[masked(before)], policy), before, state, block, policy, seed)


def spread(
    log_probs: Tensor, token_ids: Tensor, before: State, state: State, block: int, policy: Policy, seed: int
) -> DraftView:
    """The view on `state`, given what the open positions of `before` hold `[open, k]`."""
    open_ = masked(before)
    values, ids = (x.new_zeros(len(state), x.shape[-1]) for x in (log_probs, token_ids))
    values[open_], ids[open_] = log_probs, token_ids
    return DraftView(state, before, block, policy, values, ids, seed)


Kind = Literal["training-free", "calibrated", "learned", "bound"]


@dataclass(frozen=True)
class DrafterCard:
    """What a drafter was made from, as a leaderboard shows it.

    `home`: the target that it was trained on or calibrated for, `tasks` and `split`: on what; all empty where nothing
    was learned. `data`: a hash of the weights and counts that it reads. `kind = "bound"`: a reference, never ranked.
    """

    kind: Kind = "training-free"
    parameters: int = 0
    home: str = ""
    tasks: tuple[str, ...] = ()
    split: str = ""
    data: str = ""


class Drafter(ABC):
    """Guesses states that the target will reach; a wrong guess costs a row, never an output."""

    name: str = ""
    """What its results go by; of a drafter in a file or another package, `drafters.make` sets it."""
    needs_future: bool = False
    """Whether `start` wants the baseline's own states: for bounds and test doubles only."""
    nested: bool = False
    """Whether its proposals for fewer rows are the first of those for more; a replay then asks once for all budgets."""

    def attach(self, target: str, policy: Policy) -> None:  # noqa: B027 - most drafters are the same for every target
        """Called once, before the first prompt, with the target's name: the place to read what was calibrated for it.

        Raises UserError when that is missing.
        """

    def start(self, future: Sequence[Visit]) -> None:  # noqa: B027 - most drafters carry nothing between prompts
        """Called before each prompt. `future`, the baseline's visits, is empty unless the drafter needs it."""

    def card(self) -> DrafterCard:
        """What it was made from; asked for after `attach`. Nothing learned, unless a drafter says so."""
        return DrafterCard()

    @abstractmethod
    def propose(self, view: DraftView, rows: int) -> list[State]:
        """At most `rows` states of the block (the current one needs no proposing), best first."""


class DraftError(Exception):
    """A drafter broke the interface; the message names it."""


def checked(drafter: Drafter, drafts: list[State], rows: int, view: DraftView, vocab_size: int) -> list[State]:
    """`drafts`, or DraftError. States that are finished, repeated or contradict each other are legal, only wasted."""
    if not isinstance(drafts, list):
        raise DraftError(f"drafter {drafter.name} proposed {_brief(drafts)}; propose returns a list of states")
    if len(drafts) > rows:
        raise DraftError(f"drafter {drafter.name} proposed {len(drafts)} states where {rows} were allowed")
    for state in drafts:
        if not isinstance(state, tuple) or not all(type(token) is int for token in state):
            raise DraftError(f"drafter {drafter.name} proposed {_brief(state)}; a state is a tuple of ints")
        if len(state) != len(view.state):
            raise DraftError(
                f"drafter {drafter.name} proposed a state of length {len(state)}; a block has {len(view.state)}"
            )
        for position, (old, new) in enumerate(zip(view.state, state, strict=True)):
            if new != MASK and not 0 <= new < vocab_size:
                raise DraftError(f"drafter {drafter.name} proposed token {new}, outside the vocabulary of {vocab_size}")
            if old not in (MASK, new):
                what = "a mask" if new == MASK else f"token {new}"
                raise DraftError(
                    f"drafter {drafter.name} proposed {what} at position {position}, where {old} is committed"
                )
    return drafts


def _brief(value: object) -> str:
    """In one short line."""
    return f"{' '.join(repr(value).split()):.80}"


_REGISTRY: dict[str, Callable[[], Drafter]] = {}
D = TypeVar("D", bound=Drafter)


def register(cls: type[D], **variants: dict[str, object]) -> type[D]:
    """Make a shipped drafter known under its `name`; each variant is a keyword set known under `name-variant`.

    Raises UserError when the name is taken.
    """
    if cls.name in _REGISTRY:
        raise UserError(f"there is a drafter {cls.name!r} already; one in a file of yours needs no register")
    _REGISTRY[cls.name] = cls
    for variant, options in variants.items():
        _REGISTRY[f"{cls.name}-{variant}"] = partial(cls, **options)
    return cls
