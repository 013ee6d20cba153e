"""Reading of a trace: every operation becomes layers of a model file, leaves, or is opaque."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hypar.errors import ModelError
from hypar.importers.rules import Entry, View
from hypar.network.windows import ShapeError
from hypar.registry import load_plugin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypar.importers.rules import Said, Table
    from hypar.importers.trace import Node, Trace
    from hypar.network.ops.base import Op, Shape

OPAQUE = "opaque"
OTHER: Entry = ("pointwise", {"function": "other"})


@dataclass(slots=True, kw_only=True)
class Draft:
    """A layer before it has a name.

    Attributes:
        op: name of its op.
        fields: fields of the op.
        reads: numbers of the layers that it reads.
        shape: shape of one sample of its output.
        scope: path of the module that runs it.
        kind: the framework's name of the operation.
        weights: identities of its trained tensors.
        flop: operations of the contractions that it says, over the whole example.
    """

    op: str
    fields: dict[str, Any]
    reads: tuple[int, ...]
    shape: Shape
    scope: tuple[str, ...] = ()
    kind: str = ""
    weights: frozenset[str] = frozenset()
    flop: int = 0


@dataclass(frozen=True, slots=True)
class _Weight:
    """A value that depends on trained tensors alone."""

    identities: frozenset[str]


@dataclass(slots=True)
class _Hidden:
    """A value whose shape a model file cannot say: what it reads, and the operations that no layer holds yet."""

    reads: tuple[int, ...]
    kinds: list[str] = field(default_factory=list)
    weights: frozenset[str] = frozenset()
    flop: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """The layers of a network and what is behind them.

    Attributes:
        trace: the network.
        drafts: the layers, of which the last is the result.
        sizes: elements of each trained tensor that an operation reads.
        flop: operations of all contractions of the example.
    """

    trace: Trace
    drafts: tuple[Draft, ...]
    sizes: dict[str, int]
    flop: int


def read_trace(trace: Trace, table: Table) -> Reading:
    """Return the layers of a trace, those on which its result does not depend left out.

    Raises:
        ModelError: the shape of an input or of the result cannot be said in a model file.
    """
    reader = _Reader(trace, table)
    for value in trace.inputs:
        reader.feed(value)
    for node in trace.nodes:
        reader.add(node)
    drafts = _needed(reader.drafts, reader.result())
    return Reading(trace, drafts, reader.sizes, sum(node.flop for node in trace.nodes))


def _needed(drafts: list[Draft], last: int) -> tuple[Draft, ...]:
    """Return the layers that the last one depends on, numbered anew."""
    needed, waiting = set(), [last]
    while waiting:
        number = waiting.pop()
        if number not in needed:
            needed.add(number)
            waiting += drafts[number].reads
    kept = sorted(needed)
    new = {old: number for number, old in enumerate(kept)}
    for number in kept:
        drafts[number].reads = tuple(new[read] for read in drafts[number].reads)
    return tuple(drafts[number] for number in kept)


class _Reader:
    """Goes through a trace; ``known`` holds a layer's number, a weight or a hidden value; constants are not in it."""

    def __init__(self, trace: Trace, table: Table) -> None:
        self.trace, self.table = trace, table
        self.drafts: list[Draft] = []
        self.sizes: dict[str, int] = {}
        self.known: dict[str, int | _Weight | _Hidden] = {
            value: _Weight(frozenset([identity])) for value, identity in trace.parameters.items()
        }

    def feed(self, value: str) -> None:
        """Add an input."""
        shape = self.trace.sample(value)
        if shape is None:
            sizes = "x".join(map(str, self.trace.shapes[value][1:])) or "nothing"
            allowed = "channels, or channels, height and width: --input 784 or --input 3x224x224"
            raise ModelError(self.trace.name, f"found a sample of {sizes} in its input", allowed)
        self.known[value] = len(self.drafts)
        self.drafts.append(Draft(op="input", fields=dict(shape), reads=(), shape=shape))

    def result(self) -> int:
        """Return the number of the layer that is the network's result."""
        found = self.known.get(self.trace.output)
        if isinstance(found, int):
            return found
        if isinstance(found, _Hidden):
            sizes = "x".join(map(str, self.trace.shapes[self.trace.output]))
            raise ModelError(self.trace.name, f"found a result of {sizes}", "a vector or an image a sample")
        raise ModelError(self.trace.name, "the result does not depend on the input")

    def add(self, node: Node) -> None:
        """Add an operation."""
        found = [(value, self.known[value]) for value in node.read if value in self.known]
        weights = frozenset[str]().union(*(at.identities for _, at in found if isinstance(at, _Weight)))
        data = tuple(value for value, at in found if not isinstance(at, _Weight))
        if not data:
            if weights:
                self.known[node.result] = _Weight(weights)
            return
        for value in node.read:
            if isinstance(self.known.get(value), _Weight):
                self.count(value)
        view = View(
            trace=self.trace,
            node=node,
            data=data,
            weights=tuple(value for value, at in found if isinstance(at, _Weight)),
        )
        self.known[node.result] = self.said(view, weights) or self.opaque(view, weights)

    def count(self, value: str) -> None:
        """Note the size of the trained tensors behind a value."""
        for name, identity in self.trace.parameters.items():
            at = self.known[value]
            if isinstance(at, _Weight) and identity in at.identities:
                self.sizes[identity] = self.trace.elements(name)

    def said(self, view: View, weights: frozenset[str]) -> int | None:
        """Add the layers that say an operation, and return the last one's number; None where no layer can."""
        reads = [at for value in view.data if isinstance(at := self.known[value], int)]
        if len(reads) < len(view.data):
            return None
        rule = self.table.get(view.node.kind)
        chain = rule(view) if rule else None
        if (
            chain is None
            and not weights
            and not view.node.flop
            and len(reads) == 1
            and view.made == view.read
        ):
            chain = [OTHER] if view.made else None
        shapes = None if chain is None else self.shapes(chain, reads, weights)
        if chain is None or shapes is None or (shapes or [view.read])[-1] != view.made:
            return None
        for (op, fields), shape in zip(chain, shapes, strict=True):
            self.drafts.append(
                Draft(
                    op=op, fields=fields, reads=tuple(reads), shape=shape,
                    scope=view.node.scope, kind=view.node.kind, weights=weights, flop=view.node.flop,
                )
            )  # fmt: skip
            reads, weights = [len(self.drafts) - 1], frozenset()
        return reads[0]

    def shapes(self, chain: Said, reads: list[int], weights: frozenset[str]) -> list[Shape] | None:
        """Return the shapes of a chain of layers; None where they do not fit, or not all its weights are said."""
        inputs, found, parameters = tuple(self.drafts[read].shape for read in reads), [], 0
        try:
            for op_name, fields in chain:
                op = _op(op_name, tuple((key, _frozen(value)) for key, value in fields.items()))
                found.append(op.output_shape(inputs))
                parameters += op.num_parameters(inputs)
                inputs = (found[-1],)
        except (ShapeError, ValidationError):
            return None
        return found if parameters == sum(self.sizes[identity] for identity in weights) else None

    def opaque(self, view: View, weights: frozenset[str]) -> int | _Hidden:
        """Add what no layer says as an opaque one, together with what it reads of hidden values."""
        region = _Hidden((), [view.node.kind], weights, view.node.flop)
        for value in view.data:
            at = self.known[value]
            if isinstance(at, _Hidden):
                region.reads += at.reads
                region.kinds = [*at.kinds, *region.kinds]
                region.weights |= at.weights
                region.flop += at.flop
                # A second reader holds the same operations no more.
                self.known[value] = _Hidden(at.reads)
            elif isinstance(at, int):
                region.reads += (at,)
        shape = self.trace.sample(view.node.result)
        if shape is None:
            return region
        kind = "-".join(dict.fromkeys(region.kinds))[:100]
        parameters = sum(self.sizes[identity] for identity in region.weights)
        fields: dict[str, Any] = {"kind": kind, **shape}
        if parameters:
            fields["trained"] = parameters
        self.drafts.append(
            Draft(
                op=OPAQUE, fields=fields, reads=tuple(dict.fromkeys(region.reads)), shape=shape,
                scope=view.node.scope, kind=kind, weights=region.weights, flop=region.flop,
            )
        )  # fmt: skip
        return len(self.drafts) - 1


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@cache
def _op(name: str, fields: Iterable[tuple[str, Any]]) -> Op:
    found: Op = load_plugin("ops", name)(**dict(fields))
    return found
