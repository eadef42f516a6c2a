"""Imports run one way: solver, kernels, models; and no module imports itself through others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("models", "kernels", "solver")  # each imports itself and those before it


def modules() -> dict[str, Path]:
    files = (path for part in PARTS for path in (ROOT / part).rglob("*.py"))
    return {
        ".".join(("kvplan", *path.relative_to(ROOT).with_suffix("").parts)): path for path in files
    }


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def import_statements(node: ast.AST) -> Iterator[ast.ImportFrom]:
    """Those inside functions too: they are circles as well, only later ones."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            yield child
        elif not is_for_types(child):
            yield from import_statements(child)


def graph() -> dict[str, set[str]]:
    """Modules, and what each imports; a package stands for its __init__."""
    known = modules()
    found: dict[str, set[str]] = {}
    for name, path in known.items():
        found[name] = set()
        for statement in import_statements(ast.parse(path.read_text())):
            for alias in statement.names:
                whole = f"{statement.module}.{alias.name}"
                names = (
                    whole,
                    f"{whole}.__init__",
                    statement.module,
                    f"{statement.module}.__init__",
                )
                found[name] |= {next((each for each in names if each in known), name)} - {name}
    return found


def test_no_module_imports_itself_through_others() -> None:
    order = tuple(TopologicalSorter(graph()).static_order())  # a CycleError names the circle
    assert len(order) > 200


def test_imports_run_one_way() -> None:
    level = {part: number for number, part in enumerate(PARTS)}
    edges = [(name, other) for name, others in graph().items() for other in others]
    assert len(edges) > 500
    wrong = [
        (name, other)
        for name, other in edges
        if level[other.split(".")[1]] > level[name.split(".")[1]]
    ]
    assert wrong == []
