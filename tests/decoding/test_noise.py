"""The noise is a function of its counter, and looks like noise."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from suite.decoding.noise import gumbel, step_key, uniform

POSITIONS = torch.arange(16)[:, None]
TOKENS = torch.arange(1000)
KEY = 9617123944752223253
UNIFORMS = ["0x1.03384e02c80b6p-2", "0x1.73ff06ae5ebb1p-1", "0x1.1ec53bd5b876ap-2"]


def test_the_bits_do_not_change() -> None:
    """Frozen values: another implementation would make old results irreproducible."""
    assert step_key(0, 0, 0) == KEY
    found = uniform(step_key(1, 2, 3), torch.tensor([0, 5, 15]), torch.tensor([0, 7, 151_935]))
    assert [x.hex() for x in found.tolist()] == UNIFORMS


@given(
    key=st.integers(0, 2**64 - 1),
    position=st.integers(0, 63),
    token=st.integers(0, 200_000),
)
def test_a_single_token_has_the_value_it_has_in_the_whole_vocabulary(key: int, position: int, token: int) -> None:
    ids = torch.tensor([3, token, 17]).flip(0)
    alone = gumbel(key, torch.tensor([position]), torch.tensor([token]))
    assert gumbel(key, torch.tensor([[1], [position]]), ids)[1, 1] == alone[0]
    assert 0 < uniform(key, torch.tensor([position]), torch.tensor([token]))[0] < 1


def test_what_is_not_the_counter_does_not_matter() -> None:
    whole = gumbel(7, POSITIONS, TOKENS)
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(0))
    assert torch.equal(gumbel(7, POSITIONS, TOKENS[order]), whole[:, order])
    assert torch.equal(gumbel(7, POSITIONS.expand(16, 1000)[::2], TOKENS), whole[::2])


def test_several_keys_give_what_each_gives() -> None:
    assert torch.equal(
        gumbel([KEY, 7], POSITIONS, TOKENS), torch.stack([gumbel(KEY, POSITIONS, TOKENS), gumbel(7, POSITIONS, TOKENS)])
    )


def test_every_part_of_the_counter_matters() -> None:
    keys = {step_key(*parts) for parts in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (11, 1, 1), (1, 11, 1)]}
    assert len(keys) == 6
    whole = gumbel(7, POSITIONS, TOKENS)
    assert whole.unique().numel() == whole.numel()


def test_it_is_uniform_and_independent_along_every_axis() -> None:
    draws = torch.stack([uniform(step_key(0, 0, s), POSITIONS, TOKENS) for s in range(10)])
    counts = torch.histc(draws.float(), bins=20, min=0, max=1)
    expected = draws.numel() / 20
    assert ((counts - expected) ** 2 / expected).sum() < 50  # chi-square, 19 degrees of freedom: p = 1e-4
    centred = draws - 0.5
    for axis in range(3):
        neighbours = (centred * centred.roll(1, axis)).mean() * 12
        assert neighbours.abs() < 5 / draws.numel() ** 0.5
    assert abs(gumbel(3, POSITIONS, torch.arange(20_000)).mean() - 0.57722) < 0.01
