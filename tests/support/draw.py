"""Random choices that a test can steer."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class Draw:
    """A seeded source of choices; a switch forces a feature in (True) or out (False)."""

    def __init__(self, seed: int, switches: dict[str, bool]) -> None:
        self.random = random.Random(seed)
        self.switches = switches

    def has(self, feature: str, chance: float) -> bool:
        """Whether a feature is in; one random number is used up either way."""
        drawn = self.random.random() < chance
        return self.switches.get(feature, drawn)

    def chance(self, chance: float) -> bool:
        """True with some chance."""
        return self.random.random() < chance

    def integer(self, least: int, most: int) -> int:
        """A whole number from least to most."""
        return self.random.randint(least, most)

    def one(self, options: Sequence[T]) -> T:
        """One of several."""
        return self.random.choice(options)

    def some(self, options: Sequence[T], least: int = 1) -> list[T]:
        """Some of several, in the order given."""
        number = self.integer(min(least, len(options)), len(options))
        picked = sorted(self.random.sample(range(len(options)), number))
        return [options[index] for index in picked]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """All of several in any order."""
        return self.random.sample(options, len(options))


Data = dict[str, Any]
