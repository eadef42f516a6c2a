"""A KV-cache manager as small as one can be: real tensors on the CPU, sized by a plan.

It shares no arithmetic with kvplan. Every pool is one tensor a buffer; a request owns blocks by the
tokens that it holds, and writes its mark into each, so that a block given away twice is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import torch

from kvplan.models import Plan, Problem
from kvplan.models.pools import Cache


class OutOfBlocksError(Exception):
    """A pool has no free block left."""


@dataclass
class Slots:
    """One pool on one rank: its tensor and its free blocks; reserved ones are never given."""

    data: torch.Tensor  # [block, byte]
    reserved: int
    free: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.free = list(range(len(self.data) - 1, self.reserved - 1, -1))

    @property
    def usable(self) -> int:
        return len(self.data) - self.reserved

    @property
    def used(self) -> int:
        return self.usable - len(self.free)

    def take(self, mark: int) -> int:
        if not self.free:
            raise OutOfBlocksError
        block = self.free.pop()
        assert not self.data[block].any(), "a block is given away twice"
        self.data[block] = mark
        return block

    def give(self, block: int, mark: int) -> None:
        assert (self.data[block] == mark).all(), "a block holds another request's data"
        self.data[block] = 0
        self.free.append(block)

    def resized(self, blocks: int, held: list[int], mark_of: dict[int, int]) -> dict[int, int]:
        """Move to a tensor of so many blocks; where every held block went."""
        old, self.data = self.data, torch.zeros((blocks, self.data.shape[1]), dtype=torch.uint8)
        self.__post_init__()
        moved = {}
        for block in held:
            moved[block] = self.take(mark_of[block])
            assert (self.data[moved[block]] == old[block]).all()
        return moved


@dataclass
class Live:
    """A request: its tokens, and its blocks by cache and position."""

    mark: int
    tokens: int = 0
    blocks: dict[str, dict[int, int]] = field(default_factory=dict)

    def held(self, cache: str) -> dict[int, int]:
        return self.blocks.setdefault(cache, {})


class Manager:
    """Pools of one rank as a plan sizes them, and the requests that live in them."""

    def __init__(self, problem: Problem, answer: Plan) -> None:
        self.problem = problem
        self.pools = {
            pool.name: Slots(
                torch.zeros((answer.blocks[pool.name], _bytes(pool)), dtype=torch.uint8),
                pool.reserved_blocks,
            )
            for pool in problem.pools
        }
        self.requests: dict[str, Live] = {}
        self._marks = 0

    @property
    def bytes(self) -> int:
        """Of all tensors."""
        return sum(pool.data.numel() for pool in self.pools.values())

    def admit(self, name: str, tokens: int) -> None:
        """Let a request hold so many tokens, one after the other; or nothing at all."""
        self._marks += 1
        self.requests[name] = Live(self._marks % 255 + 1)
        try:
            self.grow(name, tokens)
        except OutOfBlocksError:
            self.retire(name)
            raise

    def resume(self, name: str, tokens: int) -> None:
        """Admit again: no pool may then be used beyond the share that resuming allows."""
        self.admit(name, tokens)
        for pool in self.problem.pools:
            slots = self.pools[pool.name]
            limit = Fraction(self.problem.resume_utilization) if pool.resume_headroom else 1
            if slots.used > limit * slots.usable:
                self.retire(name)
                raise OutOfBlocksError

    def grow(self, name: str, tokens: int) -> None:
        """Add tokens one at a time; blocks that no token to come can see are freed first."""
        live = self.requests[name]
        for cache in self.problem.caches:
            if cache.kind == "state":
                self._hold(live, cache, range(cache.blocks or 1))
        for _ in range(tokens):
            self._token(live)

    def _token(self, live: Live) -> None:
        position = live.tokens
        for cache in self.problem.caches:
            if cache.kind == "state":
                continue
            block = cache.tokens_per_block or self.problem.tokens_per_block
            held = live.held(cache.name)
            if cache.window is not None:
                first = max(0, position + 1 - cache.window)
                for index in [index for index in held if (index + 1) * block <= first]:
                    self.pools[self.problem.pool_of(cache)].give(held.pop(index), live.mark)
            self._hold(live, cache, [position // block])
        live.tokens += 1

    def _hold(self, live: Live, cache: Cache, indices: Any) -> None:
        held = live.held(cache.name)
        for index in indices:
            if index not in held:
                held[index] = self.pools[self.problem.pool_of(cache)].take(live.mark)

    def retire(self, name: str) -> None:
        """Give back all blocks of a request."""
        live = self.requests.pop(name)
        for cache in self.problem.caches:
            for block in live.held(cache.name).values():
                self.pools[self.problem.pool_of(cache)].give(block, live.mark)

    def resize(self, answer: Plan) -> None:
        """Move everything that lives here to pools of other sizes."""
        for name, pool in self.pools.items():
            places = list(self._places(name))
            marks = {held[index]: live.mark for live, held, index in places}
            moved = pool.resized(answer.blocks[name], list(marks), marks)
            for _, held, index in places:
                held[index] = moved[held[index]]

    def _places(self, pool: str) -> Iterator[tuple[Live, dict[int, int], int]]:
        for live in self.requests.values():
            for cache in self.problem.caches:
                if self.problem.pool_of(cache) == pool:
                    held = live.held(cache.name)
                    for index in held:
                        yield live, held, index


def _bytes(pool: Any) -> int:
    return sum(int(buffer.bytes) for buffer in pool.layout)
