"""Model files with named dims: what they mean."""

from collections.abc import Callable
from typing import Any

import pytest

from hypar.network.graph import LayerGraph, load_model
from hypar.sharding.space import parse_space
from tests.transformers import encoder, gated, gpt, llama, mixtral, vit

TOKENS = {"op": "input", "shape": ["sequence"]}
TABLE = {"name": "wte", "op": "embedding", "over": "vocab", "out": "hidden"}
DIMS = {"sequence": 8, "hidden": 16, "heads": 4, "head_dim": 4, "vocab": 24}


def model(*layers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"source": "a test", "batch": 4, "dims": DIMS, "layers": [TOKENS, TABLE, *layers], **more}


def test_a_linear_layer_contracts_the_last_dim_by_default() -> None:
    graph = load_model(model({"name": "fc", "op": "linear", "out": {"classes": 10}}))
    assert dict(graph.layers[-1].shape) == {"sequence": 8, "classes": 10}


def test_attention_has_keys_of_its_own() -> None:
    (layer,) = [layer for layer in llama().contracted.layers if layer.op_name == "attention"]
    nest = layer.nest
    assert nest.cuttable == ("batch", "group", "kv_heads", "key_sequence", "sequence")
    assert nest.names["input 1"] == {
        "batch": "batch", "kv_heads": "kv_heads", "key_sequence": "sequence", "in_head_dim": "head_dim",
    }  # fmt: skip
    assert nest.elements("input 1") == 4 * 8 * 2 * 4
    assert nest.macs == 4 * 4 * 8 * 8 * (4 + 4) // 2


def test_rope_keeps_the_halves_of_its_maker_together() -> None:
    layers = {layer.name: layer for layer in llama().contracted.layers}
    assert "out_head_dim" not in layers["h.0.q"].nest.cuttable
    assert "out_head_dim" in layers["h.0.v"].nest.cuttable


@pytest.mark.parametrize("network", [gpt, llama, encoder, mixtral, vit, gated], ids=lambda one: one.__name__)
def test_the_space_all_has_every_dim_of_every_op(network: Callable[[], LayerGraph]) -> None:
    graph = network().contracted
    space = parse_space("all", graph.named_dims)
    for layer in graph.layers:
        divided = {dim for choice in space.choices(layer, 2) for dim in choice.divided}
        assert divided == {dim for dim in layer.nest.cuttable if layer.nest.sizes[dim] > 1}
