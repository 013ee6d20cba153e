"""Reading of a trace: every operation becomes layers of a model file, leaves, or is part of an opaque layer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hypar.errors import ModelError
from hypar.importers import experts, products, rules
from hypar.importers.atoms import BATCH, Atoms
from hypar.importers.fusion import fused
from hypar.importers.layers import JOINED, OPAQUE, LayerDraft, Layers, OpContext, TensorAxes
from hypar.importers.trace import Node

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.importers.layers import Rule
    from hypar.importers.trace import Trace


def either(*several: Rule) -> Rule:
    """Return the rule that takes the first of several that says an operation."""
    return lambda view: next((said for rule in several if (said := rule(view)) is not None), None)


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(rules.FUNCTIONS, rules.function),
    "add": rules.elementwise,
    "adaptive_pool": rules.adaptive,
    "attention": products.attention,
    "best_groups": experts.best_groups,
    "broadcast": rules.repeated,
    "concat": rules.concat,
    "conv": rules.conv,
    "copy": rules.copied,
    "divide": rules.elementwise,
    "dot": either(experts.batched, products.dot),
    "dropout": rules.dropout,
    "gather": experts.gathered,
    "grouped": experts.grouped,
    "histogram": experts.histogram,
    "index": experts.indexed,
    "index_put": experts.placed,
    "lookup": products.lookup,
    "loss": products.loss,
    "max": rules.reduced,
    "mean": rules.reduced,
    "multiply": either(experts.weighed, rules.elementwise),
    "norm": rules.norm,
    "pool": rules.pool,
    "prelu": rules.prelu,
    "repeat_interleave": experts.interleaved,
    "reshape": rules.reshaped,
    "resize": rules.resized,
    "rope": rules.rope,
    "shares": lambda view: experts.normalised(view, shared=True),
    **dict.fromkeys(("part", "slice"), rules.sliced),
    "softmax": either(lambda view: experts.normalised(view, shared=False), rules.softmax),
    "sum": either(experts.summed, rules.reduced),
    "topk": experts.topk,
    "transpose": rules.transposed,
}
"""The rule of each operation of the vocabulary."""


@dataclass(frozen=True, slots=True)
class _Weight:
    """A value that depends on trained tensors alone."""

    identities: frozenset[str]


@dataclass(slots=True)
class _OpaqueRegion:
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
    """

    trace: Trace
    drafts: tuple[LayerDraft, ...]
    atoms: Atoms
    sizes: dict[str, int]


def read_trace(trace: Trace) -> Reading:
    """Return the layers of a trace, those on which its result does not depend left out.

    Raises:
        ModelError: the shape of an input or of the result cannot be said in a model file.
    """
    trace = replace(trace, nodes=trace.behind(trace.output))
    reader = _Reader(trace)
    for value in trace.inputs:
        reader.feed(value)
    for node in fused(trace):
        reader.add(node)
    drafts = needed(reader.layers.rows, reader.result())
    return Reading(trace, drafts, reader.layers.atoms, reader.sizes)


def needed(drafts: Sequence[LayerDraft], last: int) -> tuple[LayerDraft, ...]:
    """Return the layers that one depends on, numbered anew; what joins features for no attention is opaque."""
    found, waiting = set(), [last]
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            tied = drafts[number].tied
            waiting += (*drafts[number].reads, *(() if tied is None else (tied,)))
    new = {old: number for number, old in enumerate(sorted(found))}

    def kept(draft: LayerDraft) -> LayerDraft:
        reads = tuple(new[read] for read in draft.reads)
        tied = None if draft.tied is None else new[draft.tied]
        found = replace(draft, reads=reads, tied=tied)
        if draft.op != JOINED:
            return found
        return replace(found, op=OPAQUE, fields={"kind": draft.kind}, roles={"shape": draft.dims})

    return tuple(kept(drafts[number]) for number in new)


class _Reader:
    """Goes through a trace; ``known`` holds tensors, weights and opaque regions; constants are not in it."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.layers = trace, Layers(Atoms(trace.batch))
        self.sizes: dict[str, int] = {}
        self.known: dict[str, TensorAxes | _Weight | _OpaqueRegion] = {
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
            allowed = "one size at least: --input 784, --input 3x224x224 or --input 128:int64"
            raise ModelError(self.trace.name, f"found a sample of {found} in its input", allowed)
        node = Node(kind="input", operands={}, attributes={}, result=value)
        self.known[value] = self.sized(
            self.view(node, {}), "input", {}, (), image=value not in self.trace.tokens
        )

    def result(self) -> int:
        """Return the number of the layer that is the network's result.

        Raises:
            ModelError: there is none.
        """
        found = self.known.get(self.trace.output)
        if isinstance(found, TensorAxes):
            return found.number
        if isinstance(found, _OpaqueRegion):
            sizes = "x".join(map(str, self.trace.shapes[self.trace.output])) or "one number"
            allowed = "one that has samples, as the input"
            raise ModelError(self.trace.name, f"found a result of {sizes}", allowed)
        raise ModelError(self.trace.name, "the result does not depend on the input")

    def view(self, node: Node, weights: Mapping[str, frozenset[str]]) -> OpContext:
        """Return an operation as the rules see it."""
        found = {value: at for value in node.read if isinstance(at := self.known.get(value), TensorAxes)}
        return OpContext(trace=self.trace, node=node, layers=self.layers, held=found, weights=weights)

    def add(self, node: Node) -> None:
        """Add an operation."""
        found = [(value, self.known[value]) for value in node.read if value in self.known]
        weights = {value: at.identities for value, at in found if isinstance(at, _Weight)}
        data = [value for value, at in found if not isinstance(at, _Weight)]
        if not data:
            if weights:
                self.known[node.result] = _Weight(frozenset[str]().union(*weights.values()))
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
        """Add the layers that say an operation, and return the result; None where no layer can."""
        rule = RULES.get(view.node.op)
        found = rule(view) if rule else None
        other = found is None and view.node.op != "pool" and not view.weights and not view.node.flop
        return view.same("pointwise", fields=rules.OTHER) if other else found

    def opaque(self, view: OpContext, data: Sequence[str]) -> TensorAxes | _OpaqueRegion:
        """Add what no layer says as an opaque one, together with what it reads of opaque regions."""
        node = view.node
        weights = frozenset[str]().union(*view.weights.values())
        region = _OpaqueRegion((), kinds=[node.kind], weights=weights, flop=node.flop)
        for value in data:
            at = self.known[value]
            if isinstance(at, _OpaqueRegion):
                region.reads += at.reads
                region.kinds = [*at.kinds, *region.kinds]
                region.weights |= at.weights
                region.flop += at.flop
                # A second reader holds the same operations no more.
                self.known[value] = _OpaqueRegion(at.reads, at.named)
                region.named |= at.named
            elif isinstance(at, TensorAxes):
                region.reads += (at.number,)
                region.named |= view.shape(at) is None
        sizes, reads = view.sizes(), tuple(dict.fromkeys(region.reads))
        if not sizes or sizes[0] != self.trace.batch or not all(sizes):
            return region
        kind = "-".join(dict.fromkeys(region.kinds))[:100]
        image = not region.named and self.trace.sample(node.result) is not None
        if not image and max(sizes[1:], default=1) == 1:
            return replace(region, reads=reads)
        parameters = sum(self.sizes[identity] for identity in region.weights)
        fields = {"kind": kind, **({"trained": parameters} if parameters else {})}
        said = {"kind": kind, "weights": region.weights, "flop": region.flop}
        return self.sized(view, OPAQUE, fields, reads, image=image, **said)

    def sized(
        self,
        view: OpContext,
        op: str,
        fields: dict[str, Any],
        reads: tuple[int, ...],
        *,
        image: bool,
        **said: Any,
    ) -> TensorAxes:
        """Add a layer whose fields are the sizes of its output, as an image where it can be one."""
        atoms, sizes = self.layers.atoms, view.sizes()
        shape = self.trace.sample(view.node.result) if image else None
        if shape is not None:
            own = {name: atoms.new(size, name) for name, size in shape.items()}
            fields, axes, dims, roles = (
                {**fields, **shape},
                view.as_image(own, len(sizes)),
                (*own.values(),),
                {},
            )
        else:
            axes = ((BATCH,), *map(atoms.axis, sizes[1:]))
            dims = tuple(atom for axis in axes[1:] for atom in axis)
            roles = {"shape": dims}
        of_node = {"scope": view.node.scope, "node": view.node} if op == OPAQUE else {}
        draft = LayerDraft(op=op, fields=fields, reads=reads, dims=dims, roles=roles, **{**of_node, **said})
        return TensorAxes(self.layers.put(draft), axes)
