"""Small transformers and convolutional blocks, as mappings of model files, and random choices of their layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.network.build import load_model
from hypar.sharding.placement import WHOLE, Choice, cut

if TYPE_CHECKING:
    import random

    from hypar.network.contraction import ContractedGraph
    from hypar.network.graph import LayerGraph
    from hypar.sharding.placement import Options

SIZES = {"sequence": 8, "hidden": 16, "kv_heads": 2, "group": 2, "head_dim": 4, "ff": 32, "vocab": 24}


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


def one_matrix(batch: int = 4, blocks: int = 1, dtype: str = "float32", **sizes: int) -> LayerGraph:
    """GPT-2 in small with one matrix for queries, keys and values, as Megatron-LM has it."""
    parts = [
        {"name": name, "op": "select", "over": "parts", "index": index, "inputs": "qkv"}
        for index, name in enumerate(("q", "k", "v"))
    ]
    block = [
        {"name": "ln1", "op": "layer_norm", "over": "hidden"},
        linear("qkv", "hidden", ["parts", "kv_heads", "head_dim"]),
        *parts,
        {"name": "attention", "op": "attention", "inputs": ["q", "k", "v"], "causal": True},
        linear("o", ["parts", "kv_heads", "head_dim"], "hidden"),
        {"name": "add1", "op": "add", "inputs": ["o", "input"]},
        {"name": "ln2", "op": "layer_norm", "over": "hidden"},
        linear("up", "hidden", "ff"),
        {"op": "gelu"},
        linear("down", "ff", "hidden"),
        {"name": "add2", "op": "add", "inputs": ["down", "add1"]},
    ]
    head = linear("head", "hidden", "vocab", bias=False)
    return _model(
        block, batch, blocks, {"op": "layer_norm", "over": "hidden"}, head, {"parts": 3, **sizes}, dtype
    )


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


def encoder(batch: int = 4) -> LayerGraph:
    """BERT's block in small, its attention of two products of activations and a softmax."""
    scores = {"name": "scores", "op": "matmul", "over": "head_dim", "names": {"sequence": "keys"}}
    block = [
        linear("q", "hidden", ["kv_heads", "head_dim"]),
        linear("k", "hidden", ["kv_heads", "head_dim"], inputs="input"),
        linear("v", "hidden", ["kv_heads", "head_dim"], inputs="input"),
        {**scores, "inputs": ["q", "k"]},
        {"name": "shares", "op": "softmax", "over": "keys"},
        {"name": "mean", "op": "matmul", "over": {"keys": "sequence"}, "inputs": ["shares", "v"]},
        linear("o", ["kv_heads", "head_dim"], "hidden"),
        {"name": "add1", "op": "add", "inputs": ["o", "input"]},
        {"name": "norm1", "op": "layer_norm", "over": "hidden"},
        linear("up", "hidden", "ff"),
        {"op": "gelu"},
        linear("down", "ff", "hidden"),
        {"name": "add2", "op": "add", "inputs": ["down", "norm1"]},
    ]
    head = linear("head", "hidden", "vocab")
    return _model(block, batch, 1, {"op": "layer_norm", "over": "hidden"}, head, {}, "float32")


def biased(batch: int = 4) -> LayerGraph:
    """T5's attention in small, with trained biases of its scores, a table of types, scales of layers and trained slopes."""
    scores = {"name": "scores", "op": "matmul", "over": "head_dim", "names": {"sequence": "keys"}}
    block = [
        linear("q", "hidden", ["kv_heads", "head_dim"], bias=False),
        linear("k", "hidden", ["kv_heads", "head_dim"], bias=False, inputs="input"),
        linear("v", "hidden", ["kv_heads", "head_dim"], bias=False, inputs="input"),
        {**scores, "inputs": ["q", "k"]},
        {"name": "distances", "op": "position", "over": "kv_heads", "rows": 5},
        {"name": "shares", "op": "softmax", "over": "keys"},
        {"name": "mean", "op": "matmul", "over": {"keys": "sequence"}, "inputs": ["shares", "v"]},
        linear("o", ["kv_heads", "head_dim"], "hidden", bias=False),
        {"name": "scaled", "op": "layer_scale", "over": "hidden"},
        {"name": "add1", "op": "add", "inputs": ["scaled", "input"]},
        {"name": "types", "op": "position", "over": "hidden", "rows": 2},
        linear("up", "hidden", "ff"),
        {"name": "slopes", "op": "prelu", "over": "ff"},
        linear("down", "ff", "hidden"),
        {"op": "prelu"},
    ]
    return _model(
        block,
        batch,
        1,
        {"op": "layer_norm", "over": "hidden"},
        linear("head", "hidden", "vocab"),
        {},
        "float32",
    )


def scaled(batch: int = 4) -> LayerGraph:
    """ConvNeXt's block in small: a layer with a number of its own for each channel, and trained slopes."""
    conv: dict[str, Any] = {"op": "conv", "out_channels": 8}
    layers: list[dict[str, Any]] = [
        {"name": "stem", **conv, "kernel": 2, "stride": 2},
        {"name": "depthwise", **conv, "kernel": 3, "padding": 1, "groups": 8},
        {"name": "point", **conv, "kernel": 1},
        {"name": "slopes", "op": "prelu", "over": "channels"},
        {"name": "own", "op": "layer_scale"},
        {"name": "sum", "op": "add", "inputs": ["own", "stem"]},
        {"op": "prelu"},
    ]
    return _convolutional(layers, batch, "scaled")


def vit(batch: int = 4) -> LayerGraph:
    """A vision transformer in small: patches, a class token, positions, an encoder with norms first."""
    block = [
        {"name": "ln1", "op": "layer_norm", "over": "hidden"},
        linear("q", "hidden", ["heads", "head_dim"]),
        linear("k", "hidden", ["heads", "head_dim"], inputs="ln1"),
        linear("v", "hidden", ["heads", "head_dim"], inputs="ln1"),
        {"name": "attention", "op": "attention", "inputs": ["q", "k", "v"]},
        linear("o", ["heads", "head_dim"], "hidden"),
        {"name": "add1", "op": "add", "inputs": ["o", "input"]},
        {"name": "ln2", "op": "layer_norm", "over": "hidden"},
        linear("up", "hidden", "ff"),
        {"op": "gelu"},
        linear("down", "ff", "hidden"),
        {"name": "add2", "op": "add", "inputs": ["down", "add1"]},
    ]
    layers = [
        {"op": "input", "channels": 2, "height": 8, "width": 8},
        {"name": "patches", "op": "patch", "kernel": [2, 4], "out": "hidden"},
        {"name": "token", "op": "token"},
        {"name": "positions", "op": "position"},
        {"block": "block", "name": "h", "repeat": 1},
        {"name": "ln", "op": "layer_norm", "over": "hidden"},
        {"name": "first", "op": "select"},
        linear("head", "hidden", "classes"),
        {"op": "cross_entropy", "over": "classes"},
    ]
    dims = {"hidden": 16, "heads": 4, "head_dim": 4, "ff": 32, "classes": 6}
    blocks = {"block": {"layers": block}}
    return load_model(
        {"source": "a test", "batch": batch, "dims": dims, "blocks": blocks, "layers": layers}, name="vit"
    )


def mixtral(
    batch: int = 4, blocks: int = 1, dtype: str = "float32", one: bool = False, **sizes: int
) -> LayerGraph:
    """Mixtral in small: Llama's block, whose gated unit is one of experts, two for each position; perhaps of one matrix."""
    expert = {"each": "experts", "bias": False}
    parts = ["parts"] if one else []
    gates = [
        linear("gate", "hidden", "ff", **expert),
        {"name": "act", "op": "silu"},
        linear("up", "hidden", "ff", inputs="dispatch", **expert),
    ]
    if one:
        gates = [
            linear("gate_up", "hidden", ["parts", "ff"], **expert),
            {"name": "gate", "op": "select", "over": "parts", "inputs": "gate_up"},
            {"name": "act", "op": "silu"},
            {"name": "up", "op": "select", "over": "parts", "index": 1, "inputs": "gate_up"},
        ]
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
        *gates,
        {"name": "gated", "op": "multiply", "inputs": ["act", "up"]},
        linear("down", [*parts, "ff"], "hidden", **expert),
        {"name": "combine", "op": "combine", "inputs": ["down", "gates"], "count": 2},
        {"name": "add2", "op": "add", "inputs": ["combine", "add1"]},
    ]
    head = linear("head", "hidden", "vocab", bias=False)
    more = {"experts": 4, **({"parts": 2} if one else {}), **sizes}
    return _model(block, batch, blocks, {"op": "rms_norm", "over": "hidden"}, head, more, dtype)


def deepseek(batch: int = 4, blocks: int = 1, dtype: str = "float32", **sizes: int) -> LayerGraph:
    """DeepSeek-V3 in small: latent attention with a rotated part of the features, shared and chosen experts by groups."""
    expert, heads = {"each": "experts", "bias": False}, ["kv_heads", "head_dim"]
    plain: dict[str, Any] = {"bias": False}
    block = [
        {"name": "norm1", "op": "rms_norm", "over": "hidden"},
        linear("q_a", "hidden", "q_rank", **plain),
        {"name": "q_norm", "op": "rms_norm", "over": "q_rank"},
        linear("q", "q_rank", heads, **plain),
        linear("q_part", "q_rank", ["kv_heads", "rope_dim"], inputs="q_norm", **plain),
        {"name": "q_rope", "op": "rope", "dim": "rope_dim"},
        linear("k_part", "hidden", "rope_dim", inputs="norm1", **plain),
        {"name": "k_rope", "op": "rope", "dim": "rope_dim"},
        linear("kv_a", "hidden", "kv_rank", inputs="norm1", **plain),
        {"name": "kv_norm", "op": "rms_norm", "over": "kv_rank"},
        linear("k", "kv_rank", heads, **plain),
        linear("v", "kv_rank", heads, inputs="kv_norm", **plain),
        {
            "name": "attention",
            "op": "attention",
            "inputs": ["q", "k", "v", "q_rope", "k_rope"],
            "causal": True,
        },
        linear("o", heads, "hidden", **plain),
        {"name": "add1", "op": "add", "inputs": ["o", "input"]},
        {"name": "norm2", "op": "rms_norm", "over": "hidden"},
        linear("router", "hidden", "experts", **plain),
        {
            "name": "gates",
            "op": "top_k",
            "over": "experts",
            "count": 2,
            "function": "sigmoid",
            "groups": 2,
            "best": 1,
        },
        {"name": "dispatch", "op": "dispatch", "inputs": "norm2", "to": "experts", "count": 2},
        linear("up", "hidden", "expert_ff", **expert),
        {"name": "act", "op": "silu"},
        linear("down", "expert_ff", "hidden", **expert),
        {"name": "combine", "op": "combine", "inputs": ["down", "gates"], "count": 2},
        linear("shared_up", "hidden", "ff", inputs="norm2", **plain),
        {"name": "shared_act", "op": "silu"},
        linear("shared_down", "ff", "hidden", **plain),
        {"name": "experts", "op": "add", "inputs": ["combine", "shared_down"]},
        {"name": "add2", "op": "add", "inputs": ["experts", "add1"]},
    ]
    head = linear("head", "hidden", "vocab", bias=False)
    more = {"experts": 4, "q_rank": 12, "kv_rank": 8, "rope_dim": 2, "expert_ff": 8, **sizes}
    return _model(block, batch, blocks, {"op": "rms_norm", "over": "hidden"}, head, more, dtype)


def listener(batch: int = 4) -> LayerGraph:
    """Whisper's encoder in small: two convolutions along a sequence, the second with a stride, then a block; one depthwise."""
    block = [
        {"name": "ln1", "op": "layer_norm", "over": "hidden"},
        linear("q", "hidden", ["heads", "head_dim"]),
        linear("k", "hidden", ["heads", "head_dim"], inputs="ln1", bias=False),
        linear("v", "hidden", ["heads", "head_dim"], inputs="ln1"),
        {"name": "attention", "op": "attention", "inputs": ["q", "k", "v"]},
        linear("o", ["heads", "head_dim"], "hidden"),
        {"name": "add1", "op": "add", "inputs": ["o", "input"]},
        {"name": "mixed", "op": "sequence_conv", "each": "hidden", "kernel": 3, "padding": 1, "bias": False},
        {"name": "add2", "op": "add", "inputs": ["mixed", "add1"]},
    ]
    conv: dict[str, Any] = {"op": "sequence_conv", "kernel": 3, "padding": 1, "out": "hidden"}
    layers = [
        {"op": "input", "shape": {"sequence": 16, "mel": 6}},
        {"name": "conv1", **conv, "in": "mel", "out": {"first": 8}},
        {"op": "gelu"},
        {"name": "conv2", **conv, "in": "first", "stride": 2},
        {"op": "gelu"},
        {"op": "position"},
        {"block": "block", "name": "h", "repeat": 1},
        linear("head", "hidden", "classes"),
        {"op": "cross_entropy", "over": "classes"},
    ]
    dims = {"hidden": 16, "heads": 4, "head_dim": 4, "classes": 6}
    blocks = {"block": {"layers": block}}
    return load_model(
        {"source": "a test", "batch": batch, "dims": dims, "blocks": blocks, "layers": layers},
        name="listener",
    )


def gated(batch: int = 4) -> LayerGraph:
    """MobileNetV3's block in small: a depthwise convolution whose channels are weighed by what is in the whole image."""
    conv: dict[str, Any] = {"op": "conv", "out_channels": 8, "kernel": 1}
    layers = [
        {"op": "input", "channels": 3, "height": 8, "width": 8},
        {"name": "expand", **conv},
        {"op": "relu"},
        {"name": "depthwise", **conv, "kernel": 3, "padding": 1, "groups": 8},
        {"name": "norm", "op": "batch_norm"},
        {"op": "pool", "mode": "average", "window": "global"},
        {"name": "squeeze", **conv, "out_channels": 4},
        {"op": "relu"},
        {"name": "excite", **conv},
        {"name": "gate", "op": "pointwise", "function": "sigmoid"},
        {"name": "scale", "op": "scale", "inputs": ["norm", "gate"]},
        {"name": "project", **conv},
        {"op": "flatten"},
        {"name": "fc", "op": "linear", "out_features": 6},
    ]
    return load_model({"source": "a test", "batch": batch, "layers": layers}, name="gated")


def _convolutional(layers: list[dict[str, Any]], batch: int, name: str) -> LayerGraph:
    image = {"op": "input", "channels": 4, "height": 8, "width": 8}
    last = [
        {"op": "pool", "mode": "average", "window": "global"},
        {"op": "flatten"},
        {"name": "fc", "op": "linear", "out_features": 6},
    ]
    return load_model({"source": "a test", "batch": batch, "layers": [image, *layers, *last]}, name=name)


def mobilenet(batch: int = 4) -> LayerGraph:
    """MobileNetV2's blocks in small: expansion, depthwise convolution and projection, with and without a shortcut."""
    conv = {"op": "conv", "kernel": 1, "bias": False}

    def normalised(name: str, **fields: Any) -> list[dict[str, Any]]:
        return [{"name": name, **conv, **fields}, {"name": f"{name}_norm", "op": "batch_norm"}]

    relu: dict[str, Any] = {"op": "pointwise", "function": "relu6"}
    wide, three = {"out_channels": 16}, {"kernel": 3, "padding": 1, "groups": 16}
    layers: list[dict[str, Any]] = [
        *normalised("stem", out_channels=8, kernel=3, padding=1),
        {"name": "first", **relu},
        *normalised("expand1", **wide),
        relu,
        *normalised("depthwise1", **wide, **three),
        relu,
        *normalised("project1", out_channels=8),
        {"name": "add", "op": "add", "inputs": ["project1_norm", "first"]},
        *normalised("expand2", **wide),
        relu,
        *normalised("depthwise2", **wide, **three, stride=2),
        relu,
        *normalised("project2", out_channels=12),
    ]
    return _convolutional(layers, batch, "mobilenet")


def unet(batch: int = 4) -> LayerGraph:
    """U-Net in small: one level down and up again, with a copy that is cropped and concatenated."""
    conv = {"op": "conv", "kernel": 3, "out_channels": 4, "padding": 1}
    layers: list[dict[str, Any]] = [
        {"name": "down", **conv},
        {"name": "copied", "op": "relu"},
        {"op": "pool", "mode": "max", "kernel": 2},
        {"name": "bottom", **conv, "out_channels": 8, "padding": [0, 1]},
        {"op": "relu"},
        {"name": "up", "op": "conv_transpose", "out_channels": 4, "kernel": 2, "stride": 2},
        {"name": "cropped", "op": "crop", "margin": [2, 0], "inputs": "copied"},
        {"name": "concat", "op": "concat", "inputs": ["cropped", "up"]},
        {"name": "out", **conv},
        {"op": "relu"},
    ]
    return _convolutional(layers, batch, "unet")


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


def chosen(
    graph: ContractedGraph, array: tuple[int, ...], dims: dict[str, str], default: str
) -> list[Options]:
    """The same choice at every level for layers of some names; ``whole`` for a join that is not divided."""
    found: list[Options] = []
    for layer in graph.layers:
        word = dims.get(layer.name.rpartition(".")[2], default)
        found.append(tuple(WHOLE if word == "whole" else cut(word, ways) for ways in array))
    return found


def drawn(graph: ContractedGraph, array: tuple[int, ...], random: random.Random) -> list[Options]:
    """A random legal choice of each layer at each level, of dims that it divides evenly where there are some."""
    found: list[Options] = []
    for layer in graph.layers:
        left = {dim: layer.einsum.sizes[dim] for dim in layer.einsum.cuttable}
        own: list[Choice] = []
        for ways in array:
            even = [dim for dim in left if left[dim] % ways == 0]
            if not layer.einsum.contracts and random.random() < 0.1:
                own.append(WHOLE)
                continue
            dim = random.choice(even or [*left])
            left[dim] = max(1, left[dim] // ways)
            own.append(cut(dim, ways))
        found.append(tuple(own))
    return found


def volume(batch: int = 4, groups: int = 1) -> LayerGraph:
    """A residual network of volumes in small, whose second convolution and third are perhaps in groups, with pools."""
    of_groups = {} if groups == 1 else {"groups": groups}
    mode = {4: "max", 2: "average"}.get(groups)
    pools = [{"op": "pool3d", "mode": mode, "kernel": 3, "stride": 1, "padding": 1}] if mode else []
    layers = [
        {"op": "input", "channels": 4, "depth": 6, "height": 4, "width": 4},
        {"name": "conv1", "op": "conv3d", "out_channels": 8, "kernel": 3, "padding": 1},
        {"op": "batch_norm"},
        {"op": "relu"},
        {
            "name": "conv2",
            "op": "conv3d",
            "out_channels": 8,
            "kernel": [3, 1, 1],
            "padding": [1, 0, 0],
            **of_groups,
        },
        {"name": "sum", "op": "add", "inputs": ["conv2", "relu1"]},
        *pools,
        {
            "name": "conv3",
            "op": "conv3d",
            "out_channels": 4,
            "kernel": 2,
            "stride": 2,
            "bias": False,
            **of_groups,
        },
        *([{"op": "pool3d", "mode": "average", "window": "global"}] if mode else []),
        {"op": "flatten"},
        {"name": "fc", "op": "linear", "out_features": 8},
        {"op": "softmax"},
    ]
    return load_model({"source": "an example", "batch": batch, "layers": layers}, name="volume")
