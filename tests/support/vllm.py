"""Layouts of caches that vLLM's own code was run on, typed in with its answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvplan.models.engines.vllm.adapter import Server
from kvplan.models.engines.vllm.dump import server_of_dump

FILE = Path(__file__).parents[1] / "cases" / "vllm_layouts.json"
LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-"


@dataclass(frozen=True)
class Case:
    """One layout under one version, and what the engine answered."""

    data: dict[str, Any]
    version: str
    answer: dict[str, Any]

    @property
    def layers(self) -> list[str]:
        """Names of specs, a layer each: "swa*3 full" is three of one and one of the other."""
        names = []
        for word in self.data["layers"].split():
            name, _, times = word.partition("*")
            names += [name] * int(times or 1)
        return names

    @property
    def server(self) -> Server:
        """The layout and everything else that the answer depends on."""
        return server_of_dump({**self.data, "layers": self.layers}, self.version)

    def for_workers(self, key: str) -> list[int]:
        """A figure of the answer for each rank; one that all share is written once."""
        value = self.answer[key]
        return value if isinstance(value, list) else [value] * len(self.data["available"])

    @property
    def groups(self) -> list[tuple[tuple[int, ...], int, int, int]]:
        """Layers, tokens a block, page bytes and blocks of a request of each group."""
        rows = [row[:3] for row in self.answer["groups"] for _ in range(row[4])]
        letters = self.answer["layers"]
        return [
            (tuple(at for at, letter in enumerate(letters) if letter == LETTERS[index]), *row)
            for index, row in enumerate(rows)
        ]

    @property
    def mixed(self) -> list[bool]:
        """Whether a group's page is the sum of its layers' pages."""
        return [bool(row[3]) for row in self.answer["groups"] for _ in range(row[4])]


def cases() -> dict[str, Case]:
    """All cases by "layout version"."""
    found = {}
    for data in json.loads(FILE.read_text())["cases"]:
        for version, answer in data["answers"].items():
            same = data["answers"][answer] if isinstance(answer, str) else answer
            found[f"{data['id']} {version}"] = Case(data, version, same)
    return found
