"""What llama.cpp has for its caches: a card less weights, compute buffer and the driver's context.

What was not measured is estimated, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvplan.models.engines.cards import chip_of, machine_of
from kvplan.models.engines.checkpoint.weights import Weights
from kvplan.models.engines.estimates import Estimate, at_least, kept_estimate, total_estimate
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.llamacpp.architectures import known_as
from kvplan.models.engines.llamacpp.caches import token_caches
from kvplan.models.engines.llamacpp.flags import context_of, is_flash_off
from kvplan.models.engines.llamacpp.offload import device_bytes, first_layer, layer_count
from kvplan.models.engines.llamacpp.projector import PROJECTOR, projector_bytes
from kvplan.models.engines.missing import no_budget

ESTIMATED = " (estimated)"
MIB = 2**20
CONTEXT = (457 * MIB, 128 * MIB, 768 * MIB)
"""Of a process on a card, and its range. 457 MiB is what ollama (to 0.11) keeps free on every card
beside graph and layers (discover/gpu.go, cudaMinimumMemory); the range is by judgement."""
F32, MASK = 4, 2
WEIGHTS, BUFFER = "weights", "compute buffer"


def rank_budget(architecture: Architecture, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Quota (--available) or memory section of the device.

    Raises
    ------
    InvalidProblem : nothing says how many bytes there are.
    """
    if settings["available"] is not None:
        return {"quota": int(settings["available"])}
    found = {one.term: one for one in estimates(architecture, settings)}
    total, weights = settings.get("total_bytes"), _charged_weights(architecture, settings)
    if total is None or weights is None:
        expected = "--available, or --gpu and --weights-gib"
        raise no_budget("llama.cpp", expected, settings)
    terms = {
        **{one.term: one.bytes for one in kept_estimate(settings)},
        WEIGHTS: weights,
        BUFFER: settings["compute_buffer"],
    }
    if projector_bytes(settings):
        terms[PROJECTOR] = projector_bytes(settings)
    if settings["cuda_context"] is not None or not _is_metal(settings):
        terms[_driver(settings)] = settings["cuda_context"]
    other = {
        f"{term}{ESTIMATED}" if term in found else term: (
            found[term].bytes if term in found else int(count)
        )
        for term, count in terms.items()
    }
    memory: dict[str, Any] = {"total": int(total), "utilization": 1, "other": other}
    if "total" in found:
        memory["estimated"] = ["total"]
    if found:
        names = {term: term if term == "total" else f"{term}{ESTIMATED}" for term in found}
        memory["ranges"] = {names[term]: one.spread for term, one in found.items()}
    return {"memory": memory}


def estimates(architecture: Architecture, settings: Mapping[str, Any]) -> tuple[Estimate, ...]:
    """Terms of the budget that nobody measured, the card's total included."""
    weights = _charged_weights(architecture, settings)
    measured = settings["available"] is not None
    if measured or settings.get("total_bytes") is None or weights is None:
        return ()
    found = [*total_estimate(settings), *kept_estimate(settings)]
    if _tensors(architecture, settings) is None and first_layer(architecture, settings):
        found.append(_share_estimate(architecture, settings, weights))
    if settings["compute_buffer"] is None:
        found.append(compute_buffer(architecture, settings))
    if settings["cuda_context"] is None and not _is_metal(settings):
        found.append(Estimate(_driver(settings), "--cuda-context", *CONTEXT))
    return tuple(found)


def compute_buffer(architecture: Architecture, settings: Mapping[str, Any]) -> Estimate:
    """The compute buffer: f32 logits and hidden states of a ubatch, and the masks of attention.

    A mask is ubatch x cells x 2 B for each of the full and the window cache; without flash
    attention f32 scores of all heads come on top (ollama #9181). The allocator may lay masks and
    logits over each other, so the larger one is the least; 3/2 of the sum, the most, is by
    judgement. Llama-3-8B at 512: 258.5 MiB of logits and hidden states, as its logs have it.
    """
    ubatch, output = context_of(architecture, settings).ubatch, output_bytes(architecture, settings)
    cells = [one.cells for one in token_caches(architecture, settings) if one.name != "index"]
    attention = attention_bytes(architecture, settings, cells)
    size = output + attention
    said = ubatch * (architecture.vocabulary + architecture.hidden_dim) * F32
    return Estimate(BUFFER, "--compute-buffer", size, max(said, attention), -(-size * 3 // 2))


def output_bytes(architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """Logits and hidden states of a ubatch, f32."""
    width = at_least(architecture, "vocabulary") + at_least(architecture, "hidden_dim")
    return context_of(architecture, settings).ubatch * width * F32


def attention_bytes(
    architecture: Architecture, settings: Mapping[str, Any], cells: Sequence[int]
) -> int:
    """Masks over the cells of each cache; scores of the longest one without flash attention."""
    ubatch = context_of(architecture, settings).ubatch
    masks = ubatch * sum(cells) * MASK
    if not is_flash_off(settings):
        return masks
    return masks + ubatch * max(cells, default=0) * F32 * at_least(architecture, "query_heads")


def _is_metal(settings: Mapping[str, Any]) -> bool:
    """Whether no driver's context takes memory of its own."""
    machine = machine_of(settings.get("gpu"))
    return machine is not None and machine.platform == "metal"


def _driver(settings: Mapping[str, Any]) -> str:
    gpu = settings.get("gpu")
    return "HIP context" if gpu is not None and chip_of(gpu).is_amd else "CUDA context"


def _tensors(architecture: Architecture, settings: Mapping[str, Any]) -> Weights | None:
    """A GGUF file's tensors, unless --weights-gib says what to charge."""
    listed: Weights | None = settings.get("weights")
    if settings.get("weights_bytes") is not None or listed is None or not listed.tensors:
        return None
    return listed if known_as(architecture) == architecture.name else None


def _charged_weights(architecture: Architecture, settings: Mapping[str, Any]) -> int | None:
    """Bytes of the weights on the device: by tensor of a GGUF file, else its share of the slots."""
    tensors, whole = _tensors(architecture, settings), _file_bytes(settings)
    if tensors is not None:
        return device_bytes(architecture, settings, tensors)
    if whole is None:
        return None
    slots, held = layer_count(architecture) + 1, _slots_held(architecture, settings)
    return -(-whole * held // slots)


def _file_bytes(settings: Mapping[str, Any]) -> int | None:
    """--weights-gib, else the weights at hand."""
    listed, said = settings.get("weights"), settings.get("weights_bytes")
    if said is not None:
        return int(said)
    return None if listed is None else int(listed.total_bytes)


def _slots_held(architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """Slots on the device: layers from the last, the output first of all."""
    return layer_count(architecture) + 1 - first_layer(architecture, settings)


def _share_estimate(
    architecture: Architecture, settings: Mapping[str, Any], share: int
) -> Estimate:
    """The even share of slots, between no bytes of the output and a quarter of the file.

    In the latter case the embedding, on the host, is another quarter.
    """
    size = _file_bytes(settings) or 0
    layers, held = layer_count(architecture), _slots_held(architecture, settings)
    beside = max(0, held - 1)
    light = size * beside // layers
    heavy = size * beside // (2 * layers) + (size // 4 if held else 0)
    return Estimate(
        WEIGHTS, "a GGUF file", share, min(light, heavy, share), max(light, heavy, share)
    )
