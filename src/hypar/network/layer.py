"""One layer of a network: its op, its inputs and its shapes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.ops.base import Op, Shape
    from hypar.ops.nest import Nest, Operand


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

    def nest(self, batch: int) -> Nest:
        """Return the layer as a loop nest over named dims, for a mini-batch; equal layers share one."""
        return _nest(self.op, tuple(tuple(shape.items()) for shape in self.input_shapes), batch)

    @property
    def trained(self) -> Mapping[str, Operand]:
        """Its own trained tensors by their names in frameworks, such as ``weight``."""
        trained = self.nest(1).trained
        return {name: own for name, own in trained.items() if not (self.op.tied and name == "weight")}

    @property
    def parameters(self) -> dict[str, int]:
        """Elements of each trained tensor by its name in frameworks, such as ``conv1.weight``."""
        return {f"{self.name}.{tensor}": math.prod(own.shape) for tensor, own in self.trained.items()}

    @property
    def num_parameters(self) -> int:
        """Number of trained parameters, biases included."""
        return sum(self.parameters.values())

    @property
    def num_statistics(self) -> int:
        """Number of untrained statistics, such as running means."""
        return self.nest(1).untrained

    @property
    def weighted(self) -> bool:
        """Whether it has a weight to cut."""
        return self.op.node == "weight"

    def macs(self, batch: int = 1) -> int:
        """Return the multiply-accumulates, forward."""
        return self.nest(batch).macs

    def flop(self, batch: int = 1) -> int:
        """Return the floating-point operations, forward."""
        nest = self.nest(batch)
        return nest.flop("forward") or nest.operations


@lru_cache(maxsize=16384)
def _nest(op: Op, inputs: tuple[tuple[tuple[str, int], ...], ...], batch: int) -> Nest:
    return op.nest(batch, tuple(map(dict, inputs)))
