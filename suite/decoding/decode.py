"""Draft, verify, commit: the one loop that every target, drafter and commit rule goes through.

Verification is by state equality (arXiv 2610.22543). A pass evaluates the current state and the drafted ones;
the walk then commits the target's own steps for as long as it finds the state it reached among them. So what
is emitted never depends on what was drafted.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from torch import Tensor

from drafters.base import Drafter, stale_view
from drafters.guard import begin, proposals
from suite.decoding.policy import Policy, Prediction, predict, step
from suite.decoding.state import MASK, Row, State, Visit, until_end
from suite.measure.clock import Clock
from suite.targets.base import Target


@dataclass(frozen=True)
class Pass:
    """One verify pass: its rows' states (the current one first, then the drafts), accepted depth, seconds by phase."""

    states: tuple[State, ...]
    depth: int
    draft_s: float
    verify_s: float
    host_s: float

    @property
    def rows(self) -> int:
        """The current state included."""
        return len(self.states)


@dataclass
class Decoded:
    """What one prompt became and what it cost.

    `tokens`: the answer up to and including its first end token. `visits`: every state that was committed,
    in order. `prefill_passes` and `commit_passes` stand beside the verify passes.
    """

    tokens: tuple[int, ...] = ()
    finish: Literal["end", "length"] = "length"
    visits: list[Visit] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    prefill_passes: int = 0
    commit_passes: int = 0
    prefill_s: float = 0.0
    commit_s: float = 0.0

    @property
    def decode_s(self) -> float:
        """Seconds after the prefill."""
        return self.commit_s + sum(p.draft_s + p.verify_s + p.host_s for p in self.passes)


Watch = Callable[[int, State, Prediction, State, Tensor], None]
"""Called at each step: the block's index, the state, the target's prediction, the next state, the logits `[B, V]`.

Where the target decides a block's first token ahead of its first pass, that step is seen as one of a state `[1]`.
"""


def decode(
    target: Target,
    prompt: Sequence[int],
    policy: Policy,
    drafter: Drafter,
    rows: int = 1,
    seed: int = 0,
    future: Sequence[Visit] = (),
    watch: Watch | None = None,
) -> Decoded:
    """Decode one prompt.

    Args:
        prompt: token ids; a tail that does not fill a block shares its block with the answer.
        rows: rows in a pass, the current state included.
        seed: of the request's noise.
        future: the baseline's visits, for drafters that need them.
        watch: sees every step; leave it out where time is measured.

    Raises DraftError when the drafter breaks its interface, raises, or takes too long.
    """
    size, done = policy.block_size, Decoded()
    clock = Clock(target.synchronize)
    begin(drafter, future)
    origin, first = target.spec.origin(len(prompt)), target.spec.first_block(len(prompt))
    whole = origin + first * size
    context = target.prefill(prompt[:whole], -(-(len(prompt) - whole + policy.max_new_tokens) // size))
    done.prefill_passes = context.passes
    done.prefill_s = clock.lap()
    finished: tuple[State, ...] = ()
    answer: list[int] = []
    for block in count(first):
        given = tuple(prompt[origin + block * size :])
        state: State = given + (MASK,) * (size - len(given))
        stale: Tensor | None = None  # of the state `before`
        before: State = state
        earlier = deque[Tensor](maxlen=policy.rule.memory)
        if not given and (ahead := target.ahead(context)) is not None:
            prediction = predict(ahead[None], state[:1], policy, seed, block)
            token = step(prediction, state[:1], policy.rule)
            if watch:
                watch(block, state[:1], prediction, token, ahead[None])
            state = token + state[1:]
            done.visits.append((block, state))
        while MASK in state:
            drafts: list[State] = []
            if stale is not None and rows > 1 and state.count(MASK) > 1:
                view = stale_view(stale, before, state, block, policy, seed)
                drafts = proposals(drafter, view, rows - 1, target.spec.vocab_size)
            where = {s: n for n, s in enumerate(dict.fromkeys([state, *drafts]))}
            draft_s = clock.lap()
            logits = target.evaluate(context, [Row(finished, s) for s in where])
            target.keep(context, Row(finished, state))
            finished = ()
            verify_s = clock.lap()
            depth = -1
            while MASK in state and state in where:
                stale, before = logits[where[state]], state
                prediction = predict(stale, state, policy, seed, block, earlier)
                earlier.append(stale)
                after = step(prediction, state, policy.rule)
                if watch:
                    watch(block, state, prediction, after, stale)
                state = after
                done.visits.append((block, state))
                depth += 1
            done.passes.append(Pass(tuple(where), depth, draft_s, verify_s, clock.lap()))
        answer += state[len(given) :]
        finished = (state,)
        if policy.commit == "separate":
            target.evaluate(context, [Row(finished, ())])
            target.keep(context, Row(finished, ()))
            finished = ()
            done.commit_passes += 1
            done.commit_s += clock.lap()
        done.tokens, ended = until_end(answer[: policy.max_new_tokens], target.spec.stop_ids)
        if ended or len(answer) >= policy.max_new_tokens:
            done.finish = "end" if ended else "length"
            return done
    raise AssertionError("unreachable: blocks are endless")
