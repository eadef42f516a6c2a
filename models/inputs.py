"""What constructors accept, by type: more forms than a model stores.

Each model's signature under TYPE_CHECKING is for type checkers alone; Pydantic reads the fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

BytesLike = int | float | str | Decimal
"""Whole bytes, or text with a unit: 17179869184, 16.5e9, "16GiB"."""
NumberLike = BytesLike | Fraction
"""An exact number: 0.97, "9/19", Fraction(9, 19)."""
ByStageLike = BytesLike | Mapping[str, BytesLike] | Mapping[int, BytesLike]
"""One figure, or figures by stage or rank name."""
PairsLike = Sequence[Sequence[BytesLike]]
"""[[count, bytes], ...]."""
QuotaLike = BytesLike | Mapping[str, BytesLike]
"""One quota for every rank, or by rank name."""
Written = Mapping[str, Any]
"""A part of a problem as it is written in a file."""
