"""What an explanation finds: a plan, where it changes, and what more bytes buy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.models import Plan
from kvplan.solver.explain.sensitivity.break_points import BreakPoint, Change, Worth


class Explained(NamedTuple):
    """A plan, the quotas at which it changes next, and what one GiB more would buy."""

    plan: Plan
    break_points: tuple[BreakPoint, ...]
    worth: tuple[Worth, ...]
    groups: Mapping[str, tuple[str, ...]]  # ranks by the name of the one that stands for them

    def as_dict(self) -> dict[str, Any]:
        """The machine-readable form; fractions of goals as text."""
        return {
            "status": self.plan.status,
            "plan": self.plan.model_dump(mode="json"),
            "break_points": [
                {"rank": point.rank, "bytes": point.bytes, "changes": _changes(point.changes)}
                for point in self.break_points
            ],
            "worth_of_1_gib": [
                {"rank": worth.rank, "changes": _changes(worth.changes)} for worth in self.worth
            ],
            "alike": {name: list(ranks) for name, ranks in self.groups.items()},
        }


def _changes(changes: tuple[Change, ...]) -> list[dict[str, str]]:
    return [
        {"goal": change.goal, "from": str(change.before), "to": str(change.after)}
        for change in changes
    ]
