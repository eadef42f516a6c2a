"""Total memory of common cards, as CUDA and ROCm report it to an engine."""

from __future__ import annotations

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


def total_bytes(name: str) -> int:
    """Bytes of a card; "h100", "rtx4090" and the like are understood where one card is meant.

    Raises
    ------
    InvalidProblem : no such card, or several.
    """
    wanted = _plain(name)
    exact = [card for card in CARDS if _plain(card) == wanted]
    found = exact or [card for card in CARDS if wanted and wanted in _plain(card)]
    if len(found) != 1:
        expected = one_of(found) if found else one_of(CARDS, name)
        raise InvalidProblem.at("--gpu", expected, shown(name))
    return CARDS[found[0]] * 2**30 // 100


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
