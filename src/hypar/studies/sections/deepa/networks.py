"""The networks of DeePa's evaluation, and variants for the classes of ImageNet-22K."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.network.build import build_graph
from hypar.network.spec.load import ModelSpec, load_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.graph import LayerGraph

BATCH = 512
CLASSES_22K = 21_841
"""Categories of ImageNet-22K (DeePa, A.4)."""

ALEXNET = "alexnet-2014"
WIDTHS = {"conv1": 64, "conv2": 192, "conv3": 384, "conv4": 256, "conv5": 256}
"""Output channels of AlexNet's convolutions in Krizhevsky (2014), which DeePa cites; its Table 1 has conv2 and conv5."""


def networks(classes: int | None = None) -> dict[str, LayerGraph]:
    """Build the three networks of DeePa's evaluation for a mini-batch of 512.

    Args:
        classes: neurons of the last fully-connected layer, if not the 1,000 of the model files.
    """
    specs: tuple[ModelSpec, ...] = (alexnet_2014(), load_spec("vgg16"), load_spec("inception-v3"))
    if classes is not None:
        specs = tuple(with_classes(spec, classes) for spec in specs)
    return {spec.name: build_graph(spec).with_batch(BATCH) for spec in specs}


def alexnet_2014() -> ModelSpec:
    """Return ``alexnet`` with the widths of Krizhevsky (2014)."""
    changes = {layer: {"out_channels": width} for layer, width in WIDTHS.items()}
    return _changed(load_spec("alexnet"), ALEXNET, changes)


def with_classes(spec: ModelSpec, classes: int) -> ModelSpec:
    """Return a network whose last linear layer has another number of neurons."""
    last = [layer.name for layer in spec.layers if layer.op_name == "linear"][-1]
    return _changed(spec, spec.name, {last: {"out_features": classes}})


def _changed(spec: ModelSpec, name: str, fields: Mapping[str, Mapping[str, int]]) -> ModelSpec:
    """Return a network under another name, with changed fields in some of its layers."""
    layers = tuple(
        replace(layer, op=layer.op.model_copy(update=dict(fields[layer.name])))
        if layer.name in fields
        else layer
        for layer in spec.layers
    )
    return replace(spec, name=name, layers=layers)
