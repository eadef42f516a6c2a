"""What a deployer of SGLang may change, tried one by one: each as the flags to paste."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from kvplan.models.engines.alternatives import Choice, halves, on_more_ranks

SHARES = (Fraction(9, 10), Fraction(95, 100))


def labels(settings: Mapping[str, Any]) -> dict[str, str]:
    """Fields that a remedy changes, by the flags that change them."""
    if settings["mem_fraction_static"] is None or settings["available"]:
        return {}
    return {"ranks.*.memory.utilization": "--mem-fraction-static"}


def choices(settings: Mapping[str, Any]) -> Iterator[Choice]:
    """Flags with the settings that they give, those that cost least first."""
    share = settings["mem_fraction_static"]
    for more in SHARES:
        if share is not None and Fraction(share) < more:
            yield f"--mem-fraction-static {float(more)}", {"mem_fraction_static": more}
    if not settings["disable_radix_cache"]:
        yield "--disable-radix-cache", {"disable_radix_cache": True}
    for key, flag in (
        ("max_running_requests", "--max-running-requests"),
        ("max_mamba_cache_size", "--max-mamba-cache-size"),
    ):
        for count in halves(int(settings[key] or 0)):
            yield f"{flag} {count}", {key: count}
    if settings["kv_cache_dtype"] in ("auto", "bf16", "bfloat16"):
        yield "--kv-cache-dtype fp8_e4m3", {"kv_cache_dtype": "fp8_e4m3"}
    yield from on_more_ranks(settings, "--tp-size", "tp_size")
