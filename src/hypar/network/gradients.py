"""The gradients that are ready after the backward phase of each weighted layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradients:
    """The gradients ready for exchange after the backward phase of a weighted layer.

    Attributes:
        layer: the weighted layer's name.
        parameters: names of the trained tensors, in the order in which their gradients become ready.
        num_bytes: bytes of their gradients.
    """

    layer: str
    parameters: tuple[str, ...]
    num_bytes: int


def gradients_of(graph: LayerGraph) -> tuple[Gradients, ...]:
    """Return the gradients of each weighted layer, from the first layer to the last.

    Trained ops without a weight of their own, such as ``batch_norm``, belong to the weighted layer before them, whose
    backward phase comes next; those before the first weighted layer belong to that one.
    """
    groups: list[list[Layer]] = [[]]
    for layer in graph.layers:
        if layer.weighted and any(member.weighted for member in groups[-1]):
            groups.append([])
        groups[-1].append(layer)
    return tuple(_gradients(group, graph.element_bytes) for group in groups)


def _gradients(group: list[Layer], element_bytes: int) -> Gradients:
    """Return the gradients of consecutive layers, one of them weighted."""
    held = {name: count for layer in reversed(group) for name, count in layer.parameters.items()}
    return Gradients(
        layer=next(layer.name for layer in group if layer.weighted),
        parameters=tuple(held),
        num_bytes=sum(held.values()) * element_bytes,
    )
