"""A full search over a real hybrid: 64 + 8 layers, every kernel multiple up to 8,192 tokens."""

from __future__ import annotations

import pytest
from bench.layout import PERMISSIONS, question

from kvplan.solver.layout import layout


@pytest.mark.parametrize("name", PERMISSIONS)
def test_a_full_search_prunes_most_candidates(name: str) -> None:
    proof = layout(question(PERMISSIONS[name]), freedom=False).proof
    assert proof.evaluated < proof.candidates
    assert proof.candidates > 2 * 8192 // 16
    assert sum(proof.pruned.values()) > 0
