"""One pool raised into what is left: the step that every fill in order repeats."""

from __future__ import annotations

from kvplan.kernels.bytes import more_blocks, pool_bytes
from kvplan.kernels.instance import Instance


def raise_pool(instance: Instance, index: int, usable: list[int], rests: list[int]) -> None:
    """Raise one pool as far as every row lets it; in place.

    Parameters
    ----------
    usable : blocks by pool, which fit.
    rests : bytes that they leave, by row of the instance.
    """
    _, reserved, _, top, multiple, _, _ = instance.pools[index]
    held = usable[index] + reserved
    for row, rest in zip(instance.budgets, rests, strict=True):
        if row.pools and row.pools[index]:
            most = more_blocks(held, rest, row.pools[index]) - reserved
            if top is None or most < top:
                top = most
    if top is None or top - top % multiple <= usable[index]:
        return
    usable[index] = top - top % multiple
    for number, row in enumerate(instance.budgets):
        if row.pools:
            rests[number] += pool_bytes(held, row.pools[index])
            rests[number] -= pool_bytes(usable[index] + reserved, row.pools[index])
