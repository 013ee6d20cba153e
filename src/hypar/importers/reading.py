"""Reading of a trace: every operation becomes layers of a model file, leaves, or is opaque."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hypar.errors import ModelError
from hypar.importers.atoms import BATCH, Atoms
from hypar.importers.drafts import JOINED, Draft, Drafts, Held
from hypar.importers.regions import COMPOSED, composed
from hypar.importers.trace import ROW, dims_of
from hypar.importers.view import Entry, View, put
from hypar.ops.windows import ShapeError
from hypar.registry import load_plugin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hypar.importers.trace import Node, Trace
    from hypar.importers.view import Said, Table
    from hypar.ops.base import Op, Shape

OPAQUE = "opaque"
OTHER: Entry = ("pointwise", {"function": "other"})


@dataclass(frozen=True, slots=True)
class _Weight:
    """A value that depends on trained tensors alone."""

    identities: frozenset[str]


@dataclass(slots=True)
class _Hidden:
    """A value whose shape a model file cannot say.

    Attributes:
        reads: numbers of the layers that it depends on.
        named: whether one of these has named dims.
        kinds: the operations that no layer holds yet.
        weights: identities of their trained tensors.
        flop: operations of their contractions.
    """

    reads: tuple[int, ...]
    named: bool = False
    kinds: list[str] = field(default_factory=list)
    weights: frozenset[str] = frozenset()
    flop: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """The layers of a network and what is behind them.

    Attributes:
        trace: the network.
        drafts: the layers, of which the last is the result.
        atoms: the atoms of their tensors.
        sizes: elements of each trained tensor that an operation reads.
        flop: operations of all contractions of the example.
    """

    trace: Trace
    drafts: tuple[Draft, ...]
    atoms: Atoms
    sizes: dict[str, int]
    flop: int


def read_trace(trace: Trace, table: Table) -> Reading:
    """Return the layers of a trace, those on which its result does not depend left out.

    Where not all is said of images of one row, they are read as sequences if more is said of these.

    Raises:
        ModelError: the shape of an input or of the result cannot be said in a model file.
    """
    trace = replace(trace, nodes=trace.behind(trace.output))
    found = _reading(trace, table)
    if ROW not in trace.ranks or not any(draft.op == OPAQUE for draft in found.drafts):
        return found
    return max(found, _reading(replace(trace, rows=False), table), key=_said)


def _said(reading: Reading) -> tuple[int, int]:
    """Return how many operations a reading says, and the opaque layers below none."""
    said = [draft for draft in reading.drafts if draft.op != OPAQUE]
    return sum(draft.flop for draft in said), len(said) - len(reading.drafts)


def _reading(trace: Trace, table: Table) -> Reading:
    """Return the layers of a trace."""
    nodes = composed(trace)
    undivided: frozenset[str] = frozenset()
    while True:
        reader = _Reader(trace, table, undivided)
        for value in trace.inputs:
            reader.feed(value)
        for node in nodes:
            reader.add(node)
        drafts = needed(reader.drafts.rows, reader.result())
        parts = {draft.whole for draft in drafts if draft.whole}
        read = {draft.node.result for draft in drafts if draft.node and not draft.whole}
        whole = (parts & read) | {draft.origin for draft in drafts if draft.op == JOINED}
        if not whole:
            break
        undivided |= whole
    flop = sum(node.flop for node in trace.nodes)
    return Reading(trace, drafts, reader.drafts.atoms, reader.sizes, flop)


def needed(drafts: Sequence[Draft], last: int) -> tuple[Draft, ...]:
    """Return the layers that one depends on, numbered anew."""
    found, waiting = set(), [last]
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            tied = drafts[number].tied
            waiting += (*drafts[number].reads, *(() if tied is None else (tied,)))
    kept = sorted(found)
    new = {old: number for number, old in enumerate(kept)}
    return tuple(
        replace(
            draft,
            reads=tuple(new[read] for read in draft.reads),
            tied=None if draft.tied is None else new[draft.tied],
        )
        for draft in (drafts[number] for number in kept)
    )


class _Reader:
    """Goes through a trace; ``known`` holds tensors, weights and hidden values; constants are not in it."""

    def __init__(self, trace: Trace, table: Table, undivided: frozenset[str]) -> None:
        self.trace, self.table = trace, table
        self.drafts = Drafts(Atoms(trace.batch), undivided)
        self.sizes: dict[str, int] = {}
        self.known: dict[str, Held | _Weight | _Hidden] = {
            value: _Weight(frozenset([identity])) for value, identity in trace.parameters.items()
        }

    def feed(self, value: str) -> None:
        """Add an input; a whole number of each sample beside others is a label, which no layer reads.

        Raises:
            ModelError: it has no samples, or nothing besides.
        """
        sizes = self.trace.shapes[value]
        if len(sizes) == 1 and value in self.trace.tokens and value != self.trace.inputs[0]:
            return
        if len(sizes) < 2 or sizes[0] != self.trace.batch or not all(sizes):
            found = "x".join(map(str, sizes[1:])) or "nothing"
            raise ModelError(
                self.trace.name,
                f"found a sample of {found} in its input",
                "one size at least: --input 784, --input 3x224x224 or --input 128:int64",
            )
        shape = None if value in self.trace.tokens else self.trace.sample(value)
        if shape is not None:
            self.known[value] = self.image("input", dict(shape), (), shape, rank=len(sizes))
            return
        axes = ((BATCH,), *(self.drafts.atoms.axis(size) for size in sizes[1:]))
        dims = tuple(atom for axis in axes[1:] for atom in axis)
        draft = Draft(op="input", fields={}, reads=(), dims=dims, roles={"shape": dims})
        self.known[value] = Held(self.drafts.put(draft), axes)

    def result(self) -> int:
        """Return the number of the layer that is the network's result."""
        found = self.known.get(self.trace.output)
        if isinstance(found, Held):
            return found.number
        if isinstance(found, _Hidden):
            sizes = "x".join(map(str, self.trace.shapes[self.trace.output])) or "one number"
            raise ModelError(
                self.trace.name, f"found a result of {sizes}", "one that has samples, as the input"
            )
        raise ModelError(self.trace.name, "the result does not depend on the input")

    def add(self, node: Node) -> None:
        """Add an operation."""
        found = [(value, self.known[value]) for value in node.read if value in self.known]
        weights = {value: at.identities for value, at in found if isinstance(at, _Weight)}
        data = tuple(value for value, at in found if not isinstance(at, _Weight))
        if not data:
            if weights:
                self.known[node.result] = _Weight(frozenset[str]().union(*weights.values()))
            return
        self.sizes |= {one: self.trace.trained[one] for own in weights.values() for one in own}
        weights = {value: self.said_of(value, own) for value, own in weights.items()}
        identities = frozenset[str]().union(*weights.values())
        held = {value: at for value, at in found if isinstance(at, Held)}
        view = View(
            trace=self.trace,
            node=node,
            data=data,
            weights=tuple(weights),
            drafts=self.drafts,
            held=held,
            identities=weights,
            read=(self.shape(held[data[0]]) if data[0] in held else None) or {},
            images=all(value in held and self.shape(held[value]) for value in data),
        )
        self.known[node.result] = self.said(view, identities) or self.opaque(view, identities)

    def said_of(self, value: str, identities: frozenset[str]) -> frozenset[str]:
        """Return the trained tensors that an op says of those behind a value.

        That is one alone where it has as many elements as the value, as the directions of a weight normalisation, whose
        lengths no op says.
        """
        trained = self.trace.trained
        largest = max(identities, key=lambda one: (trained[one], one))
        derived = sum(trained[one] for one in identities) != self.trace.elements(value)
        return (
            frozenset([largest]) if derived and trained[largest] == self.trace.elements(value) else identities
        )

    def shape(self, held: Held) -> Shape | None:
        """Return the shape of a sample of a tensor that is a vector, an image, a row or a volume as the framework has them."""
        atoms = self.drafts.atoms
        axes = [atoms.leaves(axis) for axis in held.axes]
        names = self.trace.axes(len(axes))
        if not names or any(len(axis) != 1 for axis in axes):
            return None
        own = {atoms.fixed.get(axis[0]): axis[0] for axis in axes}
        if tuple(own) != names:
            return None
        rest = {*self.drafts.dims(held.number)} - {*own.values()}
        if {*own.values()} - {BATCH, *self.drafts.dims(held.number)} or len(rest) > (len(names) == ROW):
            return None
        found = {"height": 1, **{str(name): atoms.size((atom,)) for name, atom in own.items()}}
        return {name: found[name] for name in dims_of(len(names))}

    def image(
        self, op: str, fields: dict[str, Any], reads: tuple[int, ...], shape: Shape, *, rank: int, **said: Any
    ) -> Held:
        """Add a layer that gives a vector, an image, a row or a volume."""
        own = {name: self.drafts.atoms.new(size, name) for name, size in shape.items()}
        number = self.drafts.put(Draft(op=op, fields=fields, reads=reads, dims=tuple(own.values()), **said))
        of_axis = {"batch": BATCH, **own}
        return Held(number, tuple((of_axis[name],) for name in self.trace.axes(rank)))

    def said(self, view: View, weights: frozenset[str]) -> Held | None:
        """Add the layers that say an operation, and return the result; None where no layer can."""
        if len(view.held) < len({*view.data}):
            return None
        rule = self.table.get(view.node.kind) or COMPOSED.get(view.node.kind)
        chain = rule(view) if rule else None
        if isinstance(chain, Held):
            return chain
        if chain is None and not weights and not view.node.flop and len(view.data) == 1:
            held = view.held[view.data[0]]
            if view.sizes(view.data[0]) == view.sizes(view.node.result):
                return put(
                    view, OTHER[0], (held.number,), held.axes,
                    fields=dict(OTHER[1]), dims=self.drafts.dims(held.number),
                )  # fmt: skip
        inputs = [self.shape(view.held[value]) for value in view.data]
        if chain is None or any(shape is None for shape in inputs):
            return view.held[view.data[0]] if chain == [] and self.kept(view) else None
        shapes = self.shapes(chain, tuple(shape or {} for shape in inputs), weights)
        if shapes is None or (shapes or [view.read])[-1] != view.made:
            return None
        found = view.held[view.data[0]]
        reads = tuple(view.held[value].number for value in view.data)
        ranks = [len(view.sizes(value)) for value in (view.node.result, view.data[0])]
        for (op, fields), shape in zip(chain, shapes, strict=True):
            rank = next((own for own in ranks if self.trace.axes(own) and dims_of(own) == tuple(shape)), 2)
            found = self.image(
                op, fields, reads, shape, rank=rank,
                scope=view.node.scope, kind=view.node.kind, weights=weights, flop=view.node.flop, node=view.node,
            )  # fmt: skip
            reads, weights = (found.number,), frozenset()
        return found

    def kept(self, view: View) -> bool:
        """Return whether an operation without a layer keeps the shape of its only input."""
        return len(view.data) == 1 and view.sizes(view.data[0]) == view.sizes(view.node.result)

    def shapes(self, chain: Said, inputs: tuple[Shape, ...], weights: frozenset[str]) -> list[Shape] | None:
        """Return the shapes of a chain of layers; None where they do not fit, or not all its weights are said."""
        found: list[Shape] = []
        parameters = 0
        try:
            for op_name, fields in chain:
                op = op_of(op_name, fields)
                found.append(op.output_shape(inputs))
                parameters += op.num_parameters(inputs)
                inputs = (found[-1],)
        except (ShapeError, ValidationError):
            return None
        return found if parameters == sum(self.sizes[identity] for identity in weights) else None

    def opaque(self, view: View, weights: frozenset[str]) -> Held | _Hidden:
        """Add what no layer says as an opaque one, together with what it reads of hidden values."""
        region = _Hidden((), kinds=[view.node.kind], weights=weights, flop=view.node.flop)
        for value in view.data:
            at = self.known[value]
            if isinstance(at, _Hidden):
                region.reads += at.reads
                region.kinds = [*at.kinds, *region.kinds]
                region.weights |= at.weights
                region.flop += at.flop
                # A second reader holds the same operations no more.
                self.known[value] = _Hidden(at.reads, at.named)
                region.named |= at.named
            elif isinstance(at, Held):
                region.reads += (at.number,)
                region.named |= self.shape(at) is None
        sizes = self.trace.shapes[view.node.result]
        if not sizes or sizes[0] != self.trace.batch or not all(sizes):
            return region
        kind = "-".join(dict.fromkeys(region.kinds))[:100]
        parameters = sum(self.sizes[identity] for identity in region.weights)
        fields: dict[str, Any] = {"kind": kind, **({"trained": parameters} if parameters else {})}
        said: dict[str, Any] = {
            "scope": view.node.scope, "kind": kind, "weights": region.weights, "flop": region.flop,
            "node": view.node,
        }  # fmt: skip
        reads = tuple(dict.fromkeys(region.reads))
        shape = None if region.named else self.trace.sample(view.node.result)
        if shape is not None:
            return self.image(OPAQUE, {**fields, **shape}, reads, shape, rank=len(sizes), **said)
        if max(sizes[1:], default=1) == 1:
            return replace(region, reads=reads)
        axes = ((BATCH,), *(self.drafts.atoms.axis(size) for size in sizes[1:]))
        dims = tuple(atom for axis in axes[1:] for atom in axis)
        draft = Draft(op=OPAQUE, fields=fields, reads=reads, dims=dims, roles={"shape": dims}, **said)
        return Held(self.drafts.put(draft), axes)


def op_of(name: str, fields: Mapping[str, Any]) -> Op:
    """Return an op with the fields of a model file.

    Raises:
        ValidationError: the fields are not those of the op.
    """
    return _op(name, tuple((key, _frozen(value)) for key, value in fields.items()))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@cache
def _op(name: str, fields: Iterable[tuple[str, Any]]) -> Op:
    found: Op = load_plugin("ops", name)(**dict(fields))
    return found
