"""Who speaks in a line, whatever collected the log.

Collectors write a name or a time before each line (docker compose, kubectl, journald, srun, mpirun,
the container runtime, JSON files). Engines write their own tag behind that. Tags are looked for
anywhere before the figures, so that neither order nor number of prefixes matters.
"""

from __future__ import annotations

import re

_STAMP = r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?"
_STAMPED = re.compile(rf"^\s*{_STAMP}\s+")
_CONTAINER = re.compile(r"^(?:std(?:out|err) [FP] )?")
_SOURCES = (
    re.compile(r"^(?!(?:DEBUG|INFO|WARN|WARNING|ERROR)\b)([\w./-]+)\s*\|\s"),  # docker compose
    re.compile(r"^\[(pod/[^\]\s]+)\]\s"),  # kubectl --prefix
    re.compile(r"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (\S+) \S+?\[\d+\]: "),  # journald
    re.compile(r"^(\S+) [\w@.-]+\[\d+\]: "),  # journald -o short-iso, behind the stamp
    re.compile(r"^\[\d+,(\d+)\]<std(?:out|err)>:\s?"),  # mpirun --tag-output
    re.compile(r"^\s?(\d{1,4}): "),  # srun --label
    re.compile(r"^\[(\d{4,5})\] (?=\d+\.\d\d\.\d{3}|[a-z_]{4,}: )"),  # llama-server's router
)
_ESCAPED = re.compile(r"\\u001b\[[0-9;]*m|\\x1b\[[0-9;]*m")
_PLACE = re.compile(r"(?<![A-Za-z])(DP|PP|TP|EP|CP|DCP|PCP|SP)(\d+)")
_RANK = re.compile(r"\[(?:RANK |rank ?|default)(\d{1,9})\]|\[\d+,(\d+)\]<std(?:out|err)>")


def source_of(text: str) -> str:
    """Name of the container, pod, host or task that a collector wrote before a line, or ""."""
    rest = text
    for _ in range(3):
        rest = _CONTAINER.sub("", _STAMPED.sub("", rest))
        for pattern in _SOURCES:
            found = pattern.search(rest)
            if found is not None:
                return found[1]
    return ""


def unescaped(text: str) -> str:
    """A line without colour codes that a JSON log has written out."""
    return _ESCAPED.sub("", text)


def places(tag: str) -> tuple[str, str]:
    """Rank and replica that a tag such as "DP0 TP1" or "Worker_DP0_TP1_EP1" names.

    Returns
    -------
    label, replica : "TP1" and "DP0"; an expert rank says nothing that the others do not.
    """
    found = _PLACE.findall(tag)
    replica = next((f"DP{number}" for kind, number in found if kind == "DP"), "")
    label = "_".join(f"{kind}{number}" for kind, number in found if kind not in ("DP", "EP"))
    return label, replica


def rank_of(text: str) -> str:
    """Number of the rank that a launcher wrote before a line ([RANK 1], [rank1], [1,1]<stderr>)."""
    found = _RANK.search(text)
    return "" if found is None else found[1] or found[2]
