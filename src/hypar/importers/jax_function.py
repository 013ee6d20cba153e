"""Import of a JAX function: its jaxpr on shapes, with its nested functions opened."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from hypar.errors import ModelError
from hypar.importers.formats import Samples, one_line, package
from hypar.importers.imported import imported
from hypar.importers.trace import CHANNELS_FIRST, Node, Trace, adapted, contraction, conv
from hypar.network.graph import LayerGraph
from hypar.network.modelfile import MOST_REPEATS

NAMED = frozenset({"relu", "relu6", "gelu", "silu", "softmax", "sigmoid"})
"""Functions of ``jax.nn`` that are one operation, though they consist of several."""


def from_jax(
    fn: Any,
    params: Any,
    *inputs: Any,
    batch: int | None = None,
    name: str | None = None,
    partial: bool = False,
) -> LayerGraph:
    """Read a JAX function of parameters and inputs as a network; nothing is computed.

    Args:
        fn: the function; it is called as ``fn(params, *inputs)``.
        params: arrays, or ``jax.ShapeDtypeStruct``, in any nested containers.
        inputs: arrays or ``jax.ShapeDtypeStruct``, samples first; images channels last or first, as the convolutions have them.
        batch: samples in a mini-batch, if not those of the inputs.
        name: name of the network; that of the function if not given.
        partial: whether to accept a network of which less than 99 % is recognised.

    Raises:
        InputError: JAX is not installed, or the function cannot be captured or said by hypar's ops.
    """
    own = getattr(fn, "__name__", "network") if name is None else name
    return imported(capture(fn, params, inputs, own, own), batch=batch, partial=partial).graph()


def capture_built(made: Any, samples: Samples, network: str) -> Trace:
    """Return the trace of the function that ``my_module:build`` returns with its parameters; raises ``InputError`` for anything else."""
    jax = package("jax", "jax")
    if not isinstance(made, tuple) or len(made) != 2 or not callable(made[0]):
        raise ModelError(network, f"returned a {type(made).__name__}", "a function and its parameters")
    example = [jax.ShapeDtypeStruct(sizes, "int32" if whole else "float32") for sizes, whole in samples]
    return capture(*made, example, network.rpartition(":")[0].rpartition(".")[2], network)


def capture(fn: Any, params: Any, inputs: Sequence[Any], name: str, where: str) -> Trace:
    """Return the trace of a function; raises ``ModelError`` at the place ``where`` for one that cannot be traced."""
    jax = package("jax", "jax")
    with one_line(where, "jax.make_jaxpr cannot trace it:"):
        closed = jax.make_jaxpr(fn)(params, *inputs)
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    return _Reader().trace(closed.jaxpr, names, name, where)


class _Reader:
    """Opens a jaxpr: the values behind variables, the trained tensors behind values, and those that depend on an input."""

    def __init__(self) -> None:
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.called: dict[int, str] = {}
        self.parameters: dict[str, str] = {}
        self.data: set[str] = set()
        self.nodes: list[Node] = []
        self.layout: tuple[int, ...] = CHANNELS_FIRST

    def trace(self, jaxpr: Any, params: Sequence[str], name: str, where: str) -> Trace:
        fed = [self.new(variable) for variable in jaxpr.invars]
        inputs = fed[len(params) :]
        self.parameters = dict(zip(fed, params, strict=False))
        self.data |= {*inputs}
        outputs = self.open(jaxpr, fed)
        if not outputs or not inputs or not self.shapes[inputs[0]]:
            raise ModelError(where, "found no input or no result", "an array each, samples first")
        formats = [str(variable.aval.dtype) for variable in jaxpr.invars]
        given = dict(zip(inputs, formats[len(params) :], strict=True))
        return Trace.of(
            given, formats, outputs, name=name, source=f"imported from JAX: {name}", parameters=self.parameters,
            shapes=self.shapes, nodes=tuple(self.nodes), layout=self.layout,
        )  # fmt: skip

    def new(self, variable: Any) -> str:
        name = f"v{len(self.shapes)}"
        self.called[id(variable)] = name
        sizes = getattr(variable.aval, "shape", ())
        self.shapes[name] = tuple(size if isinstance(size, int) else 0 for size in sizes)
        return name

    def values(self, variables: Sequence[Any]) -> list[str]:
        """Return the names of the values of variables; a literal or a constant has a new one."""
        return [self.called.get(id(one)) or self.new(one) for one in variables]

    def open(self, jaxpr: Any, given: Sequence[str], scope: tuple[str, ...] = ()) -> list[str]:
        """Add the equations of a jaxpr on some values, those of functions that it calls included; return its results."""
        self.called |= zip(map(id, jaxpr.invars), given, strict=False)
        for equation in jaxpr.eqns:
            params, kind = dict(equation.params), equation.primitive.name
            within = (*scope, *filter(str.isidentifier, str(equation.source_info.name_stack).split("/")))
            inner: Any = params.get("jaxpr") or params.get("call_jaxpr") or params.get("fun_jaxpr")
            read = self.values(equation.invars)
            if kind == "scan" and (turned := self.unrolled(equation, read, within)) is not None:
                made = turned
            elif inner is None or kind in {"scan", "while", "cond"}:
                made = self.add(equation, kind, read, within)
            elif params.get("name") in NAMED:
                made = self.add(equation, str(params["name"]), read, within)
            else:
                made = self.open(getattr(inner, "jaxpr", inner), read, within)
            self.called |= zip(map(id, equation.outvars), made, strict=False)
        return self.values(jaxpr.outvars)

    def unrolled(self, loop: Any, values: list[str], scope: tuple[str, ...]) -> list[str] | None:
        """Add the equations of a loop, those of each turn within a scope of its own; return what it carries.

        That is a loop over tensors that depend on no input, as the weights of equal layers; None for any other.
        """
        params = loop.params
        start, end = params["num_consts"], params["num_consts"] + params["num_carry"]
        turns, scanned = range(params["length"]), values[end:]
        unread = all(type(one).__name__ == "DropVar" for one in loop.outvars[params["num_carry"] :])
        if len(turns) > MOST_REPEATS or not scanned or not self.data.isdisjoint(scanned) or not unread:
            return None
        for turn in reversed(turns) if params["reverse"] else turns:
            slices = [self.turn_of(value, turn, scope) for value in scanned]
            made = self.open(params["jaxpr"].jaxpr, [*values[:end], *slices], (*scope, f"layer{turn}"))
            values[start:end] = made[: end - start]
        for value in scanned:
            self.parameters.pop(value, None)
        return values[start:end]

    def turn_of(self, value: str, turn: int, scope: tuple[str, ...]) -> str:
        """Return what a turn of a loop has of a tensor: of a trained one a tensor of its own."""
        name = f"v{len(self.shapes)}"
        self.shapes[name] = self.shapes[value][1:]
        if value in self.parameters:
            self.parameters[name] = f"{self.parameters[value]}[{turn}]"
        else:
            read = {"0": (value,)}
            self.nodes.append(Node(kind="turn", operands=read, attributes={}, result=name, scope=scope))
        return name

    def add(self, equation: Any, kind: str, read: Sequence[str], scope: tuple[str, ...]) -> list[str]:
        params, made = dict(equation.params), [self.new(variable) for variable in equation.outvars]
        if "padding" in params:
            params["padding"] = [*chain(*zip(*params["padding"], strict=True))]
        if kind == "conv_general_dilated":
            self.layout = tuple(params["dimension_numbers"].lhs_spec)
        if not self.data.isdisjoint(read):
            self.data |= {*made}
        operands = {str(number): (value,) for number, value in enumerate(read)}
        said = {"operands": operands, "scope": scope, "shapes": self.shapes}
        sizes = [self.shapes[one] for one in made]
        largest = max(range(len(made)), key=lambda index: math.prod(sizes[index]))
        flop = 0 if kind in NAMED else self.flop_within(equation)
        for index, one in enumerate(made):
            own = kind if not index or kind == "split" else f"{kind} {index + 1}"
            attributes = {**params, "before": sizes[:index], "flop": flop if index == largest else 0}
            self.nodes.append(adapted(ADAPTERS, kind=own, attributes=attributes, result=one, **said))
        return made

    def flop_within(self, equation: Any) -> int:
        """Return the operations of the contractions of the functions that an equation calls, in all turns of a loop."""
        found, params = 0, equation.params
        for value in params.values():
            for one in value if isinstance(value, list | tuple) else [value]:
                inner = getattr(one, "jaxpr", one)
                if hasattr(inner, "eqns"):
                    reader = _Reader()
                    reader.open(inner, ())
                    found += sum(node.flop for node in reader.nodes)
        return int(found * params["length"]) if equation.primitive.name == "scan" else found


def _gather(node: Node) -> Node:
    """Say rows of a table by tokens, which stand in an axis of one element."""
    table = node.sizes("0")
    rows = len(table) == 2 and tuple(node.get("slice_sizes")) == (1, table[1])
    return node.called("embedding" if rows else "gather rows", ("table", "tokens"))


def _slice(node: Node) -> Node:
    axes = [axis for axis, size in enumerate(node.sizes()) if node.made[axis] != size]
    if len(axes) != 1 or {*(node.get("stride", (1,)))} != {1}:
        return node.called("slice", step=0)
    return node.called("slice", axis=axes[0], start=node.get("start_indices")[axes[0]])


ADAPTERS: Mapping[str, Callable[[Node], Node]] = {
    "conv_general_dilated": lambda node: conv(node, node.get("dimension_numbers").rhs_spec),
    "dot_general": lambda node: contraction(node, *node.get("dimension_numbers")),
    "gather": _gather,
    "slice": _slice,
}
