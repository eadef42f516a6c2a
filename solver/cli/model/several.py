"""`kvplan model A.json --and B.json`: several models on one card, as text or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from kvplan.models import InvalidProblem
from kvplan.models.engines.architecture import load_model
from kvplan.models.engines.command_line.typed import (
    Budget,
    check_order,
    config_overrides,
    typed_settings,
)
from kvplan.models.engines.registry import engine_named
from kvplan.models.engines.shared.joint_problem import Sharing
from kvplan.models.engines.shared.part import Part, asked_tokens, check_engine, part_of
from kvplan.models.messages import shown
from kvplan.solver.advise.several_models import Together, together
from kvplan.solver.cli.model.model_groups import AND, DRAFT, Group
from kvplan.solver.cli.model.model_settings import engine_of
from kvplan.solver.cli.model.model_text import assumed_text
from kvplan.solver.cli.model.several_text import together_text
from kvplan.solver.report.problem_text import problem_text

if TYPE_CHECKING:
    from collections.abc import Mapping

SHARINGS: tuple[Sharing, ...] = ("joint", "priority")
_CARD = ("gpu", "total")


def print_several(groups: Sequence[Group], sharing: str | None, *, as_json: bool) -> int:
    """Print whether the models of all groups fit together, and how long a context each.

    Raises
    ------
    InvalidProblem : a group that cannot be read, or models that one card is not planned for.
    """
    if sharing not in (None, *SHARINGS):
        raise InvalidProblem.at("--share", "joint or priority", shown(sharing))
    parts = _parts(groups)
    answer = together(parts, "priority" if sharing == "priority" else "joint")
    sys.stdout.write(_json(parts, answer) if as_json else _text(parts, answer))
    return 0


def _parts(groups: Sequence[Group]) -> list[Part]:
    """Read each group; all lie on one card."""
    if len(groups) > len(ascii_uppercase):
        raise InvalidProblem.at("--and", f"at most {len(ascii_uppercase)} models", str(len(groups)))
    card, parts = _card(groups), list[Part]()
    letters = iter(ascii_uppercase)
    for group in groups:
        target = _target(group, parts)
        label = f"{target} draft" if target else next(letters)
        parts.append(_part(label, group, card, parts, target))
    ranks = {part.settings.ranks for part in parts}
    if len(ranks) > 1:
        got = ", ".join(f"{part.label} on {part.settings.ranks}" for part in parts)
        raise InvalidProblem.at("--and", "models on equally many cards", got)
    return parts


def _card(groups: Sequence[Group]) -> tuple[str | None, str | None]:
    """Find --gpu and --total of all models; any group may name each, once."""
    for group in groups:
        check_order(group.arguments)
    gpu, total = (_once(name, [group.options[name] for group in groups]) for name in _CARD)
    return gpu, total


def _once(name: str, told: Sequence[str | None]) -> str | None:
    values = [value for value in told if value is not None]
    if len(values) > 1:
        raise InvalidProblem.at(
            f"--{name}", "the card of all models once", f"{shown(values[1])} again"
        )
    return values[0] if values else None


def _target(group: Group, parts: Sequence[Part]) -> str:
    """Label of the model that a draft belongs to."""
    if group.keyword != DRAFT:
        return ""
    own = [part for part in parts if not part.target]
    if any(part.target == own[-1].label for part in parts):
        raise InvalidProblem.at(DRAFT, "one draft for a model", "two")
    return own[-1].label


def _part(
    label: str,
    group: Group,
    card: tuple[str | None, str | None],
    before: Sequence[Part],
    target: str,
) -> Part:
    """One model; a draft runs in its target's engine, with its context."""
    options, arguments = group.options, list(group.arguments)
    if options["config"] is None:
        place = f"behind {group.keyword}" if before else f"before the first {AND}"
        raise InvalidProblem.at("CONFIG.json", f"a model's config {place}", "none")
    engine = options["engine"]
    if target:
        owner = next(part for part in before if part.label == target)
        if engine not in (None, owner.engine):
            raise InvalidProblem.at(
                "--engine", f"{owner.engine}, its target's, for a draft", shown(engine)
            )
        engine = owner.engine
        check_engine(engine, is_draft=True)
        arguments = [*_inherited(owner), *arguments]
    engine = engine_of(engine, arguments)
    adapter = engine_named(engine)
    typed = typed_settings(adapter, arguments, Budget(*card, options["weights_gib"]))
    architecture, weights = load_model(options["config"], config_overrides(typed))
    settings = typed.weighed(weights, architecture)
    return part_of(label, engine, adapter, architecture, settings, target)


def _inherited(target: Part) -> list[str]:
    """Settings that a draft takes from its target's line; its own come later and win."""
    known, found = target.settings, list[str]()
    for flag in ("--ctx-size", "--parallel", "--batch-size", "--ubatch-size", "--flash-attn"):
        key = flag.removeprefix("--").replace("-", "_")
        if key in known.given:
            found += [flag, str(known[key])]
    if "ctx_size" not in known.given:
        found += ["--ctx-size", str(asked_tokens(target))]
    return [*found, *(["--kv-unified"] if known["kv_unified"] else [])]


def _assumed(parts: Sequence[Part]) -> list[str]:
    """What each launch line left to its engine."""
    lines = []
    for part in parts:
        derive = getattr(engine_named(part.engine), "assumptions", None)
        derived = tuple(derive(part.architecture, part.settings)) if derive else ()
        lines += [f"{part.label}: {line}" for line in (*derived, *part.settings.notes)]
    return lines


def _text(parts: Sequence[Part], answer: Together) -> str:
    return (
        together_text(parts, answer) + assumed_text(_assumed(parts)) + problem_text(answer.problem)
    )


def _json(parts: Sequence[Part], answer: Together) -> str:
    starts: list[Mapping[str, Any]] = [
        {
            "model": start.label,
            "free_bytes": start.free_bytes,
            "cache_bytes": start.cache_bytes,
            "taken_bytes": start.taken_bytes,
            "flags": dict(start.flags),
        }
        for start in answer.starts
    ]
    document = {
        "fits": answer.plan is not None,
        "short_bytes": answer.short_bytes,
        "models": [
            {
                "model": part.label,
                "name": part.problem.name,
                "asked_tokens": asked_tokens(part),
                "cache_bytes": needed.cache_bytes,
                "other_bytes": needed.other_bytes,
                "found_bytes": needed.found_bytes,
                "short_bytes": needed.short_bytes,
                "alone_short_bytes": needed.alone_short_bytes,
            }
            for part, needed in zip(parts, answer.needed, strict=True)
        ],
        "contexts": {column: dict(row) for column, row in answer.contexts.items()},
        "starts": starts,
        "assumed": _assumed(parts),
        "problem": {"version": 1, **answer.problem.model_dump(mode="json", exclude_unset=True)},
    }
    return json.dumps(document, indent=2) + "\n"
