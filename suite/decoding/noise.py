"""Counter-based Gumbel noise: a pure function of (request seed, block, step, position, token).

The 64-bit counter hash uses wrapping integer tensor operations only, so it has the same bits on every
device, and it can be evaluated at a few token ids without generating the vocabulary. (The logarithms
on top of it may differ in the last place between devices.)
"""

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor

_STEP = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def request_seed(seed: int, prompt: str) -> int:
    """Of a prompt's noise: the same for every method and on every machine."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{prompt}".encode(), digest_size=8).digest(), "little")


def step_key(seed: int, block: int, committed: int) -> int:
    """The 64-bit key of one step: the one made from a state of `block` with `committed` positions filled."""
    digest = hashlib.blake2b(f"{seed}/{block}/{committed}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def gumbel(key: int | Sequence[int], positions: Tensor, tokens: Tensor) -> Tensor:
    """Standard Gumbel noise, float64.

    Args:
        key: from `step_key`; several give what each of them gives, stacked.
        positions: int64, block positions.
        tokens: int64, token ids; broadcasts with `positions`.
    """
    return -(-uniform(key, positions, tokens).log()).log()


def uniform(key: int | Sequence[int], positions: Tensor, tokens: Tensor) -> Tensor:
    """The uniforms behind `gumbel`: float64, multiples of 2^-53 strictly between 0 and 1."""
    return ((_shift(_hash(key, positions, tokens), 12)).double() + 0.5) * math.ldexp(1.0, -52)


def _hash(key: int | Sequence[int], positions: Tensor, tokens: Tensor) -> Tensor:
    if isinstance(key, int):
        start: int | Tensor = _signed(key)
    else:
        start = torch.tensor([_signed(one) for one in key], device=tokens.device)
        start = start.view(-1, *[1] * max(positions.ndim, tokens.ndim))
    stream = _mix(positions * _signed(_STEP) + start)
    return _mix(tokens * _signed(_STEP) + stream)


def _mix(x: Tensor) -> Tensor:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014)."""
    x = (x ^ _shift(x, 30)) * _signed(_MULTIPLIERS[0])
    x = (x ^ _shift(x, 27)) * _signed(_MULTIPLIERS[1])
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical right shift; torch's own is arithmetic on int64."""
    return torch.bitwise_and(x >> bits, (1 << (64 - bits)) - 1)


def _signed(x: int) -> int:
    x &= (1 << 64) - 1
    return x - (1 << 64) if x >> 63 else x
