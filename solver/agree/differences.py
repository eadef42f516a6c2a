"""Which ranks differ: views and outcomes of all ranks against the majority's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import TypeVar

from kvplan.models import AgreementFailed
from kvplan.solver.agree.message import Told

Value = TypeVar("Value", bound=Hashable)


def check_views(told: Mapping[int, Told]) -> None:
    """Raise AgreementFailed naming every rank that failed, or that asks something else."""
    failed = {rank: view.error for rank, view in told.items() if view.error}
    if failed:
        lines = [f"{label(rank, told)}: {error}" for rank, error in failed.items()]
        raise AgreementFailed(lines, sorted(failed))
    odd = dict(_oddities(told))
    if odd:
        raise AgreementFailed(list(odd.values()), sorted(odd))


def label(rank: int, told: Mapping[int, Told]) -> str:
    """A rank by number and, where it has told one, by name."""
    entry = told[rank].rank if rank in told else None
    return f"rank {rank}" if entry is None else f"rank {rank} ({entry.name})"


def _oddities(told: Mapping[int, Told]) -> Iterator[tuple[int, str]]:
    """One line for each rank whose settings or problem differ from the majority's."""
    usual = _majority({rank: _settings(view) for rank, view in told.items()})
    common = dict(_majority({rank: _sections(view) for rank, view in told.items()}))
    for rank, view in told.items():
        parts = [
            f"{name} {value} where the others have {dict(usual).get(name, 'none')}"
            for name, value in _settings(view)
            if dict(usual).get(name) != value
        ]
        names = {*view.sections, *common}
        other = sorted(n for n in names if view.sections.get(n) != common.get(n))
        if other:
            parts.append(f"another problem: {', '.join(other)} unlike the others")
        if parts:
            yield rank, f"{label(rank, told)} has {'; '.join(parts)}"


def _settings(view: Told) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(view.settings.items()))


def _sections(view: Told) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(view.sections.items()))


def _majority(values: Mapping[int, Value]) -> Value:
    """The value of most ranks; of equally many, that of the lowest rank."""
    counts = Counter(values[rank] for rank in sorted(values))
    return counts.most_common(1)[0][0]


def check_outcomes(outcomes: Mapping[int, str], told: Mapping[int, Told]) -> None:
    """Raise AgreementFailed when ranks came to different outcomes."""
    if len(set(outcomes.values())) <= 1:
        return
    usual = _majority(outcomes)
    odd = {rank: outcome for rank, outcome in outcomes.items() if outcome != usual}
    lines = [f"{label(rank, told)} came to {outcome}" for rank, outcome in odd.items()]
    raise AgreementFailed([*lines, f"the others came to {usual}"], sorted(odd))
