"""PyTorch's operations in the vocabulary: those of ATen, without their overloads and the underscore of in-place forms."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hypar.importers.trace import matrix_letters, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hypar.importers.trace import Node


def _conv(node: Node) -> Node:
    sizes = node.sizes("weight")
    transposed = node.kind.startswith("conv_transpose") or bool(node.get("transposed", False))
    groups, dims = node.get("groups", 1), len(sizes) - 2
    dilation, padding = numbers(node.get("dilation", 1), dims), node.get("padding", 0)
    if isinstance(padding, str):
        extents = [one * (size - 1) for one, size in zip(dilation, sizes[2:], strict=True)]
        uneven = padding == "same" and any(extent % 2 for extent in extents)
        padding = None if uneven else [extent // 2 if padding == "same" else 0 for extent in extents]
    return node.called(
        "conv", kernel=[*sizes[2:]], out=sizes[1] * groups if transposed else sizes[0], groups=groups,
        channels=sizes[0], transposed=transposed, stride=numbers(node.get("stride", 1), dims), dilation=dilation,
        padding=None if padding is None else numbers(padding, dims),
        output_padding=numbers(node.get("output_padding", 0), dims),
    )  # fmt: skip


def _linear(node: Node) -> Node:
    rank = len(node.made)
    names = {"left": "input", "right": "weight", "bias": "bias"}
    return node.called(
        "dot", names, left=(*range(rank),), right=(rank, rank - 1), made=(*range(rank - 1), rank)
    )


def _matrix(node: Node) -> Node:
    """Say ``addmm``, ``baddbmm``, ``mm``, ``bmm`` and ``matmul``."""
    adds = node.kind in {"addmm", "baddbmm"}
    batched = node.kind == "baddbmm"
    names = {"right": "other" if node.operand("other") else "mat2", "bias": "self" if adds else ""}
    left = next(name for name in ("batch1", "mat1", "self", "input") if node.operand(name))
    names |= {"left": left, **({"right": "batch2"} if batched else {})}
    letters = matrix_letters(*(len(node.sizes(names[side])) for side in ("left", "right")))
    scaled = node.get("beta", 1) != 1 or node.get("alpha", 1) != 1
    return node.called(
        "dot", {side: names[side] for side in ("left", "right", "bias")}, scaled=scaled, **letters
    )


def _einsum(node: Node) -> Node:
    equation = str(node.get("equation", "")).replace(" ", "")
    values = node.operands.get("tensors", ())
    sides, arrow, made = equation.partition("->")
    if not arrow or sides.count(",") != 1 or "." in equation or len(values) != 2:
        return node.called("einsum", **node.attributes)
    left, right = ((*map(ord, side),) for side in sides.split(","))
    found = node.called("dot", left=left, right=right, made=(*map(ord, made),))
    return found.with_operands({"left": values[:1], "right": values[1:]})


def _norm(kind: str, node: Node) -> Node:
    axes = [-1 - place for place in range(len(node.get("normalized_shape", (1,))))]
    groups = node.get("num_groups", 0) if kind == "group_norm" else None
    return node.called("norm", kind=kind, over=axes, groups=groups)


def _transpose(node: Node) -> Node:
    rank = len(node.made)
    order = [*range(rank)]
    if node.kind == "permute":
        order = node.get("dims")
    else:
        named = (node.get("dim0"), node.get("dim1")) if node.kind == "transpose" else (-2, -1)
        one, other = (axis % rank for axis in named)
        order[one], order[other] = other, one
    return node.called("transpose", order=order)


def _slice(node: Node) -> Node:
    own = node.sizes()
    axis = node.get("dim", 0) % len(own)
    drop = node.kind == "select"
    op = "part" if drop else "slice"
    start = node.get("index" if drop else "start", 0)
    whole = node.get("step", 1) == 1
    return node.called(op, axis=axis if whole else None, start=start + own[axis] * (start < 0), drop=drop)


def _part(node: Node) -> Node:
    """Say one of the parts of a tensor; ``index`` is its number."""
    own, index = node.sizes(), node.get("index", 0)
    axis = node.get("dim", 0) % len(own)
    op = "slice" if node.kind == "split" else "part"
    if node.kind == "unbind":
        return node.called(op, axis=axis, start=index, drop=True)
    sizes = next((node.get(key) for key in ("split_sizes", "split_size", "chunks") if node.get(key)), 1)
    if isinstance(sizes, list | tuple):
        return node.called(op, axis=axis, start=sum(sizes[:index]))
    step = -(-own[axis] // sizes) if "chunks" in node.attributes else sizes
    return node.called(op, axis=axis, start=index * step)


def _pool(mode: str, dims: int, node: Node) -> Node:
    size = node.get("kernel_size")
    plain = {*numbers(node.get("dilation", 1), dims)} == {1} and not node.get("divisor_override")
    stride, padding = node.get("stride") or size, node.get("padding", 0)
    return node.called(
        "pool", mode=mode, kernel=numbers(size, dims), stride=numbers(stride, dims), up=bool(node.get("ceil_mode")),
        padding=numbers(padding, dims) if plain else None,
    )  # fmt: skip


def _adaptive(mode: str, node: Node) -> Node:
    return node.called("adaptive_pool", mode=mode)


def _resize(mode: str, node: Node) -> Node:
    return node.called("resize", mode=None if node.get("align_corners", False) else mode)


def _dropout(node: Node) -> Node:
    return node.called("dropout", probability=float(node.get("p", 0.5)))


def _hardtanh(node: Node) -> Node:
    bounds = float(node.get("min_val", -1)), float(node.get("max_val", 1))
    return node.called("relu6" if bounds == (0, 6) else "hardtanh")


def _attention(node: Node) -> Node:
    names = {"query": "query", "key": "key", "value": "value", "mask": "attn_mask"}
    return node.called("attention", names, causal=bool(node.get("is_causal", False)))


def _recurrence(node: Node) -> Node:
    """Say a recurrence, in which each position meets every matrix once."""
    read = node.sizes()
    matrices = sum(
        node.shapes[value][0] * node.shapes[value][1]
        for value in node.operands["params"]
        if len(node.shapes[value]) == 2
    )
    return node.called(node.kind, flop=2 * read[0] * read[1] * matrices)


def renamed(op: str, **operands: str) -> Callable[[Node], Node]:
    """Return the adapter of an operation whose arguments are those of the vocabulary, its operands by their names here."""

    def adapter(node: Node) -> Node:
        return node.called(op, operands or None, **node.attributes)

    return adapter


GROUPED = {
    "grouped_mm_fallback": ("input", "weight"),
    "_grouped_mm": ("self", "mat2"),
    "grouped_mm": ("self", "mat2"),
}
"""Products with the matrices of all experts: their operands."""

ADAPTERS: Mapping[str, Any] = {
    **dict.fromkeys(
        ("conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d"), _conv
    ),
    "linear": _linear,
    **dict.fromkeys(("addmm", "baddbmm", "mm", "bmm", "matmul"), _matrix),
    "einsum": _einsum,
    **{
        name: renamed("grouped", input=read, weight=weight, offs="offs")
        for name, (read, weight) in GROUPED.items()
    },
    "scaled_dot_product_attention": _attention,
    **{name: partial(_norm, name) for name in ("layer_norm", "rms_norm", "batch_norm", "group_norm")},
    "instance_norm": partial(_norm, "group_norm"),
    "embedding": renamed("lookup", table="weight", tokens="indices"),
    **dict.fromkeys(("permute", "transpose", "mT", "t", "numpy_T"), _transpose),
    **dict.fromkeys(("expand", "expand_as"), renamed("broadcast")),
    **dict.fromkeys(("slice", "select"), _slice),
    **dict.fromkeys(("split", "split_with_sizes", "chunk", "unbind"), _part),
    **{
        f"max_pool{dims}d{more}": partial(_pool, "max", dims)
        for dims in (1, 2, 3)
        for more in ("", "_with_indices")
    },
    **{f"avg_pool{dims}d": partial(_pool, "average", dims) for dims in (1, 2, 3)},
    **{
        f"{start}_{short}_pool{dims}d": partial(_adaptive, mode)
        for short, mode in (("avg", "average"), ("max", "max"))
        for dims in (1, 2, 3)
        for start in ("adaptive", "_adaptive")
    },
    **dict.fromkeys(("dropout", "feature_dropout"), _dropout),
    "hardtanh": _hardtanh,
    **dict.fromkeys(("lstm", "gru"), _recurrence),
    "upsample_nearest2d": partial(_resize, "nearest"),
    "upsample_bilinear2d": partial(_resize, "bilinear"),
}
