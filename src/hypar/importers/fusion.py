"""Fusion: operations on elements that together are one op, as a normalisation that is written out.

A region has one tensor of the network that it reads and one of the same shape that it gives; what stands between is read by
nothing else. Which op it is follows from the set of its operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypar.importers.trace import VIEWS, Node, Sizes, Trace

MOST = 40
"""Operations of the largest region."""

KEEPING = VIEWS - {"transpose"}
GUARDS = frozenset({"where", "lt"})
REDUCTIONS = frozenset({"mean", "sum"})
SHARING = frozenset({"exp", "divide", "sub", "max", "sum"}) | KEEPING
NORMALISING = KEEPING | GUARDS | {"add", "sub", "multiply", "divide", "power", "root", "mean", "sum", "max"}
CURVED = frozenset({"multiply", "divide", "add", "sub", "power", "erf", "tanh", "neg"}) | KEEPING
CHOOSING = frozenset({"topk", "scatter", "masked_fill", "mark", "sum", "max", "add"}) | KEEPING | GUARDS
FUNCTIONS = SHARING | NORMALISING | CURVED | {"sigmoid", "slice", "concat"}
NORMS = frozenset({"layer_norm", "rms_norm"})


def fused(trace: Trace) -> list[Node]:
    """Return the operations of a trace with every region that is one op as one operation."""
    finder = _Finder(trace)
    instead: dict[int, Node | None] = {}
    for value, (first, *_) in trace.readers.items():
        if value in trace.dependent and first not in instead:
            found = finder.region(value, FUNCTIONS) or finder.region(value, CHOOSING)
            if found is not None and instead.keys().isdisjoint(found[0]):
                instead |= dict.fromkeys(found[0]) | {found[0][-1]: found[1]}
    nodes = (instead.get(number, node) for number, node in enumerate(trace.nodes))
    return [node for node in nodes if node is not None]


class _Finder:
    def __init__(self, trace: Trace) -> None:
        self.trace, self.nodes, self.weights = trace, trace.nodes, trace.weights.keys()

    def region(self, entry: str, ops: frozenset[str]) -> tuple[list[int], Node] | None:
        """Return the smallest region of some operations behind a value that is one op: these, and the one in their place."""
        inside, members, waiting = {entry}, list[int](), {*self.trace.readers.get(entry, ())}
        while waiting and len(members) < MOST:
            waiting.discard(number := min(waiting))
            node = self.nodes[number]
            if node.op not in ops or not self.trace.dependent.intersection(node.read) <= inside:
                continue
            inside.add(node.result)
            members.append(number)
            waiting.update(self.trace.readers.get(node.result, ()))
            if self.closed(entry, members) and (found := self.op(entry, members)) is not None:
                return members, found
        return None

    def closed(self, entry: str, members: Sequence[int]) -> bool:
        """Return whether nothing else reads what stands between the entry and the last operation."""
        shapes, readers = self.trace.shapes, self.trace.readers
        *inner, last = (self.nodes[number].result for number in members)
        alone = self.trace.output not in inner and all({*readers.get(one, ())} <= {*members} for one in inner)
        return len(members) > 1 and shapes[last] == shapes[entry] and alone

    def op(self, entry: str, members: list[int]) -> Node | None:
        nodes = [self.nodes[number] for number in members]
        axes, summed = self.summed(nodes)
        product = nodes[-1].op == "multiply" and len(self.trace.dependent.intersection(nodes[-1].read)) > 1
        op = _op_of({node.op for node in nodes}, reduced=bool(axes), product=product)
        trained = [node for node in nodes if op != "rope" and not self.weights.isdisjoint(node.read)]
        if op is None or (trained and op not in NORMS) or any(entry in node.read for node in trained):
            return None
        attributes: dict[str, Any] = {"axis": axes}
        if op in NORMS:
            groups = _groups(self.trace.shapes[entry], summed, axes) if op == "layer_norm" else {}
            op, attributes = "group_norm" if groups else op, {"over": axes, **groups}
        elif op == "rope":
            attributes = {"positions": self.positions(nodes)}
        elif op == "best_groups":
            choice = next(node for node in reversed(nodes) if node.op == "topk")
            attributes = {"groups": self.trace.shapes[choice.read[0]][-1], "best": choice.get("k", 1)}
        operands = {"input": (entry,)}
        for node in trained:  # by what it is multiplied, and what is added
            name = {"multiply": "weight", "add": "bias", "sub": "bias"}.get(node.op, "other")
            own = (value for value in node.read if value in self.weights)
            operands[name] = (*operands.get(name, ()), *own)
        return Node(
            kind=f"written-out {op}", op=op, operands=operands, attributes=attributes,
            result=nodes[-1].result, scope=nodes[-1].scope, shapes=self.trace.shapes,
        )  # fmt: skip

    def summed(self, nodes: Sequence[Node]) -> tuple[tuple[int, ...], Sizes]:
        """Return the axes of the first mean or sum, counted from the end, and the shape of what is summed; nothing without one."""
        for node in nodes:
            if node.op in REDUCTIONS:
                sizes = self.trace.shapes[next(value for value in node.read if value in self.trace.dependent)]
                return tuple(sorted(axis % len(sizes) - len(sizes) for axis in node.axes())), sizes
        return (), ()

    def positions(self, nodes: Sequence[Node]) -> int:
        """Return the axis along which the constant factors of a rotation differ, besides the last."""
        constants = (value for node in nodes for value in node.read if value not in self.trace.dependent)
        shapes = (self.trace.shapes.get(value, ()) for value in constants)
        axes = ([at for at in range(-len(one), -1) if one[at] > 1] for one in shapes if one and one[-1] > 1)
        return next((axis for axis, *others in filter(None, axes) if not others), -2)


def _groups(own: Sizes, sizes: Sizes, axes: Sequence[int]) -> dict[str, int]:
    """Return the axis of a sample that is summed in groups of neighbours, and their number; nothing if there is none.

    What is summed then has an axis more, and all of it is summed but the samples and the groups.
    """
    left = sorted({*range(len(sizes))} - {axis % len(sizes) for axis in axes})
    if len(sizes) != len(own) + 1 or len(left) != len(("samples", "groups")) or left[0] != 0:
        return {}
    axis = left[1]
    whole = (*sizes[:axis], sizes[axis] * sizes[axis + 1], *sizes[axis + 2 :]) if axis < len(own) else ()
    return {"axis": axis, "num_groups": sizes[axis]} if whole == own else {}


def _op_of(ops: set[str], *, reduced: bool, product: bool) -> str | None:
    """Return the op that some operations are together, with a mean or a sum, or a product of two tensors at their end."""
    found = {
        "softmax": reduced and {"exp", "divide"} <= ops <= SHARING,
        "layer_norm": reduced and {"root", "sub"} <= ops <= NORMALISING,
        "rms_norm": reduced and {"root"} <= ops <= NORMALISING - {"sub"},
        "copy": bool(ops & GUARDS) and ops <= GUARDS | {"add"},
        "rope": not reduced and {"slice", "concat"} <= ops and bool(ops & {"neg", "sub"}),
        "gelu": product and bool(ops & {"erf", "tanh"}) and ops <= CURVED,
        "silu": product and ops == {"multiply", "sigmoid"},
        "best_groups": {"topk", "scatter"} <= ops <= CHOOSING and bool(ops & ({"masked_fill"} | GUARDS)),
        "shares": reduced and {"sum", "divide"} <= ops <= {"sum", "divide", "add"} | KEEPING,
    }
    return next((op for op, fits in found.items() if fits), None)
