"""Import of a PyTorch module, captured by ``torch.export``, on the meta device where it is built for that; ATen's operations in the vocabulary."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

from hypar.errors import ModelError
from hypar.importers.formats import Samples, one_line, package
from hypar.importers.imported import imported
from hypar.importers.trace import Node, Trace, adapted, contraction, matrix_product
from hypar.network.graph import LayerGraph


def _einsum(node: Node) -> Node:
    equation = str(node.get("equation", "")).replace(" ", "")
    values = node.operands.get("tensors", ())
    sides, arrow, made = equation.partition("->")
    if not arrow or sides.count(",") != 1 or "." in equation or len(values) != 2:
        return node
    left, right = ((*map(ord, side),) for side in sides.split(","))
    factors = replace(node, operands={"left": values[:1], "right": values[1:]})
    return factors.called("dot", left=left, right=right, made=(*map(ord, made),))


def _transpose(node: Node) -> Node:
    order = [*range(len(node.made))]
    one, other = node.get("dim0", -2), node.get("dim1", -1)
    order[one], order[other] = order[other], order[one]
    return node.called("transpose", order=order)


def _recurrence(node: Node) -> Node:
    """Say a recurrence, in which each position meets every matrix once."""
    batch, length, *_ = node.sizes()
    shapes = (node.shapes[value] for value in node.operands["params"])
    elements = sum(one[0] * one[1] for one in shapes if len(one) == 2)
    return node.called(node.kind, flop=2 * batch * length * elements)


ADAPTERS: Mapping[str, Callable[[Node], Node]] = {
    "linear": partial(matrix_product, turned=("right",)),
    **dict.fromkeys(("addmm", "baddbmm"), partial(matrix_product, names=("bias", "left", "right"))),
    "einsum": _einsum,
    "tensordot": lambda node: contraction(node, (node.get("dims_self"), node.get("dims_other"))),
    **dict.fromkeys(("transpose", "mt", "t", "numpy_t"), _transpose),
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), _recurrence),
}

DIVIDING = frozenset({"split", "split_with_sizes", "chunk", "unbind"})
"""Operations of several results, each of which stands for itself."""


EMPTY = frozenset({"empty", "empty_like", "new_empty", "new_zeros", "zeros", "zeros_like"})
"""Operations whose result has no values that matter."""


def from_torch(
    module: Any,
    example_inputs: Any,
    *,
    batch: int | None = None,
    name: str | None = None,
    partial: bool = False,
) -> LayerGraph:
    """Read a PyTorch module as a network; nothing is computed, and weights may be on the meta device.

    Args:
        module: a ``torch.nn.Module``.
        example_inputs: a tensor, or one for each argument; the first dim counts samples.
        batch: samples in a mini-batch, if not those of the example.
        name: name of the network; that of the module's class if not given.
        partial: whether to accept a network of which less than 99 % is recognised.

    Raises:
        InputError: PyTorch is not installed, or the module cannot be captured or said by hypar's ops.
    """
    example = tuple(example_inputs) if isinstance(example_inputs, list | tuple) else (example_inputs,)
    own = type(module).__name__ if name is None else name
    return imported(capture(module, example, name=own, where=own), batch=batch, partial=partial).graph()


def capture_built(module: Any, samples: Samples, network: str) -> Trace:
    """Return the trace of the module that ``my_module:build`` is or returns; raises ``InputError`` for anything else."""
    torch = package("torch", "torch")
    if not isinstance(module, torch.nn.Module):
        allowed = "a torch.nn.Module, or a function that returns one"
        raise ModelError(network, f"found a {type(module).__name__}", allowed)
    device = next((held.device for held in (*module.parameters(), *module.buffers())), "meta")
    example = [
        torch.zeros(sizes, device=device, dtype=torch.int64 if whole else None) for sizes, whole in samples
    ]
    return capture(module, example, name=network.rpartition(":")[2].rpartition(".")[2], where=network)


def capture(module: Any, example: Sequence[Any], *, name: str, where: str) -> Trace:
    """Return the trace of a training step's forward phase, of one tensor for each argument; the module's mode stays as it is.

    Raises ``ModelError`` at the place ``where`` for what ``torch.export`` cannot capture.
    """
    torch = package("torch", "torch")
    modes = [(part, part.training) for part in module.modules()]
    try:
        with one_line(where, "torch.export cannot capture it:"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(module.train(), tuple(example), strict=False)
            return _Program(torch, module, program).trace(name, where)
    finally:
        for part, mode in modes:
            part.training = mode


def kind_of(node: Any) -> str:
    """Return the name of an operation, without its overload."""
    return str(getattr(node.target, "__name__", node.target)).partition(".")[0]


class _Program:
    """An exported program: the values that names stand for after operations in place, by ``alias``, and its operations.

    In ``parts`` are the values copied into each tensor that was made empty along an axis, by their first element.
    """

    def __init__(self, torch: Any, module: Any, program: Any) -> None:
        self.torch, self.module, self.program = torch, module, program
        self.alias: dict[str, str] = {}
        self.nodes: list[Node] = []
        self.parts: dict[tuple[str, int], dict[int, str]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.classes: dict[tuple[str, ...], str] = {}

    def trace(self, name: str, where: str) -> Trace:
        signature, state = self.program.graph_signature, self.program.state_dict
        inputs, fed, first = {*signature.user_inputs}, dict[str, str](), dict[int, str]()
        for node in self.program.graph.nodes:
            if "val" in node.meta:
                self.shapes[node.name] = self.sizes(node)
            if node.name in inputs and isinstance(node.meta["val"], self.torch.Tensor):
                fed[node.name] = str(node.meta["val"].dtype)
            if node.op == "call_function":
                self.add(node)
        results = [self.true(str(output)) for output in signature.user_outputs]
        if not results:
            raise ModelError(where, "found no tensor in what it returns", "a tensor")
        tied = signature.inputs_to_parameters.items()
        parameters = {value: first.setdefault(id(state[own]), own) for value, own in tied}
        formats, own_class = (str(one.dtype) for one in self.module.parameters()), type(self.module)
        source = f"imported from PyTorch: {own_class.__module__}.{own_class.__qualname__}"
        return Trace.of(
            fed, formats, results, name=name, source=source, parameters=parameters, shapes=self.shapes,
            nodes=tuple(self.nodes), classes=self.classes,
        )  # fmt: skip

    def sizes(self, node: Any) -> tuple[int, ...]:
        """Return the shape of a value, of the first where it is several; sizes that depend on data are 0."""
        value = node.meta["val"]
        while isinstance(value, list | tuple):
            value = value[0] if value else None
        return tuple(size if isinstance(size, int) else 0 for size in getattr(value, "shape", ()))

    def true(self, name: str) -> str:
        while name in self.alias:
            name = self.alias[name]
        return name

    def add(self, node: Any) -> None:
        """Add an operation, unless it only names a value, or several."""
        maker, index = node.args if node.target.__name__ == "getitem" else (node, None)
        kind, (operands, attributes) = kind_of(maker), self.arguments(maker)
        if index == 0 and kind not in DIVIDING:
            self.alias[node.name] = maker.name
            return
        if node.meta.get("val") is None or (index is None and kind in DIVIDING):
            return
        if index and kind not in DIVIDING:
            kind, operands, attributes = "getitem", {"input": (self.true(maker.name),)}, {}
        elif index is not None:
            attributes |= {"index": index, "before": [one.shape for one in maker.meta["val"][:index]]}
        elif kind == "copy_" and (sources := self.filled(node)):
            kind, operands, attributes = "cat", {"tensors": sources}, {"dim": node.args[0].args[1]}
        elif kind.endswith("_") and not kind.startswith("_") and operands:
            kind = kind.removesuffix("_")
            self.alias[self.true(next(iter(operands.values()))[0])] = node.name
        said: dict[str, Any] = {"operands": operands, "attributes": attributes, "scope": self.scope(node)}
        self.nodes.append(adapted(ADAPTERS, kind=kind, result=node.name, shapes=self.shapes, **said))

    def filled(self, node: Any) -> tuple[str, ...]:
        """Return what a copy completes a tensor of that was made empty, which is their concatenation; nothing if it does not."""
        part, source = node.args[:2]
        if kind_of(part) != "slice" or kind_of(whole := part.args[0]) not in EMPTY or len(part.args) > 4:
            return ()
        _, axis, start = (*part.args, 0, 0)[:3]
        parts, sizes = self.parts.setdefault((whole.name, axis), {}), self.shapes[whole.name]
        parts[start or 0] = self.true(source.name)
        values = [value for _, value in sorted(parts.items())]
        ends = accumulate((self.shapes[value][axis] for value in values), initial=0)
        if [*ends] != [*sorted(parts), sizes[axis]]:
            return ()
        self.shapes[node.name], self.alias[whole.name] = sizes, node.name
        return tuple(values)

    def arguments(self, node: Any) -> tuple[dict[str, tuple[str, ...]], dict[str, Any]]:
        """Return the values and the other arguments of a node by the names of its schema."""
        schema = getattr(node.target, "_schema", None)
        names = [argument.name for argument in schema.arguments] if schema else []
        names += [f"argument{number}" for number in range(len(names), len(node.args))]
        operands, attributes = dict[str, tuple[str, ...]](), dict[str, Any]()
        for name, value in {**dict(zip(names, node.args, strict=False)), **node.kwargs}.items():
            items = value if isinstance(value, list | tuple) else [value]
            values = tuple(self.true(item.name) for item in items if isinstance(item, self.torch.fx.Node))
            if values:
                operands[name] = values
            else:
                attributes[name] = value
        return operands, attributes

    def scope(self, node: Any) -> tuple[str, ...]:
        """Return the path of the module that runs a node, and note the classes on the way."""
        path: tuple[str, ...] = ()
        for name, kind in (node.meta.get("nn_module_stack") or {}).values():
            path = tuple(name.split("@")[0].split(".")) if name else ()
            written = kind if isinstance(kind, str) else kind.__qualname__
            self.classes[path] = written.rpartition(".")[2]
        return path
