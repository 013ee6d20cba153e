"""Import of an ONNX file: its graph and its shapes, without its weights; its operators in the vocabulary."""

from __future__ import annotations

import math
import re
from copy import deepcopy
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.errors import DocumentError, ModelError, shown
from hypar.importers.formats import BATCH, one_line, package
from hypar.importers.imported import imported
from hypar.importers.trace import OPERANDS, Node, Trace, adapted, cut, matrix_product, norm, pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hypar.network.graph import LayerGraph


def _gather(node: Node) -> Node:
    """Say rows of a table by tokens, or one element of an axis."""
    axis, index = node.get("axis", 0), node.get("indices")
    if isinstance(index, int):
        return cut(node, axis, index, op="part", drop=True)
    return node.called("gather rows" if axis else "lookup", OPERANDS["lookup"])


def _slice(node: Node) -> Node:
    starts, axes, steps = (node.get(name) for name in ("starts", "axes", "steps"))
    if not starts or len(starts) != 1 or not axes:
        return node.called("slice")
    return cut(node, axes[0], starts[0], step=steps[0] if steps else 1)


def _resize(node: Node) -> Node:
    mode, place = node.get("mode", "nearest"), node.get("coordinate_transformation_mode", "half_pixel")
    smooth = mode == "linear" and place in {"half_pixel", "pytorch_half_pixel"}
    return node.called("resize", mode="bilinear" if smooth else "nearest" if mode == "nearest" else None)


def _attention(node: Node) -> Node:
    found = node.called("attention", OPERANDS["attention"], causal=node.get("causal"))
    return found if len(found.sizes()) == 4 else node.called("packed attention")


NORMS = {
    "batch": "batch_norm",
    "group": "group_norm",
    "instance": "group_norm",
    "layer": "layer_norm",
    "rms": "rms_norm",
}


def _gemm(node: Node) -> Node:
    turned = [side for side, said in (("left", "transA"), ("right", "transB")) if node.get(said, 0)]
    return matrix_product(node, turned=turned)


ADAPTERS: Mapping[str, Callable[[Node], Node]] = {
    "gemm": _gemm,
    **{
        f"{name}normalization": partial(norm, kind, names=("input", "weight", "bias"))
        for name, kind in NORMS.items()
    },
    "attention": _attention,
    "maxpool": partial(pool, "max", stride=1),
    "averagepool": partial(pool, "average", stride=1),
    "globalaveragepool": lambda node: node.called("adaptive_pool", mode="average"),
    "globalmaxpool": lambda node: node.called("adaptive_pool", mode="max"),
    "sum": lambda node: node.called("add"),
    "dropout": lambda node: node.called("dropout", probability=float(f"{node.get('probability', 0.5):.6g}")),
    "gather": _gather,
    "slice": _slice,
    "transpose": lambda node: node.called(
        "transpose", order=node.get("order", [*range(len(node.made))][::-1])
    ),
    **dict.fromkeys(("resize", "upsample"), _resize),
}


MOST_BYTES = 2**31
"""Largest size of a file; weights of larger networks are external data, which is not read."""

SMALL = 2**10
"""Elements of a tensor whose values are read: sizes, axes, bounds."""

SHAPELESS = frozenset({"GroupNormalization"})
"""Operators that keep the shape of their first operand, of which onnx infers none."""

KEEPING = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators that keep the values of a list of sizes or axes."""


def from_onnx(path: str | Path, *, batch: int | None = None, partial: bool = False) -> LayerGraph:
    """Read an ONNX file as a network; weights in other files are not read.

    Args:
        path: the file.
        batch: samples in a mini-batch, if not 256.
        partial: whether to accept a network of which less than 99 % is recognised.

    Raises:
        InputError: onnx is not installed, or the file cannot be read or said by hypar's ops.
    """
    trace = capture_named(str(path))
    return imported(trace, batch=BATCH if batch is None else batch, partial=partial).graph()


def capture_named(network: str) -> Trace:
    """Return the trace of the file at a path.

    Raises:
        InputError: onnx is not installed, or the file is missing, too large, damaged, or of unknown shapes.
    """
    onnx, file = package("onnx", "onnx"), Path(network)
    content = _content(file)
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "google":
            raise
        raise DocumentError(str(file), "not an ONNX file, or cut short") from error
    return _File(onnx, model, file).trace()


def _content(file: Path) -> bytes:
    try:
        size = file.stat().st_size
        if size <= MOST_BYTES:
            return file.read_bytes()
    except OSError as error:
        raise DocumentError(str(file), f"cannot be read: {error.strerror}") from error
    allowed = f"at most {MOST_BYTES:,}; save its weights as external data"
    raise DocumentError(str(file), f"the file has {size:,} bytes", allowed)


class _File:
    def __init__(self, onnx: Any, model: Any, file: Path) -> None:
        self.onnx, self.model, self.file, self.where = onnx, model, file, str(file)
        self.values: dict[str, Any] = {}
        self.weights: dict[str, tuple[int, ...]] = {}
        self.full: set[str] = set()
        self.numbers: set[str] = set()

    def trace(self) -> Trace:
        graph = self.model.graph
        if not graph.node:
            raise ModelError(self.where, "found no operator", "an ONNX model with a graph")
        self.require_names()
        for tensor in graph.initializer:
            self.read(tensor)
        fed = [value for value in graph.input if value.name not in self.weights]
        if not fed or not graph.output:
            raise ModelError(self.where, "found no input or no output", "one at least of each")
        self.fix(fed)
        model = deepcopy(self.model)
        for node in model.graph.node:
            if node.op_type in SHAPELESS:
                node.op_type = "Identity"
                del node.attribute[:], node.input[1:]
        with one_line(self.where, "its shapes cannot be inferred:"):
            model = self.onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        first = sizes_of(next(value for value in model.graph.input if value.name == fed[0].name))
        self.weights |= {name: (1, *self.weights[name][1:]) for name in self.repeated(first[:1])}
        shapes = dict(self.weights)
        for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
            shapes[value.name] = sizes_of(value)
        self.require_sound(model)
        versions = {entry.domain: entry.version for entry in self.model.opset_import}
        nodes = [one for node in graph.node for one in self.node(node, shapes, versions)]
        given = {one.name: self.number_format(one.type.tensor_type.elem_type) for one in fed}
        formats = (self.number_format(one.data_type) for one in graph.initializer)
        return Trace.of(
            given, formats, [one.name for one in graph.output], name=self.file.stem,
            source=f"imported from ONNX: {self.file.name}", full=frozenset(self.full), shapes=shapes,
            parameters={name: name for name in self.weights if self.is_trained(name)}, nodes=tuple(nodes),
        )  # fmt: skip

    def require_names(self) -> None:
        """Raise on a name that is not UTF-8, which protobuf gives as bytes."""
        graph = self.model.graph
        texts = [
            *(one.name for own in (graph.node, graph.input, graph.output, graph.initializer) for one in own),
            *(text for one in graph.node for text in (one.op_type, one.domain, *one.input, *one.output)),
        ]
        for text in texts:
            if isinstance(text, bytes):
                raise ModelError(self.where, f"found the name {shown(text)}", "UTF-8 text")

    def require_sound(self, model: Any) -> None:
        """Raise on what onnx does not allow; data of weights, and shapes of results, may be missing."""
        for tensor in model.graph.initializer:
            tensor.CopyFrom(type(tensor)(name=tensor.name, data_type=tensor.data_type, dims=[0]))
        del model.graph.output[:]
        model.ir_version = min(model.ir_version, self.onnx.IR_VERSION)
        with one_line(self.where, "not a valid model:"):
            self.onnx.checker.check_model(model)

    def repeated(self, batch: tuple[int, ...]) -> Iterator[str]:
        """Yield the names of trained tokens that an exporter repeated for each sample."""
        for node in self.model.graph.node:
            if node.op_type == "Concat" and not self.weights.keys() >= {*node.input}:
                yield from (name for name in node.input if self.weights.get(name, ())[:1] == batch)

    def is_trained(self, name: str) -> bool:
        """Return whether a tensor is trained: of real numbers, and no running statistic of a normalisation."""
        return not any(name in held for held in (self.values, self.numbers, self.statistics))

    def is_real(self, element: int) -> bool:
        proto = self.onnx.TensorProto
        return element in {proto.FLOAT, proto.DOUBLE, proto.FLOAT16, proto.BFLOAT16}

    def number_format(self, element: int) -> str:
        """Return the name of a number format."""
        with one_line(self.where, "an input has no number format of onnx:"):
            name = str(self.onnx.TensorProto.DataType.Name(element)).lower()
        return {"float": "float32", "double": "float64"}.get(name, name)

    @cached_property
    def statistics(self) -> set[str]:
        """Names of running means and variances, of masks, which are added to the scores of a softmax, and of numbers."""
        graph = self.model.graph
        norms = [node for node in graph.node if node.op_type == "BatchNormalization"]
        scores = {node.input[0] for node in graph.node if node.op_type == "Softmax"}
        masked = [node for node in graph.node if node.op_type == "Add" and node.output[0] in scores]
        factors = [node for node in graph.node if node.op_type in {"Div", "Mul", "Pow", "Where"}]
        return {
            *(
                name
                for node in factors
                for name in node.input
                if math.prod(self.weights.get(name, (2,))) == 1
            ),
            *(name for node in norms for name in node.input[3:5]),
            *(name for node in masked for name in node.input if name in self.weights),
        }

    def read(self, tensor: Any) -> None:
        """Note a tensor's shape, and its values if they are few whole numbers; forget its data."""
        sizes, proto = tuple(tensor.dims), self.onnx.TensorProto
        self.weights[tensor.name] = sizes
        real = self.is_real(tensor.data_type)
        if not real:
            self.numbers.add(tensor.name)
        if tensor.data_location == proto.EXTERNAL:
            return
        with one_line(self.where, f"tensor {tensor.name!r} has no number format of onnx:"):
            width = self.onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        said, held = math.prod(sizes) * width, len(tensor.raw_data)
        if (tensor.HasField("raw_data") and held != said) or said > MOST_BYTES:
            found = f"tensor {tensor.name!r} says {said:,} bytes and has {held:,}"
            raise ModelError(self.where, found, "all its data")
        if len(sizes) > 1 and sizes[-1] == sizes[-2] > 1 and tensor.HasField("raw_data"):
            row = tensor.raw_data[: sizes[-1] * width]
            if row[-width:] == row[:width]:
                self.full.add(tensor.name)
        if held > SMALL * width:
            tensor.ClearField("raw_data")
        if math.prod(sizes) <= SMALL and (not real or not sizes):
            self.values[tensor.name] = self.content(tensor, tensor.name)

    def content(self, tensor: Any, name: str) -> Any:
        with one_line(self.where, f"tensor {name!r} cannot be read:"):
            return self.onnx.numpy_helper.to_array(tensor).tolist()

    def fix(self, fed: Sequence[Any]) -> None:
        """Give a size to the samples of an example where the file leaves it open, and refuse any other open size."""
        for value in fed:
            dims = value.type.tensor_type.shape.dim
            for number, dim in enumerate(dims):
                if dim.dim_value > 0 or (dim.HasField("dim_value") and not dim.dim_value):
                    continue
                if number:
                    said = dim.dim_param or (dim.dim_value if dim.HasField("dim_value") else "not known")
                    found = f"dim {number} of input {value.name!r} is {said}"
                    raise ModelError(self.where, found, "whole numbers, but for the samples")
                dim.dim_value = 2
            if not dims:
                raise ModelError(self.where, f"input {value.name!r} has no shape", "samples, and their sizes")
        made = [value.type.tensor_type for value in self.model.graph.output]
        if any(not dim.HasField("dim_value") for out in made for dim in out.shape.dim):
            for out in made:
                out.ClearField("shape")
        del self.model.graph.value_info[:]

    def node(self, node: Any, shapes: dict[str, tuple[int, ...]], versions: dict[str, int]) -> list[Node]:
        """Return an operator; each part of a tensor is one of its own."""
        helper = self.onnx.helper
        attributes = {one.name: _plain(helper.get_attribute_value(one)) for one in node.attribute}
        key = (node.op_type, versions.get(node.domain, 1), node.domain)
        known = self.onnx.defs.has(*key)  # it may be of an unknown domain
        names = [one.name for one in self.onnx.defs.get_schema(*key).inputs] if known else []
        operands: dict[str, tuple[str, ...]] = {}
        for number, value in enumerate(node.input):
            name = names[min(number, len(names) - 1)] if names else f"input{number}"
            operands[name] = (*operands.get(name, ()), *([value] if value else []))
            if value in self.values:
                attributes.setdefault(name, self.values[value])
        if node.op_type == "Constant":
            self.constant(node, attributes)
        if (auto := attributes.pop("auto_pad", "NOTSET")) != "NOTSET":
            attributes["padding"] = auto.partition("_")[0].lower()
        if node.op_type in {"Shape", "Size"}:
            operands = {}  # sizes are constants, whatever has them
        if node.op_type in KEEPING and node.input and node.input[0] in self.values:
            self.values[node.output[0]] = self.values[node.input[0]]
        for made in node.output:
            shapes.setdefault(made, ())
        parts = [*node.output] if node.op_type == "Split" else [node.output[0]]
        sizes = [shapes[made] for made in parts]
        return [
            adapted(
                Node(
                    kind=node.op_type, operands=operands, attributes={**attributes, "before": sizes[:index]}, result=made,
                    scope=scope_of(node), shapes=shapes,
                ),
                ADAPTERS,
            )
            for index, made in enumerate(parts)
        ]  # fmt: skip

    def constant(self, node: Any, attributes: dict[str, Any]) -> None:
        value: Any = attributes.get("value", attributes.get("value_ints", attributes.get("value_int")))
        if hasattr(value, "dims"):
            value = self.content(value, node.output[0]) if math.prod(value.dims) <= SMALL else None
        if value is not None:
            self.values[node.output[0]] = value


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return list(value) if isinstance(value, list | tuple) else value


def sizes_of(value: Any) -> tuple[int, ...]:
    """Return the shape of a value; a size that is not known is 0."""
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)


def scope_of(node: Any) -> tuple[str, ...]:
    """Return the path of the module that an exporter wrote down: in the metadata or in the operator's name."""
    for entry in node.metadata_props:
        if entry.key == "pkg.torch.onnx.name_scopes":
            names = re.findall(r"'([^']*)'", entry.value)[:-1]
            return tuple(names[-1].split(".")) if names and names[-1] else ()
    path: list[str] = []
    before = ""
    for part in node.name.split("/")[1:-1]:
        path += part.removeprefix(f"{before}.").split(".")
        before = part
    return tuple(path)
