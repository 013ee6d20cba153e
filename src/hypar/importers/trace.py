"""The neutral graph of a network: operations by one vocabulary of all frameworks, with the shape of every value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

Sizes = tuple[int, ...]
Letters = tuple[int, ...]
"""A letter for each axis of a tensor; axes with one letter are the same index."""

CHANNELS_FIRST = (0, 1, 2, 3)
FACTORS, TRAINED = ("left", "right", "bias"), ("input", "weight", "bias")
FRAMEWORKS = {
    "sub": ("rsub",),
    "multiply": ("mul",),
    "divide": ("div",),
    "power": ("pow", "integer_pow", "square", "reciprocal"),
    "root": ("sqrt", "rsqrt"),
    "erf": ("erfc",),
    "sigmoid": ("logistic",),
    "silu": ("swish",),
    "leaky_relu": ("leakyrelu",),
    "max": ("amax",),
    "attention": ("scaled_dot_product_attention",),
    "grouped": ("grouped_mm", "grouped_mm_fallback"),
    "broadcast": ("expand", "expand_as", "broadcast_in_dim"),
    "transpose": ("permute",),
    "slice": ("split",),
    "part": ("chunk", "split_with_sizes", "select", "unbind"),
    "max_pool": ("maxpool", "window_max"),
    "average_pool": ("avg_pool", "averagepool", "window_sum"),
    "adaptive_max": ("adaptive_max_pool", "globalmaxpool"),
    "adaptive_average": ("adaptive_avg_pool", "globalaveragepool"),
    "resize": ("upsample", "upsample_nearest", "upsample_bilinear"),
    "group_norm": ("instance_norm",),
    "dropout": ("feature_dropout",),
    "where": ("isnan", "select_n"),
    "concat": ("cat", "concatenate"),
    "mark": ("getitem", "zeros_like", "bitwise_not"),
    "copy": (
        "to", "to_copy", "cast", "convert_element_type", "stop_gradient", "identity", "contiguous", "clone",
        "alias", "detach", "lift_fresh_copy", "sharding_constraint", "type_as", "castlike",
    ),
    "reshape": ("view", "unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "expand_dims"),
    "triangle": ("tril", "triu", "trilu"),
    "compare": ("le", "ge", "gt", "less", "lessorequal", "greater", "greaterorequal"),
    "loss": ("cross_entropy_loss", "softmaxcrossentropyloss"),
}  # fmt: skip
"""The vocabulary, with the frameworks' names in small letters; others have the name of the framework, or that their adapter gives."""

ARGUMENTS = {
    "kernel": ("kernel_size", "kernel_shape", "window_dimensions"),
    "stride": ("strides", "window_strides"),
    "padding": ("pads",),
    "dilation": ("dilations", "rhs_dilation", "window_dilation"),
    "groups": ("group", "feature_group_count"),
    "axis": ("dim", "axes", "dimension"),
    "start": ("index",),
    "order": ("dims", "perm", "permutation"),
    "probability": ("p", "ratio"),
    "min": ("min_val",),
    "max": ("max_val",),
}
"""The names of arguments, with those of the frameworks; other arguments have the framework's."""

OPERANDS = {
    "attention": ("query", "key", "value", "mask"),
    "castlike": ("input",),
    "type_as": ("input",),
    "grouped": ("input", "weight"),
    "embedding": ("table", "tokens"),
    **dict.fromkeys(("layer_norm", "rms_norm", "batch_norm", "group_norm"), TRAINED),
}
"""The operands of operations whose rules read them by name, or read not all, in the order that all frameworks have."""

CANONICAL = {name: op for op, names in FRAMEWORKS.items() for name in names}
ARGUMENT = {name: argument for argument, names in ARGUMENTS.items() for name in names}
VIEWS = frozenset({"broadcast", "copy", "reshape", "transpose"})
"""Operations that make a view of what they read."""


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
            each = math.prod(filters) // max(1, filters[0] if turned else int(self.get("out")))
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

    def axes(self, default: int = 0) -> Sequence[int]:
        """Return the axes of which it says something."""
        return numbers(self.get("axis", default))

    def called(self, op: str, names: Sequence[str] = (), **attributes: Any) -> Node:
        """Return the operation by another name, with other arguments, and its first operands, all unless they are named anew."""
        operands = dict(zip(names, self.operands.values(), strict=False)) if names else self.operands
        return replace(self, op=op, operands=operands, attributes=attributes)


def adapted(
    adapters: Mapping[str, Callable[[Node], Node]], *, attributes: Mapping[str, Any], **said: Any
) -> Node:
    """Return an operation of a framework by the vocabulary, by an adapter where names alone do not say it."""
    node = Node(attributes={ARGUMENT.get(name, name): value for name, value in attributes.items()}, **said)
    around = r"^(_|reduce_?|log_?(?=softmax))|(_any|[123]d(_with_indices)?)$"
    name = re.sub(around, "", node.kind.lower()).replace("normalization", "_norm")
    if (adapter := adapters.get(name, ADAPTERS.get(name))) is not None:
        return adapter(node)
    op = CANONICAL.get(name, name)
    return replace(node.called(op, OPERANDS.get(name, OPERANDS.get(op, ()))), attributes=node.attributes)


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
            batch=shapes[next(iter(fed))][0],
            dtype=next((one for one in known if "float" in one), known[0]).rpartition(".")[2],
            inputs=tuple(fed), tokens=frozenset(value for value, one in fed.items() if "float" not in one),
            output=outputs[0], unused_outputs=len(outputs) - 1, shapes=shapes, **said,
        )  # fmt: skip

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
        return self.reached(self.inputs)

    @cached_property
    def weights(self) -> dict[str, frozenset[str]]:
        """The trained tensors behind each value that depends on these and on no input."""
        found = {value: frozenset([identity]) for value, identity in self.parameters.items()}
        for node in self.nodes:
            own = frozenset[str]().union(*(found.get(value, ()) for value in node.read))
            if own and node.result not in self.dependent:
                found[node.result] = own
        return found

    def reached(self, values: Iterable[str]) -> frozenset[str]:
        """Return some values and all that depend on one of them."""
        found = {*values}
        for node in self.nodes:
            if not found.isdisjoint(node.read):
                found.add(node.result)
        return frozenset(found)

    def uses(self, value: str) -> frozenset[str]:
        """Return the operations that read a value, or a view of it."""
        nodes = (self.nodes[number] for number in self.readers.get(value, ()))
        uses = (self.uses(node.result) if node.op in VIEWS else {node.op} for node in nodes)
        return frozenset[str]().union(*uses)

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
        image = tuple(name for _, name in sorted(zip(self.layout, dims, strict=True)))
        found = {2: dims[:2], 3: (*dims[:2], dims[3]), 4: image, 5: (*dims[:2], "depth", *dims[2:])}
        convolved = {node.read[0] for node in self.nodes if node.op == "conv"}
        ranks = {2, 4, *(len(self.shapes[value]) for value in convolved.intersection(self.inputs))}
        turned = {len(node.made) for node in self.nodes if node.op == "transpose"}
        return {rank: names for rank, names in found.items() if rank in ranks - (turned & {3})}

    def elements(self, value: str) -> int:
        """Return the number of elements of a value."""
        return math.prod(self.shapes[value])

    @cached_property
    def masks(self) -> frozenset[str]:
        """The values that hide later positions, as what compares positions does; a square constant is taken for one as well."""
        compared = {
            node.result for node in self.nodes
            if node.op == "triangle" or (node.op in {"compare", "lt"} and len(node.read) > 1)
        }  # fmt: skip
        given = self.shapes.keys() - {node.result for node in self.nodes} - self.parameters.keys() - self.full
        last = {value: self.shapes[value][-2:] for value in given | compared}
        square = (value for value, sizes in last.items() if len(sizes) > 1 and sizes[0] == sizes[1] > 1)
        return self.reached(square) - self.dependent


def matrix_letters(left: int, right: int) -> dict[str, Letters]:
    """Return the letters of a product of matrices with some axes before, of the ranks of its factors.

    Examples:
        >>> matrix_letters(3, 2)
        {'left': (0, 1, 2), 'right': (2, 3), 'made': (0, 1, 3)}
    """
    *before, row, inner, column = range(max(left, right, 2) + 1)
    return {
        "left": (*before, row, inner)[-left:],
        "right": (*before, inner, column)[-right:] if right > 1 else (inner,),
        "made": (*before, *[row] * (left > 1), *[column] * (right > 1)),
    }


def matrix_product(node: Node, names: Sequence[str] = FACTORS, turned: Collection[str] = ()) -> Node:
    """Say a product of matrices, of which some factors are transposed, by the names of its operands."""
    found, scaled = node.called("dot", names), {node.get("alpha", 1), node.get("beta", 1)} != {1}
    letters = matrix_letters(len(found.sizes("left")), len(found.sizes("right")))
    letters |= {side: (*letters[side][:-2], *letters[side][:-3:-1]) for side in turned}
    return found.called("dot", (), scaled=scaled, **letters)


def contraction(node: Node, summed: Sequence[Sizes], beside: Sequence[Sizes] = ((), ())) -> Node:
    """Say a product of two tensors over axes of both; others of both are kept in front."""
    found = node.called("dot", FACTORS)
    left, right = (range(len(found.sizes(side))) for side in ("left", "right"))
    own, other = ((*axes, *kept) for axes, kept in zip(summed, beside, strict=True))
    same = dict(zip(other, own, strict=True))
    letters = tuple(same.get(axis, len(left) + axis) for axis in right)
    free = (letter for letter in (*left, *letters) if letter not in own)
    return found.called("dot", left=(*left,), right=letters, made=(*beside[0], *free))


def conv(node: Node, spec: Sizes = ()) -> Node:
    """Say a convolution; ``spec`` are the axes of an image's filters: those made, those read, and the places."""
    found = node.called("conv", TRAINED)
    sizes, groups = found.sizes("weight"), node.get("groups", 1)
    first, _, *places = spec or range(len(sizes))
    turned = "transpose" in node.kind.lower() or bool(node.get("transposed", False))
    own = {"kernel": [sizes[axis] for axis in places], "groups": groups, "transposed": turned}
    out = sizes[1] * groups if turned else sizes[first]
    return replace(found, attributes={**node.attributes, **own, "out": out})


def numbers(value: Any, dims: int = 1) -> list[int]:
    """Return a number for each of some dims, of one number or as many."""
    items: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
    return [int(item) for item in (list(items) * dims if len(items) == 1 else items)]


ADAPTERS: Mapping[str, Callable[[Node], Node]] = {
    **dict.fromkeys(("conv", "conv_transpose", "convolution", "convtranspose"), conv),
    **dict.fromkeys(("matmul", "mm", "bmm", "mv"), matrix_product),
    **dict.fromkeys(
        ("clip", "hardtanh"),
        lambda node: node.called("relu6" if (node.get("min"), node.get("max")) == (0, 6) else "clip"),
    ),
}
"""The adapters of operations whose arguments several frameworks call alike."""
