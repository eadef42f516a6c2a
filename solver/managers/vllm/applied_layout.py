"""A page layout in vLLM's own types: groups, block sizes and padded pages as `kvplan layout` chose.

`kvplan layout ... --json > layout.json` writes one; KVPLAN=apply KVPLAN_LAYOUT=layout.json applies
it. It is replayed on the layers of this start before it is used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from kvplan.models.engines.vllm.launch.server import Server
from kvplan.models.engines.vllm.paging.page_question import question_of
from kvplan.models.errors import InvalidProblem
from kvplan.models.layouts import LayoutQuestion, PageLayout
from kvplan.models.layouts.chosen import LayoutFigures
from kvplan.models.layouts.page_layout import Group
from kvplan.models.problem import Problem
from kvplan.models.reading.faults import faults_of
from kvplan.models.reading.loader import load_data
from kvplan.solver.layout.chosen_problem import problem_of
from kvplan.solver.layout.layout_figures import figures_of
from kvplan.solver.layout.layout_report import layouts_table
from kvplan.solver.layout.read import for_workload
from kvplan.solver.managers.guard import LeftAlone
from kvplan.solver.managers.vllm.groups import group_sizes
from kvplan.solver.managers.vllm.start import Start, start_of
from kvplan.solver.managers.workload import Workload
from kvplan.solver.oracle.layouts import layout_faults
from kvplan.solver.report.plain_text import plain_text


class Applied(NamedTuple):
    """A layout that fits the layers of a start.

    Attributes
    ----------
    own, figures : of vLLM's own layout and of this one, for the longest request.
    problem : its plan is what vLLM does with this layout.
    """

    layout: PageLayout
    own: LayoutFigures
    figures: LayoutFigures
    problem: Problem

    def is_in(self, configs: Sequence[Any]) -> bool:
        """Whether some KVCacheConfigs have this layout's groups and block sizes."""
        sizes = tuple(len(group.layers) for group in self.layout.groups)
        specs = [group.kv_cache_spec for group in configs[0].kv_cache_groups]
        return sizes == group_sizes(configs) and all(
            group.block_tokens in (0, spec.block_size)
            for group, spec in zip(self.layout.groups, specs, strict=True)
        )

    @property
    def text(self) -> str:
        """vLLM's own layout and this one side by side, without a final newline."""
        layouts = {"vLLM's own": self.own, "kvplan": self.figures}
        return plain_text((layouts_table("layouts", layouts),)).rstrip()


def layout_question(
    config: Any,
    kv_cache_specs: Sequence[Mapping[str, Any]],
    available_bytes: Sequence[int],
    workload: Workload | None = None,
    *,
    version: str,
    most_groups: int | None = None,
) -> LayoutQuestion:
    """The layout question of vLLM's own objects: which pages and groups its layers should have.

    Parameters
    ----------
    workload : requests that are expected; None: one of the longest length.
    most_groups : cap on the groups of layers.

    Raises
    ------
    InvalidProblem : a version, a spec's class or a layout that kvplan does not know, by name.
    LeftAlone : what is left to vLLM.
    """
    start = start_of(config, kv_cache_specs, available_bytes, version)
    question, _ = _asked(start)
    if workload is not None:
        question = for_workload(question, workload)
    data = question.model_dump(mode="json", exclude_unset=True)
    return LayoutQuestion.model_validate({**data, "max_groups": most_groups})


def load_layout(source: str | Path) -> PageLayout:
    """Read a layout: the answer of `kvplan layout --json`, or its `layout` alone.

    Raises
    ------
    InvalidProblem : it cannot be read, or every mistake that is in it.
    """
    data = load_data(source)
    try:
        return PageLayout.model_validate(data.get("layout", data))
    except ValidationError as error:
        raise InvalidProblem(faults_of(error, PageLayout)) from None


def fitted(start: Start, layout: PageLayout) -> Applied:
    """Check a layout against the layers of a start.

    Raises
    ------
    InvalidProblem : it is of other layers, or breaks what vLLM permits, by the oracle's replay.
    LeftAlone : own pools, or groups of several kinds: vLLM has one pool and one spec a group.
    """
    if start.auto_fit or start.override_blocks is not None:
        raise LeftAlone("a layout beside --max-model-len auto or --num-gpu-blocks-override")
    if len(layout.pools) > 1:
        raise LeftAlone("a layout with pools of its own (vLLM has one pool of blocks)")
    if any(len(group.members) > 1 or group.held_full for group in layout.groups):
        raise LeftAlone("a layout whose groups hold several kinds of layers")
    question, own = _asked(start)
    known = {bucket.name for bucket in question.buckets}
    named = {member.bucket for group in layout.groups for member in group.members}
    if named != known:
        expected = f"a layout of the buckets {', '.join(sorted(known))}"
        raise InvalidProblem.at("KVPLAN_LAYOUT", expected, ", ".join(sorted(named)))
    if layout.pools[0].block_bytes.keys() != {str(stage) for stage in question.stages}:
        expected = f"a layout of {len(question.stages)} pipeline stages"
        raise InvalidProblem.at("KVPLAN_LAYOUT", expected, str(len(layout.pools[0].block_bytes)))
    figures = figures_of(question, layout)
    if faults := layout_faults(question, layout, figures.bytes):
        raise InvalidProblem.at("KVPLAN_LAYOUT", "a layout of these layers", "; ".join(faults[:3]))
    return Applied(layout, figures_of(question, own), figures, problem_of(question, layout))


def _asked(start: Start) -> tuple[LayoutQuestion, PageLayout]:
    server = Server(
        serving=start.serving,
        specs=start.specs,
        layout=start.layout(),
        workers=start.workers,
        auto_fit=start.auto_fit,
        override_blocks=start.override_blocks,
    )
    return question_of(server, name=f"vLLM {start.serving.version.text}")


def laid_out(layout: PageLayout, groups: Sequence[Any], specs: Mapping[str, Any]) -> list[Any]:
    """vLLM's KVCacheGroupSpecs of a layout.

    Parameters
    ----------
    groups : KVCacheGroupSpec, as get_kv_cache_groups returns them: for their type, and what marks
        them.
    specs : KVCacheSpec by layer, of all stages in order.
    """
    if any(getattr(group, "is_eagle_group", False) for group in groups):
        raise LeftAlone("EAGLE groups are not modelled")
    names = list(specs)
    attends = max(group.block_tokens for group in layout.groups)
    return [
        type(groups[0])([names[at] for at in group.layers], _spec(group, specs, names, attends))
        for group in layout.groups
    ]


def _spec(group: Group, specs: Mapping[str, Any], names: Sequence[str], attends: int) -> Any:
    """The spec of a group's layers with its block tokens and its page.

    States kept at block boundaries (mamba_cache_mode align) follow the attention's blocks.
    """
    spec = specs[names[group.layers[0]]]
    page = group.members[0].page_bytes
    if not group.block_tokens:
        aligned = getattr(spec, "mamba_cache_mode", "none") == "align" and attends
        block = {"block_size": attends} if aligned else {}
        return dataclasses.replace(spec, page_size_padded=page, **block)
    resized = dataclasses.replace(spec, block_size=group.block_tokens, page_size_padded=None)
    if resized.page_size_bytes == page:
        return resized
    return dataclasses.replace(resized, page_size_padded=page)
