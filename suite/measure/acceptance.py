"""How deep drafts are accepted.

Two means are kept apart because both are quoted: pooled over passes, and per request (each prompt counts once).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Acceptance:
    """Of one method over many prompts. Depth 0 is a pass that committed its one certain step only.

    `marginal[d-1]`: share of passes that accepted d drafts or more. `conditional[d-1]`: the same among those
    that accepted d-1 or more. `steps_per_pass`: 1 + mean depth, pooled over passes; `steps_per_pass_by_request`:
    the mean over prompts of their own figure. `consistent`: 1 + the sum of the marginals is `steps_per_pass`.
    """

    marginal: tuple[float, ...]
    conditional: tuple[float, ...]
    steps_per_pass: float
    steps_per_pass_by_request: float
    consistent: bool


def acceptance(depths: Sequence[Sequence[int]]) -> Acceptance:
    """From the accepted depth of every pass of every prompt (at least one prompt, each of at least one pass)."""
    passes = [depth for prompt in depths for depth in prompt]
    reached = [sum(depth >= d for depth in passes) for d in range(max(passes) + 1)]
    marginal = tuple(n / len(passes) for n in reached[1:])
    pooled = 1 + sum(passes) / len(passes)
    return Acceptance(
        marginal=marginal,
        conditional=tuple(n / before for before, n in pairwise(reached)),
        steps_per_pass=pooled,
        steps_per_pass_by_request=sum(1 + sum(prompt) / len(prompt) for prompt in depths) / len(depths),
        consistent=abs(1 + sum(marginal) - pooled) < 1e-9,
    )
