"""The JSON Schema of a problem: good enough for an editor to complete from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kvplan.models import Plan, Problem
from support.rich import RICH

SCHEMA = Problem.model_json_schema()


def objects(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the schema that has properties, with its name."""
    for name, definition in {"Problem": schema, **schema["$defs"]}.items():
        for form in (definition, *definition.get("anyOf", ())):
            if "properties" in form:
                yield name, form


def fields_used(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield str(key)
            yield from fields_used(value)
    elif isinstance(data, list):
        for value in data:
            yield from fields_used(value)


def test_every_section_is_there() -> None:
    names = {name for name, _ in objects(SCHEMA)}
    assert {"Problem", "Rank", "RankMemory", "Share", "Pool", "Buffer", "Cache", "Scratch"} <= names
    assert {"Batch", "Request", "Prefill", "Staging", "Experts", "Lend", "Consumer"} <= names
    assert {"Choice", "Option", "Constraint", "Goal", "Fill"} <= names


def test_every_property_has_a_description_and_every_object_a_docstring() -> None:
    for name, form in objects(SCHEMA):
        assert form["additionalProperties"] is False, name
        assert len(form["description"]) > 10, name
        assert form["title"] == name
        for field, written in form["properties"].items():
            assert len(written.get("description", "")) > 2, f"{name}.{field}"


def test_only_ranks_are_required_of_a_problem() -> None:
    assert SCHEMA["required"] == ["ranks"]


def test_every_field_is_in_one_of_the_rich_problems() -> None:
    """Guards the other tests: the rich problems leave no field out."""
    used = {key for data in RICH.values() for key in fields_used(data)}
    fields = {field for _, form in objects(SCHEMA) for field in form["properties"]}
    assert fields - used == {"none"}  # written fill: none


def test_short_forms_are_offered() -> None:
    goal, fill = SCHEMA["$defs"]["Goal"]["anyOf"], SCHEMA["$defs"]["Fill"]["anyOf"]
    assert {"string", "object"} == {form["type"] for form in goal}
    assert fill[0]["const"] == "none"
    quota = SCHEMA["$defs"]["Rank"]["properties"]["quota"]["anyOf"]
    assert {"integer", "string"} <= {form["type"] for form in quota}


def test_ranges_are_offered() -> None:
    assert SCHEMA["properties"]["tokens_per_block"]["minimum"] == 1
    ratio = SCHEMA["properties"]["resume_utilization"]["anyOf"][0]
    assert (ratio["minimum"], ratio["maximum"]) == (0, 1)


@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_both_models_have_both_schemas(mode: Any) -> None:
    assert Problem.model_json_schema(mode=mode)["title"] == "Problem"
    assert Plan.model_json_schema(mode=mode)["title"] == "Plan"
