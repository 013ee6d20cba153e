"""Strategies of practice by name divide layers as their papers do, and words of practice stand for the dims of a layer."""

from __future__ import annotations

from typing import Any

import pytest

from hypar import plan_model
from hypar.errors import OptionError
from tests.transformers import gpt, llama, mixtral

ON: dict[str, Any] = {"hardware": "h100-8x", "array": (2, 8), "precision": "bf16"}

TENSOR = {
    "wte": "in_vocab", "q": "out_kv_heads", "k": "out_kv_heads", "v": "out_kv_heads", "attention": "kv_heads",
    "o": "in_kv_heads", "up": "out_ff", "gate": "out_ff", "gated": "ff", "down": "in_ff", "head": "out_vocab",
}  # fmt: skip

SIZES = {"sequence": 64, "hidden": 64, "kv_heads": 8, "head_dim": 8, "ff": 128, "vocab": 64}


@pytest.mark.parametrize("network", [gpt, llama])
@pytest.mark.parametrize(
    ("strategy", "others", "own"),
    [
        ("megatron", None, TENSOR),
        ("megatron-sp", "sequence", TENSOR),
        ("ulysses", "sequence", {"attention": "kv_heads"}),
        ("ring", "sequence", {}),
    ],
)
def test_a_named_strategy_divides_each_layer_as_its_paper(
    network: Any, strategy: str, others: str | None, own: dict[str, str]
) -> None:
    """The batch between nodes; inside a node each layer by its own dim, and tensors at rest wherever they lie best."""
    plan = plan_model(network(batch=16, blocks=2, tied=False, **SIZES), strategy=strategy, **ON)
    for layer in plan.layers:
        last = layer.rpartition(".")[2]
        if last != "rest":
            assert plan.dims(layer) == ("batch", own.get(last, others)), layer


def test_experts_are_divided_inside_a_node_and_all_else_by_the_batch() -> None:
    graph = mixtral(batch=16, blocks=2, experts=8)
    plan = plan_model(graph, strategy="expert", **ON)
    assert {plan.dims(name) for name in plan.layers if name.endswith((".up", ".down"))} == {
        ("batch", "experts")
    }
    dense = (".router", ".dispatch", ".combine", ".q", ".o")
    assert {plan.dims(name) for name in plan.layers if name.endswith(dense)} == {("batch", "batch")}


def test_stages_of_a_named_strategy_have_its_division_inside() -> None:
    plan = plan_model("gpt2", strategy="3d", **ON | {"array": ("s2", 2, 8), "batch": 32, "optimizer": "adam"})
    assert (plan.dims("h.7.up"), plan.zero) == (("batch", "out_ff"), 1)


def test_words_of_practice_are_read_in_pins() -> None:
    pins = ["h.*.q=tp", "h.*.up=column", "h.*.down=row", "h.*.add1=sp", "h.*.attention=cp"]
    plan = plan_model("gpt2", strategy="dp", levels=1, pins=pins)
    found = [plan.dims(f"h.5.{name}") for name in ("q", "up", "down", "add1", "attention")]
    assert found == [("out_heads",), ("out_ff",), ("in_ff",), ("sequence",), ("sequence",)]
    with pytest.raises(OptionError, match="has no such choice"):
        plan_model("gpt2", strategy="dp", levels=1, pins=["h.0.add1=tp"])


def test_where_a_batch_has_too_few_samples_levels_compute_copies() -> None:
    plan = plan_model("gpt2", strategy="expert", **ON | {"batch": 1})
    assert plan.dims("h.0.q") == (None, None)
