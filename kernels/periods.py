"""Capacities at which the need of a fitted request may change."""

from __future__ import annotations

from kvplan.kernels.instance import LIVE, STATE, Instance


def stepping_periods(instance: Instance, fitted: int) -> list[tuple[int, int]]:
    """(t, offset): capacities at which some need of a fitted capacity may rise just after.

    C = 0 mod t of every cache; with scratch or a prefix beside a window also C = d and
    C = R mod t, where d = C - H.
    """
    request = instance.fitted[fitted]
    prefix = instance.batches[request.batch].prefix_tokens
    periods = []
    for rule in instance.caches:
        if rule.kind == STATE:
            continue
        periods.append((rule.block_tokens, 0))
        if rule.kind == LIVE and (rule.scratch or prefix):
            periods.append((rule.block_tokens, request.flight % rule.block_tokens))
            periods.append((rule.block_tokens, rule.rewind % rule.block_tokens))
    return sorted(set(periods))


def falling_periods(instance: Instance, fitted: int) -> list[tuple[int, int]]:
    """(t, offset): capacities at which some need of a fitted capacity may fall.

    Only a live window's need falls: where one more block goes stale, H + 1 - W = 0 mod t, and
    with scratch where one more block becomes scratch, C - R + 1 - W = 0 mod t.
    """
    request = instance.fitted[fitted]
    periods = []
    for rule in instance.caches:
        if rule.kind != LIVE:
            continue
        t = rule.block_tokens
        periods.append((t, (request.flight + rule.reach - 1) % t))
        if rule.scratch:
            periods.append((t, (rule.rewind + rule.reach - 1) % t))
    return sorted(set(periods))
