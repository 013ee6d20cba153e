"""Learned positions: a trained tensor that is added to every sample."""

from __future__ import annotations

from hypar.network.ops.base import Op, Shape, Size
from hypar.network.ops.bases.trained import Trained


class Position(Trained):
    """``F_out = F_in + W``, with one trained number for each element of a sample, or of the dims ``over``.

    With ``rows`` the trained tensor is a table: an element adds a number of the row that its place along the other dims
    stands for, as relative positions share those of one distance, and as a table of positions that is longer than a sample.
    """

    rows: Size | None = None

    def table(self, name: str) -> int:  # noqa: ARG002
        """Return the rows of the table; 0 if it is none."""
        return self.rows or 0

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:
        """Return the elements of the trained tensor."""
        return (self.rows or 1) * super().num_parameters(inputs)


plugin: type[Op] = Position
