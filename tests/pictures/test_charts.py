"""What pictures show: the same integers as the plan and the table, with their units."""

from __future__ import annotations

import pandas as pd
import pytest

from kvplan.models import InvalidProblem, Problem
from kvplan.solver import Planner, plan
from kvplan.solver.explain import explain
from kvplan.solver.explore import explore
from kvplan.solver.frontier import frontier
from kvplan.solver.pictures.chart import Heat, Points, Scale, Steps
from kvplan.solver.pictures.of_plan import budget_bars
from kvplan.solver.pictures.of_table import front_charts, sweep_charts
from kvplan.solver.pictures.quota_sweep import quota_steps
from support.cases import CASES, load

QUOTAS = {"ranks.*.quota": "5GiB:16GiB:1GiB"}


@pytest.mark.parametrize("name", sorted(CASES))
def test_bars_add_up_to_what_each_phase_uses(name: str) -> None:
    problem = load(name)
    answer = plan(problem)
    chart = budget_bars(problem, answer)
    by_bar = {
        bar: sum(part.bytes[index] for part in chart.parts) for index, bar in enumerate(chart.bars)
    }
    ranks = {rank.name: rank for rank in answer.ranks}
    limits = dict(zip(chart.bars, chart.limits, strict=True))
    for bar, total in by_bar.items():
        title, phase = bar.rsplit(", ", 1)
        rank = ranks[title.partition(" and ")[0]]
        assert total == rank.phases[phase]
        assert limits[bar] == rank.quota >= total


def test_a_staircase_has_every_decision_of_the_table() -> None:
    table = explore(load("strata_765"), QUOTAS)
    (chart,) = sweep_charts(table, QUOTAS)
    assert isinstance(chart, Steps)
    assert chart.x.title == "ranks.*.quota (GiB)"
    assert chart.at == tuple(gib * 2**30 for gib in range(5, 17))
    titles = [panel.scale.title for panel in chart.panels]
    assert titles == ["prefill (tokens a chunk)", "experts (slots)", "blocks:kv (blocks)"]
    experts = [None if pd.isna(value) else int(value) for value in table["experts"]]
    assert list(chart.panels[1].values) == experts
    assert None in experts
    assert chart.title == "What is decided over ranks.*.quota (blank: nothing fits)"


def test_two_fields_make_a_heat_map_of_each_decision_that_varies() -> None:
    vary = {"ranks.*.quota": "12GiB,16GiB", "prefill.requested": [4096, 8192, 24576]}
    table = explore(load("strata_765"), vary)
    charts = sweep_charts(table, vary)
    assert [type(chart) for chart in charts] == [Heat] * len(charts)
    first = next(chart for chart in charts if isinstance(chart, Heat))
    assert (len(first.values), len(first.values[0])) == (2, 3)
    assert [v for row in first.values for v in row] == table["prefill"].tolist()
    assert first.y.title == "ranks.*.quota (GiB)"


def test_three_fields_are_too_many_to_draw() -> None:
    vary = {
        "ranks.*.quota": "15GiB,16GiB",
        "prefill.requested": "4096,8192",
        "experts.min_slots": "0,1",
    }
    with pytest.raises(InvalidProblem, match="a picture of one or two varied fields"):
        sweep_charts(explore(load("strata_765"), vary), vary)


def test_a_front_keeps_its_points() -> None:
    table = frontier(load("strata_765"), ["prefill:4096", "experts"])
    (chart,) = front_charts(table)
    assert isinstance(chart, Points)
    assert list(chart.points) == list(
        zip(table["prefill"].tolist(), table["experts"].tolist(), strict=True)
    )
    assert chart.scales[1].text(3565) == "3_565 slots"


def test_the_quota_sweep_is_what_a_planner_says_and_marks_where_it_begins_to_fit() -> None:
    problem = load("strata_765")
    chart = quota_steps(problem, points=12)
    marks = {mark.text: mark.at for mark in chart.marks if mark.text}
    least, quota_now = marks["fits from here"], problem.ranks[0].quota_bytes
    assert marks["now"] == quota_now
    assert {mark.at for mark in chart.marks} == {
        least,
        quota_now,
        *(quota_now + point.bytes for point in explain(problem).break_points if point.changes),
    }
    planner = Planner(problem)
    experts = next(panel for panel in chart.panels if panel.scale.label == "experts")
    for quota, value in zip(chart.at, experts.values, strict=True):
        if value is None:
            assert quota < least
        else:
            assert planner.plan(quota=quota).expert_slots == value
    assert experts.values[chart.at.index(least)] is not None


def test_ranks_of_unlike_quotas_move_by_as_many_bytes() -> None:
    problem = load("vllm_pp_34076")
    chart = quota_steps(problem, points=6)
    assert chart.x.label == "bytes more on every rank"
    at = chart.at.index(0)
    assert chart.panels[0].values[at] == plan(problem).requests[0].capacity


def test_a_scale_says_bytes_twice_and_draws_gib() -> None:
    scale = Scale("quota", "bytes")
    assert scale.drawn(2**31) == 2.0
    assert scale.text(2**31) == "2_147_483_648 B (2.00 GiB)"
    assert scale.text(None) == "nothing fits"
    assert Scale("choice:s", "option", ("dense", "tiled")).text(1) == "tiled"


def test_more_than_eight_consumers_are_told_apart() -> None:
    """By a hatch where the colours come again."""
    from kvplan.solver.pictures.plotly_figure import plotly_figure

    data = {
        "ranks": [{"name": "r", "quota": 10_000}],
        "consumers": [{"name": f"c{index}", "bytes": index + 1} for index in range(20)],
    }
    problem = Problem.model_validate(data)
    figure = plotly_figure(budget_bars(problem, plan(problem)))
    styles = [
        (trace["marker"]["color"], trace["marker"]["pattern"]["shape"])
        for trace in figure["data"]
        if trace["type"] == "bar"
    ]
    assert len(set(styles)) == 20
