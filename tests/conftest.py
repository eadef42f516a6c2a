"""Hypothesis profiles: reproducible in CI, moderate everywhere.

--hypothesis-profile=thorough looks longer.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("default", deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
