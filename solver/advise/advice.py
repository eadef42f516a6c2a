"""Better engine settings: more requests in the same bytes, and how many more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from kvplan.models.demands import Batch, Request
from kvplan.models.errors import Infeasible
from kvplan.models.goals import Fill, Goal
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem
from kvplan.models.ranks import at_rank
from kvplan.models.units import human_bytes
from kvplan.solver.solve.plan import plan

MEAN = "mean"
MOST_DIGITS = 15


@dataclass(frozen=True)
class Advice:
    """The better setting of one engine.

    Attributes
    ----------
    flags : what to paste, by flag; empty where the engine's own setting is already the best.
    before, after : rows of the table, by label; both from the engine's own rules, the second with
        the flags laid over.
    requests : of the mean length that fit at once, before and after.
    bound : the most that any split of the same bytes holds, proven.
    left_out : what the estimate does not count.
    """

    flags: Mapping[str, str]
    before: Mapping[str, str]
    after: Mapping[str, str]
    requests: tuple[int, int]
    bound: int
    left_out: tuple[str, ...]

    @property
    def gain(self) -> Fraction | None:
        """Requests after over requests before; None where none fitted before."""
        before, after = self.requests
        return Fraction(after, before) if before else None


def serving(problem: Problem, mean_tokens: int) -> Problem:
    """Ask the pools of a problem for as many requests of one length as fit at once."""
    request = Request(name=MEAN, capacity=mean_tokens, fit="count")
    goals = (Goal.model_validate(f"count:{MEAN}"),)
    tokens = tuple(dict.fromkeys(problem.pool_of(c) for c in problem.caches if c.kind != "state"))
    fill = Fill(pools=tokens) if tokens else Fill.model_validate("none")
    return _checked(
        problem, batches=(Batch(name=MEAN, requests=(request,)),), goals=goals, fill=fill
    )


def held(problem: Problem, answer: Plan, mean_tokens: int) -> int:
    """Requests of one length that a plan's blocks hold at once; 0 where not one fits."""
    pools = tuple(
        pool.model_copy(
            update={
                "min_blocks": answer.blocks[pool.name] - pool.reserved_blocks,
                "max_blocks": answer.blocks[pool.name] - pool.reserved_blocks,
                "multiple_of": 1,
            }
        )
        for pool in problem.pools
    )
    return most(serving(_checked(problem, pools=pools, constraints=()), mean_tokens))


def most(problem: Problem) -> int:
    """Requests that `serving` found room for; 0 where not one fits."""
    try:
        return plan(problem).requests[0].count
    except Infeasible:
        return 0


def idle_text(problem: Problem, answer: Plan, pool: str, used: int) -> str:
    """Blocks of a pool that `used` blocks leave idle, and their bytes on the first rank."""
    entry = next(one for one in problem.pools if one.name == pool)
    idle = answer.blocks[pool] - entry.reserved_blocks - used
    each = sum(at_rank(buffer.bytes, problem.ranks[0]) for buffer in entry.layout)
    return f"{idle} blocks ({human_bytes(idle * each)})"


def decimals(least: Fraction) -> list[str]:
    """Decimals from `least` on, rounded up, with one digit more each."""
    texts = []
    for digits in range(2, MOST_DIGITS + 1):
        scaled = -(-least.numerator * 10**digits // least.denominator)
        texts.append(f"{scaled // 10**digits}.{scaled % 10**digits:0{digits}d}")
    return texts


def _checked(problem: Problem, **changes: object) -> Problem:
    kept = {name: getattr(problem, name) for name in type(problem).model_fields}
    return Problem.model_validate(kept | changes)
