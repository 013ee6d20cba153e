"""Model files with named dims: what they mean, and what is refused, in one line."""

from __future__ import annotations

from typing import Any

import pytest

import hypar
from hypar.errors import InputError
from hypar.network.build import load_model
from hypar.network.dims import LARGEST
from tests.transformers import gpt, llama

TOKENS = {"op": "input", "shape": ["sequence"]}
TABLE = {"name": "wte", "op": "embedding", "over": "vocab", "out": "hidden"}
DIMS = {"sequence": 8, "hidden": 16, "heads": 4, "head_dim": 4, "vocab": 24}


def model(*layers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"source": "a test", "batch": 4, "dims": DIMS, "layers": [TOKENS, TABLE, *layers], **more}


def projected(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "op": "linear",
        "in": "hidden",
        "out": ["heads", "head_dim"],
        "inputs": "wte",
        **more,
    }


def test_a_linear_layer_keeps_the_dims_that_it_does_not_contract() -> None:
    graph = load_model(
        model(projected("q"), {"name": "o", "op": "linear", "in": ["heads", "head_dim"], "out": "hidden"})
    )
    shapes = {layer.name: dict(layer.shape) for layer in graph.layers}
    assert shapes["q"] == {"sequence": 8, "heads": 4, "head_dim": 4}
    assert shapes["o"] == {"sequence": 8, "hidden": 16}
    einsum = graph.layers[-1].einsum(4)
    assert einsum.weight == ("in_heads", "in_head_dim", "out_hidden")
    assert einsum.macs == 4 * 8 * 16 * 16


def test_a_linear_layer_contracts_the_last_dim_by_default() -> None:
    graph = load_model(model({"name": "fc", "op": "linear", "out": {"classes": 10}}))
    assert dict(graph.layers[-1].shape) == {"sequence": 8, "classes": 10}


def test_attention_has_keys_of_its_own() -> None:
    (layer,) = [layer for layer in llama().contracted.layers if layer.op_name == "attention"]
    einsum = layer.einsum
    assert einsum.cuttable == ("batch", "group", "kv_heads", "sequence")
    assert einsum.names("input 1") == {
        "batch": "batch", "kv_heads": "kv_heads", "key_sequence": "sequence", "in_head_dim": "head_dim",
    }  # fmt: skip
    assert einsum.elements("input 1") == 4 * 8 * 2 * 4
    assert einsum.macs == 4 * 4 * 8 * 8 * (4 + 4) // 2


def test_rope_keeps_the_halves_of_its_maker_together() -> None:
    layers = {layer.name: layer for layer in llama().contracted.layers}
    assert "out_head_dim" not in layers["h.0.q"].einsum.cuttable
    assert "out_head_dim" in layers["h.0.v"].einsum.cuttable


def test_a_tied_weight_is_counted_once() -> None:
    assert gpt(tied=False).num_parameters - gpt().num_parameters == 24 * 16
    (tie,) = gpt().ties
    assert (tie.user, tie.owner, tie.axes) == ("head", "wte", (1, 0))


def test_dims_go_up_to_their_limit() -> None:
    dims = {**DIMS, "sequence": LARGEST}
    assert load_model(model(dims=dims)).layers[-1].shape["sequence"] == 2**40


@pytest.mark.parametrize(
    ("layers", "more", "message"),
    [
        (
            [{"op": "layer_norm", "over": "width"}],
            {},
            "found an input of 8x16 (sequence, hidden); allowed: one with width",
        ),
        ([projected("q", out="haeds")], {}, "no dim 'haeds'; allowed: sequence, hidden"),
        ([projected("q", out=["heads", "heads"])], {}, "found 'heads' twice; allowed: each dim once"),
        (
            [projected("q", out="sequence")],
            {},
            "found sequence in the input and in out; allowed: each dim once",
        ),
        ([projected("q", out={"heads": 0})], {}, "found 0; allowed: at least 1"),
        ([projected("q", out_features=4)], {}, "one of out_features and out; give one of them"),
        (
            [{"name": "head", "op": "linear", "out": "vocab", "weight": "wpe"}],
            {},
            "no layer 'wpe'; allowed: input, wte",
        ),
        ([projected("head", weight="wte")], {}, "tied to 'wte' of vocab 24 x hidden 16; allowed: equal dims"),
        ([projected("q"), {"op": "attention", "inputs": ["q", "q"]}], {}, "found 2 inputs; allowed: 3"),
        (
            [projected("q"), {"op": "attention", "inputs": ["q", "q", "wte"]}],
            {},
            "allowed: equal but for features",
        ),
        ([projected("q"), {"op": "rope", "over": "time"}], {}, "allowed: one with time"),
        (
            [projected("q"), {"op": "matmul", "inputs": ["q", "q"], "over": "depth"}],
            {},
            "allowed: one with depth",
        ),
        (
            [projected("q"), {"op": "scale", "inputs": ["q", "wte"]}],
            {},
            "allowed: dims of the first input in the second, of the same size or of size 1",
        ),
        ([projected("q"), {"op": "scale"}], {}, "found 1 inputs; allowed: 2"),
        ([], {"dims": {**DIMS, "in_hidden": 4}}, "a dim's name of two or more small letters"),
        ([], {"dims": {**DIMS, "batch": 4}}, "a dim's name of two or more small letters"),
        ([], {"dims": {**DIMS, "sequence": 2**40 + 1}}, "allowed: at most 1,099,511,627,776"),
    ],
    ids=str,
)
def test_what_is_wrong_is_one_line(layers: list[dict[str, Any]], more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_model(model(*layers, **more))
    assert message in str(caught.value).splitlines()[0]
    assert str(caught.value).startswith("model: ")


def test_a_space_and_pins_take_the_dims_of_a_model() -> None:
    plan = hypar.plan_model(
        gpt(), levels=2, space="batch,kv_heads", pins=["h.0.up=ff", "h.0.add1@H1=sequence"]
    )
    assert [choice.divided for choice in plan.choices("h.0.up")] == [("out_ff",), ("out_ff",)]
    assert plan.choices("h.0.add1")[0].divided == ("sequence",)
    assert {dim for choice in plan.choices("h.0.attention") for dim in choice.divided} <= {
        "batch",
        "kv_heads",
    }


def test_a_dim_that_no_layer_has_is_refused() -> None:
    with pytest.raises(InputError, match=r"found 'haeds'; allowed: batch, .*kv_heads.*, or a paper's word"):
        hypar.plan_model(gpt(), levels=1, space="batch,haeds")


def test_all_dims_of_a_model_are_searched() -> None:
    plan = hypar.plan_model(gpt(batch=1), array=(4,), space="all", strategy="optimal")
    divided = {dim for layer in plan.layers for choice in plan.choices(layer) for dim in choice.divided}
    assert divided & {"sequence", "kv_heads", "out_kv_heads", "in_kv_heads", "out_ff", "in_ff"}
