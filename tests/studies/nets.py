"""Small networks, and plans of them with given choices."""

from collections.abc import Mapping, Sequence
from typing import Any

from hypar import LayerGraph, Plan, load_model, plan_model


def layer(name: str, op: str, inputs: str | list[str], **fields: Any) -> dict[str, Any]:
    return {"name": name, "op": op, "inputs": [inputs] if isinstance(inputs, str) else inputs, **fields}


def network(
    *layers: dict[str, Any], batch: int = 8, channels: int = 16, image: int | None = None
) -> LayerGraph:
    first: dict[str, Any] = {"name": "in", "op": "input", "channels": channels}
    first |= {} if image is None else {"height": image, "width": image}
    return load_model({"source": "test", "batch": batch, "layers": [first, *layers]}, name="net")


def mlp(batch: int = 8) -> LayerGraph:
    return network(
        layer("l1", "linear", "in", out_features=16, bias=False),
        layer("l2", "linear", "l1", out_features=16, bias=False),
        batch=batch,
    )


def chain() -> LayerGraph:
    """Two convolutions with a pool between them, and a linear layer behind a flatten."""
    return network(
        layer("c1", "conv", "in", out_channels=8, kernel=3, padding=1),
        layer("p", "pool", "c1", mode="max", kernel=2),
        layer("c2", "conv", "p", out_channels=8, kernel=3, padding=1),
        layer("f", "flatten", "c2"),
        layer("l", "linear", "f", out_features=8),
        image=8,
        channels=4,
    )


def residual() -> LayerGraph:
    """Two ways from one convolution to an addition, with batch normalisation, and a strided 1x1 kernel on one of them."""
    return network(
        layer("c1", "conv", "in", out_channels=8, kernel=3, padding=1),
        layer("c2", "conv", "c1", out_channels=8, kernel=1, stride=2, bias=False),
        layer("b2", "batch_norm", "c2"),
        layer("a", "conv", "c1", out_channels=8, kernel=3, stride=2, padding=1),
        layer("add", "add", ["b2", "a"]),
        layer("r", "pointwise", "add", function="tanh"),
        layer("c3", "conv", "r", out_channels=8, kernel=3, padding=1),
        image=8,
        channels=4,
    )


def planned(
    graph: LayerGraph, array: Sequence[int], choices: Mapping[str, Sequence[str]], **options: Any
) -> Plan:
    pins = [f"{name}@H{level + 1}={dim}" for name, dims in choices.items() for level, dim in enumerate(dims)]
    return plan_model(graph, array=array, pins=pins, space="all", cost="volume", **options)
