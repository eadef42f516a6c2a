"""The buffers of a pool as plain figures, read once."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models.pools import Pool

BUFFERS = [{"bytes": 10, "granule": 7}, {"bytes": 3}]


@pytest.mark.parametrize(
    ("fields", "plain"),
    [
        ({"bytes": 5}, ((5, 1),)),
        ({"bytes": "1KiB", "granule": 64}, ((1024, 64),)),
        ({"buffers": BUFFERS}, ((10, 7), (3, 1))),
        ({"buffers": [*BUFFERS, {"bytes": 0}]}, None),
        ({"bytes": {"0": 5, "1": 5}}, None),
        ({"bytes": 5, "granule": "auto"}, None),
    ],
)
def test_figures_are_those_of_the_layout(fields: Any, plain: Any) -> None:
    pool = Pool.model_validate({"name": "p", **fields})
    assert pool.figures.buffers == tuple((b.bytes, b.granule) for b in pool.layout)
    assert pool.figures.plain == plain


def test_a_changed_copy_has_its_own_figures() -> None:
    pool = Pool.model_validate({"name": "p", "bytes": 5})
    assert pool.model_copy(update={"bytes": 6}).figures.plain == ((6, 1),)
    assert pool.figures.plain == ((5, 1),)
    assert Pool.model_construct(**{**dict(pool), "granule": 8}).figures.plain == ((5, 8),)
