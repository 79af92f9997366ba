"""Drafters: guesses of the states a target reaches next."""

from drafters import best_first, bounds, chain, spiffy, spot, spot_sets
from drafters.base import Choice, Drafter, DrafterCard, DraftError, DraftView, register
from drafters.registry import about, file_of, known, make, names, new, plugins, uncoupled

__all__ = [
    "Choice",
    "DraftError",
    "DraftView",
    "Drafter",
    "DrafterCard",
    "about",
    "best_first",
    "bounds",
    "chain",
    "file_of",
    "known",
    "make",
    "names",
    "new",
    "plugins",
    "register",
    "spiffy",
    "spot",
    "spot_sets",
    "uncoupled",
]
