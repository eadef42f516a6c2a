"""Placement as an integer program: the second opinion, and what solves where the path is no proof.

y[l, s] = 1 where slot l lies on space s or a later one: falling along the spaces, rising along the
slots, so no symmetry of layers is left. Experts by count: a kind is (layer kind, bytes, reads), and
e[s, t, k] of those in the slice of s lie on t. Which layer keeps them changes no byte and no time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from ortools.sat.python import cp_model

from kvplan.models.errors import SolverError
from kvplan.solver.cpsat.configurations import Configuration, configured
from kvplan.solver.place.search.spread import Slot, Spread, Spreading, Tensor

SLICE = 12.0
Kind = tuple[tuple[Tensor, ...], Tensor]


class Row(NamedTuple):
    """least <= sum of coefficient x (layers or experts) of a space <= most."""

    layers: tuple[int, ...]  # coefficients by space
    experts: tuple[int, ...]
    least: int | None = None
    most: int | None = None


class SpreadProgram:
    """Variables and rows of a placement program."""

    def __init__(self, spread: Spread, rows: Iterable[Row] = ()) -> None:
        self.spread, self.model, self.clock = spread, cp_model.CpModel(), spread.clock()
        self.places = range(len(spread.spaces))
        self.kinds: list[Kind] = list(
            dict.fromkeys((slot.experts, t) for slot in spread.slots for t in slot.experts)
        )
        self.from_ = self._slices()
        self.used = [self._used(at) for at in self.places]
        self.moved = self._experts()
        self.based = [self._based(at) for at in self.places]
        self.apart = [self._apart(at) for at in self.places] if spread.hop else []
        for at in self.places:
            self._room(at)
        for row in rows:
            self._row(row)

    def _slices(self) -> list[list[Any]]:
        """y: falling along the spaces, rising along the slots."""
        found: list[list[Any]] = []
        for _ in self.spread.slots:
            later = [self.model.new_bool_var("") for _ in self.places[1:]]
            for one, other in pairwise(later):
                self.model.add_implication(other, one)
            if found:
                for before, after in zip(found[-1][1:-1], later, strict=True):
                    self.model.add_implication(before, after)
            found.append([1, *later, 0])
        return found

    def on(self, slot: int, at: int) -> Any:
        """Whether a slot lies on a space."""
        return self.from_[slot][at] - self.from_[slot][at + 1]

    def over(self, at: int, weights: Iterable[int]) -> Any:
        """Sum of a weight over the slots of a space."""
        return sum(w * self.on(slot, at) for slot, w in enumerate(weights) if w)

    def _used(self, at: int) -> Any:
        """Whether a space holds a slot; its last slot is the one that may be."""
        used = self.model.new_bool_var("")
        for slot in range(len(self.from_)):
            self.model.add(used >= self.on(slot, at))
        self.model.add(used <= sum(self.on(slot, at) for slot in range(len(self.from_))))
        return used

    def _experts(self) -> dict[tuple[int, int, int], Any]:
        """e by (slice, space, kind); the host takes what is left."""
        spread, found = self.spread, dict[tuple[int, int, int], Any]()
        for k, kind in enumerate(self.kinds):
            numbers = [_number(slot, kind) for slot in spread.slots]
            for own in self.places:
                mine = self.over(own, numbers)
                kept: Any = 0
                for at in spread.may_hold(own):
                    found[own, at, k] = self.model.new_int_var(0, sum(numbers), "")
                    kept += found[own, at, k]
                if spread.host is None:
                    self.model.add(kept == mine)
                elif spread.may_hold(own):
                    self.model.add(kept <= mine)
        return found

    def _based(self, at: int) -> Any:
        """Whether a space holds a slot or an expert, and so takes its base."""
        if not self.spread.spaces[at].base:
            return self.used[at]
        based = self.model.new_bool_var("")
        self.model.add_implication(self.used[at], based)
        for k in range(len(self.kinds)):
            held, most = self._in_use(at, k), sum(len(slot.experts) for slot in self.spread.slots)
            self.model.add(held <= most * based)
        return based

    def _held(self, at: int, k: int) -> Any:
        """Experts of a kind on a space; on the host those that no card keeps."""
        if at == self.spread.host and self.spread.mirror:
            return sum(_number(slot, self.kinds[k]) for slot in self.spread.slots)
        return self._in_use(at, k)

    def _in_use(self, at: int, k: int) -> Any:
        """The same without copies that a mirror holds: no token reads them."""
        if at != self.spread.host:
            return self.kept(at, k)
        whole = sum(_number(slot, self.kinds[k]) for slot in self.spread.slots)
        return whole - sum(self.kept(card, k) for card in self.spread.cards)

    def kept(self, at: int, k: int) -> Any:
        """Experts of a kind on a card, whatever their slice."""
        return sum(self.moved[own, at, k] for own in self.places if at in self.spread.may_hold(own))

    def _apart(self, own: int) -> Any:
        """Layers of a slice with an expert elsewhere: of each kind of layer, the most missing."""
        total: Any = 0
        for layer in dict.fromkeys(kind[0] for kind in self.kinds):
            if own == self.spread.host:
                continue
            most = sum(slot.experts == layer for slot in self.spread.slots)
            apart = self.model.new_int_var(0, most, "")
            for tensor, each in Counter(layer).items():
                k = self.kinds.index((layer, tensor))
                numbers = [_number(slot, self.kinds[k]) for slot in self.spread.slots]
                missing = self.over(own, numbers) - self.moved[own, own, k]
                self.model.add(each * apart >= missing)
            total += apart
        return total

    def within(self, ends: Sequence[tuple[int, int]]) -> None:
        """Let the first slot behind each slice lie between two."""
        for at, (least, most) in enumerate(ends[:-1]):
            for slot in range(least):
                self.model.add(self.from_[slot][at + 1] == 0)
            for slot in range(most, len(self.from_)):
                self.model.add(self.from_[slot][at + 1] == 1)

    def _room(self, at: int) -> None:
        """Slots, experts and the base of a used space within its room, and in load."""
        spread, space = self.spread, self.spread.spaces[at]
        experts: Any = 0
        for k, (_, tensor) in enumerate(self.kinds):
            experts += tensor.bytes * self._held(at, k)
        base = space.base * self.based[at]
        held = self.over(at, (slot.held for slot in spread.slots)) + experts + base
        self.model.add(held <= space.room)
        if space.load_room < space.room or at == spread.host:
            fixed = self.over(at, (slot.fixed for slot in spread.slots)) + experts + base
            self.model.add(fixed <= space.load_room)

    def _row(self, row: Row) -> None:
        layers = [slot.is_layer for slot in self.spread.slots]
        told: Any = sum(c * self.over(at, layers) for at, c in enumerate(row.layers) if c)
        for at, coefficient in enumerate(row.experts):
            if coefficient and at != self.spread.host:
                told += coefficient * sum(self.kept(at, k) for k in range(len(self.kinds)))
        if row.least is not None:
            self.model.add(told >= row.least)
        if row.most is not None:
            self.model.add(told <= row.most)

    def objective(self, name: str) -> Any:
        """What an objective minimises."""
        spread, host = self.spread, self.spread.host
        if name == "layers_on_gpu":
            layers = (slot.is_layer for slot in spread.slots)
            return 0 if host is None else self.over(host, layers)
        every = sum(len(slot.experts) for slot in spread.slots)
        if name == "experts_on_gpu":
            return every - sum(self.moved.values())
        if name == "spaces":
            return sum(self.used)
        return self._time()

    def _time(self) -> Any:
        """Ticks a token: slots, experts on the host less what cards save, hops."""
        spread, clock, total = self.spread, self.clock, 0
        for at in self.places:
            total += self.over(at, (clock.of(at, slot.read) for slot in spread.slots))
        if spread.host is not None:
            tensors = (tensor for slot in spread.slots for tensor in slot.experts)
            total += sum(clock.of_tensor(spread.host, tensor) for tensor in tensors)
        for (_, at, k), var in self.moved.items():
            tensor = self.kinds[k][1]
            away = 0 if spread.host is None else clock.of_tensor(spread.host, tensor)
            total += (clock.of_tensor(at, tensor) - away) * var
        if spread.hop:
            total += clock.hop * (sum(self.used) - 1 + 2 * sum(self.apart))
        return total

    def hint(self, answer: Spreading) -> None:
        """Start from an answer, expert counts included: without them a hint does not help."""
        own = answer.spaces()
        counts = Counter(
            (own[slot], place, self.kinds.index((each.experts, tensor)))
            for slot, each in enumerate(self.spread.slots)
            for tensor, place in zip(each.experts, answer.experts[slot], strict=True)
        )
        self.model.clear_hints()
        for slot, variables in enumerate(self.from_):
            for at in self.places[1:]:
                self.model.add_hint(variables[at], own[slot] >= at)
        held = {*own}.union(*answer.experts)
        for at, (used, based) in enumerate(zip(self.used, self.based, strict=True)):
            self.model.add_hint(used, at in own)
            if based is not used:
                self.model.add_hint(based, at in held)
        for key, var in self.moved.items():
            self.model.add_hint(var, counts[key])

    def read(self, solver: cp_model.CpSolver) -> Spreading:
        """Write the solution out: kinds by number, early layers of a slice keep theirs."""
        own = [sum(solver.value(v) for v in row[1:-1]) for row in self.from_]
        left = {key: solver.value(var) for key, var in self.moved.items()}
        experts = []
        for slot, at in zip(self.spread.slots, own, strict=True):
            experts.append(tuple(self._taken(left, slot, tensor, at) for tensor in slot.experts))
        numbers = [own.count(at) for at in self.places]
        return Spreading(tuple(accumulate(numbers)), tuple(experts))

    def _taken(self, left: dict[tuple[int, int, int], int], slot: Slot, t: Tensor, own: int) -> int:
        """Own card first, then the others, then the host."""
        k = self.kinds.index((slot.experts, t))
        for at in sorted(self.spread.may_hold(own), key=lambda place: place != own):
            if left[own, at, k]:
                left[own, at, k] -= 1
                return at
        assert self.spread.host is not None
        return self.spread.host


def _number(slot: Slot, kind: Kind) -> int:
    """Tensors of a kind in a slot."""
    return slot.experts.count(kind[1]) if slot.experts == kind[0] else 0


def best_spreading(
    spread: Spread,
    start: Spreading | None = None,
    rows: Iterable[Row] = (),
    *,
    ends: Sequence[tuple[int, int]] = (),
    least: int | None = None,
    slice_time: float = SLICE,
) -> Spreading | None:
    """The best answer, objective after objective; None where there is none, proven.

    `is_proven` says whether every objective was closed in time; else it is the best so far.

    Parameters
    ----------
    ends : first and last slot behind each slice of what is asked for; empty: any.
    least : no answer has less of the first objective.

    Raises
    ------
    SolverError : CP-SAT found nothing in time, and `start` is None.
    """
    rows = tuple(rows)
    program, answer, proven = SpreadProgram(spread, rows), start, True
    program.within(ends)
    if least is not None and spread.objectives:
        program.model.add(program.objective(spread.objectives[0]) >= least)
    for name in (*spread.objectives, "spaces"):
        form = program.objective(name)
        program.model.minimize(form)
        if answer is not None:
            program.hint(answer)
        found, value, closed = _solved(program, form, slice_time)
        if found is None:
            if closed:
                return None
            if answer is None:
                raise SolverError("cp-sat found no placement and ruled none out in time")
            proven = False
            break
        answer, proven = found, proven and closed
        if not proven:
            break
        program.model.clear_objective()
        program.model.add(form <= value)
    return None if answer is None else answer._replace(is_proven=proven)


def _solved(
    program: SpreadProgram, form: Any, slice_time: float
) -> tuple[Spreading | None, int, bool]:
    """The best solution found, its value, and whether nothing is better (or there is none)."""
    best: Spreading | None = None
    value = 0
    for configuration in (Configuration.PRESOLVE, Configuration.LP_SEARCH):
        if best is not None:
            program.hint(best)
        solver = configured(slice_time / 2, 5 * slice_time, configuration)
        status = solver.solve(program.model)
        if status == cp_model.INFEASIBLE:
            return None, 0, True
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            best, value = program.read(solver), solver.value(form)
        if status == cp_model.OPTIMAL:
            return best, value, True
    return best, value, False
