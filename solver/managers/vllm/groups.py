"""A plan in vLLM's own types: its groups of layers, dealt anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from kvplan.solver.managers.guard import LeftAlone
from kvplan.solver.managers.vllm.seams import GROUPS

Groups = list[Any]
Deal = Callable[[Groups, Mapping[str, Any]], Groups]
"""From vLLM's own groups and the specs of all layers to other groups."""


def by_width(group_layers: int) -> Deal | None:
    """Deal groups of at most so many layers; None (0) keeps vLLM's own."""
    if not group_layers:
        return None
    return lambda groups, specs: regroup(groups, list(specs), group_layers)


def regroup(groups: Sequence[Any], layer_names: Sequence[str], group_layers: int) -> Groups:
    """Deal the layers of vLLM's groups into groups of at most so many layers.

    Layers that share a spec make a bucket; a bucket of n becomes ceil(n / group_layers) groups,
    dealt in turn, so that every pipeline stage gets a share of each (as vLLM deals its own).

    Parameters
    ----------
    groups : KVCacheGroupSpec, as get_kv_cache_groups returns them.
    layer_names : of all layers, in vLLM's order.

    Raises
    ------
    LeftAlone : groups that kvplan does not deal anew.
    """
    place = {name: index for index, name in enumerate(layer_names)}
    buckets: list[tuple[Any, list[str]]] = []
    for group in groups:
        _check_group(group)
        names = next((names for spec, names in buckets if spec == group.kv_cache_spec), None)
        if names is None:
            names = []
            buckets.append((group.kv_cache_spec, names))
        names += group.layer_names
    made = []
    for spec, names in buckets:
        names.sort(key=place.__getitem__)
        number = -(-len(names) // group_layers)
        made += [type(groups[0])(names[index::number], spec) for index in range(number)]
    return made


def _check_group(group: Any) -> None:
    if getattr(group, "is_eagle_group", False):
        raise LeftAlone("EAGLE groups are not modelled")
    if getattr(group, "host_resident", False) or hasattr(group.kv_cache_spec, "kv_cache_specs"):
        raise LeftAlone("groups of several page sizes or on the host are not dealt anew")


def grouped(
    deal: Deal | None, own: Callable[..., Groups]
) -> Callable[[Any, dict[str, Any]], Groups]:
    """get_kv_cache_groups as a plan wants it: groups dealt anew, or vLLM's own."""

    def planned(config: Any, kv_cache_spec: dict[str, Any]) -> Groups:
        specs = dict(kv_cache_spec)  # vLLM may change its own
        groups = own(config, kv_cache_spec)
        return groups if deal is None else deal(groups, specs)

    return planned


@contextmanager
def groups_replaced(module: ModuleType, deal: Deal | None) -> Iterator[None]:
    """Let vLLM's planning module deal other groups."""
    groups = getattr(module, GROUPS)
    setattr(module, GROUPS, grouped(deal, groups))
    try:
        yield
    finally:
        setattr(module, GROUPS, groups)


def group_sizes(configs: Sequence[Any]) -> tuple[int, ...]:
    """Layers of every group of some KVCacheConfigs, over all pipeline stages."""
    groups = zip(*(config.kv_cache_groups for config in configs), strict=True)
    return tuple(len({name for group in alike for name in group.layer_names}) for alike in groups)
