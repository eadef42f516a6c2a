"""Requests that the replays serve: prompt and output tokens, drawn once from a fixed seed."""

from __future__ import annotations

import random

PROMPTS = {"mixed": (400, 1500, 4000, 12000), "short": (300, 600, 1000), "long": (20000, 30000)}
COUNTS = {"mixed": 200, "short": 300, "long": 50}


def trace(kind: str = "mixed") -> list[tuple[int, int]]:
    """Prompt and output of every request, in the order of arrival."""
    draw = random.Random(7)
    prompts = [draw.choice(PROMPTS[kind]) for _ in range(COUNTS[kind])]
    return [(prompt + draw.randrange(200), draw.randrange(100, 400)) for prompt in prompts]
