"""An imported network: every operation of a trace becomes layers of a model file, leaves, or is part of an opaque layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from hypar.errors import ModelError
from hypar.files.text import write
from hypar.importers import atoms, rules, sequences
from hypar.importers.fusion import fused
from hypar.importers.layers import OPAQUE, LayerDraft, Reading, TensorAxes, Unsaid, refuse
from hypar.importers.trace import Node, Trace
from hypar.importers.writing import content
from hypar.network.graph import LayerGraph, load_model
from hypar.network.training import DTYPE_BYTES
from hypar.ops.base import VOLUME
from hypar.units import format_count

LEAST = 0.99
"""Share of operations and of parameters below which a network is refused."""

RULES: Mapping[str, tuple[Callable[[Reading], TensorAxes], ...]] = {
    "adaptive_average": (rules.reduced,), "adaptive_max": (rules.reduced,), "add": (rules.elementwise,),
    "attention": (sequences.attention,), "average_pool": (rules.pool,), "batch_norm": (rules.norm,),
    "best_groups": (sequences.best_groups,), "broadcast": (rules.repeated,), "concat": (rules.concat,),
    "conv": (rules.conv,), "divide": (rules.elementwise,),
    "dot": (sequences.dot,), "embedding": (sequences.lookup,),
    "gather": (sequences.gathered,), "group_norm": (rules.norm,), "grouped": (sequences.grouped,),
    "index": (sequences.indexed,), "index_put": (sequences.placed,),
    "layer_norm": (rules.norm,), "loss": (rules.softmax,), "max": (rules.reduced,),
    "max_pool": (rules.pool,), "mean": (rules.reduced,), "multiply": (sequences.weighed, rules.elementwise),
    "part": (rules.sliced,), "prelu": (rules.prelu,), "reshape": (rules.reshaped,),
    "resize": (rules.resized,), "rms_norm": (rules.norm,), "rope": (rules.rope,),
    "shares": (sequences.normalised,), "slice": (rules.sliced,),
    "softmax": (sequences.normalised, rules.softmax), "sum": (sequences.summed, rules.reduced),
    "topk": (sequences.topk,), "transpose": (rules.transposed,),
}  # fmt: skip
"""The rules of each operation of the vocabulary; the first one that says it is taken, then that of any function."""


class _Reader(Reading):
    """Says one operation after the other; ``sizes`` are the elements of the trained tensors that these read."""

    sizes: dict[str, int]

    def drafts(self) -> list[LayerDraft]:
        """Return the layers on which the result depends, which is the last one."""
        self.sizes = {}
        for value in self.trace.inputs:
            self.feed(value)
        for node in fused(self.trace):
            self.node = node
            if read := [self.known[value] for value in node.read if value in self.known]:
                weights = [one for value in node.read for one in self.trace.weights.get(value, ())]
                self.sizes |= {one: self.trace.trained[one] for one in weights}
                said = self.said() if all(isinstance(one, TensorAxes) for one in read) else None
                self.known[node.result] = said or self.opaque()
        found: set[LayerDraft | None] = {self.result()}
        for draft in reversed(self.rows):
            found |= {*draft.reads, draft.tied} if draft in found else set()
        return [draft for draft in self.rows if draft in found]

    def feed(self, value: str) -> None:
        """Add an input; a whole number of each sample beside others is a label, which no layer reads."""
        sizes = self.trace.shapes[value]
        if len(sizes) == 1 and value in self.trace.tokens and value != self.trace.inputs[0]:
            return
        self.node = Node(kind="input", operands={}, attributes={}, result=value, shapes=self.trace.shapes)
        with suppress(Unsaid):
            draft = LayerDraft(op="input", node=self.node)
            self.known[value] = self.sized(draft, image=value not in self.trace.tokens)
            return
        found = "x".join(map(str, sizes[1:])) or "nothing"
        allowed = "one size above 1 at least: --input 784, --input 3x224x224 or --input 128:int64"
        raise ModelError(self.trace.name, f"found a sample of {found} in its input", allowed)

    def result(self) -> LayerDraft:
        """Return the layer that is the network's result; raises ``ModelError`` where there is none."""
        found = self.known.get(self.trace.output)
        if isinstance(found, TensorAxes):
            return found.layer
        if found is None:
            raise ModelError(self.trace.name, "the result does not depend on the input")
        sizes = "x".join(map(str, self.trace.shapes[self.trace.output])) or "one number"
        raise ModelError(self.trace.name, f"found a result of {sizes}", "one that has samples, as the input")

    def said(self) -> TensorAxes | None:
        """Add the layers that say an operation, by the first rule that gives what it makes, or as a function of each element."""
        before = len(self.rows)
        for rule in (*RULES.get(self.node.op, ()), rules.function):
            with suppress(Unsaid):
                found = rule(self)
                refuse(tuple(map(atoms.size, found.axes)) != self.node.made)
                return found
            del self.rows[before:]
        return None

    def opaque(self) -> TensorAxes | LayerDraft:
        """Add what no layer says as an opaque one, together with what it reads of those whose shape a file cannot say."""
        node = self.node
        behind = [self.region(value) for value in node.read if value in self.known]
        kinds = "-".join([*(one.fields["kind"] for one in reversed(behind) if one.fields), node.kind])
        region = LayerDraft(
            op=OPAQUE, fields={"kind": "-".join(dict.fromkeys(kinds.split("-")))[:100]}, node=node,
            reads=tuple(dict.fromkeys(read for one in behind for read in one.reads)),
            weights=self.trained.union(*(one.weights for one in behind)),
            flop=node.flop + sum(one.flop for one in behind), notes={key: 1 for one in behind for key in one.notes},
        )  # fmt: skip
        if parameters := sum(self.trace.trained[identity] for identity in region.weights):
            region.fields["trained"] = parameters
        with suppress(Unsaid):
            return self.sized(region, image=not region.notes)
        return region

    def region(self, value: str) -> LayerDraft:
        """Return what a value adds to an opaque layer; a second reader of one holds the same operations no more."""
        at, found = self.known[value], LayerDraft(op=OPAQUE, node=self.node)
        if isinstance(at, LayerDraft):
            self.known[value] = replace(found, reads=at.reads, notes=at.notes)
            return at
        whole = self.names(at) == self.trace.images.get(len(at.axes))
        return replace(found, reads=(at.layer,), notes={} if whole else {"named": 1})

    def sized(self, draft: LayerDraft, *, image: bool) -> TensorAxes:
        """Add a layer whose fields are the sizes of its output, by the names of its axes if it may be an image."""
        sizes = self.node.made
        refuse(sizes[:1] != (self.trace.batch,) or not all(sizes))
        if image and (names := self.trace.images.get(len(sizes), ())):
            own = {**({"height": 1} if "width" in names else {}), **dict(zip(names, sizes, strict=True))}
            draft.fields |= {name: own[name] for name in VOLUME if name in own}
            return TensorAxes(self.add(draft), self.image_axes(draft.dims, names))
        refuse(max(sizes[1:], default=1) == 1)
        axes = ((self.batch,), *map(atoms.axis, sizes[1:]))
        draft.roles = {"shape": sum(axes[1:], ())}
        return TensorAxes(self.add(draft), axes)


@dataclass(frozen=True, slots=True)
class Coverage:
    """The operations of all contractions of the example, and the elements of all trained tensors, each counted once.

    Those of layers that are not opaque are said; ``opaque`` counts the others by the framework's names.
    """

    flop: int
    said_flop: int
    parameters: int
    said_parameters: int
    opaque: dict[str, int]

    @property
    def shares(self) -> tuple[float, float]:
        """Recognised share of operations, and of parameters."""
        pairs = (self.said_flop, self.flop), (self.said_parameters, self.parameters)
        flop, parameters = (said / whole if whole else 1.0 for said, whole in pairs)
        return flop, parameters

    def __str__(self) -> str:
        flop, parameters = map(_percent, self.shares)
        text = f"recognised {flop} of {format_count(self.flop)} FLOP and {parameters} of {format_count(self.parameters)} parameters"
        kinds = ", ".join(f"{number} {kind}" for kind, number in self.opaque.items())
        return f"{text}; opaque, cut in the batch alone: {kinds}" if kinds else text


def _percent(share: float) -> str:
    """Format a share, rounded down so that 100 % means all."""
    return f"{int(share * 1000) / 10:g} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A network as the content of a model file, with the recognised shares, and notes for the user, a line each."""

    name: str
    content: dict[str, Any]
    coverage: Coverage
    notes: tuple[str, ...]

    def graph(self) -> LayerGraph:
        """Return the network with all its shapes."""
        return load_model(self.content, name=self.name)

    def write(self, file: str | Path) -> None:
        """Write the model file; raises ``DocumentError`` where that cannot be."""
        write(Path(file), self.text())

    def text(self) -> str:
        """Return the text of the model file: an entry a line."""
        said = self.content
        lines = [_flow({key: said[key]})[1:-1] for key in ("source", "batch", "dtype", "dims") if key in said]
        lines += ["blocks:"] if said.get("blocks") else []
        for name, block in said.get("blocks", {}).items():
            lines += [f"  {name}:", "    layers:", *(f"      - {_flow(entry)}" for entry in block["layers"])]
        return "\n".join([*lines, "layers:", *(f"  - {_flow(entry)}" for entry in said["layers"]), ""])


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    return text.removesuffix("\n")


def imported(trace: Trace, *, batch: int | None, partial: bool) -> Imported:
    """Return the network of a trace, for the samples of the example unless others are asked for; ``partial`` accepts any coverage.

    Raises ``ModelError`` where the network cannot be said, or too little of it is recognised.
    """
    trace = replace(trace, nodes=trace.behind(trace.output))
    reader = _Reader(trace)
    drafts, sizes = reader.drafts(), reader.sizes
    read = (node for node in trace.nodes if node.result in trace.dependent)
    known = frozenset[str]().union(*(draft.weights for draft in drafts if draft.op != OPAQUE))
    coverage = Coverage(
        flop=sum(node.flop for node in trace.nodes),
        said_flop=sum(node.flop for node in read) - sum(draft.flop for draft in drafts),
        parameters=sum(sizes.values()),
        said_parameters=sum(sizes[identity] for identity in known),
        opaque=dict(Counter(draft.fields["kind"] for draft in drafts if draft.op == OPAQUE)),
    )
    if not partial and min(coverage.shares) < LEAST:
        raise ModelError(trace.name, str(coverage), f"{_percent(LEAST)} of both, or --partial (partial=True)")
    if trace.dtype not in DTYPE_BYTES:
        raise ModelError(trace.name, f"found an input of {trace.dtype}", ", ".join(DTYPE_BYTES))
    batch = trace.batch if batch is None else batch
    said = {"source": trace.source, "batch": batch, "dtype": trace.dtype, **content(drafts, trace.classes)}
    usual: Any = ("dtype", "float32"), ("dims", {}), ("blocks", {})
    fields = {key: value for key, value in said.items() if (key, value) not in usual}
    return Imported(name=trace.name, content=fields, coverage=coverage, notes=(*_notes(trace, drafts),))


def _notes(trace: Trace, drafts: Sequence[LayerDraft]) -> Iterator[str]:
    """Yield a line on further results, and on weights that several layers use, and each has in the model file."""
    if trace.unused_outputs:
        yield f"{trace.unused_outputs} further results are left out"
    own = (draft for draft in drafts if draft.op not in {OPAQUE, "token"} and draft.tied is None)
    uses = Counter(identity for draft in own if "one" not in draft.notes for identity in draft.weights)
    shared = sorted(identity for identity, count in uses.items() if count > 1)
    if shared:
        others = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
        yield f"{shared[0]}{others}: used by several layers, each of which has its own in the model file"
