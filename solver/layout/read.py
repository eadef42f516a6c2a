"""Where a layout question comes from: its own file, vLLM's specs layer by layer, or a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kvplan.models import InvalidProblem
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.vllm.dump import server_of_dump
from kvplan.models.engines.vllm.dump_faults import dump_faults
from kvplan.models.engines.vllm.launch.defaults import kernel_block
from kvplan.models.engines.vllm.launch.server import Server, server_of
from kvplan.models.engines.vllm.launch.versions import NEWEST
from kvplan.models.engines.vllm.max_model_len import check_length
from kvplan.models.engines.vllm.paging.page_question import question_of
from kvplan.models.layouts import LayoutQuestion, PageLayout
from kvplan.models.reading.faults import first_faults
from kvplan.models.reading.overrides import apply_overrides
from kvplan.solver.managers.workload import Workload


class Asked(NamedTuple):
    """A question, and the engine's own layout where an engine was named."""

    question: LayoutQuestion
    engine: tuple[str, PageLayout] | None = None


def asked_of_data(data: Mapping[Any, Any], overrides: Sequence[str] = ()) -> Asked:
    """Read a question's own file, or a dump of vLLM's specs (`models/engines/vllm/dump.py`).

    A dump may name its `version`, such as 0.33.0 or 0.33.0/BLHNC for a packed layout.

    Raises
    ------
    InvalidProblem : every mistake in it.
    """
    if not is_dump(data):
        return Asked(LayoutQuestion.model_validate(apply_overrides(dict(data), tuple(overrides))))
    faults = first_faults(dump_faults(data))
    if faults:
        raise InvalidProblem(faults)
    version = str(data.get("version") or ".".join(map(str, NEWEST)))
    server = server_of_dump(data, version)
    return asked_of_server(server, f"vLLM {version}", overrides=overrides)


def is_dump(data: Mapping[Any, Any]) -> bool:
    """Whether a file holds vLLM's specs."""
    return "specs" in data and "layers" in data


def asked_of_model(
    architecture: Architecture,
    settings: Settings,
    workload: Workload | None = None,
    overrides: Sequence[str] = (),
) -> Asked:
    """Write the question of a model under vLLM's flags.

    Parameters
    ----------
    workload : requests that are expected; None: one of --max-model-len.

    Raises
    ------
    InvalidProblem : what the engine would refuse.
    """
    check_length(architecture, settings)
    server = server_of(architecture, settings)
    step = int(kernel_block(settings, architecture).value)
    name = f"{architecture.name} on vLLM {server.serving.version.text}"
    asked = asked_of_server(server, name, kernel_tokens=step)
    question = asked.question
    if workload is not None:
        question = for_workload(question, workload)
    return Asked(overridden(question, overrides), asked.engine)


def asked_of_server(
    server: Server, name: str, *, kernel_tokens: int = 16, overrides: Sequence[str] = ()
) -> Asked:
    """Write the question of a server, with the layout that vLLM gives it."""
    question, layout = question_of(server, name=name, kernel_tokens=kernel_tokens)
    engine = (f"vLLM {server.serving.version.text}", layout)
    return Asked(overridden(question, overrides), engine)


def overridden(question: LayoutQuestion, overrides: Sequence[str]) -> LayoutQuestion:
    """Change fields of a question, "path=value" each."""
    if not overrides:
        return question
    data = question.model_dump(mode="json", exclude_unset=True)
    return LayoutQuestion.model_validate(apply_overrides(data, tuple(overrides)))


def for_workload(question: LayoutQuestion, workload: Workload) -> LayoutQuestion:
    """Ask for the requests of a workload, each length by its count."""
    data = question.model_dump(mode="json", exclude_unset=True)
    rows = [{"capacity": row.capacity, "weight": row.requests} for row in workload.copy_of_it]
    return LayoutQuestion.model_validate({**data, "requests": rows})
