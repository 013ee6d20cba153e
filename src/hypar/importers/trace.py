"""The neutral graph of a network: the operations that a framework would run, with the shape of every value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.ops.base import Shape

Sizes = tuple[int, ...]
CHANNELS_FIRST = (0, 1, 2, 3)
DIMS = ("channels", "depth", "height", "width")
"""The dims of a volume, of which an image lacks the second, and a vector all but the first."""

ROW = 3
"""Axes of images of one row, which have no height."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operation.

    Attributes:
        kind: the framework's name of the operation.
        operands: names of the values that it reads, by the framework's name of the operand.
        attributes: its other arguments by name.
        result: name of the value that it makes.
        scope: path of the module that runs it, outermost first.
        flop: floating-point operations of a contraction over the whole example, two for each product; 0 for any other.
    """

    kind: str
    operands: Mapping[str, tuple[str, ...]]
    attributes: Mapping[str, Any]
    result: str
    scope: tuple[str, ...] = ()
    flop: int = 0

    @property
    def read(self) -> tuple[str, ...]:
        """Names of all values that it reads."""
        return tuple(name for names in self.operands.values() for name in names)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A network as a framework runs it on one example.

    Attributes:
        name: name of the network.
        source: the framework and what was imported.
        batch: samples of the example.
        dtype: number format of the first input.
        inputs: names of the values that are fed.
        parameters: identity of the trained tensor behind a value; tied values have the same.
        shapes: shape of every value, the batch first.
        nodes: operations in an order in which they can run.
        output: name of the value that is the network's result.
        classes: name of the class of the module at a path, where the framework knows it.
        layout: axes of an image that are its batch, channels, height and width.
        aside: number of further results, which are left out.
        tokens: inputs of whole numbers.
        whole: square constants that are no causal masks: their first row ends as it begins.
        rows: whether an input of three axes that a convolution reads is an image of one row, and not a sequence.
    """

    name: str
    source: str
    batch: int
    dtype: str
    inputs: tuple[str, ...]
    parameters: Mapping[str, str]
    shapes: Mapping[str, Sizes]
    nodes: tuple[Node, ...]
    output: str
    classes: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    layout: Sizes = CHANNELS_FIRST
    aside: int = 0
    tokens: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    rows: bool = True

    @cached_property
    def makers(self) -> dict[str, Node]:
        """The operation that makes each value."""
        return {node.result: node for node in self.nodes}

    @cached_property
    def trained(self) -> dict[str, int]:
        """Elements of each trained tensor, by its identity."""
        return {identity: self.elements(name) for name, identity in self.parameters.items()}

    @cached_property
    def dependent(self) -> frozenset[str]:
        """The values that depend on an input."""
        found = set(self.inputs)
        for node in self.nodes:
            if not found.isdisjoint(node.read):
                found.add(node.result)
        return frozenset(found)

    def behind(self, value: str) -> tuple[Node, ...]:
        """Return the operations on which a value depends."""
        wanted, found = {value}, list[Node]()
        for node in reversed(self.nodes):
            if node.result in wanted:
                wanted |= {*node.read}
                found.append(node)
        return tuple(reversed(found))

    @cached_property
    def ranks(self) -> frozenset[int]:
        """The axes of an input that a convolution reads: 3 of a row, 5 of a volume; tensors of as many are rows or volumes."""
        read = {
            node.read[0]
            for node in self.nodes
            if node.read and node.kind.lower() in {"conv", "conv1d", "conv3d", "convolution"}
        }
        return frozenset(len(self.shapes[value]) for value in self.inputs if value in read) & (
            {ROW, 5} if self.rows else {5}
        )

    def axes(self, rank: int) -> tuple[str, ...]:
        """Return the dims of the axes of a vector, an image, a row or a volume; nothing for tensors of another rank."""
        images = ("batch", "channels", "height", "width")
        known = {
            2: images[:2],
            4: tuple(name for _, name in sorted(zip(self.layout, images, strict=True))),
            ROW: ("batch", "channels", "width"),
            5: ("batch", *DIMS),
        }
        return known.get(rank, ()) if rank in self.ranks | {2, 4} else ()

    def elements(self, value: str) -> int:
        """Return the number of elements of a value."""
        return math.prod(self.shapes[value])

    def sample(self, value: str) -> Shape | None:
        """Return the shape of one sample as a model file says it: a vector, an image, a row or a volume; None for any other."""
        sizes, names = self.shapes[value], self.axes(len(self.shapes[value]))
        if not names or sizes[0] != self.batch or not all(sizes):
            return None
        found = {"height": 1, **dict(zip(names, sizes, strict=True))}
        return {name: found[name] for name in dims_of(len(names))}


def dims_of(rank: int) -> tuple[str, ...]:
    """Return the dims of a sample of a vector, a row, an image or a volume of some axes, in their order in model files."""
    return {2: DIMS[:1], 5: DIMS}.get(rank, (DIMS[0], *DIMS[2:]))
