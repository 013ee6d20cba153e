"""Regions: operations on elements that together are one op, as a normalisation that is written out.

A region has one tensor of the network that it reads and one of the same shape that it gives; what stands between is read by
nothing else. Which op it is follows from the kinds of its operations.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from hypar.importers.dim_rules import norm, same, softmax
from hypar.importers.experts import normalised, of_best_groups
from hypar.importers.rules import channels, group_norm, passed, short
from hypar.importers.trace import Node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.importers.drafts import Held
    from hypar.importers.trace import Trace
    from hypar.importers.view import Rule, Said, Table, View

MOST = 40
"""Operations of the largest region."""

WORDS = {
    "add": ("add", "add_any"),
    "sub": ("sub", "rsub"),
    "mul": ("mul", "square"),
    "div": ("div", "reciprocal", "scaled"),
    "power": ("pow", "integer_pow"),
    "root": ("sqrt", "rsqrt"),
    "exp": ("exp",),
    "tanh": ("tanh",),
    "erf": ("erf", "erfc"),
    "sigmoid": ("sigmoid", "logistic"),
    "neg": ("neg",),
    "mean": ("mean", "reducemean"),
    "sum": ("sum", "reducesum", "reduce_sum"),
    "most": ("amax", "max", "reducemax", "reduce_max", "relu"),
    "slice": ("slice", "split"),
    "guard": ("isnan", "where", "select_n", "lt"),
    "concat": ("cat", "concat", "concatenate"),
    "choice": ("topk",),
    "mark": ("scatter",),
    "hide": ("masked_fill",),
    "mask": ("view", "expand", "getitem", "zeros_like", "bitwise_not"),
    "cast": (
        "to", "_to_copy", "cast", "convert_element_type", "copy", "stop_gradient", "identity", "unsqueeze",
        "reshape", "broadcast_in_dim", "squeeze", "contiguous", "expand_dims",
    ),
}  # fmt: skip
"""Words of the operations on elements, with the frameworks' names in small letters."""

WORD_OF = {kind: word for word, kinds in WORDS.items() for kind in kinds}
SHARING = frozenset({"exp", "div", "sub", "most", "sum", "cast"})
NORMALISING = frozenset({"add", "sub", "mul", "div", "power", "root", "mean", "sum", "most", "guard", "cast"})
CURVED = frozenset({"mul", "div", "add", "sub", "power", "erf", "tanh", "cast", "neg"})
CHOOSING = frozenset({"choice", "mark", "hide", "mask", "sum", "most", "add", "cast", "guard"})
FUNCTIONS = frozenset(WORDS) - {"choice", "mark", "hide", "mask"}
REDUCTIONS = frozenset({"mean", "sum"})
COMPOSED_KIND = "written-out "


def composed(trace: Trace) -> list[Node]:
    """Return the operations of a trace with every region that is one op as one operation."""
    finder = _Finder(trace)
    gone: set[int] = set()
    made: dict[int, Node] = {}
    for number, node in enumerate(trace.nodes):
        if number in gone or number in made or node.result not in trace.dependent:
            continue
        for value in dict.fromkeys(node.read):
            if value in trace.dependent and finder.first[value] == number:
                found = next(filter(None, (finder.region(value, words) for words in finder.words)), None)
                if found is not None and not gone & {*found[0]} and not {*made} & {*found[0]}:
                    *inner, last = found[0]
                    gone |= {*inner}
                    made[last] = found[1]
    return [made.get(number, node) for number, node in enumerate(trace.nodes) if number not in gone]


class _Finder:
    """Finds regions; ``first`` is the number of the first operation that reads a value, ``words`` are those of a region."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.nodes = trace, trace.nodes
        self.readers: dict[str, list[int]] = {}
        self.first: dict[str, int] = {}
        for number, node in enumerate(trace.nodes):
            for value in dict.fromkeys(node.read):
                self.readers.setdefault(value, []).append(number)
                self.first.setdefault(value, number)
        chooses = any(_word(node) == "choice" for node in trace.nodes)
        self.words = (FUNCTIONS, CHOOSING) if chooses else (FUNCTIONS,)
        self.weights = set(trace.parameters)
        for node in trace.nodes:
            if node.result not in trace.dependent and not self.weights.isdisjoint(node.read):
                self.weights.add(node.result)

    def region(self, entry: str, words: frozenset[str]) -> tuple[list[int], Node] | None:
        """Return the smallest region of some words behind a value that is one op: its operations, and the one in their place."""
        inside, members, waiting = {entry}, list[int](), list[int]()
        for reader in self.readers.get(entry, ()):
            heappush(waiting, reader)
        seen = set(waiting)
        while waiting and len(members) < MOST:
            number = heappop(waiting)
            node = self.nodes[number]
            data = {value for value in node.read if value in self.trace.dependent}
            if _word(node) not in words or not data <= inside:
                continue
            inside.add(node.result)
            members.append(number)
            for reader in self.readers.get(node.result, ()):
                if reader not in seen:
                    seen.add(reader)
                    heappush(waiting, reader)
            if self.closed(entry, members) and (found := self.op(entry, members)) is not None:
                return found
        return None

    def closed(self, entry: str, members: Sequence[int]) -> bool:
        """Return whether nothing else reads what stands between the entry and the last operation."""
        shapes, own = self.trace.shapes, {*members}
        last = self.nodes[members[-1]].result
        return (
            len(members) > 1
            and shapes[last] == shapes[entry]
            and all(
                {*self.readers.get(self.nodes[number].result, ())} <= own
                and self.nodes[number].result != self.trace.output
                for number in members[:-1]
            )
        )

    def op(self, entry: str, members: list[int]) -> tuple[list[int], Node] | None:
        """Return a region with what scales and shifts it behind; None if it is no op."""
        nodes = [self.nodes[number] for number in members]
        words = {_word(node) for node in nodes}
        axes = self.reduced(nodes)
        both = sum(value in self.trace.dependent for value in {*nodes[-1].read}) > 1
        kind = _op_of(words, reduced=bool(axes), product=both and _word(nodes[-1]) == "mul")
        trained = [node for node in nodes if not self.weights.isdisjoint(node.read)]
        if kind is None or (kind != "rope" and any(entry in node.read for node in trained)):
            return None
        if trained and not kind.endswith("_norm") and kind != "rope":
            return None
        attributes: dict[str, object] = {"axes": axes}
        if kind == "layer_norm":
            attributes["groups"] = self.groups(entry, nodes, axes)
        if kind == "rope":
            attributes["positions"] = self.positions(nodes)
        if kind == "best_groups":
            choice = next(node for node in reversed(nodes) if _word(node) == "choice")
            attributes = {
                "groups": self.trace.shapes[choice.read[0]][-1],
                "best": choice.attributes.get("k", 1),
            }
        if kind.endswith("_norm"):
            members = self.extended(members)
            nodes = [self.nodes[number] for number in members]
        last = nodes[-1]
        operands = {"input": (entry,)}
        for node in nodes if kind != "rope" else ():  # a rotation has tables, and nothing trained
            for value in node.read:
                if value in self.weights:
                    word = _word(node)
                    name = "weight" if word == "mul" else "bias" if word in {"add", "sub"} else "other"
                    operands[name] = (*operands.get(name, ()), value)
        node = Node(
            kind=COMPOSED_KIND + kind, operands=operands, attributes=attributes, result=last.result,
            scope=last.scope,
        )  # fmt: skip
        return members, node

    def reduced(self, nodes: Sequence[Node]) -> tuple[int, ...]:
        """Return the axes of the first mean or sum, counted from the end."""
        for node in nodes:
            if _word(node) in REDUCTIONS:
                read = next(value for value in node.read if value in self.trace.dependent)
                rank = len(self.trace.shapes[read])
                axes = next(
                    (node.attributes[key] for key in ("dim", "axes", "axis") if key in node.attributes), ()
                )
                listed = axes if isinstance(axes, list | tuple) else (axes,)
                return tuple(sorted(int(axis) % rank - rank for axis in listed))
        return ()

    def groups(self, entry: str, nodes: Sequence[Node], axes: Sequence[int]) -> tuple[int, int] | None:
        """Return the axis of a sample that is summed in groups of neighbours, and their number; None if there is none.

        What is summed then has an axis more, and all of it is summed but the samples and the groups.
        """
        summed = next(node for node in nodes if _word(node) in REDUCTIONS)
        sizes = self.trace.shapes[next(value for value in summed.read if value in self.trace.dependent)]
        own = self.trace.shapes[entry]
        left = sorted({*range(len(sizes))} - {axis % len(sizes) for axis in axes})
        if len(sizes) != len(own) + 1 or len(left) != len(("samples", "groups")) or left[0] != 0:
            return None
        axis = left[1]
        whole = (*sizes[:axis], sizes[axis] * sizes[axis + 1], *sizes[axis + 2 :]) if axis < len(own) else ()
        return (axis, sizes[axis]) if whole == own else None

    def positions(self, nodes: Sequence[Node]) -> int:
        """Return the axis along which the constant factors of a rotation differ, besides the last."""
        for node in nodes:
            for value in node.read:
                sizes = self.trace.shapes.get(value, ())
                if value not in self.trace.dependent and len(sizes) > 1 and sizes[-1] > 1:
                    found = [axis for axis in range(-len(sizes), -1) if sizes[axis] > 1]
                    if len(found) == 1:
                        return found[0]
        return -2

    def extended(self, members: list[int]) -> list[int]:
        """Return a normalisation with the product and the sum of trained tensors that follow it."""
        found = [*members]
        while len(after := self.readers.get(self.nodes[found[-1]].result, [])) == 1:
            node = self.nodes[after[0]]
            others = [value for value in node.read if value not in self.trace.dependent]
            word = _word(node)
            scaled = word in {"mul", "add"} and len(others) == 1 and others[0] in self.weights
            if not scaled and not (word == "cast" and self.kept(node)):
                break
            found.append(after[0])
        while _word(self.nodes[found[-1]]) == "cast" and found[-1] not in members:
            found.pop()
        return found

    def kept(self, node: Node) -> bool:
        """Return whether an operation keeps the shape of what it reads."""
        return all(self.trace.shapes[value] == self.trace.shapes[node.result] for value in node.read)


def _word(node: Node) -> str:
    """Return the word of an operation; empty if it has none."""
    return WORD_OF.get(node.kind.lower().split(" ")[0], "")


def _op_of(words: set[str], *, reduced: bool, product: bool) -> str | None:
    """Return the op that operations of some words are together.

    Args:
        words: the words.
        reduced: whether there is a mean or a sum.
        product: whether the last one is the product of two tensors.
    """
    found = {
        "softmax": reduced and {"exp", "div"} <= words <= SHARING,
        "layer_norm": reduced and {"root", "sub"} <= words <= NORMALISING,
        "rms_norm": reduced and {"root"} <= words <= NORMALISING - {"sub"},
        "guard": {"guard"} <= words <= {"guard", "add"},
        "rope": not reduced and {"slice", "concat"} <= words and bool(words & {"neg", "sub"}),
        "gelu": product and bool(words & {"erf", "tanh"}) and words <= CURVED,
        "silu": product and words == {"mul", "sigmoid"},
        "best_groups": {"choice", "mark"} <= words <= CHOOSING and bool(words & {"hide", "guard"}),
        "shares": reduced and {"sum", "div"} <= words <= {"sum", "div", "add", "cast"},
    }
    return next((op for op, fits in found.items() if fits), None)


def _norm(op: str, *trained: str) -> Rule:
    def rule(view: View) -> Said | Held | None:
        names = {"scale": "weight", "shift": "bias"}
        has = {field: names[field] in view.node.operands for field in trained}
        if "other" in view.node.operands:
            return None
        if (grouped := view.get("groups")) is not None:
            axis, groups = grouped
            return group_norm(view, groups, **has) if channels(view, axis) else None
        if op == "layer_norm" and view.read and _of_samples(view):
            return [short("batch_norm", **has)]
        return norm(view, op, view.get("axes"), has)

    return rule


def _of_samples(view: View) -> bool:
    """Return whether a normalisation runs over all axes of a vector or an image but the channels."""
    rank = len(view.sizes(view.data[0]))
    channels = view.trace.layout[1] if rank > 2 else 1
    return {axis % rank for axis in view.get("axes")} == {*range(rank)} - {channels}


def _function(op: str) -> Rule:
    def rule(view: View) -> Said | Held | None:
        return [short(op)] if view.read else same(view, op)

    return rule


def _rope(view: View) -> Held | None:
    axes, atoms = view.axes(view.data[0]), view.drafts.atoms
    over, dim = atoms.leaves(axes[view.get("positions")]), atoms.leaves(axes[-1])
    if len(over) != 1 or len(dim) != 1 or view.weights:
        return None
    return same(view, "rope", roles={"over": over, "dim": dim})


COMPOSED: Table = {
    f"{COMPOSED_KIND}{op}": rule
    for op, rule in {
        "layer_norm": _norm("layer_norm", "scale", "shift"),
        "rms_norm": _norm("rms_norm", "scale"),
        "gelu": _function("gelu"),
        "silu": _function("silu"),
        "softmax": lambda view: softmax(view, view.get("axes")[0]),
        "rope": _rope,
        "guard": passed,
        "shares": lambda view: normalised(view, "softmax"),
        "best_groups": of_best_groups,
    }.items()
}
"""The rules of regions."""
