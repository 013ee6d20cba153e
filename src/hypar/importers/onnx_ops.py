"""ONNX's operators in the vocabulary: those of the default domain, operands by the names of their schemas."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hypar.importers.trace import matrix_letters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hypar.importers.trace import Node


def _padding(node: Node, kernel: list[int], dilation: list[int]) -> list[int] | None:
    """Return the padding at each end of each dim of a kernel; None where the two ends differ."""
    count = len(kernel)
    auto, stride = node.get("auto_pad", "NOTSET"), node.get("strides", [1] * count)
    if auto in {"NOTSET", "VALID"}:
        pads = node.get("pads", [0] * 2 * count) if auto == "NOTSET" else [0] * 2 * count
        return pads[:count] if pads[:count] == pads[count:] else None
    read, made = node.sizes()[2:], node.made[2:]
    found = [
        max(0, (new - 1) * step + gap * (size - 1) + 1 - old)
        for old, new, size, step, gap in zip(read, made, kernel, stride, dilation, strict=True)
    ]
    return None if any(total % 2 for total in found) else [total // 2 for total in found]


def _conv(node: Node) -> Node:
    sizes, groups = node.sizes("W"), node.get("group", 1)
    transposed, kernel = node.kind == "ConvTranspose", [*sizes[2:]]
    ones = [1] * len(kernel)
    dilation = node.get("dilations", ones)
    padding = None if transposed and node.get("output_shape") else _padding(node, kernel, dilation)
    return node.called(
        "conv", {"input": "X", "weight": "W", "bias": "B"}, kernel=kernel, padding=padding, dilation=dilation,
        out=sizes[1] * groups if transposed else sizes[0], groups=groups, transposed=transposed,
        stride=node.get("strides", ones), output_padding=node.get("output_padding", [0]),
    )  # fmt: skip


def _pool(mode: str, node: Node) -> Node:
    kernel = node.get("kernel_shape", [])
    ones = [1] * len(kernel)
    padding = _padding(node, kernel, ones) if node.get("dilations", ones) == ones else None
    up, stride = bool(node.get("ceil_mode", 0)), node.get("strides", ones)
    return node.called("pool", mode=mode, kernel=kernel, stride=stride, padding=padding, up=up)


def _gemm(node: Node) -> Node:
    names = {"left": "A", "right": "B", "bias": "C"}
    left, right = (1, 0) if node.get("transA", 0) else (0, 1), (2, 1) if node.get("transB", 0) else (1, 2)
    scaled = node.get("alpha", 1) != 1 or node.get("beta", 1) != 1
    return node.called("dot", names, left=left, right=right, made=(0, 2), scaled=scaled)


def _matmul(node: Node) -> Node:
    letters = matrix_letters(*(len(node.sizes(name)) for name in ("A", "B")))
    return node.called("dot", {"left": "A", "right": "B"}, **letters)


def _gather(node: Node) -> Node:
    """Say rows of a table by tokens, or one element of an axis."""
    axis, index = node.get("axis", 0), node.get("indices")
    own = node.sizes("data")
    if isinstance(index, int):
        axis %= len(own)
        return node.called("part", axis=axis, start=index % own[axis], drop=True)
    return node.called("gather rows" if axis else "lookup", {"table": "data", "tokens": "indices"})


def _slice(node: Node) -> Node:
    starts, axes, steps = (node.get(name) for name in ("starts", "axes", "steps"))
    if not starts or len(starts) != 1 or not axes or (steps or [1]) != [1]:
        return node.called("slice")
    own = node.sizes()
    axis = axes[0] % len(own)
    return node.called("slice", axis=axis, start=min(starts[0] + own[axis] * (starts[0] < 0), own[axis]))


def _split(node: Node) -> Node:
    own, index, sizes = node.sizes(), node.get("index", 0), node.get("split")
    axis = node.get("axis", 0) % len(own)
    start = sum(sizes[:index]) if sizes else index * -(-own[axis] // node.get("num_outputs", 1))
    return node.called("slice", axis=axis, start=start)


def _norm(kind: str, node: Node) -> Node:
    rank = len(node.sizes())
    scale = next((name for name in ("Scale", "scale") if node.operand(name)), "")
    names = {
        "input": "X" if node.operand("X") else "input",
        "weight": scale,
        "bias": "bias" if node.operand("bias") else "B",
    }
    groups = node.get("num_groups", 0) if kind == "group_norm" else None
    return node.called(
        "norm", names, kind=kind, groups=groups, over=[*range(node.get("axis", -1) % rank, rank)]
    )


def _resize(node: Node) -> Node:
    mode, place = node.get("mode", "nearest"), node.get("coordinate_transformation_mode", "half_pixel")
    smooth = mode == "linear" and place in {"half_pixel", "pytorch_half_pixel"}
    return node.called("resize", mode="bilinear" if smooth else "nearest" if mode == "nearest" else None)


def _attention(node: Node) -> Node:
    names = {"query": "Q", "key": "K", "value": "V", "mask": "attn_mask"}
    if len(node.sizes("Q")) != 4:
        return node.called("packed attention")
    return node.called("attention", names, causal=bool(node.get("is_causal", 0)))


ADAPTERS: Mapping[str, Callable[[Node], Node]] = {
    **dict.fromkeys(("Conv", "ConvTranspose"), _conv),
    "Gemm": _gemm,
    "MatMul": _matmul,
    "BatchNormalization": partial(_norm, "batch_norm"),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization"), partial(_norm, "group_norm")),
    "LayerNormalization": partial(_norm, "layer_norm"),
    "RMSNormalization": partial(_norm, "rms_norm"),
    "MaxPool": partial(_pool, "max"),
    "AveragePool": partial(_pool, "average"),
    "GlobalAveragePool": lambda node: node.called("adaptive_pool", mode="average"),
    "GlobalMaxPool": lambda node: node.called("adaptive_pool", mode="max"),
    "Sum": lambda node: node.called("add"),
    "Clip": lambda node: node.called("relu6" if (node.get("min"), node.get("max")) == (0, 6) else "clip"),
    "Dropout": lambda node: node.called("dropout", probability=float(f"{node.get('ratio', 0.5):.6g}")),
    "Attention": _attention,
    "Gather": _gather,
    "Slice": _slice,
    "Split": _split,
    "Expand": lambda node: node.called("broadcast"),
    "Transpose": lambda node: node.called(
        "transpose", order=node.get("perm", [*range(len(node.made))][::-1])
    ),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
}
