"""Drafters: guesses of the states a target reaches next."""

from drafters import best_first, bounds, chain, spiffy
from drafters.base import Choice, Drafter, DraftError, DraftView, about, make, names, register

__all__ = [
    "Choice",
    "DraftError",
    "DraftView",
    "Drafter",
    "about",
    "best_first",
    "bounds",
    "chain",
    "make",
    "names",
    "register",
    "spiffy",
]
