"""Reading of a trace: every operation becomes layers of a model file, leaves, or is part of an opaque layer."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.errors import ModelError
from hypar.importers import experts, rules, sequences  # noqa: F401 (an expert's rule of an operation comes before others)
from hypar.importers.atoms import BATCH, Atoms
from hypar.importers.fusion import fused
from hypar.importers.layers import OPAQUE, RULES, LayerDraft, OpContext, TensorAxes, Unsaid, refuse
from hypar.importers.trace import Node
from hypar.ops.base import VOLUME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.importers.trace import Trace


def needed(drafts: Sequence[LayerDraft], last: int) -> tuple[LayerDraft, ...]:
    """Return the layers that one depends on, numbered anew."""
    found, waiting = set[int](), [last]
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            tied = drafts[number].tied
            waiting += (*drafts[number].reads, *(() if tied is None else (tied,)))
    new: dict[int | None, int] = {old: number for number, old in enumerate(sorted(found))}
    kept = (drafts[number] for number in sorted(found))
    return tuple(
        replace(draft, reads=tuple(new[read] for read in draft.reads), tied=new.get(draft.tied))
        for draft in kept
    )


class Reading:
    """The layers of a network, those on which its result does not depend left out.

    Attributes:
        trace: the network, without operations on which its result does not depend.
        atoms: the atoms of the layers' tensors.
        drafts: the layers, of which the last is the result.
        rows: all layers, in the order in which they are said.
        sizes: elements of each trained tensor that an operation reads.
        known: tensors, opaque layers whose shape a model file cannot say, with operations that no layer holds yet, and the
            trained tensors behind what depends on these alone; constants are not in it.

    Raises:
        ModelError: the shape of an input or of the result cannot be said in a model file.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace, self.atoms = replace(trace, nodes=trace.behind(trace.output)), Atoms(trace.batch)
        self.rows: list[LayerDraft] = []
        self.sizes: dict[str, int] = {}
        self.known: dict[str, TensorAxes | frozenset[str] | LayerDraft] = {
            value: frozenset([identity]) for value, identity in trace.parameters.items()
        }
        for value in trace.inputs:
            self.feed(value)
        for node in fused(self.trace):
            self.add(node)
        self.drafts = needed(self.rows, self.result())

    def feed(self, value: str) -> None:
        """Add an input; a whole number of each sample beside others is a label, which no layer reads.

        Raises:
            ModelError: it has no samples, or nothing besides.
        """
        sizes = self.trace.shapes[value]
        if len(sizes) == 1 and value in self.trace.tokens and value != self.trace.inputs[0]:
            return
        node = Node(kind="input", operands={}, attributes={}, result=value)
        names = () if value in self.trace.tokens else self.trace.images.get(len(sizes), ())
        with suppress(Unsaid):
            refuse(len(sizes) < 2 or sizes[0] != self.trace.batch or not all(sizes))
            self.known[value] = self.sized(self.view(node, {}), names, LayerDraft(op="input"))
            return
        found = "x".join(map(str, sizes[1:])) or "nothing"
        allowed = "one size above 1 at least: --input 784, --input 3x224x224 or --input 128:int64"
        raise ModelError(self.trace.name, f"found a sample of {found} in its input", allowed)

    def result(self) -> int:
        """Return the number of the layer that is the network's result.

        Raises:
            ModelError: there is none.
        """
        found = self.known.get(self.trace.output)
        if isinstance(found, TensorAxes):
            return found.number
        if isinstance(found, LayerDraft):
            sizes = "x".join(map(str, self.trace.shapes[self.trace.output])) or "one number"
            allowed = "one that has samples, as the input"
            raise ModelError(self.trace.name, f"found a result of {sizes}", allowed)
        raise ModelError(self.trace.name, "the result does not depend on the input")

    def view(self, node: Node, weights: Mapping[str, frozenset[str]]) -> OpContext:
        """Return an operation as the rules see it."""
        found = {value: at for value in node.read if isinstance(at := self.known.get(value), TensorAxes)}
        return OpContext(
            trace=self.trace, node=node, atoms=self.atoms, rows=self.rows, held=found, weights=weights
        )

    def add(self, node: Node) -> None:
        """Add an operation."""
        found = [(value, self.known[value]) for value in node.read if value in self.known]
        weights = {value: at for value, at in found if isinstance(at, frozenset)}
        data = [value for value, at in found if value not in weights]
        if not data:
            if weights:
                self.known[node.result] = frozenset[str]().union(*weights.values())
            return
        self.sizes |= {one: self.trace.trained[one] for own in weights.values() for one in own}
        view = self.view(node, {value: self.said_of(value, own) for value, own in weights.items()})
        said = self.said(view) if view.data == tuple(data) else None
        self.known[node.result] = said or self.opaque(view, data)

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

    def said(self, view: OpContext) -> TensorAxes | None:
        """Add the layers that say an operation, by the first rule that gives what it makes, or as a function of each element."""
        before = len(self.rows)
        for rule in (*RULES.get(view.node.op, ()), rules.function):
            with suppress(Unsaid):
                found: TensorAxes = rule(view)
                refuse(tuple(map(self.atoms.size, found.axes)) != view.sizes())
                return found
            del self.rows[before:]
        return None

    def opaque(self, view: OpContext, data: Sequence[str]) -> TensorAxes | LayerDraft:
        """Add what no layer says as an opaque one, together with what it reads of those whose shape a file cannot say."""
        node, sizes = view.node, view.sizes()
        behind = [self.region(view, value) for value in data]
        kinds = "-".join([*(one.fields["kind"] for one in reversed(behind) if one.fields), node.kind])
        region = LayerDraft(
            op=OPAQUE, fields={"kind": "-".join(dict.fromkeys(kinds.split("-")))[:100]}, scope=node.scope, node=node,
            reads=tuple(dict.fromkeys(number for one in behind for number in one.reads)),
            weights=view.trained.union(*(one.weights for one in behind)),
            flop=node.flop + sum(one.flop for one in behind), notes={key: 1 for one in behind for key in one.notes},
        )  # fmt: skip
        if not sizes or sizes[0] != self.trace.batch or not all(sizes):
            return region
        names = () if region.notes else self.trace.images.get(len(sizes), ())
        if not names and max(sizes[1:], default=1) == 1:
            return region
        if parameters := sum(self.sizes[identity] for identity in region.weights):
            region.fields["trained"] = parameters
        with suppress(Unsaid):
            return self.sized(view, names, region)
        return region

    def region(self, view: OpContext, value: str) -> LayerDraft:
        """Return what a value adds to an opaque layer; a second reader of one holds the same operations no more."""
        at, found = self.known[value], LayerDraft(op=OPAQUE)
        if isinstance(at, LayerDraft):
            self.known[value] = replace(found, reads=at.reads, notes=at.notes)
            return at
        held = view.held[value]
        whole = view.names(held) == self.trace.images.get(len(held.axes))
        return replace(found, reads=(held.number,), notes={} if whole else {"named": 1})

    def sized(self, view: OpContext, names: Sequence[str], draft: LayerDraft) -> TensorAxes:
        """Add a layer whose fields are the sizes of its output, by the names of its axes if it is an image."""
        sizes = view.sizes()
        if names:
            own = {**({"height": 1} if "width" in names else {}), **dict(zip(names, sizes, strict=True))}
            draft.fields |= {name: own[name] for name in VOLUME if name in own}
            number = view.add(draft)
            return TensorAxes(number, view.image_axes(view.dims(number), names))
        axes = ((BATCH,), *map(self.atoms.axis, sizes[1:]))
        draft.roles = {"shape": tuple(atom for axis in axes[1:] for atom in axis)}
        return TensorAxes(view.add(draft), axes)
