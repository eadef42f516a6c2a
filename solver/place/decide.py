"""One placement at fixed values: the path where it is a proof, else CP-SAT from it; or stages."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from kvplan.models.errors import InvalidProblem
from kvplan.solver.formulate.objectives import linear_constraint
from kvplan.solver.place.search.device_order import best_order
from kvplan.solver.place.search.pipeline_stages import Pipeline, Reach, Stages, evened
from kvplan.solver.place.search.slices import shortest
from kvplan.solver.place.search.spread import (
    Cost,
    Objective,
    Spread,
    Spreading,
    measure,
)
from kvplan.solver.place.slot_program import Program, Values
from kvplan.solver.place.within_cuts import best_within

if TYPE_CHECKING:
    from kvplan.solver.cpsat.place_program import Row


MOST_COUNTS = 20_000  # variables for experts of a kind, by slice and space


class Decision(NamedTuple):
    """A placement at some values.

    Attributes
    ----------
    order : positions of the ranks, in slice order.
    ends : first slot behind each slice.
    experts : by layer, the place in `order` of each tensor.
    """

    order: tuple[int, ...]
    ends: tuple[int, ...]
    experts: tuple[tuple[int, ...], ...]
    cost: Cost
    pipelined: bool = False


class Decide:
    """Placements of one program; remembers whether each answer was a proof."""

    def __init__(
        self,
        program: Program,
        *,
        use_cpsat: bool = False,
        partition: tuple[int, ...] | None = None,
    ) -> None:
        self.program, self.use_cpsat, self.partition = program, use_cpsat, partition
        self.all_proven = True
        self.used_cpsat = False
        self.gap = Fraction(0)
        self._known: dict[object, Decision | None] = {}

    def __call__(
        self, values: Values, objectives: tuple[Objective, ...], *, pipelined: bool = False
    ) -> Decision | None:
        """The best placement; None where none fits. Remembered.

        Parameters
        ----------
        pipelined : every slot on a card and every expert with its layer, with the copies.
        """
        key = (values, objectives, pipelined, tuple(self.program.more.items()))
        if key not in self._known:
            self._known[key] = self._decided(values, objectives, pipelined=pipelined)
        return self._known[key]

    def _decided(
        self, values: Values, objectives: tuple[Objective, ...], *, pipelined: bool
    ) -> Decision | None:
        if self.program.place.is_staged and not self.program.place.read:
            return self._staged(values, evenly=True)
        spread = self.program.spread(values, objectives, pipelined=pipelined)
        if spread is None:
            return None
        if pipelined:
            spread = _without_host(spread)
        answer = self.best(spread)
        if answer is None:
            return None
        cost = measure(spread, answer).cost(objectives)
        ends, experts = answer.ends, answer.experts
        if pipelined and self.program.host is not None:
            ends, experts = _with_host(answer, self.program.host)
        return Decision(tuple(self.program.order), ends, experts, cost, pipelined)

    def fits(self, values: Values) -> bool:
        """Whether some placement fits."""
        if self.program.place.is_staged and not self.program.place.read:
            return self._staged(values, evenly=False) is not None
        spread = self.program.spread(values, ("experts_on_gpu",))
        return spread is not None and self.best(spread, any_answer=True) is not None

    def best(self, spread: Spread, *, any_answer: bool = False) -> Spreading | None:
        """The best answer of a program, or any that fits; None where there is none."""
        rows = self._rows([space.name for space in spread.spaces])
        found = shortest(spread)
        start = None if rows else found.answer
        enough = found.is_proof or (any_answer and start is not None)
        if enough and not self.use_cpsat and not rows:
            return found.answer
        if any_answer:
            spread = spread._replace(objectives=())
        if start is not None and _is_beyond_cpsat(spread) and not rows:
            self.all_proven = False
            return start
        from kvplan.solver.cpsat.place_program import best_spreading

        self.used_cpsat = True
        is_bounded = spread.host is not None and spread.reach != "own" and bool(spread.objectives)
        if is_bounded and start is not None and not (self.use_cpsat or rows):
            answer: Spreading | None = best_within(spread, start)
        else:
            answer = best_spreading(spread, start, rows)
        self.all_proven &= answer is None or answer.is_proven
        self.gap = Fraction(0) if answer is None else answer.gap
        return answer

    def _rows(self, names: list[str]) -> tuple[Row, ...]:
        """Linear rows on layers and experts, by place among some spaces."""
        problem = self.program.problem
        if not problem.constraints:
            return ()
        from kvplan.solver.cpsat.place_program import Row

        every = [rank.name for rank in problem.ranks]
        found = []
        for constraint in problem.constraints:
            from kvplan.kernels.instance import Variable

            known = {
                f"{kind}:{name}": (Variable(kind, at), -1)
                for kind in ("layers", "experts")
                for at, name in enumerate(every)
            }
            row = linear_constraint(constraint, known)
            sums = {kind: [0] * len(every) for kind in ("layers", "experts")}
            for coefficient, variable, _ in row.members:
                sums[variable.kind][variable.position] += coefficient
            layers, experts = ([sums[kind][every.index(n)] for n in names] for kind in sums)
            found.append(Row(tuple(layers), tuple(experts), row.least, row.most))
        return tuple(found)

    def _staged(self, values: Values, *, evenly: bool) -> Decision | None:
        """Stages: the longest prefixes, or the most even ones, in order or in any."""
        stages = self.program.stages(values)
        if stages is None:
            return None
        if self.program.problem.constraints:
            return self._staged_under_rows(stages)
        line, order = Pipeline(stages), tuple(range(len(stages.limits)))
        if self.partition is not None:
            held = self._holds(line, self.partition)
            return self._stage_decision(order, self.partition) if held else None
        cuts = Reach(line, 1).cuts(order, line.layers[-1])
        if not cuts.fits and self.program.place.order == "any":
            found = best_order(stages)
            if found is None or found[1].blocks < 1:
                return None
            order = found[0]
        elif not cuts.fits:
            return None
        counts = evened(line, order, 1) if evenly else ()
        return self._stage_decision(order, counts)

    def _holds(self, line: Pipeline, counts: tuple[int, ...]) -> bool:
        """Whether a given partition fits."""
        start, last, held = 0, len(counts) - 1, []
        for at, count in enumerate(counts):
            ends = (start, start + count)
            held.append(line.blocks(*ends, at, first=not at, last=at == last))
            start += count
        return all(blocks is None or blocks >= 1 for blocks in held)

    def _staged_under_rows(self, stages: Stages) -> Decision | None:
        """The same under linear rows, by CP-SAT."""
        from kvplan.solver.cpsat.stages import LayerRow, even_partition

        if self.program.place.order == "any":
            raise InvalidProblem.at("place.order", "an order beside constraints", '"any"')
        self.used_cpsat = True
        names = [self.program.problem.ranks[rank].name for rank in self.program.order]
        rows = [LayerRow(row.layers, row.least, row.most) for row in self._rows(names)]
        order = tuple(range(len(stages.limits)))
        counts = even_partition(stages, order, 1, rows)
        return None if counts is None else self._stage_decision(order, counts)

    def _stage_decision(self, order: tuple[int, ...], counts: tuple[int, ...]) -> Decision:
        program, ends, total = self.program, [], 0
        for count in counts:
            total += count
            ends.append(total)
        ranks = tuple(program.order[at] for at in order)
        return Decision(ranks, tuple(ends), tuple(() for _ in program.runs), ())


def _is_beyond_cpsat(spread: Spread) -> bool:
    """Whether the integer program would take longer to build than there is time."""
    kinds = {(id(slot.experts), tensor) for slot in spread.slots for tensor in slot.experts}
    return len(kinds) * len(spread.spaces) ** 2 > MOST_COUNTS


def _without_host(spread: Spread) -> Spread:
    """Cards alone, each expert with its layer."""
    spaces = tuple(spread.spaces[at] for at in spread.cards)
    return spread._replace(spaces=spaces, host=None, reach="own")


def _with_host(answer: Spreading, host: int) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """An answer on cards alone, with the host's empty slice in its place."""
    ends = list(answer.ends)
    ends.insert(host, ends[host - 1] if host else 0)
    experts = tuple(tuple(at + (at >= host) for at in lies) for lies in answer.experts)
    return tuple(ends), experts
