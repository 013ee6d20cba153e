"""One layer of a network: its op, its inputs and its shapes; and the tensors and weights that several layers use."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from hypar.errors import ModelError
from hypar.ops.base import Facts, Op, Shape
from hypar.ops.dims import atom_of
from hypar.ops.nest import Nest, Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer.

    Attributes:
        name: name, unique in the network.
        op_name: name of its op's plug-in.
        op: its op; equal ones are one object.
        inputs: names of the layers that it reads.
        input_shapes: shape of one sample of each input, once they are inferred.
        shape: shape of one sample of its output, likewise.
    """

    name: str
    op_name: str
    op: Op
    inputs: tuple[str, ...]
    input_shapes: tuple[Shape, ...] = ()
    shape: Shape = field(default_factory=dict)

    def nest(self, batch: int) -> Nest:
        """Return the layer as a loop nest over named dims, for a mini-batch; equal layers share one."""
        return _nest(self.op, tuple(tuple(shape.items()) for shape in self.input_shapes), batch)

    def reading(self, others: Mapping[str, str]) -> Layer:
        """Return the layer with others in place of some that it reads, by name."""
        return replace(self, inputs=tuple([others.get(name, name) for name in self.inputs]))

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
    def weighted(self) -> bool:
        """Whether it has a weight to cut."""
        return self.op.node == "weight"

    def macs(self, batch: int = 1) -> int:
        """Return the multiply-accumulates, forward."""
        return self.nest(batch).macs

    def flop(self, batch: int = 1) -> int:
        """Return the floating-point operations, forward."""
        nest = self.nest(batch)
        return nest.flop["forward"] or nest.operations


@lru_cache(maxsize=16384)
def _nest(op: Op, inputs: tuple[tuple[tuple[str, int], ...], ...], batch: int) -> Nest:
    return op.nest(batch, tuple(map(dict, inputs)))


class Tie(NamedTuple):
    """A layer that uses the weight of another, its owner.

    The axes are the place in the user's weight of each dim of the owner's, as ``np.transpose`` takes them.
    """

    user: str
    owner: str
    axes: tuple[int, ...]


def ties_of(layers: Sequence[Layer]) -> tuple[Tie, ...]:
    """Return the ties of a network, in the order of its layers; raises ``ModelError`` where dims are unlike."""
    named = {layer.name: layer for layer in layers}
    found = []
    for layer in layers:
        if layer.op.tied is not None:
            owner = named[layer.op.tied]
            wanted = _dims(owner) if owner.op.tied is None else {}
            own = _dims(layer)
            if own != wanted:
                mine, theirs = (" x ".join(f"{dim} {of[dim]}" for dim in of) for of in (own, wanted))
                tied = f"{owner.name!r} of {theirs or 'no weight of its own'}"
                raise ModelError(layer.name, f"a weight of {mine} tied to {tied}", "equal dims")
            found.append(Tie(layer.name, owner.name, tuple(map([*own].index, wanted))))
    return tuple(found)


def _dims(layer: Layer) -> dict[str, int]:
    """Return the dims of a layer's weight with their sizes, by their names in tensors."""
    nest = layer.nest(1)
    return {atom_of(dim): nest.sizes[dim] for dim in nest.weight}


class Rest(Op):
    """A tensor at rest between the layer that makes it and several that multiply it: it goes there once, and its error back once."""

    node = "join"

    def _facts(self, shape: Shape) -> Facts:  # noqa: ARG002
        return {"passes": True, "view": True}


def with_rests(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Return layers in topological order, with a tensor at rest behind each whose output several multiply: ``NAME.rest``."""
    multiply = {layer.name for layer in layers if layer.op.node and layer.nest(1).multiplies}
    readers = Counter(name for layer in layers if layer.name in multiply for name in {*layer.inputs})
    found, made, rests = list[Layer](), set[str](), dict[str, str]()
    for layer in layers:
        found.append(layer.reading(rests) if layer.name in multiply else layer)
        if layer.op.node or not made.isdisjoint(layer.inputs):
            made.add(layer.name)
            if readers[layer.name] > 1 and layer.op_name != "rest":
                own = rests[layer.name] = f"{layer.name}.rest"
                rest = replace(layer, name=own, op_name="rest", op=Rest(), inputs=(layer.name,))
                found.append(replace(rest, input_shapes=(layer.shape,)))
    return tuple(found)
