"""Pins with degrees: what they hold, and how they read back."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import LayerGraph, load_model
from hypar.planning.pins import apply_pins, parse_pin
from hypar.sharding.placement import ALONE, WHOLE, Choice, cut, grid
from hypar.sharding.space import parse_space
from tests.effort import examples

ALL = parse_space("all")


@cache
def graph(name: str = "alexnet") -> LayerGraph:
    return load_model(name)


def held(
    *pins: str, array: tuple[int, ...] = (16,), network: str = "alexnet"
) -> dict[str, tuple[Choice, ...]]:
    """The choices that pins leave each layer that they hold."""
    nodes = graph(network).operators
    free = [((),) * len(array)] * len(nodes.layers)
    found = apply_pins([parse_pin(text, nodes, len(array)) for text in pins], nodes, free, array)
    return {
        layer.name: tuple(choice for options in levels for choice in options)
        for layer, levels in zip(nodes.layers, found, strict=True)
        if any(levels)
    }


N4_H2 = grid({"batch": 4, "height": 2})


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("conv1=n4h2w2", grid({"batch": 4, "height": 2, "width": 2})),
        ("conv1=n4 c1 h2 w1", N4_H2),
        ("conv1= batch 4  height 2 ", N4_H2),
        ("conv1=height2 batch4", N4_H2),
        ("conv1=I4 h2", N4_H2),
        ("conv1=dp4 mp2", grid({"batch": 4, "in_channels": 2})),
        ("conv1=II2 III4", grid({"in_channels": 2, "out_channels": 4})),
        ("conv1=batch", cut("batch", 16)),
        ("conv1=n16", cut("batch", 16)),
        ("conv1@0=n16", cut("batch", 16)),
        ("conv1=c1", ALONE),
        ("fc1=n1 c1 h1 w1", ALONE),
        ("fc1=n4 c4 h1 w1", grid({"batch": 4, "out_channels": 4})),
        ("pool1=n2 c4", grid({"batch": 2, "channels": 4})),
        ("pool1=i4", grid({"channels": 4})),
        ("pool1=mp", cut("channels", 16)),
        ("pool1=n1 c1", ALONE),
        ("pool1=rep", WHOLE),
    ],
)
def test_what_a_pin_holds(text: str, choice: Choice) -> None:
    assert held(text) == {text.partition("=")[0].partition("@")[0]: (choice,)}


def test_levels_and_patterns() -> None:
    assert held("conv1@H2=n2 h2", array=(4, 4)) == {"conv1": (grid({"batch": 2, "height": 2}),)}
    assert held("fc1=n2 c2", "fc1@H1=n4", array=(4, 4)) == {
        "fc1": (cut("batch", 4), grid({"batch": 2, "out_channels": 2}))
    }
    found = held("fc*=n3 c4", "fc2=c1", array=(12,))
    assert found == {
        "fc1": (grid({"batch": 3, "out_channels": 4}),),
        "fc2": (ALONE,),
        "fc3": (grid({"batch": 3, "out_channels": 4}),),
    }


@pytest.mark.parametrize(
    ("array", "pin", "choices"),
    [
        ((8,), "layers.0.q=III", (cut("out_kv_heads", 8),)),
        ((4,), "layers.0.q=III", (cut("out_group", 4),)),
        ((4, 2), "layers.0.q=out_channels", (cut("out_kv_heads", 4), cut("out_kv_heads", 2))),
        ((8,), "layers.0.q=n2 III4", (grid({"batch": 2, "out_group": 4}),)),
        ((8,), "layers.0.o=II", (cut("in_head_dim", 8),)),
    ],
)
def test_a_word_for_several_dims_is_one_that_divides_evenly(
    array: tuple[int, ...], pin: str, choices: tuple[Choice, ...]
) -> None:
    """A query of llama3-8b has 4 groups of 8 heads; where no dim divides evenly, the first is held."""
    assert held(pin, array=array, network="llama3-8b")[pin.partition("=")[0]] == choices


@given(
    data=st.data(),
    array=st.sampled_from([(16,), (4, 4), (12,), (2, 6)]),
    name=st.sampled_from(["alexnet", "resnet18"]),
)
@settings(max_examples=examples(60), deadline=None)
def test_every_choice_of_a_space_can_be_pinned_and_reads_back(
    data: st.DataObject, array: tuple[int, ...], name: str
) -> None:
    """In degrees, as a plan records it, and in any paper's words for the dims."""
    layer = data.draw(st.sampled_from(graph(name).operators.layers))
    level = data.draw(st.integers(0, len(array) - 1))
    choice = data.draw(st.sampled_from(ALL.choices(layer, array[level], idle=True)))
    text = f"{layer.name}@{level}=" + (" ".join(f"{dim}{degree}" for dim, degree in choice.degrees) or "rep")
    pin = parse_pin(text, graph(name).operators, len(array))
    assert parse_pin(str(pin), graph(name).operators, len(array)) == pin
    assert held(str(pin), array=array, network=name)[layer.name] == (choice,)
