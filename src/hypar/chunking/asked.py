"""How the chunks of a plan may be asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast, get_args

from hypar.chunks import checked_size
from hypar.errors import OptionError

if TYPE_CHECKING:
    from hypar.graph import LayerGraph

Manner = Literal["best", "layers", "one"]
Asked = Manner | int
"""A manner by name, or the size of CGDP's rule."""

CHUNKS: tuple[str, ...] = get_args(Manner)
"""The fastest found, every layer by itself, all together."""


def checked_chunks(chunks: str | int | None, graph: LayerGraph, *, machine: bool) -> Asked | None:
    """The chunks asked for; None where none are.

    Args:
        chunks: a name of ``CHUNKS``, or a size, from the command line too.
        graph: the network.
        machine: whether one is named.

    Raises:
        OptionError: nothing of the kind, or there is no machine.
    """
    if chunks is None:
        return None
    if not machine:
        raise OptionError("chunks", "no machine is named", "one, as --hardware hmc")
    if isinstance(chunks, str) and chunks in CHUNKS:
        return cast("Manner", chunks)
    weighted = sum(layer.weighted for layer in graph.contracted.layers)
    return checked_size(chunks, weighted, CHUNKS)
