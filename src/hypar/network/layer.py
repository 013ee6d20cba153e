"""One layer of a network: its op, what it reads, and its shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.ops.base import Einsum, Op, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer with its shapes.

    Attributes:
        name: unique in the network.
        op_name: name of its op's plug-in.
        op: what it is.
        inputs: names of the layers that it reads.
        input_shapes: shape of one sample of each input.
        shape: shape of one sample of its output.
    """

    name: str
    op_name: str
    op: Op
    inputs: tuple[str, ...]
    input_shapes: tuple[Shape, ...]
    shape: Shape

    @property
    def num_parameters(self) -> int:
        """Trained numbers, biases included."""
        return self.op.num_parameters(self.input_shapes)

    @property
    def parameters(self) -> Mapping[str, int]:
        """Elements of each trained tensor, under frameworks' name for it, as ``conv1.weight``."""
        held = self.op.parameters(self.input_shapes)
        return {f"{self.name}.{tensor}": count for tensor, count in held.items()}

    @property
    def num_statistics(self) -> int:
        """Numbers kept beside the trained ones that no gradient changes."""
        return self.op.num_statistics(self.input_shapes)

    def einsum(self, batch: int) -> Einsum:
        """The layer as a contraction over named dims, for a mini-batch."""
        return self.op.einsum(batch, self.input_shapes, self.shape)

    def macs(self, batch: int = 1) -> int:
        """Multiply-accumulates, forward."""
        return self.einsum(batch).macs if self.op.weighted else 0

    def flop(self, batch: int = 1) -> int:
        """Floating-point operations, forward."""
        if self.op.weighted:
            return self.einsum(batch).flop("forward")
        return batch * self.op.unweighted_flop(self.input_shapes)
