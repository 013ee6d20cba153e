"""Entries of the layers of transformers, as a model file says them."""

from __future__ import annotations

from typing import Any

Entry = dict[str, Any]


def linear(name: str, read: str | list[str], made: str | list[str], *, bias: bool, **more: Any) -> Entry:
    """Return a linear layer, whose bias a file says where there is none."""
    without = {} if bias else {"bias": False}
    return {"name": name, "op": "linear", "in": read, "out": made, **without, **more}


def norm(name: str, op: str = "layer_norm", over: str = "hidden") -> Entry:
    """Return a normalisation over the hidden features, or over others."""
    return {"name": name, "op": op, "over": over}


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


def latent_attention(read: str, *, low_rank: bool, bias: bool) -> list[Entry]:
    """Return the layers of an attention whose keys and values are made of few features, and are rotated in part.

    Rotated features of the keys are those of all heads.

    Args:
        read: name of the layer before.
        low_rank: whether queries are made of few features too.
        bias: whether the layers that read or make the hidden features have a bias.
    """
    queries: Entry = {"in": "q_rank", "inputs": "q_norm"} if low_rank else {"in": "hidden", "inputs": read}
    source, again = queries["in"], {"inputs": queries["inputs"]}
    first = [linear("q_a", "hidden", "q_rank", bias=bias), norm("q_norm", "rms_norm", "q_rank")]
    inputs = ["q", "k", "v", "q_rope", "k_rope"]
    return [
        *(first if low_rank else []),
        linear("q", source, ["heads", "head_dim"], bias=False),
        linear("q_part", source, ["heads", "rope_dim"], bias=False, **again),
        {"name": "q_rope", "op": "rope", "dim": "rope_dim"},
        linear("k_part", "hidden", "rope_dim", bias=bias, inputs=read),
        {"name": "k_rope", "op": "rope", "dim": "rope_dim"},
        linear("kv_a", "hidden", "kv_rank", bias=bias, inputs=read),
        norm("kv_norm", "rms_norm", "kv_rank"),
        linear("k", "kv_rank", ["heads", "head_dim"], bias=False),
        linear("v", "kv_rank", ["heads", "value_dim"], bias=False, inputs="kv_norm"),
        {"name": "attention", "op": "attention", "inputs": inputs, "causal": True},
        linear("o", ["heads", "value_dim"], "hidden", bias=bias),
    ]


def perceptron(function: str) -> list[Entry]:
    """Return two linear layers with a function between them."""
    return [
        linear("up", "hidden", "ff", bias=True),
        {"op": function},
        linear("down", "ff", "hidden", bias=True),
    ]


def gated(
    read: str, function: str, *, bias: bool, made: str = "ff", called: str = "", **more: Any
) -> list[Entry]:
    """Return a gated linear unit.

    Args:
        read: name of the layer before.
        function: the op of its function.
        bias: whether its linear layers have biases.
        made: the dim between them.
        called: what is before the names of its layers, where these stand behind others that read the same layer.
        more: fields of its linear layers.
    """
    before = {"inputs": read} if called else {}
    gate, act, up, product, down = (f"{called}{name}" for name in ("gate", "act", "up", "gated", "down"))
    return [
        _of_each(linear(gate, "hidden", made, bias=bias, **before), more),
        {"name": act, "op": function},
        _of_each(linear(up, "hidden", made, bias=bias, inputs=read), more),
        {"name": product, "op": "multiply", "inputs": [act, up]},
        _of_each(linear(down, made, "hidden", bias=bias), more),
    ]


def _of_each(entry: Entry, more: Entry) -> Entry:
    """Return the entry of a linear layer with further fields behind its dims."""
    head = {key: entry[key] for key in ("name", "op", "in", "out")}
    return {**head, **more, **entry}


def experts(
    read: str, function: str, count: int, *, made: str = "ff", choice: Entry | None = None
) -> list[Entry]:
    """Return a mixture of experts.

    Args:
        read: name of the layer before.
        function: the op of an expert's function.
        count: the experts that see a position.
        made: the dim inside an expert.
        choice: further fields of the choice.
    """
    return [
        linear("router", "hidden", "experts", bias=False),
        {"name": "gates", "op": "top_k", "over": "experts", "count": count, **(choice or {})},
        {"name": "dispatch", "op": "dispatch", "to": "experts", "count": count, "inputs": read},
        *gated("dispatch", function, bias=False, made=made, each="experts"),
        {"name": "combine", "op": "combine", "count": count, "inputs": ["down", "gates"]},
    ]
