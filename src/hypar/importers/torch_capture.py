"""Capture of a PyTorch module by ``torch.export``, on the meta device where it is built for that."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from hypar.errors import ModelError
from hypar.importers.experts import GROUPED
from hypar.importers.packages import package
from hypar.importers.running import one_line
from hypar.importers.trace import Node, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def build_on_meta(build: Callable[[], Any], where: str) -> Any:
    """Build a module without memory for its weights; a module that exists already is taken as it is.

    Raises:
        ModelError: the user's code fails, or what it returns is no module.
    """
    torch = package("torch", "torch")
    found: Any = build
    if not isinstance(build, torch.nn.Module):
        if not callable(build):
            raise ModelError(
                where, f"found a {type(build).__name__}", "a function that returns a torch.nn.Module"
            )
        with one_line(where), torch.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = build()
    if not isinstance(found, torch.nn.Module):
        raise ModelError(where, f"returned a {type(found).__name__}", "a torch.nn.Module")
    return found


def capture(module: Any, example: Sequence[Any], *, name: str, where: str) -> Trace:
    """Return the trace of a training step's forward phase.

    Args:
        module: the module, whose mode is the same afterwards.
        example: one tensor for each argument, samples first.
        name: name of the network.
        where: the place that errors name.

    Raises:
        ModelError: ``torch.export`` cannot capture the module.
    """
    torch = package("torch", "torch")
    modes = [(part, part.training) for part in module.modules()]
    try:
        with one_line(where, "torch.export cannot capture it:"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(module.train(), tuple(example), strict=False)
            return _Reader(torch, module, program, example, where).trace(name)
    finally:
        for part, mode in modes:
            part.training = mode


EMPTY = frozenset({"empty", "empty_like", "new_empty", "new_zeros", "zeros", "zeros_like"})
"""Operations whose result has no values that matter."""

DIVIDING = frozenset({"split", "split_with_sizes", "chunk", "unbind"})
"""Operations of several results, each of which stands for itself."""


def kind_of(node: Any) -> str:
    """Return the name of an operation, without its overload."""
    return str(getattr(getattr(node.target, "overloadpacket", node.target), "__name__", node.target))


class _Reader:
    """Reads an exported program."""

    def __init__(self, torch: Any, module: Any, program: Any, example: Sequence[Any], where: str) -> None:
        self.torch, self.module, self.program, self.example, self.where = (
            torch,
            module,
            program,
            example,
            where,
        )
        self.alias: dict[str, str] = {}
        self.parts: dict[tuple[str, int], dict[int, tuple[str, int]]] = {}
        self.counted: dict[str, int] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.classes: dict[tuple[str, ...], str] = {}

    def trace(self, name: str) -> Trace:
        """Return the whole trace."""
        counter_of = package("torch.utils.flop_counter", "torch").FlopCounterMode
        signature, nodes = self.program.graph_signature, []
        with ExitStack() as stack:
            modes = [node.meta["val"].fake_mode for node in self.program.graph.nodes if self.is_tensor(node)]
            stack.enter_context(modes[0])
            counter = stack.enter_context(counter_of(display=False))
            for node in self.program.graph.nodes:
                if "val" in node.meta:
                    self.shapes[node.name] = self.sizes(node)
                if node.op == "call_function" and (read := self.node(node, counter)) is not None:
                    nodes.append(read)
        results = [self.true(str(output)) for output in signature.user_outputs]
        if not results:
            raise ModelError(self.where, "found no tensor in what it returns", "a tensor")
        first = self.example[0]
        return Trace(
            name=name,
            source=f"imported from PyTorch: {type(self.module).__module__}.{type(self.module).__qualname__}",
            batch=int(first.shape[0]),
            dtype=str(self.number_format(first)).removeprefix("torch."),
            inputs=tuple(self.fed),
            parameters=self.parameters(signature),
            shapes=self.shapes,
            nodes=tuple(nodes),
            output=results[0],
            classes=self.classes,
            aside=len(results) - 1,
            tokens=self.tokens(),
        )

    @property
    def fed(self) -> dict[str, Any]:
        """The tensors that are fed, by their names."""
        names = {*self.program.graph_signature.user_inputs}
        nodes = [node for node in self.program.graph.nodes if node.name in names and self.is_tensor(node)]
        return {node.name: node.meta["val"] for node in nodes}

    def number_format(self, example: Any) -> Any:
        """Return the number format of the input, of the weights where it has whole numbers."""
        trained = (held.dtype for held in self.module.parameters())
        return example.dtype if example.is_floating_point() else next(trained, example.dtype)

    def tokens(self) -> frozenset[str]:
        """Return the inputs of whole numbers."""
        return frozenset(name for name, value in self.fed.items() if not value.is_floating_point())

    def parameters(self, signature: Any) -> dict[str, str]:
        """Return the identity of each parameter; tied ones share their first name."""
        own = dict(self.module.named_parameters(remove_duplicate=False))
        first: dict[int, str] = {}
        return {
            value: first.setdefault(id(own[name]), name) if name in own else name
            for value, name in signature.inputs_to_parameters.items()
        }

    def is_tensor(self, node: Any) -> bool:
        """Return whether a value is one tensor."""
        return isinstance(node.meta.get("val"), self.torch.Tensor)

    def sizes(self, node: Any) -> tuple[int, ...]:
        """Return the shape of a value, of the first where it is several; sizes that depend on data are 0."""
        value = node.meta["val"]
        while isinstance(value, list | tuple):
            value = value[0] if value else None
        shape = getattr(value, "shape", ())
        return tuple(size if isinstance(size, int) else 0 for size in shape)

    def true(self, name: str) -> str:
        """Return the value that a name stands for after operations in place."""
        while name in self.alias:
            name = self.alias[name]
        return name

    def node(self, node: Any, counter: Any) -> Node | None:
        """Return the operation of a node; None where it gives another name alone."""
        operands: dict[str, tuple[str, ...]]
        attributes: dict[str, Any]
        if node.target.__name__ == "getitem":
            made, index = node.args
            kind = kind_of(made)
            if index == 0 and kind not in DIVIDING:
                self.alias[node.name] = made.name
                return None
            operands, attributes = {"input": (self.true(made.name),)}, {}
            if kind in DIVIDING:
                operands, attributes = self.arguments(made)
            else:
                kind = "getitem"
            attributes["index"] = index
        else:
            operands, attributes = self.arguments(node)
            kind = kind_of(node)
            if kind in DIVIDING or node.meta.get("val") is None:
                return None
        if kind == "copy_" and (joined := self.filled(node)) is not None:
            return joined
        if kind.endswith("_") and not kind.startswith("_") and operands:
            kind = kind.removesuffix("_")
            self.alias[self.true(next(iter(operands.values()))[0])] = node.name
        return Node(
            kind=kind,
            operands=operands,
            attributes=attributes,
            result=node.name,
            scope=self.scope(node),
            flop=self.flop(node, counter),
        )

    def filled(self, node: Any) -> Node | None:
        """Return the concatenation that a copy completes: the last part of a tensor that was made empty."""
        part, source = node.args[:2]
        if kind_of(part) != "slice" or kind_of(whole := part.args[0]) not in EMPTY:
            return None
        _, axis, start = (*part.args, 0, 0)[:3]
        parts = self.parts.setdefault((whole.name, axis), {})
        parts[start or 0] = (self.true(source.name), self.shapes[part.name][axis])
        end, sizes = 0, self.shapes[whole.name]
        for begin, (_, size) in sorted(parts.items()):
            end += size if begin == end else 0
        if end != sizes[axis] or len(part.args) > len(("tensor", "axis", "start", "end")):
            return None
        self.shapes[node.name] = sizes
        self.alias[whole.name] = node.name
        sources = tuple(value for _, (value, _) in sorted(parts.items()))
        return Node(
            kind="cat",
            operands={"tensors": sources},
            attributes={"dim": axis},
            result=node.name,
            scope=self.scope(node),
        )

    def arguments(self, node: Any) -> tuple[dict[str, tuple[str, ...]], dict[str, Any]]:
        """Return the values and the other arguments of a node by the names of its schema."""
        schema = getattr(node.target, "_schema", None)
        names = [argument.name for argument in schema.arguments] if schema else []
        names += [f"argument{number}" for number in range(len(names), len(node.args))]
        given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        operands: dict[str, tuple[str, ...]] = {}
        attributes: dict[str, Any] = {}
        for name, value in given.items():
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

    def flop(self, node: Any, counter: Any) -> int:
        """Return the operations that PyTorch itself counts for a node, of equal ones once."""
        arguments = node.args, node.kwargs
        shapes = self.torch.fx.map_arg(
            arguments, lambda value: str(getattr(value.meta.get("val"), "shape", value))
        )
        if (key := f"{node.target} {shapes}") not in self.counted:
            self.counted[key] = self.count(node, counter)
        return self.counted[key]

    def count(self, node: Any, counter: Any) -> int:
        """Return the operations of a node, run on tensors without data."""
        args, kwargs = self.torch.fx.map_arg((node.args, node.kwargs), lambda value: value.meta.get("val"))
        before = counter.get_total_flops()
        try:
            node.target(*args, **kwargs)
        except Exception:  # noqa: BLE001 (an operation that cannot run without data contracts nothing that can be counted)
            return 0
        counted = int(counter.get_total_flops() - before)
        if not counted and kind_of(node) in GROUPED:  # which PyTorch does not count
            counted = 2 * node.meta["val"].numel() * node.args[0].meta["val"].shape[-1]
        return counted
