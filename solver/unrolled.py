"""The check of one problem written out as a function, for a Planner that checks it often.

`check.broken_rules` walks over pools, buffers and caches. Here the same inequalities stand one
after the other with their figures in place, as Python that is compiled once: some ten times as
fast. What it accepts is right; what it does not, the walk looks at and names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import FULL, LIVE, PEAK, STATE, Budget, CacheRule, Instance
from kvplan.kernels.values import Point

Holds = Callable[[Point, Sequence[int]], bool]
"""Whether a point breaks no rule, for rooms by row of `every_budget`, in bytes."""


def unrolled_check(instance: Instance, demand: Demand) -> Holds:
    """The check of a problem that `is_direct`."""
    body = [*_ranges(instance), *_needs(instance, demand), *_rows(instance)]
    usable = "".join(f"u{index}, " for index in range(len(instance.pools)))
    names = [f"{usable}= point.usable"] if usable else []
    if instance.fitted:
        names += ["c, = point.capacities", f"h = c - {instance.fitted[0].flight}"]
    lines = ["def holds(point, rooms):", *names, f"return {' and '.join(body) or 'True'}"]
    scope: dict[str, Holds] = {}
    exec("\n    ".join(lines), scope)
    return scope["holds"]


def _ranges(instance: Instance) -> Iterator[str]:
    for fitted in instance.fitted:
        yield f"{fitted.least} <= c <= {fitted.most}"
        yield f"point.counts == ({fitted.requests},)"
    for index, pool in enumerate(instance.pools):
        if pool.most is not None:
            yield f"u{index} <= {pool.most}"
        if pool.multiple > 1:
            yield f"not u{index} % {pool.multiple}"


def _needs(instance: Instance, demand: Demand) -> Iterator[str]:
    """u >= raw / utilization is u x num >= raw x den; what no variable moves is one figure."""
    moving = instance.fitted[0].batch if instance.fitted else None
    still = [pool.least for pool in instance.pools]
    for batch in range(len(instance.batches)):
        if batch != moving:
            raws = zip(demand.given(batch, 0), instance.pools, strict=True)
            needs = [-(-raw * pool.use_den // pool.use_num) for raw, pool in raws]
            still = [*map(max, still, needs)]
    for index, need in enumerate(still):
        yield f"u{index} >= {need}"
    for fitted in instance.fitted:
        for index, raw in enumerate(demand.given(fitted.batch, 0)):
            pool = instance.pools[index]
            grown = [_blocks(rule, demand) for rule in instance.caches if rule.pool == index]
            own = _times(fitted.requests, " + ".join(grown)) if grown else "0"
            whole = _times(pool.use_den, f"{raw} + {own}" if raw else own)
            yield f"{_times(pool.use_num, f'u{index}')} >= {whole}"


def _times(factor: int, text: str) -> str:
    """factor x text, the factor left out where it is 1."""
    return text if factor == 1 else f"{factor} * ({text})"


def _blocks(rule: CacheRule, demand: Demand) -> str:
    """Blocks of one fitted request in one cache at capacity c and history h (kernels.need)."""
    t, flight = rule.block_tokens, demand.flight(rule, 0)
    if rule.kind == STATE:
        return str(rule.groups * (rule.state_blocks + rule.extra_blocks))
    if rule.kind == FULL:
        own = f"-(-c // {t})"
    elif rule.kind == LIVE:
        stale = f"(h + {1 - rule.reach}) // {t} - {rule.sink_blocks}"
        own = f"-(-c // {t}) - (s if (s := {stale}) > 0 else 0)"
    elif rule.kind == PEAK:
        worst = rule.sink_blocks + (rule.reach + flight + t - 3) // t + 1
        own = f"min(-(-c // {t}), {worst})"
    else:
        reach = rule.reach + (0 if rule.flight_per_batch else flight)
        own = f"-(-min(c, {reach}) // {t})"
    return _times(rule.groups, f"{own} + {rule.extra_blocks}" if rule.extra_blocks else own)


def _rows(instance: Instance) -> Iterator[str]:
    """Rows of one layout are compared with the smallest of their rooms."""
    layouts: dict[str, list[int]] = {}
    for number, row in enumerate(instance.every_budget):
        layouts.setdefault(_bytes(instance, row), []).append(number)
    for taken, numbers in layouts.items():
        rooms = ", ".join(f"rooms[{number}]" for number in numbers)
        yield f"{taken} <= " + (f"min({rooms})" if len(numbers) > 1 else rooms)


def _bytes(instance: Instance, row: Budget) -> str:
    """Bytes of a row: pages of its pools, nothing else."""
    pages: dict[int, list[str]] = {}
    for index, buffers in enumerate(row.pools):
        reserved = instance.pools[index].reserved
        held = f"(u{index} + {reserved})" if reserved else f"u{index}"
        for size, granule in buffers:
            text = f"{held} * {size}" if granule == 1 else f"-(-{held} * {size} // {granule})"
            pages.setdefault(granule, []).append(text)
    parts = [_times(granule, " + ".join(texts)) for granule, texts in pages.items()]
    return " + ".join(parts) or "0"
