"""One layer of a network: its op, its inputs and its shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.einsum import Einsum
    from hypar.network.ops.base import Op, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer with its shapes.

    Attributes:
        name: name, unique in the network.
        op_name: name of its op's plug-in.
        op: its op.
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
        """Number of trained parameters, biases included."""
        return self.op.num_parameters(self.input_shapes)

    @property
    def parameters(self) -> Mapping[str, int]:
        """Elements of each trained tensor by its name in frameworks, such as ``conv1.weight``."""
        held = self.op.parameters(self.input_shapes)
        return {f"{self.name}.{tensor}": count for tensor, count in held.items()}

    @property
    def num_statistics(self) -> int:
        """Number of untrained statistics, such as running means."""
        return self.op.num_statistics(self.input_shapes)

    def einsum(self, batch: int) -> Einsum:
        """Return the layer as a contraction over named dims, for a mini-batch."""
        return self.op.einsum(batch, self.input_shapes, self.shape)

    def macs(self, batch: int = 1) -> int:
        """Return the multiply-accumulates, forward."""
        return self.einsum(batch).macs if self.op.multiplies else 0

    def flop(self, batch: int = 1) -> int:
        """Return the floating-point operations, forward."""
        if self.op.weighted:
            return self.einsum(batch).flop("forward")
        return batch * self.op.unweighted_flop(self.input_shapes)
