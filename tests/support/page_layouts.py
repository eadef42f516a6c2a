"""Random layout questions, small enough to lay out in every way."""

from __future__ import annotations

from random import Random
from typing import Any

from kvplan.models.layouts import LayoutQuestion

MOST_LAYERS = 5


def question(seed: int) -> LayoutQuestion:
    """One question of at most five layers in up to three buckets."""
    random = Random(seed)
    stages = random.choice((1, 1, 1, 2))
    budget = MOST_LAYERS if stages == 1 else 4
    copies = random.random() < 0.3
    buckets: list[dict[str, Any]] = []
    for index in range(random.randint(1, 3)):
        layers = random.randint(1, max(1, budget - 2 + index))
        budget -= layers
        if budget < 0:
            break
        buckets.append(_bucket(random, index, layers, stages))
    data: dict[str, Any] = {
        "buckets": buckets,
        "requests": _requests(random, whole=copies),
        "pages": random.choice(("uniform", "packed")),
        "share_groups": random.random() < 0.5,
        "reserved_blocks": random.choice((0, 0, 1)),
    }
    if copies:
        data |= {"objective": "copies", "ranks": _ranks(random, buckets)}
    if random.random() < 0.2:
        data["max_prefix_tokens"] = random.randint(1, 24)
    if random.random() < 0.3:
        data["max_groups"] = random.randint(1, 4)
    return LayoutQuestion.model_validate(data)


def _bucket(random: Random, index: int, layers: int, stages: int) -> dict[str, Any]:
    kernel = random.choice((1, 2, 4))
    counts: Any = layers
    if stages == 2:
        first = random.randint(0, layers)
        counts = {"0": first, "1": layers - first}
    bucket: dict[str, Any] = {
        "name": f"b{index}",
        "layers": counts,
        "kernel_tokens": kernel,
        "tokens_per_block": kernel * random.choice((1, 1, 2)),
        "split": random.random() < 0.7,
        "pad": random.random() < 0.8,
        "own_pool": random.random() < (0.25 if stages == 1 else 0.5),
    }
    bucket["max_tokens_per_block"] = bucket["tokens_per_block"] * random.randint(1, 4)
    kind = random.choice(("full", "full", "window", "peak", "chunked", "state"))
    rate = random.choice((1, 2, 3, 5, 8, "5/2"))
    if kind == "state":
        bucket |= {"kind": "state", "blocks": random.randint(1, 3)}
        return bucket | {"state_bytes": random.randint(2, 24)}
    bucket["token_bytes"] = rate
    if kind == "full":
        return bucket | {"kind": "full", **random.choice(({}, {}, {"shards": 2}))}
    bucket["hold_full"] = random.random() < 0.3
    flight = random.randint(1, 6)
    if kind == "chunked":
        return bucket | {"kind": "chunked", "chunk": random.randint(1, 9), "in_flight": flight}
    window = {"kind": "window", "window": random.randint(1, 12), "in_flight": flight}
    if kind == "peak":
        return bucket | window | random.choice(({}, {"sink": 3}))
    return bucket | window | {"keep": "in_flight", "extra_blocks": random.randint(0, 1)}


def _requests(random: Random, *, whole: bool) -> list[dict[str, Any]]:
    weights: tuple[Any, ...] = (1, 2) if whole else (1, "1/3", 2)
    number = random.choice((1, 1, 2))
    return [
        {"capacity": random.randint(1, 40), "weight": random.choice(weights)} for _ in range(number)
    ]


def _ranks(random: Random, buckets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    stages = sorted(
        {
            int(stage)
            for bucket in buckets
            for stage in (bucket["layers"] if isinstance(bucket["layers"], dict) else {"0": 1})
        }
    )
    return [{"name": f"r{s}", "stage": s, "quota": random.randint(50, 2000)} for s in stages]


def sharing_question(seed: int) -> LayoutQuestion:
    """Two full buckets that may share groups in packed blocks, beside states that fill half a one.

    States as large as half of the full layers' pages make two shared groups worth while.
    """
    random = Random(seed)
    layers, rates = random.choice(((2, 3), (3, 2), (3, 3))), random.sample((3, 4, 5, 7), 2)
    buckets: list[dict[str, Any]] = [
        {
            "name": f"b{index}",
            "kind": "full",
            "layers": count,
            "token_bytes": rate,
            "kernel_tokens": 2,
            "tokens_per_block": 2,
            "max_tokens_per_block": 2,
        }
        for index, (count, rate) in enumerate(zip(layers, rates, strict=True))
    ]
    total = 2 * sum(count * rate for count, rate in zip(layers, rates, strict=True))
    states = {"kind": "state", "layers": 1, "blocks": random.randint(2, 9)}
    buckets.append({"name": "s", **states, "state_bytes": total // 2 - random.randint(0, 2)})
    data: dict[str, Any] = {
        "buckets": buckets,
        "requests": [{"capacity": random.randint(1, 6)}],
        "pages": "packed",
        "share_groups": True,
        "max_groups": random.choice((None, 3)),
    }
    return LayoutQuestion.model_validate(data)


def staged_question(seed: int) -> LayoutQuestion:
    """Unequal pipeline stages whose buckets may leave for pools of their own.

    Own pools then take another share of every stage, so that stages want groups of other widths.
    """
    random = Random(seed)
    stages = random.choice((2, 2, 3))
    layers = [random.randint(1, 3) for _ in range(2)] + [1] * random.randint(0, 1)
    buckets = []
    for index, count in enumerate(layers):
        by_stage = {str(stage): 0 for stage in range(stages)}
        for _ in range(count + (index == 0)):
            by_stage[str(random.randrange(stages))] += 1
        bucket = _bucket(random, index, count, 1) | {"layers": by_stage}
        buckets.append(bucket | {"own_pool": random.random() < 0.6})
    data: dict[str, Any] = {
        "buckets": buckets,
        "requests": _requests(random, whole=True),
        "pages": random.choice(("uniform", "packed")),
        "share_groups": random.random() < 0.3,
        "reserved_blocks": random.choice((0, 1)),
        "max_groups": random.choice((None, None, 2, 3, 4)),
    }
    if random.random() < 0.4:
        data |= {"objective": "copies", "ranks": _ranks(random, buckets)}
    return LayoutQuestion.model_validate(data)
