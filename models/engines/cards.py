"""Total memory of common cards, as CUDA and ROCm report it to an engine."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvplan.models.engines.unified import MACHINES, Machine, apple_named, lacks_ram
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import one_of, shown

CARDS = {
    "A10": 2203,
    "A100-40GB": 3939,
    "A100-80GB": 7915,
    "A40": 4434,
    "B200": 17836,
    "H100-80GB": 7919,
    "H200": 13981,
    "L4": 2203,
    "L40S": 4440,
    "MI300X": 19198,
    "MI308X": 19198,
    "MI325X": 25598,
    "MI355X": 28798,
    "RTX 3090": 2358,
    "RTX 4090": 2364,
    "RTX 5090": 3136,
    "RTX PRO 6000": 9497,
    "T4": 1458,
    "V100-16GB": 1577,
    "V100-32GB": 3173,
}
"""Hundredths of a GiB, as start-up logs and out-of-memory errors print the total.

Drivers differ by up to 0.3 GiB for one card, so a total from here is an estimate; --total takes
what your driver says.
"""


CAPABILITIES = {
    "A10": 86,
    "A100-40GB": 80,
    "A100-80GB": 80,
    "A40": 86,
    "B200": 100,
    "GB10": 121,
    "H100-80GB": 90,
    "H200": 90,
    "Jetson AGX Orin 64GB": 87,
    "Jetson AGX Thor": 110,
    "L4": 89,
    "L40S": 89,
    "RTX 3090": 86,
    "RTX 4090": 89,
    "RTX 5090": 120,
    "RTX PRO 6000": 120,
    "T4": 75,
    "V100-16GB": 70,
    "V100-32GB": 70,
}
"""CUDA compute capability x 10, which engines choose their kernels by; AMD and Apple have none."""


@dataclass(frozen=True)
class Chip:
    """What an engine asks of a card when it chooses kernels.

    Attributes
    ----------
    capability : CUDA compute capability x 10; 0 of an AMD card.
    known : whether a card was named; else this is a Hopper that nobody asked for.
    """

    capability: int
    known: bool = True

    @property
    def is_amd(self) -> bool:
        """ROCm (HIP)."""
        return not self.capability

    @property
    def is_hopper(self) -> bool:
        """H100, H200."""
        return self.capability == 90

    @property
    def is_sm100(self) -> bool:
        """B200 and its kin (10.0, 10.3), without the RTX cards and Thor of the generation."""
        return 100 <= self.capability < 110

    @property
    def is_blackwell(self) -> bool:
        """Compute capability of 10 and more."""
        return self.capability >= 100


def chip_of(name: str | None) -> Chip:
    """The chip of a card; without a card a Hopper, the commonest in public launch lines."""
    if name is None:
        return Chip(90, known=False)
    return Chip(CAPABILITIES.get(card_named(name), 0))


def total_bytes(name: str) -> int:
    """Bytes of a card.

    Raises
    ------
    InvalidProblem : no such card, or several.
    """
    card = card_named(name)
    return MACHINES[card].total_bytes if card in MACHINES else CARDS[card] * 2**30 // 100


def machine_of(name: str | None) -> Machine | None:
    """The machine whose GPU and host share one memory; None for a card with its own."""
    return None if name is None else MACHINES.get(card_named(name))


_SLICE = re.compile(r"\bmig\b|\d+g\.\d+gb", re.IGNORECASE)
"""What nvidia-smi writes for a part of a card, such as "MIG 1g.10gb"."""


def card_named(name: str) -> str:
    """A card of the table; "h100", "rtx4090" and the like are understood where one card is meant.

    Raises
    ------
    InvalidProblem : no such card, or several.
    """
    if _SLICE.search(name):
        expected = "a whole card; for a MIG slice leave it out and give --total"
        raise InvalidProblem.at("--gpu", expected, shown(name))
    wanted = _plain(apple_named(_plain(name)) or name)
    cards = (*CARDS, *MACHINES)
    exact = [card for card in cards if _plain(card) == wanted]
    found = exact or [card for card in cards if wanted and wanted in _plain(card)]
    if len(found) != 1:
        expected = one_of(found) if found else one_of(cards, name)
        if lacks_ram(wanted):
            expected = f"its RAM as well, such as '{name} 64GB'"
        raise InvalidProblem.at("--gpu", expected, shown(name))
    return found[0]


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
