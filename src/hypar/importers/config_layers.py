"""Entries of the layers of transformers, as a model file says them."""

from __future__ import annotations

from typing import Any

Entry = dict[str, Any]


def linear(name: str, read: str | list[str], made: str | list[str], *, bias: bool, **more: Any) -> Entry:
    """Return a linear layer, whose bias a file says where there is none."""
    without = {} if bias else {"bias": False}
    return {"name": name, "op": "linear", "in": read, "out": made, **without, **more}


def norm(name: str, op: str = "layer_norm") -> Entry:
    """Return a normalisation over the hidden features."""
    return {"name": name, "op": op, "over": "hidden"}


def add(name: str, *inputs: str) -> Entry:
    """Return a sum."""
    return {"name": name, "op": "add", "inputs": [*inputs]}


def embedding(name: str, rows: str, **more: Any) -> Entry:
    """Return a table of hidden features."""
    return {"name": name, "op": "embedding", "over": rows, "out": "hidden", **more}


def attention(
    read: str, queries: list[str], *, bias: bool, out_bias: bool, rope: bool = False, causal: bool = True
) -> list[Entry]:
    """Return the layers of an attention.

    Args:
        read: name of the layer whose output queries, keys and values are made of; the layer before.
        queries: dims of the queries' features; keys have the first and the last of them.
        bias: whether the layers of queries, keys and values have a bias.
        out_bias: whether the layer behind the attention has one.
        rope: whether queries and keys are rotated by their positions.
        causal: whether a position attends to none behind it.
    """
    layers, inputs = [], []
    for name in ("q", "k", "v"):
        dims = queries if name == "q" else [queries[0], queries[-1]]
        layers.append(linear(name, "hidden", dims, bias=bias, **({} if name == "q" else {"inputs": read})))
        inputs.append(name)
        if rope and name != "v":
            inputs[-1] = f"{name}_rope"
            layers.append({"name": inputs[-1], "op": "rope"})
    joined: Entry = {"name": "attention", "op": "attention", "inputs": inputs}
    if causal:
        joined["causal"] = True
    return [*layers, joined, linear("o", queries, "hidden", bias=out_bias)]


def perceptron(function: str) -> list[Entry]:
    """Return two linear layers with a function between them."""
    return [
        linear("up", "hidden", "ff", bias=True),
        {"op": function},
        linear("down", "ff", "hidden", bias=True),
    ]


def gated(read: str, function: str, *, bias: bool) -> list[Entry]:
    """Return a gated linear unit; ``read`` is the name of the layer before."""
    return [
        linear("gate", "hidden", "ff", bias=bias),
        {"name": "act", "op": function},
        linear("up", "hidden", "ff", bias=bias, inputs=read),
        {"name": "gated", "op": "multiply", "inputs": ["act", "up"]},
        linear("down", "ff", "hidden", bias=bias),
    ]
