"""Hypothesis profiles: reproducible in CI, moderate everywhere; every test starts knowing nothing.

--hypothesis-profile=thorough looks longer.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from kvplan.solver.known import forget

settings.register_profile("default", deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    """Drop the problems that are kept: a test may have changed how they were read."""
    forget()
