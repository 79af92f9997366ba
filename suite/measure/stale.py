"""What the pass before already knew of each step: claim C1's tokens, claim C7's choice of positions."""

from dataclasses import dataclass, field

from torch import Tensor

from suite.decoding.policy import Policy, Prediction, predict
from suite.decoding.state import State
from suite.records import Stale


@dataclass
class StaleWatch:
    """A `Watch` that compares each step with what the pass before it, in the same block, would have done.

    The comparison is coupled: stale logits with the noise of the step itself.
    """

    policy: Policy
    seed: int
    first_block: int
    counts: Stale = field(default_factory=Stale)
    _logits: Tensor | None = field(default=None, repr=False)
    _block: int = field(default=0, repr=False)

    def __call__(self, state: State, prediction: Prediction, after: State, logits: Tensor) -> None:
        if len(state) < self.policy.block_size:  # decided ahead of the block's first pass
            return
        if self._logits is not None:
            guess = predict(self._logits, state, self.policy, self.seed, self.first_block + self._block)
            committed = [n for n, i in enumerate(prediction.positions) if after[i] != state[i]]
            right = sum(guess.tokens[n] == prediction.tokens[n] for n in committed)
            self.counts = Stale(
                steps=self.counts.steps + 1,
                commits=self.counts.commits + len(committed),
                tokens=self.counts.tokens + right,
                choices=self.counts.choices + (self.policy.rule.choose(guess.confidences) == committed),
            )
        complete = len(prediction.positions) == len([i for i in prediction.positions if after[i] != state[i]])
        self._block += complete
        self._logits = None if complete else logits.clone()
