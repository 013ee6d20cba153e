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


def gated(read: str, function: str, *, bias: bool, **more: Any) -> list[Entry]:
    """Return a gated linear unit; ``read`` is the name of the layer before, ``more`` are fields of its linear layers."""
    return [
        _of_each(linear("gate", "hidden", "ff", bias=bias), more),
        {"name": "act", "op": function},
        _of_each(linear("up", "hidden", "ff", bias=bias, inputs=read), more),
        {"name": "gated", "op": "multiply", "inputs": ["act", "up"]},
        _of_each(linear("down", "ff", "hidden", bias=bias), more),
    ]


def _of_each(entry: Entry, more: Entry) -> Entry:
    """Return the entry of a linear layer with further fields behind its dims."""
    head = {key: entry[key] for key in ("name", "op", "in", "out")}
    return {**head, **more, **entry}


def experts(read: str, function: str, count: int) -> list[Entry]:
    """Return a mixture of experts, of which ``count`` see a position; ``read`` is the name of the layer before."""
    return [
        linear("router", "hidden", "experts", bias=False),
        {"name": "gates", "op": "top_k", "over": "experts", "count": count},
        {"name": "dispatch", "op": "dispatch", "to": "experts", "count": count, "inputs": read},
        *gated("dispatch", function, bias=False, each="experts"),
        {"name": "combine", "op": "combine", "count": count, "inputs": ["down", "gates"]},
    ]
