"""Small transformers and convolutional blocks, as mappings of model files, and random choices of their layers."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from hypar.network.graph import load_model
from hypar.sharding.placement import WHOLE, Choice, cut

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import PlanGraph
    from hypar.sharding.placement import Options

MADE: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("networks.yaml").read_text(encoding="utf-8"))

SIZES = {"sequence": 8, "hidden": 16, "kv_heads": 2, "group": 2, "head_dim": 4, "ff": 32, "vocab": 24}


def made(
    row: str, name: str, batch: int = 4, blocks: int = 1, dtype: str | None = None, **sizes: int
) -> LayerGraph:
    """Return a network of ``networks.yaml`` with another batch, number of blocks, number format or sizes of its dims."""
    data = {"source": "a test", **deepcopy(MADE[row]), "batch": batch}
    data |= {"dtype": dtype} if dtype else {}
    data |= {"dims": data["dims"] | sizes} if "dims" in data else {}
    for layer in data["layers"]:
        if "block" in layer:
            layer["repeat"] = blocks
    return load_model(data, name=name)


def of_row(name: str, row: str, graph: str = "small") -> Callable[..., LayerGraph]:
    """Return a function of some name that makes a network of ``networks.yaml``."""

    def network(batch: int = 4, **more: Any) -> LayerGraph:
        return made(row, graph, batch, **more)

    network.__name__ = name
    return network


one_matrix = of_row("one_matrix", "one matrix")
encoder = of_row("encoder", "encoder")
biased = of_row("biased", "biased attention")
deepseek = of_row("deepseek", "latent attention")
scaled = of_row("scaled", "scales of layers", "scaled")
vit = of_row("vit", "vision", "vit")
listener = of_row("listener", "convolutions of a sequence", "listener")
gated = of_row("gated", "gated channels", "gated")
mobilenet = of_row("mobilenet", "depthwise", "mobilenet")
unet = of_row("unet", "down and up", "unet")


def volume(batch: int = 4, groups: int = 1) -> LayerGraph:
    """Return a residual network of volumes, whose second convolution and third are perhaps in groups, with pools."""
    if groups == 1:
        return made("volumes", "volume", batch)
    data = {"source": "a test", **deepcopy(MADE["volumes in groups"]), "batch": batch}
    for layer in data["layers"]:
        layer.update({"groups": groups} if "groups" in layer else {})
        layer.update({"mode": "max" if groups == 4 else "average"} if layer.get("stride") == 1 else {})
    return load_model(data, name="volume")


def linear(name: str, read: Any, made: Any, **more: Any) -> dict[str, Any]:
    """A linear layer over named dims."""
    return {"name": name, "op": "linear", "in": read, "out": made, **more}


def gpt(
    batch: int = 4, blocks: int = 1, tied: bool = True, dtype: str = "float32", **sizes: int
) -> LayerGraph:
    """GPT-2 in small: norms first, biases, learned positions, as many heads of keys as of queries."""
    block = [
        {"name": "ln1", "op": "layer_norm", "over": "hidden"},
        linear("q", "hidden", ["kv_heads", "head_dim"]),
        linear("k", "hidden", ["kv_heads", "head_dim"], inputs="ln1"),
        linear("v", "hidden", ["kv_heads", "head_dim"], inputs="ln1"),
        {"name": "attention", "op": "attention", "inputs": ["q", "k", "v"], "causal": True},
        linear("o", ["kv_heads", "head_dim"], "hidden"),
        {"name": "add1", "op": "add", "inputs": ["o", "input"]},
        {"name": "ln2", "op": "layer_norm", "over": "hidden"},
        linear("up", "hidden", "ff"),
        {"op": "gelu"},
        linear("down", "ff", "hidden"),
        {"name": "add2", "op": "add", "inputs": ["down", "add1"]},
    ]
    head = linear("head", "hidden", "vocab", bias=False, **({"weight": "wte"} if tied else {}))
    return _model(block, batch, blocks, {"op": "layer_norm", "over": "hidden"}, head, sizes, dtype)


def llama(batch: int = 4, blocks: int = 1, dtype: str = "float32", **sizes: int) -> LayerGraph:
    """Llama in small: root mean squares, rotary positions, grouped heads, a gated unit."""
    block = [
        {"name": "norm1", "op": "rms_norm", "over": "hidden"},
        linear("q", "hidden", ["kv_heads", "group", "head_dim"], bias=False),
        {"name": "q_rope", "op": "rope"},
        linear("k", "hidden", ["kv_heads", "head_dim"], bias=False, inputs="norm1"),
        {"name": "k_rope", "op": "rope"},
        linear("v", "hidden", ["kv_heads", "head_dim"], bias=False, inputs="norm1"),
        {"name": "attention", "op": "attention", "inputs": ["q_rope", "k_rope", "v"], "causal": True},
        linear("o", ["kv_heads", "group", "head_dim"], "hidden", bias=False),
        {"name": "add1", "op": "add", "inputs": ["o", "input"]},
        {"name": "norm2", "op": "rms_norm", "over": "hidden"},
        linear("gate", "hidden", "ff", bias=False),
        {"name": "act", "op": "silu"},
        linear("up", "hidden", "ff", bias=False, inputs="norm2"),
        {"name": "gated", "op": "multiply", "inputs": ["act", "up"]},
        linear("down", "ff", "hidden", bias=False),
        {"name": "add2", "op": "add", "inputs": ["down", "add1"]},
    ]
    head = linear("head", "hidden", "vocab", bias=False)
    return _model(block, batch, blocks, {"op": "rms_norm", "over": "hidden"}, head, sizes, dtype)


def mixtral(
    batch: int = 4, blocks: int = 1, dtype: str = "float32", one: bool = False, **sizes: int
) -> LayerGraph:
    """Mixtral in small: Llama's block, whose gated unit is one of experts, two for each position; perhaps of one matrix."""
    if one:
        return made("experts of one matrix", "small", batch, blocks, dtype, **sizes)
    expert = {"each": "experts", "bias": False}
    block = [
        {"name": "norm1", "op": "rms_norm", "over": "hidden"},
        linear("q", "hidden", ["kv_heads", "group", "head_dim"], bias=False),
        linear("k", "hidden", ["kv_heads", "head_dim"], bias=False, inputs="norm1"),
        linear("v", "hidden", ["kv_heads", "head_dim"], bias=False, inputs="norm1"),
        {"name": "attention", "op": "attention", "inputs": ["q", "k", "v"], "causal": True},
        linear("o", ["kv_heads", "group", "head_dim"], "hidden", bias=False),
        {"name": "add1", "op": "add", "inputs": ["o", "input"]},
        {"name": "norm2", "op": "rms_norm", "over": "hidden"},
        linear("router", "hidden", "experts", bias=False),
        {"name": "gates", "op": "top_k", "over": "experts", "count": 2},
        {"name": "dispatch", "op": "dispatch", "inputs": "norm2", "to": "experts", "count": 2},
        linear("gate", "hidden", "ff", **expert),
        {"name": "act", "op": "silu"},
        linear("up", "hidden", "ff", inputs="dispatch", **expert),
        {"name": "gated", "op": "multiply", "inputs": ["act", "up"]},
        linear("down", "ff", "hidden", **expert),
        {"name": "combine", "op": "combine", "inputs": ["down", "gates"], "count": 2},
        {"name": "add2", "op": "add", "inputs": ["combine", "add1"]},
    ]
    head = linear("head", "hidden", "vocab", bias=False)
    more = {"experts": 4, **sizes}
    return _model(block, batch, blocks, {"op": "rms_norm", "over": "hidden"}, head, more, dtype)


def _model(
    block: list[dict[str, Any]],
    batch: int,
    blocks: int,
    norm: dict[str, Any],
    head: dict[str, Any],
    sizes: dict[str, int],
    dtype: str,
) -> LayerGraph:
    positions = [{"name": "wpe", "op": "position"}] if norm["op"] == "layer_norm" else []
    layers = [
        {"op": "input", "shape": ["sequence"]},
        {"name": "wte", "op": "embedding", "over": "vocab", "out": "hidden"},
        *positions,
        {"block": "block", "name": "h", "repeat": blocks},
        norm,
        head,
        {"op": "cross_entropy", "over": "vocab"},
    ]
    return load_model(
        {
            "source": "a test",
            "batch": batch,
            "dtype": dtype,
            "dims": {**SIZES, **sizes},
            "blocks": {"block": {"layers": block}},
            "layers": layers,
        },
        name="small",
    )


def chosen(graph: PlanGraph, array: tuple[int, ...], dims: dict[str, str], default: str) -> list[Options]:
    """The same choice at every level for layers of some names; ``whole`` for a join that is not divided."""
    found: list[Options] = []
    for layer in graph.layers:
        word = dims.get(layer.name.rpartition(".")[2], default)
        found.append(tuple(WHOLE if word == "whole" else cut(word, ways) for ways in array))
    return found


def drawn(graph: PlanGraph, array: tuple[int, ...], random: random.Random) -> list[Options]:
    """A random legal choice of each layer at each level, of dims that it divides evenly where there are some."""
    found: list[Options] = []
    for layer in graph.layers:
        left = {dim: layer.nest.sizes[dim] for dim in layer.nest.cuttable}
        own: list[Choice] = []
        for ways in array:
            even = [dim for dim in left if left[dim] % ways == 0]
            if not layer.nest.multiplies and random.random() < 0.1:
                own.append(WHOLE)
                continue
            dim = random.choice(even or [*left])
            left[dim] = max(1, left[dim] // ways)
            own.append(cut(dim, ways))
        found.append(tuple(own))
    return found
