"""A bucket: layers that keep the same bytes by the same rule, and what may be done with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, PlainValidator, StrictBool, model_validator

from kvplan.models.base import by_key
from kvplan.models.immutable.frozen_dict import FrozenMapping
from kvplan.models.inputs import BytesLike, NumberLike
from kvplan.models.json_schema import BY_STAGE, by_keys, whole
from kvplan.models.messages import Misfit, shown
from kvplan.models.pools import Cache
from kvplan.models.units import Demand, Positive, Rate, Whole, parse_integer

KERNEL_TOKENS, MOST_TOKENS = 16, 8192
MOST_LAYERS, MOST_BLOCK_SIZES = 1024, 65_536
"""What is enumerated: layers of a bucket, and block sizes that it may have."""

LayersByStage = Annotated[
    int | FrozenMapping[str, int],
    PlainValidator(
        by_key(lambda value: parse_integer(value, what="layers")),
        json_schema_input_type=whole(0) | by_keys(whole(0)),
    ),
]
"""Layers, all on stage 0 or by pipeline stage."""


class Bucket(Cache):
    """Layers with one retention rule and one page, as one rank holds them.

    The retention rule is written as for a cache of a problem; `pool` and `groups` are decided by
    the layout.
    """

    layers: LayersByStage = Field(
        description="layers of stage 0, or by pipeline stage", json_schema_extra=BY_STAGE
    )
    token_bytes: Rate | None = Field(default=None, description="bytes of one layer a token; exact")
    state_bytes: Demand | None = Field(
        default=None, description="bytes of one layer a block, however many tokens it covers"
    )
    kernel_tokens: Positive = Field(
        default=KERNEL_TOKENS, description="block tokens are multiples of it where pages may split"
    )
    max_tokens_per_block: Positive = Field(
        default=MOST_TOKENS, description="most tokens of a block that the kernel takes"
    )
    split: StrictBool = Field(
        default=True,
        description="whether a block may hold other multiples of kernel_tokens than "
        "tokens_per_block's own",
    )
    pad: StrictBool = Field(
        default=True, description="whether its page may be padded to the common page"
    )
    own_pool: StrictBool = Field(
        default=False, description="whether it may leave the shared pool for one of its own"
    )
    hold_full: StrictBool = Field(
        default=False, description="window, chunked: whether it may be held as full attention is"
    )
    positions: tuple[Whole, ...] | None = Field(
        default=None, description="its layers among the model's, stage by stage; default in order"
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str,
            kind: str,
            layers: int | Mapping[str, int] | Mapping[int, int],
            token_bytes: NumberLike | None = None,
            state_bytes: BytesLike | None = None,
            **more: Any,
        ) -> None: ...

    @model_validator(mode="after")
    def _pages(self) -> Self:
        if (self.token_bytes is None) == (self.state_bytes is None):
            got = "neither" if self.token_bytes is None else "both"
            raise Misfit("either token_bytes or state_bytes", got)
        if self.kind == "state" and self.state_bytes is None:
            raise Misfit("state_bytes on a state", "token_bytes", "state_bytes")
        if not (self.token_bytes or self.state_bytes):
            field = "state_bytes" if self.token_bytes is None else "token_bytes"
            raise Misfit("at least 1 byte", "0", field)
        if self.block_tokens % self.kernel_tokens:
            expected = f"a multiple of kernel_tokens {self.kernel_tokens}"
            raise Misfit(expected, str(self.block_tokens), "tokens_per_block")
        if self.block_tokens > self.max_tokens_per_block:
            expected = f"at least tokens_per_block {self.block_tokens}"
            raise Misfit(expected, str(self.max_tokens_per_block), "max_tokens_per_block")
        return self

    @model_validator(mode="after")
    def _few_block_sizes(self) -> Self:
        step = self.kernel_tokens if self.split else self.block_tokens
        if self.max_tokens_per_block // step > MOST_BLOCK_SIZES:
            expected = f"at most {MOST_BLOCK_SIZES} multiples of {step} tokens"
            raise Misfit(expected, str(self.max_tokens_per_block), "max_tokens_per_block")
        return self

    @model_validator(mode="after")
    def _laid_out_here(self) -> Self:
        for field, left in (("pool", None), ("groups", 1), ("scratch", None)):
            if getattr(self, field) != left:
                expected = f"no {field} (the layout decides, or does not model it)"
                raise Misfit(expected, shown(getattr(self, field)), field)
        if self.retention == "live":
            raise Misfit("a window that keeps peak or in_flight", "live", "keep")
        if self.in_flight == "prefill":
            raise Misfit(
                "tokens in flight (a layout has no prefill section)", "prefill", "in_flight"
            )
        if self.in_flight_per == "batch":
            raise Misfit("request (a flight for each request)", "batch", "in_flight_per")
        if self.hold_full and self.kind not in ("window", "chunked"):
            raise Misfit("hold_full on a window or chunked bucket", self.kind, "hold_full")
        if not 0 < self.total_layers <= MOST_LAYERS:
            raise Misfit(f"1 to {MOST_LAYERS} layers", str(self.total_layers), "layers")
        if self.positions is not None and len(self.positions) != self.total_layers:
            expected = f"{self.total_layers} positions, one a layer"
            raise Misfit(expected, str(len(self.positions)), "positions")
        return self

    @property
    def block_tokens(self) -> int:
        """Tokens of a block as the engine starts from, on one shard."""
        return self.tokens_per_block or KERNEL_TOKENS

    @property
    def by_stage(self) -> dict[int, int]:
        """Layers by stage; only stages that have some."""
        if isinstance(self.layers, int):
            return {0: self.layers}
        return {int(stage): count for stage, count in self.layers.items() if count}

    @property
    def total_layers(self) -> int:
        """Layers of all stages."""
        return sum(self.by_stage.values())

    def page_bytes(self, block_tokens: int) -> int:
        """Bytes of one layer's page before padding: ceil(block_tokens x token_bytes), or a state's.

        block_tokens are those of one shard.
        """
        if self.token_bytes is None:
            return self.state_bytes or 0
        exact = block_tokens * self.token_bytes
        return -(-exact.numerator // exact.denominator)
