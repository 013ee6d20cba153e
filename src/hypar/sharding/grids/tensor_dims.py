"""The dims of a tensor between two layers, as the choices of producer and consumer divide them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from hypar.ops.nest import IN_GROUP
from hypar.sharding.grids.bounds import Bounds, Intersections, bounds, intersections, reach

if TYPE_CHECKING:
    from hypar.network.nodes import Content
    from hypar.ops.nest import Nest
    from hypar.ops.windows import Window
    from hypar.sharding.grids.layouts import Layout


@dataclass(frozen=True, eq=False, slots=True)
class GridDim:
    """A dim of a tensor, as producer and consumer divide it.

    Attributes:
        made: the producer's op dim; None if it has none.
        read: the consumer's op dim; None if it has none.
        size: elements of the dim; for real shares 1, or the remaining fraction.
        held: the producer's shards.
        needed: the elements that the consumer's shards read.
        intersections: the intersections of shards held and needed.
    """

    made: str | None
    read: str | None
    size: float
    held: Bounds
    needed: Bounds
    intersections: Intersections


def grid_dims(
    ends: tuple[Nest, Nest],
    layouts: tuple[Layout, Layout],
    content: Content,
    fractions: tuple[float, ...],
    operand: str,
) -> tuple[GridDim, ...]:
    """Return a tensor's dims as producer and consumer divide them into whole elements."""
    made, read = ends
    makes = {tensor: op for op, tensor in made.names["output"].items() if tensor not in content.contracted}
    reads = {tensor: op for op, tensor in read.names[operand].items()}
    left = dict(zip(read.names[operand], fractions, strict=True))
    image = dict(content.shape)
    flat = image.get("height", 1) * image.get("width", 1) > 1 and "height" not in reads
    found = []
    for dim, whole_size in (("batch", read.sizes["batch"]), *content.shape, (IN_GROUP, 1)):
        own, theirs = makes.get(dim), reads.get(dim)
        rest, window = left.get(theirs or "", 1.0), read.windows.get(theirs or "")
        degrees = (layouts[0].of(own), layouts[1].of(theirs))
        if dim == IN_GROUP:
            # Channels in a group have no size of their own; their rest is the size.
            found.append(_elements(own, theirs, *degrees, rest, rest, None, (1, 1), (False, False)))
        else:
            size = math.ceil(whole_size * rest - 1e-9)
            output = size if window is None else math.ceil(read.sizes[theirs or ""] * rest - 1e-9)
            # A shard of a flattened image is a range of its channels, of which the last may be incomplete.
            ranges = flat and dim == "channels"
            units = (_unit(made, own, whole_size), _unit(read, theirs, whole_size))
            found.append(_elements(own, theirs, *degrees, size, output, window, units, (True, not ranges)))
    return tuple(found)


def _unit(nest: Nest, dim: str | None, size: int) -> int:
    return size // nest.sizes["groups"] if dim == "groups" else 1


@lru_cache(maxsize=1024)
def _elements(
    made: str | None,
    read: str | None,
    makers: tuple[int, ...],
    readers: tuple[int, ...],
    size: float,
    output: float,
    window: Window | None,
    units: tuple[int, int],
    whole: tuple[bool, bool],
) -> GridDim:
    """Return a dim divided into whole elements at both ends or at one, with the elements that windows read."""
    held, core = bounds(makers, size, whole[0], units[0]), bounds(readers, output, whole[1], units[1])
    needed = core if window is None else reach(core, window, size)
    return GridDim(made, read, size, held, needed, intersections(made, read, held, needed))
