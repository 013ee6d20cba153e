"""The neutral graph of a network: operations by one vocabulary of all frameworks, with the shape of every value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Sizes = tuple[int, ...]
Letters = tuple[int, ...]
"""A letter for each axis of a tensor; axes with one letter are the same index."""

CHANNELS_FIRST = (0, 1, 2, 3)
FRAMEWORKS = {
    "add": ("add", "add_any"),
    "sub": ("sub", "rsub"),
    "multiply": ("mul",),
    "divide": ("div",),
    "power": ("pow", "integer_pow", "square", "reciprocal"),
    "root": ("sqrt", "rsqrt"),
    "exp": ("exp",),
    "erf": ("erf", "erfc"),
    "neg": ("neg",),
    "tanh": ("tanh",),
    "sigmoid": ("sigmoid", "logistic"),
    "silu": ("silu", "swish"),
    "leaky_relu": ("leaky_relu", "leakyrelu"),
    "mean": ("mean", "reducemean"),
    "sum": ("sum", "reducesum", "reduce_sum"),
    "max": ("amax", "max", "reducemax", "reduce_max"),
    "softmax": ("softmax", "_softmax", "log_softmax", "logsoftmax"),
    "slice": ("slice", "split"),
    "where": ("isnan", "where", "select_n"),
    "concat": ("cat", "concat", "concatenate"),
    "scatter": ("scatter",),
    "fill": ("masked_fill",),
    "mark": ("getitem", "zeros_like", "bitwise_not"),
    "copy": (
        "to", "_to_copy", "cast", "convert_element_type", "copy", "stop_gradient", "identity", "contiguous", "clone",
        "alias", "detach", "lift_fresh_copy", "sharding_constraint",
    ),
    "reshape": ("reshape", "view", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "expand_dims"),
    "triangle": ("tril", "triu", "trilu"),
    "compare": ("le", "ge", "gt", "less", "lessorequal", "greater", "greaterorequal"),
    "loss": ("cross_entropy_loss", "softmaxcrossentropyloss"),
    "histogram": ("histc",),
}  # fmt: skip
"""The vocabulary, with the frameworks' names in small letters; other operations have the name that their adapter gives."""

CANONICAL = {name: op for op, names in FRAMEWORKS.items() for name in names}
VIEWS = frozenset({"broadcast", "copy", "reshape", "transpose"})
"""Operations that make a view of what they read."""

COMPARISONS = frozenset({"compare", "lt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operation.

    Attributes:
        kind: the framework's name of the operation.
        op: its name in the vocabulary; the framework's in small letters where that has none.
        operands: names of the values that it reads, by the name of the operand.
        attributes: its other arguments by name.
        result: name of the value that it makes.
        scope: path of the module that runs it, outermost first.
        shapes: shape of every value of its network.
    """

    kind: str
    operands: Mapping[str, tuple[str, ...]]
    attributes: Mapping[str, Any]
    result: str
    scope: tuple[str, ...] = ()
    op: str = ""
    shapes: Mapping[str, Sizes] = field(default_factory=dict, repr=False, compare=False)

    @property
    def read(self) -> tuple[str, ...]:
        """Names of all values that it reads."""
        return tuple(name for names in self.operands.values() for name in names)

    @property
    def made(self) -> Sizes:
        """Shape of its result."""
        return self.shapes[self.result]

    def sizes(self, operand: str = "") -> Sizes:
        """Return the shape of an operand; of the first value unless one is named."""
        return self.shapes[self.operand(operand) if operand else self.read[0]]

    @property
    def flop(self) -> int:
        """Floating-point operations of a contraction over the whole example, two for each product; else 0."""
        if self.op == "grouped":
            return 2 * math.prod(self.made) * self.sizes("input")[-1]
        if self.op == "conv":
            filters, turned = self.sizes("weight"), self.get("transposed", False)
            each = math.prod(filters) // (filters[0] if turned else int(self.get("out")))
            return 2 * math.prod(self.sizes("input") if turned else self.made) * each
        if self.op == "attention":
            (*rows, read), (*_, keys, _), (*_, made) = map(self.sizes, ("query", "key", "value"))
            return 2 * math.prod(rows) * keys * (read + made)
        if self.op != "dot":
            return int(self.get("flop", 0))
        of_letter: dict[int, int] = {}
        for side in ("left", "right"):
            for letter, size in zip(self.get(side), self.sizes(side), strict=True):
                of_letter[letter] = max(size, of_letter.get(letter, 1))
        return 2 * math.prod(of_letter.values())

    def get(self, name: str, default: Any = None) -> Any:
        """Return an argument; the default where it is not given."""
        value = self.attributes.get(name, default)
        return default if value is None else value

    def operand(self, name: str) -> str:
        """Return the only value of an operand; nothing if it is not given."""
        return next(iter(self.operands.get(name, ())), "")

    def axes(self, default: int = 0) -> tuple[int, ...]:
        """Return the axes of which it says something, by any framework's name of that argument."""
        names = (name for name in ("dim", "axes", "axis", "dimension") if self.get(name) is not None)
        found = self.get(next(names, ""), default)
        return tuple(int(axis) for axis in (found if isinstance(found, list | tuple) else (found,)))

    def called(self, op: str, operands: Mapping[str, str] | None = None, **attributes: Any) -> Node:
        """Return the operation by another name, with some operands by other names, and with other arguments."""
        names = {name: name for name in self.operands} if operands is None else operands
        read = {own: self.operands[name] for own, name in names.items() if self.operands.get(name)}
        return replace(self, op=op, operands=read, attributes=attributes)


def adapted(node: Node, adapters: Mapping[str, Callable[[Node], Node]]) -> Node:
    """Return an operation of a framework by the vocabulary, by the framework's adapters where the name alone does not say it."""
    if (adapter := adapters.get(node.kind)) is not None:
        return adapter(node)
    name = node.kind.lower()
    return replace(node, op=CANONICAL.get(name, name))


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
        unused_outputs: number of further results, which are left out.
        tokens: inputs of whole numbers.
        full: square constants that are no causal masks: their first row ends as it begins.
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
    unused_outputs: int = 0
    tokens: frozenset[str] = frozenset()
    full: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, fed: Mapping[str, str], formats: Iterable[str], outputs: Sequence[str], *, shapes: Mapping[str, Sizes], **said: Any
    ) -> Trace:  # fmt: skip
        """Return a network with the number format of each value that is fed, those of trained tensors, and its results."""
        known = [*[*fed.values()][:1], *formats]
        return cls(
            batch=shapes[next(iter(fed))][0], dtype=next((one for one in known if "float" in one), known[0]),
            inputs=tuple(fed), tokens=frozenset(value for value, one in fed.items() if "float" not in one),
            output=outputs[0], unused_outputs=len(outputs) - 1, shapes=shapes, **said,
        )  # fmt: skip

    @cached_property
    def makers(self) -> dict[str, Node]:
        """The operation that makes each value."""
        return {node.result: node for node in self.nodes}

    @cached_property
    def readers(self) -> dict[str, list[int]]:
        """Numbers of the operations that read a value."""
        found: dict[str, list[int]] = {}
        for number, node in enumerate(self.nodes):
            for value in dict.fromkeys(node.read):
                found.setdefault(value, []).append(number)
        return found

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

    @cached_property
    def weights(self) -> frozenset[str]:
        """The values that depend on trained tensors and on no input."""
        found = set(self.parameters)
        for node in self.nodes:
            if node.result not in self.dependent and not found.isdisjoint(node.read):
                found.add(node.result)
        return frozenset(found)

    def uses(self, value: str) -> frozenset[str]:
        """Return the operations that read a value, or a view of it."""
        found, waiting = set[str](), [value]
        while waiting:
            for number in self.readers.get(waiting.pop(), ()):
                node = self.nodes[number]
                found |= set() if node.op in VIEWS else {node.op}
                waiting += [node.result] if node.op in VIEWS else []
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
    def images(self) -> dict[int, tuple[str, ...]]:
        """Names of the axes of a vector, an image, a row or a volume, by their number.

        Tensors of three axes are rows, and those of five volumes, where a convolution reads such an input; of three they
        are a sequence in place of rows where their axes change places.
        """
        dims = ("batch", "channels", "height", "width")
        found = {2: dims[:2], 4: tuple(name for _, name in sorted(zip(self.layout, dims, strict=True)))}
        convolved = {node.read[0] for node in self.nodes if node.op == "conv"}
        ranks = {len(self.shapes[value]) for value in convolved.intersection(self.inputs)}
        turned = any(node.op == "transpose" and len(node.made) == 3 for node in self.nodes)
        rows = {3: ("batch", "channels", "width")} if 3 in ranks and not turned else {}
        volumes = {5: (*dims[:2], "depth", *dims[2:])} if 5 in ranks else {}
        return {**found, **rows, **volumes}

    def elements(self, value: str) -> int:
        """Return the number of elements of a value."""
        return math.prod(self.shapes[value])

    def causal(self, node: Node, operand: str = "") -> bool:
        """Return whether an operation hides later positions: says so, or has an operand that compares positions.

        A square constant that no operation makes is taken for a causal mask as well.

        Args:
            node: the operation.
            operand: the only operand to look at, if not all.
        """
        if node.get("causal", False):
            return True
        waiting = [*(node.operands.get(operand, ()) if operand else node.read)]
        seen: set[str] = set()
        while waiting:
            value = waiting.pop()
            if value in seen or value in self.dependent:
                continue
            seen.add(value)
            maker, sizes = self.makers.get(value), self.shapes.get(value, ())
            square = len(sizes) > 1 and sizes[-1] == sizes[-2] > 1
            op, read = (maker.op, len(maker.read)) if maker else ("", 0)
            if square and (op in {"", "triangle"} or (op in COMPARISONS and read > 1)):
                return value not in self.parameters and value not in self.full
            waiting += maker.read if maker else ()
        return False


def matrix_letters(left: int, right: int) -> dict[str, Letters]:
    """Return the letters of a product of matrices with some axes before, of the ranks of its factors.

    Examples:
        >>> matrix_letters(3, 2)
        {'left': (0, 1, 2), 'right': (2, 3), 'made': (0, 1, 3)}
    """
    rank = max(left, right, 2)
    row, inner, column = rank - 2, rank - 1, rank
    before = (*range(rank - 2),)
    return {
        "left": (*before[rank - left :], row, inner) if left > 1 else (inner,),
        "right": (*before[rank - right :], inner, column) if right > 1 else (inner,),
        "made": (*before, *((row,) if left > 1 else ()), *((column,) if right > 1 else ())),
    }


def matrix_product(names: Mapping[str, str], node: Node) -> Node:
    """Say a product of matrices, whose factors and bias are called by some names."""
    letters = matrix_letters(len(node.sizes(names["left"])), len(node.sizes(names["right"])))
    scaled = node.get("beta", 1) != 1 or node.get("alpha", 1) != 1
    return node.called("dot", names, scaled=scaled, **letters)


def contraction(
    names: Mapping[str, str], node: Node, summed: Sequence[Sizes], beside: Sequence[Sizes] = ((), ()), **said: Any
) -> Node:  # fmt: skip
    """Say a product of two tensors, whose factors are called by some names, over axes of both, others of both kept in front."""
    left = [*range(len(node.sizes(names["left"])))]
    right = [len(left) + axis for axis in range(len(node.sizes(names["right"])))]
    for own, other in (summed, beside):
        for one, two in zip(own, other, strict=True):
            right[two] = left[one]
    free = [axis for axis in left if axis not in {*summed[0], *beside[0]}]
    made = (*beside[0], *free, *(letter for letter in right if letter not in left))
    return node.called("dot", names, left=(*left,), right=(*right,), made=made, **said)


def numbers(value: Any, dims: int) -> list[int]:
    """Return a number for each of some dims, of one number or as many."""
    items: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
    return [int(item) for item in (list(items) * dims if len(items) == 1 else items)]
