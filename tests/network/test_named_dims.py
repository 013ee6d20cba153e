"""Model files with named dims: what they mean, and what is refused, in one line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hypar
from hypar.errors import InputError
from hypar.network.build import load_model
from hypar.network.dims import LARGEST
from hypar.sharding.space import parse_space
from tests.transformers import encoder, gated, gpt, llama, mixtral, vit

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.network.graph import LayerGraph

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
    assert einsum.cuttable == ("batch", "group", "kv_heads", "key_sequence", "sequence")
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


def test_a_position_of_a_sequence_moves_nothing_but_itself() -> None:
    """Four devices divide the sequence; the one that has the first position sends it to the others, and nothing comes back."""
    first = {"name": "first", "op": "select"}
    graph = load_model(model(projected("q"), first, {"name": "head", "op": "linear", "out": {"classes": 8}}))
    plan = hypar.plan_model(graph, array=(4,), space="sequence", convention="moved", pins=["head=batch"])
    found = hypar.verify_plan(plan, model=graph)
    assert found.ok
    assert not [
        each for each in found.differences if each.item.layer == "head" and each.item.phase == "forward"
    ]


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


@pytest.mark.parametrize("network", [gpt, llama, encoder, mixtral, vit, gated], ids=lambda one: one.__name__)
def test_the_space_all_has_every_dim_of_every_op(network: Callable[[], LayerGraph]) -> None:
    graph = network().contracted
    space = parse_space("all", graph.named_dims)
    for layer in graph.layers:
        divided = {dim for choice in space.choices(layer, 2) for dim in choice.divided}
        assert divided == {dim for dim in layer.einsum.cuttable if layer.einsum.sizes[dim] > 1}


WRITTEN = re.compile(r'```yaml title="(\w+)\.yaml"\n(.*?)```', re.DOTALL)
PAGE = Path(__file__).parents[2] / "docs" / "models.md"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "encoder", "experts"])
@pytest.mark.parametrize("array", [(2,), (4,), (2, 2), (3, 2)], ids=str)
def test_the_networks_of_the_page_are_planned_and_verified(
    name: str, array: tuple[int, ...], tmp_path: Path
) -> None:
    """As a person would who has the page alone: the file, a plan of each strategy, and its verification."""
    file = tmp_path / f"{name}.yaml"
    file.write_text(dict(WRITTEN.findall(PAGE.read_text(encoding="utf-8")))[name], encoding="utf-8")
    for strategy in ("dp", "mp", "hypar", "accpar", "optimal"):
        plan = hypar.plan_model(file, array=array, strategy=strategy)
        assert hypar.verify_plan(plan, model=file).ok
    plan = hypar.plan_model(
        file, array=array, space="batch", pins=["*up=" + ("hidden" if name == "mlp" else "ff")]
    )
    assert hypar.verify_plan(plan, model=file).ok


def test_all_dims_of_a_model_are_searched() -> None:
    plan = hypar.plan_model(gpt(batch=1), array=(4,), space="all", strategy="optimal")
    divided = {dim for layer in plan.layers for choice in plan.choices(layer) for dim in choice.divided}
    assert divided & {"sequence", "kv_heads", "out_kv_heads", "in_kv_heads", "out_ff", "in_ff"}
