"""Strategies of practice by name divide layers as their papers do, and words of practice stand for the dims of a layer."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hypar import plan_model, verify_plan
from hypar.errors import OptionError
from hypar.sharding.placement import copies
from tests.effort import late
from tests.planning.parts import scored
from tests.transformers import gpt, llama, mixtral, vit

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


def test_sums_of_samples_that_levels_do_not_divide_are_computed_in_copies() -> None:
    """Six samples are left to two levels of two and four devices, of which no node may take all for itself."""
    graph = vit(batch=6)
    plan = plan_model(graph, strategy="expert", **ON | {"array": (2, 4)})
    assert math.prod(map(copies, plan.choices("h.0.add1"), (2, 4))) == 2
    assert verify_plan(plan, model=graph).ok


GPT3 = {"sequence": 2048, "hidden": 12288, "kv_heads": 96, "head_dim": 128, "ff": 49152, "vocab": 8}
LLAMA3 = {"sequence": 8192, "hidden": 16384, "kv_heads": 8, "group": 16, "head_dim": 128, "ff": 53248}
MIXTRAL: dict[str, Any] = {
    "sequence": 4096,
    "hidden": 4096,
    "kv_heads": 8,
    "group": 4,
    "head_dim": 128,
    "ff": 14336,
}


def _long(kv_heads: int) -> Any:
    sizes = {"sequence": 131072, "hidden": 4096, "head_dim": 128, "ff": 14336, "vocab": 8}
    return llama(batch=1, blocks=3, dtype="bfloat16", kv_heads=kv_heads, group=32 // kv_heads, **sizes)


BLOCKS: dict[str, tuple[Any, tuple[int, ...], str]] = {
    "one sample": (lambda: gpt(batch=1, blocks=3, tied=False, dtype="bfloat16", **GPT3), (8,), "megatron-sp"),
    "many samples": (lambda: gpt(batch=64, blocks=3, tied=False, dtype="bfloat16", **GPT3), (8,), "ddp"),
    "nodes": (lambda: gpt(batch=32, blocks=3, tied=False, dtype="bfloat16", **GPT3), (4, 8), "megatron-sp"),
    "large": (lambda: llama(batch=16, blocks=3, dtype="bfloat16", vocab=8, **LLAMA3), (8, 8), "megatron-sp"),
    "long": (lambda: _long(8), (4, 8), "ring"),
    "many keys": (lambda: _long(8), (8,), "ulysses"),
    "one key": (lambda: _long(1), (8,), "ring"),
    "experts": (
        lambda: mixtral(batch=8, blocks=3, experts=8, dtype="bfloat16", vocab=8, **MIXTRAL),
        (8,),
        "expert",
    ),
}


@pytest.mark.parametrize("case", late(BLOCKS, "one key"))
def test_a_free_search_is_no_slower_than_the_named_plan(case: str) -> None:
    """Where memory is no matter; the plans that practice would take of these blocks."""
    graph, array, strategy = BLOCKS[case]
    asked = ON | {"array": array, "device_memory": "10 TB"}
    named = plan_model(graph(), strategy=strategy, **asked)
    free = plan_model(graph(), strategy="optimal", cost="time", **asked)
    assert scored(free).time_s <= scored(named).time_s * (1 + 1e-9)
