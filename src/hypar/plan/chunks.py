"""The chunks of a plan as its file records them."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from pydantic import Field

from hypar.errors import shown
from hypar.files.record import Record
from hypar.plan.score import Amount

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_NAMED = 6
"""Chunks that are named one by one, at most."""


class ChunksRecord(Record):
    """Layers that exchange their gradients together.

    Attributes:
        asked: the requested manner: a name, or the size of CGDP's rule.
        layers: the names of each chunk's layers, in the order of the backward phase.
        alone_s: the engine's time with a chunk for every layer.
    """

    asked: Manner | Annotated[int, Field(ge=1)]
    layers: list[Annotated[list[str], Field(min_length=1)]]
    alone_s: Amount

    def require_of(self, layers: Sequence[str], *, scored: bool) -> None:
        """Check the chunks against the plan.

        Args:
            layers: the layers that are cut, in topological order.
            scored: whether the plan has a score.

        Raises:
            ValueError: the plan has no score, or a layer is unknown, named twice, or out of the backward phase's order.
        """
        if not scored:
            raise ValueError("score: found none; allowed: one, as gradients are exchanged in chunks")
        if not isinstance(self.asked, str) and self.asked > len(layers):
            allowed = f"{', '.join(CHUNKS)}, or 1 to {len(layers)}"
            raise ValueError(f"chunks.asked: found {shown(self.asked)}; allowed: {allowed}")
        places = {name: place for place, name in enumerate(reversed(layers))}
        last, seen = -1, set()
        for number, chunk in enumerate(self.layers):
            for index, name in enumerate(chunk):
                here = f"chunks.layers[{number}][{index}]: found {shown(name)}"
                if name not in places:
                    raise ValueError(f"{here}; allowed: a layer that is cut")
                if name in seen:
                    raise ValueError(f"{here} again; allowed: each layer once")
                if places[name] < last:
                    before = shown(layers[-1 - last])
                    raise ValueError(f"{here} after {before}; allowed: the order of the backward phase")
                last = places[name]
                seen.add(name)

    @property
    def words(self) -> str:
        """Return the chunks in a few words."""
        if not self.layers:
            return f"no chunks ({self.asked}), as no layer exchanges gradients"
        head = f"{len(self.layers)} chunk{'s' * (len(self.layers) > 1)} ({self.asked})"
        if len(self.layers) <= MOST_NAMED:
            spans = (chunk[0] + (f" to {chunk[-1]}" if len(chunk) > 1 else "") for chunk in self.layers)
            return f"{head}: {', '.join(spans)}"
        sizes = [(size, len([*same])) for size, same in groupby(map(len, self.layers))]
        return (
            f"{head}: "
            + ", ".join(f"{count} of {size} layer{'s' * (size > 1)}" for size, count in sizes[:MOST_NAMED])
            + (", ..." if len(sizes) > MOST_NAMED else "")
        )


Manner = Literal["best", "layers", "one"]


Asked = Manner | int
"""A manner by name, or the size of CGDP's rule."""


CHUNKS: tuple[str, ...] = get_args(Manner)
"""Names of the fastest chunks found, of one for each layer, and of a single one."""
