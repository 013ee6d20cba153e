"""Graphs built from model files: layers in topological order, with every shape inferred and checked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hypar.errors import ModelError
from hypar.files.text import read_text
from hypar.files.validation import Faults
from hypar.files.yaml_file import parse_yaml
from hypar.network.graph import LayerGraph, digraph_of
from hypar.network.layer import Layer
from hypar.network.spec.load import ModelSpec, load_spec, parse_spec
from hypar.network.ties import ties_of
from hypar.ops.base import IMAGE, LARGEST_SIZE, Shape, describe
from hypar.ops.windows import ShapeError
from hypar.registry import data_file, load_plugin

if TYPE_CHECKING:
    from pathlib import Path

    from hypar.network.spec.expansion import LayerSpec


FOREIGN = (".onnx",)
"""Endings of files of other formats, each with a reader."""


def load_model(
    model: str | Path | Mapping[str, Any], *, batch: int | None = None, name: str | None = None
) -> LayerGraph:
    """Read a model and infer its shapes.

    Args:
        model: a path, also of an ONNX file, the bare name of a file in ``models/``, or a mapping of what such a file says.
        batch: samples in a mini-batch, if not the file's own number.
        name: the name of a mapping's network; ``model`` if not given.

    Raises:
        InputError: the file or the network is invalid.
    """
    if isinstance(model, Mapping) or name is not None:
        graph = build_graph(load_spec(model, name))
    elif (file := data_file("models", str(model))).suffix in FOREIGN:
        graph = load_plugin("readers", file.suffix[1:]).read(file)
    else:
        text = read_text(file)
        graph = build_graph(load_spec(model)) if "same_as" in text else _graph_of(file, text)
    return graph if batch is None else graph.with_batch(batch)


@lru_cache(maxsize=32)
def _graph_of(file: Path, text: str) -> LayerGraph:
    """Return the network of a file's text; equal texts share it, with all that is cached by its layers."""
    return build_graph(parse_spec(parse_yaml(text, file), file.stem))


def build_graph(spec: ModelSpec) -> LayerGraph:
    """Infer all shapes of a network.

    Raises:
        ModelError: layers form a cycle, shapes do not fit, nothing reads a layer, or no layer has a weight.
    """
    specs = {layer.name: layer for layer in spec.layers}
    order = _topological(spec.layers)
    shapes: dict[str, Shape] = {}
    layers: list[Layer] = []
    known: dict[object, Shape] = {}
    faults = Faults()
    for name in order:
        # The shapes behind a layer with a fault are not known.
        if all(read in shapes for read in specs[name].inputs):
            with faults:
                layers.append(_shaped(specs[name], shapes, known))
                shapes[name] = layers[-1].shape
    read = {name for layer in spec.layers for name in layer.inputs}
    failed = {fault.where for fault in faults.found}
    faults.found += [
        ModelError(specs[name].where, "nothing reads its output", "a reader for every layer but the last")
        for name in order[:-1]
        if name not in read and specs[name].where not in failed
    ]
    if not any(layer.op.node == "weight" for layer in spec.layers):
        faults.found.append(
            ModelError(spec.layers[0].where, "no layer has a weight", "one conv or linear at least")
        )
    if not faults.found:
        with faults:
            try:
                ties_of(layers)
            except ModelError as error:
                raise ModelError(specs[error.where].where, error.found, error.allowed) from None
    if faults.found:
        raise faults.error()
    return LayerGraph(
        name=spec.name,
        source=spec.source,
        digest=spec.digest,
        batch=spec.batch,
        dtype=spec.dtype,
        layers=tuple(layers),
    )


def _topological(layers: tuple[LayerSpec, ...]) -> list[str]:
    """Return the names in topological order, otherwise in the order of the file.

    Raises:
        ModelError: layers form a cycle.
    """
    rank = {layer.name: number for number, layer in enumerate(layers)}
    if all(rank[name] < rank[layer.name] for layer in layers for name in layer.inputs):
        return list(rank)
    import networkx as nx  # noqa: PLC0415 (a tenth of a second that a file in order need not spend)

    digraph = digraph_of(layers)
    if nx.is_directed_acyclic_graph(digraph):
        return list(nx.lexicographical_topological_sort(digraph, key=rank.__getitem__))
    cycle = [edge[0] for edge in nx.find_cycle(digraph)]
    where = layers[rank[cycle[0]]].where
    raise ModelError(where, f"a cycle: {' -> '.join([*cycle, cycle[0]])}")


def _shaped(spec: LayerSpec, shapes: dict[str, Shape], known: dict[object, Shape]) -> Layer:
    """Return a layer with its shapes, inferred from earlier shapes, or known of the same op with the same inputs."""
    inputs = tuple(shapes[name] for name in spec.inputs)
    if not inputs and spec.op_name != "input":
        raise ModelError(spec.where, "reads nothing", "an input before it: {op: input, channels: ...}")
    key = (id(spec.op), *map(id, inputs))
    if key not in known:
        try:
            found = spec.op.output_shape(inputs)
        except ShapeError as error:
            raise ModelError(spec.where, str(error)) from None
        if max((size for dim, size in found.items() if dim in IMAGE), default=1) > LARGEST_SIZE:
            raise ModelError(
                spec.where, f"found an output of {describe(found)}", f"sizes up to {LARGEST_SIZE:,}"
            )
        # Equal shapes are one object, so that layers of equal ops on equal shapes are found to be equal.
        known[key] = known.setdefault(tuple(found.items()), found)
    return Layer(
        name=spec.name,
        op_name=spec.op_name,
        op=spec.op,
        inputs=spec.inputs,
        input_shapes=inputs,
        shape=known[key],
    )
