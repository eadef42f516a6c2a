"""The report of a problem that can be passed on: tables, and four kinds of picture."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

from kvplan.models import Plan, Problem
from kvplan.models.reading.variables import known_variables
from kvplan.solver.explain import explain
from kvplan.solver.explore import explore
from kvplan.solver.frontier import frontier
from kvplan.solver.pictures.chart import Chart, Heat, Scale
from kvplan.solver.pictures.of_plan import budget_bars
from kvplan.solver.pictures.of_table import charts_over, front_charts
from kvplan.solver.pictures.page import page
from kvplan.solver.pictures.quota_sweep import quota_steps
from kvplan.solver.report import document_of
from kvplan.solver.report.explanation import break_points_table, worth_table
from kvplan.solver.report.problem_text import problem_text
from kvplan.solver.solve.plan import solve_confirmed

FRONT_POINTS, HEAT_ROWS, HEAT_COLUMNS = 40, 12, 24


def html_report(problem: Problem, title: str = "") -> str:
    """Solve a problem and write the page about it.

    The charts: bytes against the quota, what is decided over the quota, the best trade-offs of the
    first two goals that compete, and a decision over quota and context.

    Parameters
    ----------
    title : of the page, where the problem has no name.

    Raises
    ------
    Infeasible : there is no plan.
    """
    answer, explained = solve_confirmed(problem), explain(problem)
    footer = f"kvplan {version('kvplan')}; digest {answer.digest}; question {answer.question}"
    bars = budget_bars(problem, answer)
    is_placed = problem.place is not None  # each quota is a placement to decide: bars alone
    charts = (bars,) if is_placed else (bars, quota_steps(problem), *_front(problem, answer))
    return page(
        problem.name or title or "kvplan",
        (
            *document_of(answer, problem.model_copy(update={"name": ""})),
            break_points_table(explained, problem),
            worth_table(explained, problem),
        ),
        charts if is_placed else (*charts, *_heat(problem)),
        source=problem_text(problem),
        footer=footer,
    )


def _front(problem: Problem, answer: Plan) -> Iterator[Chart]:
    """The trade-offs of the first two goals that do not both reach their most."""
    goals = [goal for goal in answer.proof.bound if _is_tradable(problem, goal.goal)]
    names = [goal.goal for goal in goals]
    for second in range(1, len(names)):
        for first in range(second):
            steps = [max(1, int(goals[i].value) // FRONT_POINTS) for i in (first, second)]
            pair = [names[first], names[second]]
            table = frontier(problem, [f"{n}:{s}" for n, s in zip(pair, steps, strict=True)])
            if len(table) > 1:
                yield from front_charts(table)
                return


def _is_tradable(problem: Problem, goal: str) -> bool:
    """Whether a goal is one variable whose values are numbers."""
    is_free = known_variables(problem).get(goal) == ""
    return is_free and not goal.startswith("choice:")


def _heat(problem: Problem) -> Iterator[Chart]:
    """What is decided over the quota and the context of the first request that can take any."""
    quotas = {rank.quota for rank in problem.ranks}
    paths = [
        (f"batches[{b}].requests[{r}].capacity", request.capacity)
        for b, batch in enumerate(problem.batches)
        for r, request in enumerate(batch.requests)
        if request.capacity > 1 and request.history is None and request.min_capacity is None
    ]
    if len(quotas) != 1 or None in quotas or not paths:
        return
    (path, capacity), quota = paths[0], problem.ranks[0].quota_bytes
    contexts = {max(1, capacity * 2 * i // HEAT_ROWS) for i in range(1, HEAT_ROWS + 1)}
    widths = {quota // 2 + quota * i // HEAT_COLUMNS for i in range(HEAT_COLUMNS + 1)}
    table = explore(problem, {path: sorted(contexts), "ranks.*.quota": sorted(widths)})
    table = table.rename(columns={path: "context", "ranks.*.quota": "quota"})
    axes = (Scale("context", "tokens"), Scale("quota", "bytes"))
    charts = [chart for chart in charts_over(table, axes) if isinstance(chart, Heat)]
    yield from sorted(charts, key=_follows_both, reverse=True)[:2]


def _follows_both(chart: Heat) -> bool:
    """Whether the value changes along both axes."""
    rows, columns = chart.values, tuple(zip(*chart.values, strict=True))
    return len(set(rows)) > 1 and len(set(columns)) > 1
