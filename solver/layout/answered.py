"""From a question to its answer: the best layout, proven and replayed, beside the engine's own."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from kvplan.models import CheckFailed, InvalidProblem
from kvplan.models.engines.vllm.paging.plain_layout import layout_by_rules
from kvplan.models.layouts import LayoutAnswer, LayoutQuestion, PageLayout
from kvplan.models.layouts.chosen import Compared, Freedom, LayoutFigures, LayoutProof
from kvplan.solver.layout.choose_layout import best_found
from kvplan.solver.layout.chosen_problem import problem_of
from kvplan.solver.layout.deal import page_layout
from kvplan.solver.layout.found import Seen
from kvplan.solver.layout.freedom import fewer_groups, finer_prefix, freedoms
from kvplan.solver.layout.kinds import weights_of
from kvplan.solver.layout.layout_bounds import floor_bytes
from kvplan.solver.layout.layout_figures import figures_of
from kvplan.solver.oracle.layouts import layout_faults


def answered(
    question: LayoutQuestion, *, engine: tuple[str, PageLayout] | None = None, freedom: bool = True
) -> LayoutAnswer:
    """Find the best layout of a question and compare it.

    Parameters
    ----------
    engine : name and layout of the engine's own; default: the question's rules, where it has some.
    freedom : also solve under other permissions, and within fewer groups.
    """
    seen = Seen()
    found = best_found(question, seen)
    if found is None:
        raise InvalidProblem.at("buckets", *_nothing_permitted(question))
    layout = page_layout(question, found)
    figures = figures_of(question, layout)
    if faults := layout_faults(question, layout, figures.bytes):
        raise CheckFailed(f"the layout breaks a rule: {'; '.join(faults)}")
    if engine is None and question.engine is not None:
        engine = layout_by_rules(question)
    compared = None if engine is None else _compared(question, engine, figures)
    return LayoutAnswer(
        name=question.name,
        layout=layout,
        figures=figures,
        engine=compared,
        freedom=tuple(_freedom(question, figures, compared)) if freedom else (),
        fewer_groups=tuple(fewer_groups(question, figures.groups)) if freedom else (),
        proof=_proof(question, seen, found.rank[0]),
        problem=problem_of(question, layout),
    )


def _freedom(
    question: LayoutQuestion, best: LayoutFigures, engine: Compared | None
) -> Iterator[Freedom]:
    """Other permissions, and what the engine's finer prefix granularity would cost."""
    yield from freedoms(question)
    if engine is not None and 0 < engine.figures.prefix_tokens < best.prefix_tokens:
        yield from finer_prefix(question, engine.figures.prefix_tokens)


def _nothing_permitted(question: LayoutQuestion) -> tuple[str, str]:
    if question.max_prefix_tokens is not None:
        expected = "max_prefix_tokens that leave a layout"
        return expected, str(question.max_prefix_tokens)
    if question.max_groups is not None:
        return "max_groups that leave a layout, or a page that all may take", str(
            question.max_groups
        )
    return "block tokens that give one page to all (pad, split, or pages: packed)", "none"


def _compared(
    question: LayoutQuestion, engine: tuple[str, PageLayout], best: LayoutFigures
) -> Compared:
    name, layout = engine
    figures = figures_of(question, layout)
    ratio = Fraction(figures.bytes) / best.bytes
    return Compared(name=name, layout=layout, figures=figures, ratio=ratio)


def _proof(question: LayoutQuestion, seen: Seen, primary: int) -> LayoutProof:
    _, scale = weights_of(question)
    bound = Fraction(primary, scale) if question.objective == "bytes" else Fraction(-primary)
    return LayoutProof(
        certificate="enumerated+cp-sat" if seen.packed_by_cpsat else "enumerated",
        bound=bound,
        floor_bytes=floor_bytes(question),
        candidates=seen.candidates,
        evaluated=seen.evaluated,
        pruned={reason: count for reason, count in seen.pruned.items() if count},
    )
