"""Do several models fit on one card, and how long a context each: by turns, and alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvplan.models import Infeasible, Plan, Problem
from kvplan.models.engines.shared.joint_problem import (
    CARD,
    Sharing,
    joint_problem,
    own_rank,
    request_name,
)
from kvplan.models.engines.shared.part import Part, asked_tokens
from kvplan.models.engines.shared.starts import Start, starts_of
from kvplan.solver.floors import need
from kvplan.solver.solve.plan import plan

ALIKE, PARTS = "alike", 1000
"""Contexts shrink alike in steps of a thousandth of what was asked."""


@dataclass(frozen=True)
class Needed:
    """What one model needs as it was asked for.

    Attributes
    ----------
    cache_bytes, other_bytes : on the card: its caches, and everything beside them.
    found_bytes : what those before it leave of the card, or its own share where that is less.
    alone_short_bytes : what its own share, or the whole card alone, lacks; 0 where it would fit.
    """

    label: str
    cache_bytes: int
    other_bytes: int
    found_bytes: int
    alone_short_bytes: int

    @property
    def bytes(self) -> int:
        """All that it takes."""
        return self.cache_bytes + self.other_bytes

    @property
    def short_bytes(self) -> int:
        """What it lacks when its turn comes."""
        return max(0, self.bytes - self.found_bytes)


@dataclass(frozen=True)
class Together:
    """The answer.

    Attributes
    ----------
    problem : all models at once, as asked.
    plan : of it; None where they do not fit so.
    short_bytes : what the card lacks for all of them as asked; 0 where they fit.
    needed : by model.
    contexts : by column ("A first", "alike"), the tokens by label; a column is missing where not
        even one token of each fits.
    starts : as asked, else with the contexts of the sharing; empty where nothing fits.
    """

    problem: Problem
    plan: Plan | None
    short_bytes: int
    needed: tuple[Needed, ...]
    contexts: Mapping[str, Mapping[str, int]]
    starts: tuple[Start, ...]


def together(parts: Sequence[Part], sharing: Sharing) -> Together:
    """Plan several models on one card.

    Raises
    ------
    InvalidProblem : different cards.
    """
    problem = joint_problem(parts, sharing)
    answer = _planned(problem)
    contexts = dict(_contexts(parts, problem))
    asked = {part.label: asked_tokens(part) for part in parts}
    chosen, served = answer, asked
    if answer is None and contexts:
        first = next(iter(contexts.values()))
        served = contexts.get(ALIKE, first) if sharing == "joint" else first
        chosen = _planned(_with_lengths(problem, parts, served))
    starts = () if chosen is None else tuple(starts_of(parts, _bytes(parts, chosen), served))
    needs = need(problem).asked
    quota = problem.ranks[0].quota_bytes
    short = 0 if answer else max(0, max(needs.bytes[CARD].values()) - quota)
    return Together(problem, answer, short, _needed(parts, problem), contexts, starts)


def _needed(parts: Sequence[Part], problem: Problem) -> tuple[Needed, ...]:
    """Each model's floors in the order of the starts; what it lacks in its turn, and alone."""
    by_rank = need(problem).asked.pool_bytes
    charged = sum(sum(part.charges.values()) for part in parts)
    whole = left = problem.ranks[0].quota_bytes + charged
    quotas = {rank.name: rank.quota_bytes for rank in problem.ranks}
    found = []
    for part in parts:
        held = sum(n for name, n in by_rank[CARD].items() if name in pool_names(part))
        other = sum(part.charges.values())
        own = quotas.get(own_rank(part), whole - other) + other
        alone = max(0, held + other - own)
        found.append(Needed(part.label, held, other, min(left, own), alone))
        left = max(0, left - found[-1].bytes)
    return tuple(found)


def pool_names(part: Part) -> set[str]:
    """Names of a model's pools in the joint problem."""
    pools = part.problem.pools
    return {part.label} if len(pools) == 1 else {f"{part.label} {pool.name}" for pool in pools}


def _bytes(parts: Sequence[Part], answer: Plan) -> dict[str, int]:
    """Bytes of each model's caches on the card."""
    ledger = next(rank for rank in answer.ranks if rank.name == CARD).ledger
    rows = {row.consumer: row.bytes for row in ledger}
    return {part.label: sum(rows.get(name, 0) for name in pool_names(part)) for part in parts}


def _contexts(parts: Sequence[Part], problem: Problem) -> list[tuple[str, dict[str, int]]]:
    """Lengths with each model first in its turn, and alike."""
    own = [part for part in parts if not part.target]
    found = []
    for first in own:
        others = [part for part in own if part is not first]
        lengths = _in_turn(problem, [first, *others])
        if lengths is not None:
            found.append((f"{first.label} first", lengths))
    alike = _alike(problem, own) if len(own) > 1 else None
    return [*found, (ALIKE, alike)] if alike else found


def _in_turn(problem: Problem, order: Sequence[Part]) -> dict[str, int] | None:
    """The longest request of each in this order, whatever the later ones keep."""
    names = {part.label: _longest_name(part) for part in order}
    data = _data(problem)
    for request in data["batches"][0]["requests"]:
        if request["name"] in names.values() and request["capacity"] > 1:
            request["fit"] = "capacity"
            request.pop("history", None)
    fitted = [r["name"] for r in data["batches"][0]["requests"] if r.get("fit") == "capacity"]
    data["goals"] = [f"capacity:{names[p.label]}" for p in order if names[p.label] in fitted]
    data["fill"] = "none"
    answer = _planned(Problem.model_validate(data))
    if answer is None:
        return None
    held = {row.name: row.capacity for row in answer.requests}
    return {label: held[name] for label, name in names.items()}


def _longest_name(part: Part) -> str:
    requests = [one for batch in part.problem.batches for one in batch.requests]
    return request_name(part, max(requests, key=lambda one: one.capacity).name)


def _alike(problem: Problem, parts: Sequence[Part]) -> dict[str, int] | None:
    """The same share of what was asked for each, the largest that fits."""
    asked = {part.label: asked_tokens(part) for part in parts}
    least, most = 0, PARTS
    while least < most:
        middle = (least + most + 1) // 2
        lengths = {label: max(1, n * middle // PARTS) for label, n in asked.items()}
        if _planned(_with_lengths(problem, parts, lengths)) is None:
            most = middle - 1
        else:
            least = middle
    return {label: max(1, n * least // PARTS) for label, n in asked.items()} if least else None


def _with_lengths(problem: Problem, parts: Sequence[Part], lengths: Mapping[str, int]) -> Problem:
    """The problem with requests of these lengths, all of them fixed."""
    names = {_longest_name(part): lengths[part.label] for part in parts if not part.target}
    data = _data(problem)
    for request in data["batches"][0]["requests"]:
        if request["name"] in names:
            request["capacity"] = names[request["name"]]
            for key in ("fit", "history", "min_capacity"):
                request.pop(key, None)
    return Problem.model_validate(data)


def _data(problem: Problem) -> dict[str, Any]:
    data = problem.model_dump(mode="json", exclude_unset=True)
    for name in ("variants", "labels"):
        data.pop(name, None)
    return data


def _planned(problem: Problem) -> Plan | None:
    try:
        return plan(problem)
    except Infeasible:
        return None
