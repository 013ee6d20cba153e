"""Which trained tensors have their gradients when, and under what names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hypar import load_model
from hypar.files.yaml_file import parse_yaml
from hypar.network.graph import build_graph, gradients_of

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph


def network(*layers: str, name: str = "own") -> LayerGraph:
    lines = "".join(f"  - {layer}\n" for layer in layers)
    text = f"source: made up\nbatch: 64\nlayers:\n{lines}"
    return build_graph(parse_yaml(text, Path(f"{name}.yaml")), name)


def test_gradients_are_all_trained_numbers_in_the_order_of_the_backward_phase() -> None:
    for model in ("alexnet", "resnet18", "inception-v3"):
        graph = load_model(model)
        gradients = gradients_of(graph)
        assert sum(each.num_bytes for each in gradients) == 4 * graph.num_parameters
        names = [name for each in gradients for name in each.parameters]
        assert len(set(names)) == len(names)
    conv = "Conv2d_1a_3x3"
    assert gradients[0].parameters == (f"{conv}.bn.weight", f"{conv}.bn.bias", f"{conv}.conv.weight")


def test_what_is_trained_before_the_first_weight_goes_with_it() -> None:
    graph = network("{op: input, channels: 8}", "{op: batch_norm}", "{op: linear, out_features: 2}")
    (gradients,) = gradients_of(graph)
    assert gradients.parameters == (
        "linear1.weight",
        "linear1.bias",
        "batch_norm1.weight",
        "batch_norm1.bias",
    )
    assert gradients.num_bytes == 4 * (18 + 16)
