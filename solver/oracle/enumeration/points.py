"""The points of a small problem that are still optimal for all goals so far."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvplan.solver.oracle.byte_tables import Array
from kvplan.solver.oracle.enumeration.space import Space
from kvplan.solver.oracle.linear import Linear

Mask = npt.NDArray[np.bool_]


class Points:
    """Feasible points: a class of members, a setting, and blocks.

    Members of a class need the same blocks of every pool, have the same chunk, the same staging and
    the same raw needs wherever copies count: nothing that is measured in bytes or blocks tells them
    apart.

    A pool's blocks are either chosen (a point each) or the fewest legal ones. The fewest stand for
    all others as long as no goal or constraint has looked at the pool: bytes never fall as blocks
    are added (verified in `never_falling`), floors and copies only ask for at least so many, so
    a point has a completion if and only if it has one with the fewest.
    """

    def __init__(self, space: Space, copied: Sequence[str]) -> None:
        self.space = space
        least = space.least_counts()
        counts = np.array([len(table.usable) for table in space.pools], np.int64)
        self.alive = np.all(least < counts, axis=1)  # [member]
        raws = [column for name in copied for column in space.raws[name].T]
        self._classify([*least.T, space.place_of("prefill"), space.staged, *raws])
        self.chosen: set[int] = set()
        self._pair(least)

    def _classify(self, keys: Sequence[Array]) -> None:
        """Number the classes of alive members with equal keys; one member speaks for each."""
        living = np.flatnonzero(self.alive)
        group, speaker = grouped([key[living] for key in keys], len(living))
        self.kind = np.full(self.space.members, -1, np.int64)  # [member]
        self.kind[living] = group
        self.speaker = living[speaker]  # [class]

    def _pair(self, least: Array) -> None:
        space, classes = self.space, len(self.speaker)
        space.check_size(classes, len(space.settings.all))
        used = space.staging[space.staged[self.speaker]]  # [class, budget]
        for index, table in enumerate(space.pools):
            used = used + table.bytes[least[self.speaker, index]]
        both = used[:, None, :] + space.settings.table[None, :, :]
        self.of, self.setting = np.nonzero(np.all(both <= space.limits, axis=2))  # [point]
        self.used = both[self.of, self.setting]  # [point, budget]
        self.counts = least[self.speaker[self.of]]  # [point, pool]
        self._bury()

    def __len__(self) -> int:
        return len(self.of)

    def copy(self) -> Points:
        """The same points, to be narrowed apart."""
        twin = copy.copy(self)
        twin.alive, twin.speaker = self.alive.copy(), self.speaker.copy()
        twin.counts, twin.chosen = self.counts.copy(), set(self.chosen)
        return twin

    def take(self, which: Array | Mask) -> None:
        """Go on with some of the points (a mask, or indices with repetitions)."""
        self.of, self.setting = self.of[which], self.setting[which]
        self.used, self.counts = self.used[which], self.counts[which]

    def keep(self, mask: Mask) -> None:
        """Drop points, and members without any."""
        self.take(mask)
        self._bury()

    def keep_members(self, mask: Mask) -> None:
        """Drop members, and points without any."""
        self.alive &= mask
        present = np.zeros(len(self.speaker), np.bool_)
        present[self.kind[self.alive]] = True
        living = np.flatnonzero(self.alive)
        self.speaker[self.kind[living]] = living
        self.take(present[self.of])

    def _bury(self) -> None:
        present = np.zeros(len(self.speaker) + 1, np.bool_)  # the last: members of no class
        present[self.of] = True
        self.alive &= present[self.kind]

    def split(self, figure: Array) -> None:  # [member]
        """Split the classes so that a figure is the same for all members of one."""
        parent = self.kind
        self._classify([parent, figure])
        children = parent[self.speaker]  # [class]: the class it was part of
        order = np.argsort(children, kind="stable")
        number = np.bincount(children, minlength=int(self.of.max(initial=0)) + 1)
        first = np.cumsum(number) - number
        copies = number[self.of]
        self.space.check_size(int(copies.sum()))
        place = np.arange(int(copies.sum())) - np.repeat(np.cumsum(copies) - copies, copies)
        new = order[np.repeat(first[self.of], copies) + place]
        self.take(np.repeat(np.arange(len(self.of)), copies))
        self.of = new

    def choose(self, pool: int) -> None:
        """Give every legal count of a pool a point of its own."""
        if pool in self.chosen:
            return
        self.chosen.add(pool)
        table = self.space.pools[pool].bytes
        fewest = int(self.counts[:, pool].min(initial=len(table)))
        index = np.arange(fewest, len(table))
        self.space.check_size(len(self), len(index))
        fits = index[None, :] >= self.counts[:, pool, None]  # [point, count]
        base = self.used - table[self.counts[:, pool]]
        for budget, limit in enumerate(self.space.limits):
            fits &= base[:, budget, None] + table[None, fewest:, budget] <= limit
        point, place = np.nonzero(fits)
        self.take(point)
        self.counts[:, pool] = index[place]
        self.used = base[point] + table[index[place]]

    def raise_copies(self, batch: str) -> int:
        """Keep the points with the most whole copies of a batch; floors rise to hold them.

        Copies ask each pool for at least so many blocks, so the fewest stand for all again.
        """
        raw = self.space.raws[batch][self.speaker[self.of]]  # [point, pool]
        in_use = np.array([table.in_use.max(initial=0) for table in self.space.pools], np.int64)
        most = np.where(raw > 0, in_use // np.maximum(raw, 1), in_use.max()).min(axis=1)
        most[~raw.any(axis=1)] = 0
        for copies in range(int(most.max()), -1, -1):
            self.space.check_size(len(self))
            counts, used, fits = self.holding(
                raw * copies, [table.in_use for table in self.space.pools]
            )
            fits &= most >= copies
            if fits.any():
                self.counts, self.used = counts, used
                self.keep(fits)
                return copies
        raise AssertionError("a feasible point holds no copies, not even none")

    def holding(self, needed: Array, held: Sequence[Array]) -> tuple[Array, Array, Mask]:
        """Fewest counts [point, pool] that hold so many blocks; bytes, and where they fit.

        Parameters
        ----------
        held : by pool, what each count holds: usable blocks, or those that may be in use.
        """
        counts, used = self.counts.copy(), self.used
        fits = np.ones(len(self), np.bool_)
        for pool, table in enumerate(self.space.pools):
            own = self.counts[:, pool]
            least = np.maximum(np.searchsorted(held[pool], needed[:, pool]), own)
            fits &= least < len(table.usable)
            if pool in self.chosen:
                fits &= least == own
            counts[:, pool] = np.minimum(least, len(table.usable) - 1)
            used = used + table.bytes[counts[:, pool]] - table.bytes[own]
        return counts, used, fits & np.all(used <= self.space.limits, axis=1)

    def copies_of(self, batch: str) -> Array:  # [point]
        """Whole copies of a batch that the blocks of every point hold; 0 of an empty one."""
        raw = self.space.raws[batch][self.speaker[self.of]]
        most = np.full(len(self), np.iinfo(np.int64).max, np.int64)
        for pool, table in enumerate(self.space.pools):
            needed = raw[:, pool]
            held = table.in_use[self.counts[:, pool]] // np.maximum(needed, 1)
            most = np.where(needed > 0, np.minimum(most, held), most)
        return np.where(raw.any(axis=1), most, 0)

    def open(self, form: Linear) -> None:
        """Tell apart all points between which a form may differ."""
        self.part(form)
        for name in form.named("blocks"):
            self.choose(self.space.pool_index(name))
        for name in form.named("copies"):
            # Any pool that the batch draws on can be the one that limits the copies.
            for pool in np.flatnonzero(self.space.raws[name].any(axis=0)):
                self.choose(int(pool))

    def part(self, form: Linear) -> None:
        """Tell apart all members between which a form may differ."""
        if form.of_members.weights:
            self.split(self._of_members(form.of_members)[0])

    def measure(self, form: Linear) -> tuple[Array, int]:
        """Value of a form, times its common denominator.

        At every member where nothing but requests and the chunk decides, else at every point (which
        must have been opened).
        """
        return self._of_members(form) if form.members_alone else self._of_points(form)

    def keep_where(self, form: Linear, mask: Mask) -> None:
        """Keep what a mask over `measure(form)` says."""
        if form.members_alone:
            self.keep_members(mask)
        else:
            self.keep(mask)

    def reach(self, form: Linear) -> tuple[Array, Array, int]:
        """Bounds on a form at every point, whatever more blocks its pools are given."""
        scale, tables = form.scaled({name: self.space.values_of(name) for name in form.weights})
        low = high = np.zeros(len(self), np.int64)
        for variable, line in tables.items():
            at, least, most = self._place(variable), line, line
            if variable.startswith(("blocks:", "copies:")):
                least = np.minimum.accumulate(line[::-1])[::-1]
                most = np.maximum.accumulate(line[::-1])[::-1]
            low, high = low + least[at], high + most[at]
        return low, high, scale

    def _of_points(self, form: Linear) -> tuple[Array, int]:
        scale, tables = form.scaled({name: self.space.values_of(name) for name in form.weights})
        total = np.zeros(len(self), np.int64)
        for variable, line in tables.items():
            total = total + line[self._place(variable)]
        return total, scale

    def _place(self, variable: str) -> Array:  # [point]
        """Where every point stands in the domain of a variable."""
        kind, _, name = variable.partition(":")
        if kind == "blocks":
            return self.counts[:, self.space.pool_index(name)]
        if kind == "copies":
            return self.copies_of(name)
        if kind in ("experts", "choice"):
            return self.setting
        return self.space.place_of(variable)[self.speaker[self.of]]

    def _of_members(self, form: Linear) -> tuple[Array, int]:
        space = self.space
        scale, tables = form.scaled({name: space.values_of(name) for name in form.weights})
        total = np.zeros(space.members, np.int64)
        for variable, line in tables.items():
            total = total + line[space.place_of(variable)]
        return total, scale


def grouped(keys: Sequence[Array], length: int) -> tuple[Array, Array]:
    """Number of the group of every line with equal keys, and one line of each group."""
    joint, size = np.zeros(length, np.int64), 1
    for key in keys:
        low, high = (int(key.min()), int(key.max())) if length else (0, 0)
        if size * (high - low + 1) >= 2**62:
            joint = np.unique(joint, return_inverse=True)[1].reshape(-1)
            size = length
        joint = joint * (high - low + 1) + (key - low)
        size *= high - low + 1
    _, speaker, group = np.unique(joint, return_index=True, return_inverse=True)
    return group.reshape(-1), speaker
