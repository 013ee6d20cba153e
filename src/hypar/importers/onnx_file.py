"""Import of an ONNX file: its graph and its shapes, without its weights; its operators in the vocabulary."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from hypar.errors import DocumentError, ModelError
from hypar.files.text import refused
from hypar.importers.formats import BATCH, one_line, package
from hypar.importers.imported import imported
from hypar.importers.trace import OPERANDS, Node, Sizes, Trace, adapted, matrix_product, numbers
from hypar.network.graph import LayerGraph
from hypar.network.training import DTYPE_BYTES


def _gather(node: Node) -> Node:
    """Say rows of a table by tokens, or one element of an axis."""
    if isinstance(index := node.get("indices"), int) and node.sizes():
        return node.called("part", axis=node.get("axis", 0), start=index)
    return node.called("gather rows" if node.get("axis") else "embedding", OPERANDS["embedding"])


def _slice(node: Node) -> Node:
    starts, axes, steps = (numbers(node.get(name, [])) for name in ("starts", "axis", "steps"))
    if len(starts) != 1 or not axes:
        return node.called("slice", step=0)
    return node.called("slice", axis=axes[0], start=starts[0], step=steps[0] if steps else 1)


def _attention(node: Node) -> Node:
    found = node.called("attention", OPERANDS["attention"], is_causal=node.get("is_causal"))
    return found if len(found.sizes()) == 4 else node.called("packed attention")


def _gemm(node: Node) -> Node:
    turned = [side for side, said in (("left", "transA"), ("right", "transB")) if node.get(said, 0)]
    return matrix_product(node, turned=turned)


ADAPTERS: Mapping[str, Callable[[Node], Node]] = {
    "gemm": _gemm,
    "attention": _attention,
    "sum": lambda node: node.called("add"),
    "dropout": lambda node: node.called("dropout", probability=float(f"{node.get('probability', 0.5):.6g}")),
    "gather": _gather,
    "slice": _slice,
}


MOST_BYTES = 2**31
"""Largest size of a file; weights of larger networks are external data, which is not read."""

SMALL = 2**10
"""Elements of a tensor whose values are read: sizes, axes, bounds."""


def from_onnx(path: str | Path, *, batch: int | None = None, partial: bool = False) -> LayerGraph:
    """Read an ONNX file as a network; weights in other files are not read.

    Args:
        path: the file.
        batch: samples in a mini-batch, if not 256.
        partial: whether to accept a network of which less than 99 % is recognised.

    Raises:
        InputError: onnx is not installed, or the file cannot be read or said by hypar's ops.
    """
    return imported(capture(str(path)), batch=BATCH if batch is None else batch, partial=partial).graph()


def capture(network: str) -> Trace:
    """Return the trace of the file at a path; raises ``InputError`` for one that is missing, too large, damaged, or of unknown shapes."""
    onnx, file = package("onnx", "onnx"), Path(network)
    with one_line(network, "not an ONNX file, or cut short:"):
        try:
            if (size := file.stat().st_size) > MOST_BYTES:
                allowed = f"at most {MOST_BYTES:,}; save its weights as external data"
                raise DocumentError(network, f"the file has {size:,} bytes", allowed)
            model = onnx.load_model(network, "protobuf", load_external_data=False)
        except OSError as error:
            raise refused(error, network, "read") from error
    return _File(onnx, model, file).trace()


class _File:
    """A file: the shapes of its tensors, their number formats, and the values of single numbers and of few whole ones.

    The square tensors whose first row ends as it begins are ``full``.
    """

    def __init__(self, onnx: Any, model: Any, file: Path) -> None:
        self.onnx, self.model, self.file, self.where = onnx, model, file, str(file)
        self.weights: dict[str, Sizes] = {}
        self.formats: dict[str, str] = {}
        self.values: dict[str, Any] = {}
        self.full: set[str] = set()

    def trace(self) -> Trace:
        graph = self.model.graph
        if not graph.node:
            raise ModelError(self.where, "found no operator", "an ONNX model with a graph")
        for tensor in graph.initializer:
            self.read(tensor)
        fed = [value for value in graph.input if value.name not in self.weights]
        if not fed or not graph.output:
            raise ModelError(self.where, "found no input or no output", "one at least of each")
        for value in fed:
            self.fix(value)
        shapes = self.shapes()
        for node in graph.node:  # an exporter repeated trained tokens for each sample
            if node.op_type == "Concat" and not self.weights.keys() >= {*node.input}:
                sizes = ((name, self.weights.get(name, ())) for name in node.input)
                shapes |= {name: (1, *one[1:]) for name, one in sizes if one[:1] == shapes[fed[0].name][:1]}
        versions = {entry.domain: entry.version for entry in self.model.opset_import}
        nodes = [one for node in graph.node for one in self.node(node, shapes, versions)]
        untrained = {*self.values, *self.untrained()}
        trained = (name for name, one in self.formats.items() if one in DTYPE_BYTES and name not in untrained)
        given = {one.name: self.number_format(one.type.tensor_type.elem_type, one.name) for one in fed}
        return Trace.of(
            given, self.formats.values(), [one.name for one in graph.output], name=self.file.stem,
            source=f"imported from ONNX: {self.file.name}", full=frozenset(self.full), shapes=shapes,
            parameters={name: name for name in trained}, nodes=tuple(nodes),
        )  # fmt: skip

    def number_format(self, element: int, name: str) -> str:
        with one_line(self.where, f"{name!r} has no number format of onnx:"):
            return str(self.onnx.helper.tensor_dtype_to_np_dtype(element).name)

    def content(self, tensor: Any, name: str) -> Any:
        with one_line(self.where, f"tensor {name!r} cannot be read:"):
            return self.onnx.numpy_helper.to_array(tensor)

    def read(self, tensor: Any) -> None:
        """Note what a tensor is, with its values if they are few; forget the data of any other."""
        name, sizes = tensor.name, tuple(tensor.dims)
        self.weights[name], self.formats[name] = sizes, self.number_format(tensor.data_type, name)
        if tensor.data_location == self.onnx.TensorProto.EXTERNAL:
            return
        content = self.content(tensor, name)
        square = content.size and len(sizes) > 1 and sizes[-1] == sizes[-2] > 1
        if square and content.flat[0] == content.flat[sizes[-1] - 1]:
            self.full.add(name)
        if content.size > SMALL:
            tensor.CopyFrom(type(tensor)(name=name, data_type=tensor.data_type, dims=sizes))
        elif not sizes or self.formats[name] not in DTYPE_BYTES:
            self.values[name] = content.tolist()

    def fix(self, value: Any) -> None:
        """Give an input samples where the file leaves their number open, and refuse any other open size."""
        dims = value.type.tensor_type.shape.dim
        if not dims:
            raise ModelError(self.where, f"input {value.name!r} has no shape", "samples, and their sizes")
        for number, dim in enumerate(dims):
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                continue
            if number:
                said = dim.dim_param or dim.dim_value or "not known"
                found = f"dim {number} of input {value.name!r} is {said}"
                raise ModelError(self.where, found, "whole numbers, but for the samples")
            dim.dim_value = 2

    def shapes(self) -> dict[str, Sizes]:
        """Return the shape of every value as onnx infers it, for which weights without data are inputs."""
        model = deepcopy(self.model)
        model.ir_version = min(model.ir_version, self.onnx.IR_VERSION)
        graph, known = model.graph, {value.name for value in model.graph.input}
        del graph.output[:], graph.value_info[:], graph.initializer[:]
        for node in graph.node:
            if node.op_type == "GroupNormalization":  # of whose result onnx infers no shape
                node.op_type = "Identity"
                del node.attribute[:], node.input[1:]
        with one_line(self.where, "not a valid model:"):
            for tensor in self.model.graph.initializer:
                external = tensor.data_location == self.onnx.TensorProto.EXTERNAL
                if not external and math.prod(tensor.dims) <= SMALL:
                    graph.initializer.append(tensor)
                elif tensor.name not in known:
                    said = tensor.name, tensor.data_type, tensor.dims
                    graph.input.append(self.onnx.helper.make_tensor_value_info(*said))
            self.onnx.checker.check_model(model)
            self.onnx.printer.to_text(model)  # names that are not UTF-8, which protobuf gives as bytes
            graph = self.onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
        found = {
            value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
            for value in (*graph.value_info, *graph.input)
            if value.type.tensor_type.HasField("shape")
        }
        made = (name for node in graph.node for name in node.output)
        return {**dict.fromkeys(made, (0,)), **self.weights, **found}

    def untrained(self) -> Iterator[str]:
        """Yield names of running means and variances, of masks, which are added to the scores of a softmax, and of numbers."""
        nodes = self.model.graph.node
        scores = {node.input[0] for node in nodes if node.op_type == "Softmax"}
        for node in nodes:
            if node.op_type == "BatchNormalization":
                yield from node.input[3:5]
            elif node.op_type == "Add" and node.output[0] in scores:
                yield from node.input
            elif node.op_type in {"Div", "Mul", "Pow", "Where"}:
                yield from (name for name in node.input if math.prod(self.weights.get(name, (2,))) == 1)

    def node(self, node: Any, shapes: dict[str, Sizes], versions: dict[str, int]) -> Iterator[Node]:
        """Yield an operator; each part of a tensor is one of its own."""
        kind = node.op_type
        operands, attributes = self.arguments(node, versions.get(node.domain, 1))
        if kind == "Constant":
            value: Any = attributes.get("value", attributes.get("value_ints", attributes.get("value_int")))
            if hasattr(value, "dims"):
                found = self.content(value, node.output[0])
                value = found.tolist() if found.size <= SMALL else None
            self.values[node.output[0]] = value
        if kind in {"Shape", "Size"}:
            operands = {}  # sizes are constants, whatever has them
        keeping = kind in {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"}
        if keeping and node.input and node.input[0] in self.values:
            self.values[node.output[0]] = self.values[node.input[0]]
        parts = [*node.output] if kind == "Split" else [node.output[0]]
        said = {"kind": kind, "operands": operands, "scope": scope_of(node), "shapes": shapes}
        for index, made in enumerate(parts):
            own = {**attributes, "before": [shapes[one] for one in parts[:index]]}
            yield adapted(ADAPTERS, **said, attributes=own, result=made)

    def arguments(self, node: Any, version: int) -> tuple[dict[str, tuple[str, ...]], dict[str, Any]]:
        """Return the operands and the other arguments of an operator, with what is in operands of few numbers."""
        said = {one.name: self.onnx.helper.get_attribute_value(one) for one in node.attribute}
        texts = {name: own.decode(errors="replace") for name, own in said.items() if isinstance(own, bytes)}
        attributes = said | texts
        if (auto := attributes.pop("auto_pad", "NOTSET")) != "NOTSET":
            attributes["padding"] = auto.partition("_")[0].lower()
        if "kernel_shape" in attributes:
            attributes.setdefault("strides", [1])
        key, defs = (node.op_type, version, node.domain), self.onnx.defs
        names = [one.name for one in defs.get_schema(*key).inputs] if defs.has(*key) else []
        operands: dict[str, tuple[str, ...]] = {}
        for number, value in enumerate(node.input):
            name = names[min(number, len(names) - 1)] if names else f"input{number}"
            operands[name] = (*operands.get(name, ()), *([value] if value else []))
            if value in self.values:
                attributes.setdefault(name, self.values[value])
        return operands, attributes


def scope_of(node: Any) -> tuple[str, ...]:
    """Return the path of the module that an exporter wrote down: in the metadata or in the operator's name."""
    for entry in node.metadata_props:
        if entry.key == "pkg.torch.onnx.name_scopes":
            names = re.findall(r"'([^']*)'", str(entry.value))[:-1]
            return tuple(names[-1].split(".")) if names and names[-1] else ()
    path, before = list[str](), ""
    for part in node.name.split("/")[1:-1]:
        path += part.removeprefix(f"{before}.").split(".")
        before = part
    return tuple(path)
