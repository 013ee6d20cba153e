"""Rectifier with trained slopes below 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.network.keeping import Keeps
from hypar.network.ops.bases.trained import Trained

if TYPE_CHECKING:
    from hypar.network.ops.base import Op, Shape


class Prelu(Trained):
    """``F_out = max(0, F_in) + W min(0, F_in)``, with one slope for each element of the dims ``over``, or one for all.

    Source: He and others, Delving Deep into Rectifiers (ICCV 2015), section 2.1.
    """

    def dims(self, shape: Shape) -> tuple[str, ...]:
        """Return the dims of the slopes: none by default."""
        return super().dims(shape) if self.over is not None else ()

    def table(self, name: str) -> int:  # noqa: ARG002
        """Return the one row of a slope for all."""
        return int(self.over is None)

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:  # noqa: ARG002
        """Return that it keeps its input, whose sign says which slope it has."""
        return Keeps(input=True)


plugin: type[Op] = Prelu
