"""Lines of a log against what an engine would print: every figure that both have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from kvplan.models import InvalidProblem, Problem
from kvplan.models.messages import one_of, shown
from kvplan.solver.cli.model.model_measured import (
    Measured,
    compare_measured,
    read_measured,
    without_measured,
)
from kvplan.solver.cli.model.model_numbers import NUMBER, Number, numbers_in, within
from kvplan.solver.cli.model.model_raw import compare_raw, forms_of
from kvplan.solver.logs.reading.interval import UNITS
from kvplan.solver.logs.reading.lines import cleaned
from kvplan.solver.logs.reading.prefix import unescaped

Figures = Mapping[str, str]


class Planned(NamedTuple):
    """What a start prints with some readings.

    Attributes
    ----------
    figures : by the words of the log.
    measured : readings and what they leave, by name and rank, in bytes.
    """

    figures: dict[str, str]
    problem: Problem
    measured: Measured


def compare_lines(engine: str, plans: Sequence[Planned], expected: Sequence[str]) -> list[str]:
    """Compare every figure of log lines with an engine's; one line for each that differs.

    Parameters
    ----------
    plans : what is printed; behind the first the same where printed readings are at either end of
        what they can stand for.

    Raises
    ------
    InvalidProblem : a line that names no figure, or gives none.

    A line names a figure by its label, in any case and with any spaces; numbers inside a label
    (the length of a concurrency) are figures, too.
    """
    forms = [forms_of(engine, plan.figures, plan.problem) for plan in plans]
    differences: list[str] = []
    for line in expected:
        text = " ".join(cleaned(unescaped(line)).split())
        readings = read_measured(engine, text, plans[0].measured)
        differences += compare_measured(readings, [plan.measured for plan in plans])
        raw = compare_raw(forms, text)
        every = [without_measured(plan.figures, readings) for plan in plans]
        differences += _line(every, text, bool(readings)) if raw is None else raw
    return differences


def check_lines(figures: Figures, expected: Sequence[str]) -> list[str]:
    """Compare log lines with one engine's figures, by their labels alone."""
    return [difference for line in expected for difference in _line([figures], line)]


def _line(every: Sequence[Figures], text: str, is_read: bool = False) -> Iterator[str]:
    """Differences by labels; a line that has none must hold a reading."""
    labels = [
        label
        for label in dict.fromkeys(label for figures in every for label in figures)
        if not any(_is_whole_line(label, figures) for figures in every)
    ]
    found = list(_labelled(labels, text))
    if not found and is_read:
        return
    if not found:
        before = re.split(r"[:=]|(?<=[a-z]) (?=[0-9])", text)[0].strip()
        expected = f"a line with {one_of(every[0], before)}"
        raise InvalidProblem.at("--check", expected, shown(text))
    compared = 0
    for label, match in found:
        values = [(key, figures[key]) for figures in every for key in figures if _same(key, label)]
        logged = _logged(text, match, values[0][1])
        if logged is None:
            continue
        compared += 1
        inside = numbers_in(" ".join(match.groups()))
        if not _agrees(inside, logged, values):
            told = logged if isinstance(logged, str) else _told(inside, logged, label)
            yield f"{label}: the log says {told}, the plan {_range(values)}"
    if not compared:
        raise InvalidProblem.at("--check", f"a figure after {found[0][0]}", shown(text))


def _is_whole_line(label: str, figures: Figures) -> bool:
    """Whether a figure is a line of others, each of which has a label of its own."""
    value = figures.get(label, "")
    return any(f", {other}: " in value for other in figures)


def _same(first: str, second: str) -> bool:
    """Whether two labels are one but for the numbers in them."""
    return re.sub(NUMBER, "0", first) == re.sub(NUMBER, "0", second)


def _labelled(labels: Sequence[str], text: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Labels that a text holds, the longest first; each place belongs to one of them."""
    taken: list[tuple[int, int]] = []
    seen: list[str] = []
    for label in sorted(labels, key=len, reverse=True):
        if any(_same(label, other) for other in seen):
            continue
        seen.append(label)
        pattern = re.sub(NUMBER, "\0", " ".join(label.split()))
        pattern = re.escape(pattern).replace("\\\0", f"({NUMBER})").replace("\0", f"({NUMBER})")
        start = r"(?<![\w#])" if label[0].isalnum() else ""
        for match in re.finditer(rf"{start}{pattern}(?!\w)", text, re.IGNORECASE):
            if not any(low < match.end() and match.start() < high for low, high in taken):
                taken.append(match.span())
                yield label, match


def _logged(text: str, match: re.Match[str], value: str) -> list[Number] | str | None:
    """What the log says of a figure: as many numbers as the plan has, or words; None if nothing."""
    rest = text[match.end() :].lstrip(" :=([\"'")
    wanted = len(numbers_in(value))
    if not wanted:
        return rest or None
    after = numbers_in(rest)
    words = _plain(re.split(NUMBER, value, maxsplit=1)[0])
    if after and (rest.startswith(after[0].text) or (words and _plain(rest).startswith(words))):
        return after[:wanted]
    before = re.search(rf"({NUMBER}) ?$", text[: match.start()])
    return numbers_in(before[1] + _unit_of(match[0])) if before else None


def _unit_of(label: str) -> str:
    """The unit that a label begins with ("GiB KV cache is needed")."""
    unit = label.split(" ", 1)[0]
    return f" {unit}" if unit in UNITS else ""


def _agrees(
    inside: Sequence[Number], logged: list[Number] | str, values: Sequence[tuple[str, str]]
) -> bool:
    if isinstance(logged, str):
        return any(_plain(logged).startswith(_plain(value)) for _, value in values)
    said = [*inside, *logged]
    plans = [
        [*numbers_in(" ".join(re.findall(NUMBER, key))), *numbers_in(_with_unit(key, value))]
        for key, value in values
    ]
    if any(len(plan) != len(said) for plan in plans):
        return False
    return all(within(number, [plan[index] for plan in plans]) for index, number in enumerate(said))


def _with_unit(label: str, value: str) -> str:
    return (
        value
        if any(unit and unit in value for unit in UNITS if unit != "B")
        else (value + _unit_of(label))
    )


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _told(inside: Sequence[Number], logged: Sequence[Number], label: str) -> str:
    numbers = re.findall(NUMBER, label)
    told = ", ".join(number.text for number in logged)
    changed = [n.text for n, own in zip(inside, numbers, strict=True) if n.text != own]
    return f"{told} at {', '.join(changed)}" if changed else told


def _range(values: Sequence[tuple[str, str]]) -> str:
    """The plan's figure, with both ends where they differ."""
    every = sorted({value for _, value in values}, key=_key)
    return every[0] if len(every) == 1 else f"{every[0]} to {every[-1]}"


def _key(value: str) -> tuple[Fraction, str]:
    numbers = numbers_in(value)
    return (numbers[0].value if numbers else Fraction(0), value)
