"""The JSON Schema of a problem: good enough for an editor to complete from."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kvplan.models import InvalidProblem, Plan, Problem
from kvplan.models.reading.loader import load_data
from kvplan.solver import plan
from support.rich import RICH, paths_of, replaced

ROOT = Path(__file__).resolve().parents[2]

SCHEMA = Problem.model_json_schema()
SCHEMA_OF_PROBLEM = Draft202012Validator(SCHEMA)


def objects(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the schema that has properties, with its name."""
    for name, definition in {"Problem": schema, **schema["$defs"]}.items():
        for form in (definition, *definition.get("anyOf", ())):
            if form.get("type") == "object":
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
    assert (ratio["exclusiveMinimum"], ratio["maximum"]) == (0, 1)


@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_both_models_have_both_schemas(mode: Any) -> None:
    assert Problem.model_json_schema(mode=mode)["title"] == "Problem"
    assert Plan.model_json_schema(mode=mode)["title"] == "Plan"


def test_the_schema_has_a_name_and_an_example_that_solves() -> None:
    assert SCHEMA["$id"] == "urn:kvplan:schema:problem:1"
    Draft202012Validator.check_schema(SCHEMA)
    for example in SCHEMA["examples"]:
        SCHEMA_OF_PROBLEM.validate(example)
        assert plan(Problem.model_validate(example)).status == "optimal"


@pytest.mark.parametrize("path", sorted(Path(ROOT, "tests/cases").glob("*.yaml")), ids=str)
def test_shipped_cases_obey_the_schema(path: Path) -> None:
    SCHEMA_OF_PROBLEM.validate(plain(load_data(path)))


REFUSED: dict[str, dict[str, Any]] = {
    "no rank": {"ranks": []},
    "quota and memory": {"ranks": [{"name": "r", "quota": 1, "memory": {"free": 1}}]},
    "neither quota nor memory": {"ranks": [{"name": "r"}]},
    "utilization without total": {"ranks": [{"name": "r", "memory": {"utilization": 0.9}}]},
    "a unit that is none": {"ranks": [{"name": "r", "quota": "16G"}]},
    "bytes below 0": {"ranks": [{"name": "r", "quota": "-1GiB"}]},
    "bytes beyond 64 bits": {"ranks": [{"name": "r", "quota": 2**63}]},
    "a blank name": {"ranks": [{"name": "  ", "quota": 1}]},
    "no bytes": {"pools": [{"name": "p"}]},
    "bytes and buffers": {"pools": [{"name": "p", "bytes": 1, "buffers": [{"bytes": 1}]}]},
    "no buffer": {"pools": [{"name": "p", "buffers": []}]},
    "a granule beside buffers": {"pools": [{"name": "p", "granule": 2, "buffers": [{"bytes": 1}]}]},
    "layers by a stage that is no number": {"experts": {"slot_bytes": 1, "layers": {"gpu": 1}}},
    "a window without its width": {"caches": [{"name": "c", "kind": "window"}]},
    "a field of another kind": {"caches": [{"name": "c", "kind": "full", "window": 8}]},
    "a field of another window": {
        "caches": [{"name": "c", "kind": "window", "window": 8, "keep": "in_flight", "sink": 4}]
    },
    "a floor of what is not fitted": {
        "batches": [{"name": "b", "requests": [{"capacity": 8, "min_capacity": 4}]}]
    },
    "a fitted capacity of 0": {
        "batches": [{"name": "b", "requests": [{"capacity": 0, "fit": "capacity"}]}]
    },
    "chunks beside a step": {"prefill": {"requested": 8, "step": 2, "chunks": [4]}},
    "staging in two forms": {
        "prefill": {"requested": 8, "staging": [{"name": "s", "base": 1, "table": [[8, 1]]}]}
    },
    "a choice without an option": {"choices": [{"name": "c", "options": []}]},
    "an equals sign in a choice": {"choices": [{"name": "a=b", "options": [{"name": "o"}]}]},
    "one phase twice": {"consumers": [{"name": "w", "bytes": 1, "phases": ["load", "load"]}]},
    "a constraint without a bound": {"constraints": [{"terms": {"prefill": 1}}]},
    "a goal that is no variable": {"goals": ["throughput"]},
    "an option as a goal": {"goals": ["choice:c=o"]},
    "two ways to fill": {"fill": {"batch": "b", "pools": ["p"]}},
    "a share beyond 1": {"fill": {"shares": {"p": 1.5}}},
    "no utilization": {"resume_utilization": 0},
    "a change without a path": {"variants": [{"name": "v", "set": ["=1"]}]},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_schema_can_tell_it_tells(name: str) -> None:
    data = {"ranks": [{"name": "r", "quota": 100}], **REFUSED[name]}
    assert not SCHEMA_OF_PROBLEM.is_valid(data)
    with pytest.raises(InvalidProblem):
        Problem.model_validate(data)


JUNK: list[Any] = [
    *(None, True, -1, 0, 1.5, 2**63, "", "x", "none", "auto", "1/2", "10 XB", "10 GiB", "a=b"),
    *([], {}, ["x"], [[1, 2]], {"a": 1}, {"name": "x"}, {"fraction": "1/2"}, {"0": 5}),
]


def mutated(data: Any) -> Iterator[Any]:
    """Documents with junk in one place each, or without it."""
    for at in paths_of(data):
        yield from (replaced(data, at, junk) for junk in JUNK)
        if at and isinstance(at[-1], str):
            shorter = copy.deepcopy(data)
            holder = shorter
            for step in at[:-1]:
                holder = holder[step]
            del holder[at[-1]]
            yield shorter


@pytest.mark.parametrize("name", RICH)
def test_the_schema_agrees_with_the_loader_on_mutated_documents(name: str) -> None:
    """It never refuses what is right, and lets few wrong documents pass.

    Those that pass name what is not there, or figures that contradict each other across fields.
    """
    refused = passed = 0
    for document in islice(mutated(plain(RICH[name])), 0, None, 3):
        is_valid = SCHEMA_OF_PROBLEM.is_valid(document)
        try:
            Problem.model_validate(document)
        except InvalidProblem:
            refused += 1
            passed += is_valid
        else:
            assert is_valid, document
    assert refused > 300
    assert passed < 0.07 * refused


def plain(data: Any) -> Any:
    """Data as JSON has it: keys and fractions are text."""
    return json.loads(json.dumps(data, default=str))


def test_the_schema_of_a_plan_describes_every_field_and_accepts_what_solve_prints() -> None:
    schema = Plan.model_json_schema(mode="serialization")
    assert schema["$id"] == "urn:kvplan:schema:plan:1"
    for name, form in objects(schema):
        for field, written in form["properties"].items():
            assert written.get("description"), f"{name}.{field}"
    answer = plan(Problem.model_validate(SCHEMA["examples"][0]))
    Draft202012Validator(schema).validate(json.loads(answer.model_dump_json()))
