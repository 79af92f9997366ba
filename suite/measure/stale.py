"""What the pass before already knew of each step: claim C1's tokens, claim C7's choice of positions."""

from collections import deque
from dataclasses import dataclass, field

from torch import Tensor

from suite.decoding.policy import Policy, Prediction, chosen, predict
from suite.decoding.state import MASK, State
from suite.records import Stale


@dataclass
class StaleWatch:
    """A `Watch` that compares each step with what the pass before it, in the same block, would have done.

    The comparison is coupled: stale logits with the noise of the step itself.
    """

    policy: Policy
    seed: int
    counts: Stale = field(default_factory=Stale)
    _seen: deque[Tensor] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._seen = deque(maxlen=1 + self.policy.rule.memory)

    def __call__(self, block: int, state: State, prediction: Prediction, after: State, logits: Tensor) -> None:
        if len(state) < self.policy.block_size:  # decided ahead of the block's first pass
            return
        if self._seen:
            *earlier, stale = self._seen
            guess = predict(stale, state, self.policy, self.seed, block, earlier)
            committed = [n for n, i in enumerate(prediction.positions) if after[i] != state[i]]
            right = sum(guess.tokens[n] == prediction.tokens[n] for n in committed)
            self.counts = Stale(
                steps=self.counts.steps + 1,
                commits=self.counts.commits + len(committed),
                tokens=self.counts.tokens + right,
                choices=self.counts.choices + (chosen(guess, self.policy.rule) == committed),
            )
        if MASK in after:
            self._seen.append(logits.clone())
        else:
            self._seen.clear()
