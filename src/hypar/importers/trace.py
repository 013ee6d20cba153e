"""The neutral graph of a network: the operations that a framework would run, with the shape of every value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.ops.base import Shape

Sizes = tuple[int, ...]
CHANNELS_FIRST = (0, 1, 2, 3)


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

    def elements(self, value: str) -> int:
        """Return the number of elements of a value."""
        return math.prod(self.shapes[value])

    def sample(self, value: str) -> Shape | None:
        """Return the shape of one sample as a model file says it: a vector or an image; None for any other."""
        sizes = self.shapes[value]
        if not sizes or sizes[0] != self.batch or not all(sizes):
            return None
        if len(sizes) == 2:
            return {"channels": sizes[1]}
        if len(sizes) == 4:
            _, channels, height, width = (sizes[axis] for axis in self.layout)
            return {"channels": channels, "height": height, "width": width}
        return None
