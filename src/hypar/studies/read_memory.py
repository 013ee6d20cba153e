"""The memory of a device as reproductions of papers count it: of activations what weighted layers read.

A paper that gives a memory in bytes gives no more than tensors; a training step keeps more, as a score counts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.network.keeping import Trailing
from hypar.schedule.lifetimes import course_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.contraction import ContractedGraph, CutLayer
    from hypar.sharding.placement import Options


def read_memory(
    memory_bytes: float, graph: ContractedGraph, choices: Sequence[Options], element_bytes: int
) -> float:
    """Return the memory of a scored plan if of its activations only those count that weighted layers read.

    Outputs that a pool reduces count as well; an op that leaves a size as it is overwrites its input; masks, statistics, what other ops read, and errors do not.

    Args:
        memory_bytes: the memory of the score.
        graph: the layers of the plan.
        choices: for each layer a choice at each level.
        element_bytes: bytes of one element.
    """
    whole = course_of(graph, choices, element_bytes)
    read = course_of(graph, choices, element_bytes, trail_of=_read_trail)
    return memory_bytes - whole.peak + read.activations


def _read_trail(layer: CutLayer) -> tuple[Trailing, ...]:
    """Return a layer's trail in which only what weighted layers read, and an output that a pool reduces, is kept.

    An op behind the layer that leaves the number of elements as it is overwrites its input.
    """
    reduced = not (layer.join or math.isclose(layer.trail[0].elements, layer.output_elements))
    found: list[Trailing] = []
    for op in layer.trail:
        before = None if op.source is None else found[op.source]
        in_place = before is not None and before.elements == op.elements
        found.append(
            Trailing(
                source=op.source,
                target=op.source if in_place and op.source is not None else op.target,
                elements=op.elements,
                contracted=op.contracted,
                passes=op.passes,
                keeps_input=before is None and not layer.join,
                keeps_output=before is None and reduced,
            )
        )
    return tuple(found)
