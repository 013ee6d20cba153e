"""PyTorch's operations in the vocabulary: those of ATen, without their overloads and the underscore of in-place forms."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hypar.importers.trace import matrix_letters, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hypar.importers.trace import Node


def _conv(node: Node) -> Node:
    sizes, groups = node.sizes("weight"), node.get("groups", 1)
    transposed = node.kind.startswith("conv_transpose") or bool(node.get("transposed", False))
    kernel = [*sizes[2:]]
    stride, dilation, output_padding = (
        numbers(node.get(name, plain), len(kernel))
        for name, plain in (("stride", 1), ("dilation", 1), ("output_padding", 0))
    )
    padding = node.get("padding", 0)
    if isinstance(padding, str):
        extents = [
            gap * (size - 1) if padding == "same" else 0 for gap, size in zip(dilation, kernel, strict=True)
        ]
        padding = None if any(extent % 2 for extent in extents) else [extent // 2 for extent in extents]
    return node.called(
        "conv", kernel=kernel, out=sizes[1] * groups if transposed else sizes[0], groups=groups,
        transposed=transposed, stride=stride, dilation=dilation, output_padding=output_padding,
        padding=None if padding is None else numbers(padding, len(kernel)),
    )  # fmt: skip


def _linear(node: Node) -> Node:
    rank = len(node.made)
    names = {"left": "input", "right": "weight", "bias": "bias"}
    return node.called(
        "dot", names, left=(*range(rank),), right=(rank, rank - 1), made=(*range(rank - 1), rank)
    )


def _matrix(names: Mapping[str, str], node: Node) -> Node:
    """Say a product of matrices, whose factors and bias are called by some names."""
    letters = matrix_letters(len(node.sizes(names["left"])), len(node.sizes(names["right"])))
    scaled = node.get("beta", 1) != 1 or node.get("alpha", 1) != 1
    return node.called("dot", names, scaled=scaled, **letters)


def _einsum(node: Node) -> Node:
    equation = str(node.get("equation", "")).replace(" ", "")
    values = node.operands.get("tensors", ())
    sides, arrow, made = equation.partition("->")
    if not arrow or sides.count(",") != 1 or "." in equation or len(values) != 2:
        return node
    left, right = ((*map(ord, side),) for side in sides.split(","))
    factors = replace(node, operands={"left": values[:1], "right": values[1:]})
    return factors.called("dot", left=left, right=right, made=(*map(ord, made),))


def _tensordot(node: Node) -> Node:
    left = [*range(len(node.sizes("self")))]
    right = [len(left) + axis for axis in range(len(node.sizes("other")))]
    for one, two in zip(node.get("dims_self"), node.get("dims_other"), strict=True):
        right[two] = left[one]
    made = (*(one for one in left if one not in right), *(two for two in right if two not in left))
    names = {"left": "self", "right": "other"}
    return node.called("dot", names, left=(*left,), right=(*right,), made=made)


def _norm(kind: str, node: Node) -> Node:
    axes = [-1 - place for place in range(len(node.get("normalized_shape", (1,))))]
    groups = node.get("num_groups", 0) if kind == "group_norm" else None
    return node.called("norm", kind=kind, over=axes, groups=groups)


def _transpose(node: Node) -> Node:
    order = [*range(len(node.made))]
    one, other = (node.get("dim0"), node.get("dim1")) if node.kind == "transpose" else (-2, -1)
    order[one], order[other] = order[other], order[one]
    return node.called("transpose", order=order)


def _slice(node: Node) -> Node:
    own, plain = node.sizes(), node.get("step", 1) == 1
    axis, start = node.get("dim", 0) % len(own), node.get("start", 0)
    return node.called("slice", axis=axis if plain else None, start=start + own[axis] * (start < 0))


def _one(node: Node) -> Node:
    """Say one element of an axis; ``index`` is its place."""
    own = node.sizes()
    axis = node.get("dim", 0) % len(own)
    return node.called("part", axis=axis, start=node.get("index", 0) % own[axis], drop=True)


def _part(node: Node) -> Node:
    """Say one of the parts of a tensor; ``index`` is its number."""
    own, index = node.sizes(), node.get("index", 0)
    axis, op = node.get("dim", 0) % len(own), "slice" if node.kind == "split" else "part"
    sizes = next((node.get(key) for key in ("split_sizes", "split_size", "chunks") if node.get(key)), 1)
    if isinstance(sizes, list | tuple):
        return node.called(op, axis=axis, start=sum(sizes[:index]))
    step = -(-own[axis] // sizes) if "chunks" in node.attributes else sizes
    return node.called(op, axis=axis, start=index * step)


def _pool(mode: str, node: Node) -> Node:
    size, dims = node.get("kernel_size"), int(node.kind.partition("pool")[2][0])
    plain = {*numbers(node.get("dilation", 1), dims)} == {1} and not node.get("divisor_override")
    stride, padding = node.get("stride") or size, node.get("padding", 0)
    return node.called(
        "pool", mode=mode, kernel=numbers(size, dims), stride=numbers(stride, dims), up=bool(node.get("ceil_mode")),
        padding=numbers(padding, dims) if plain else None,
    )  # fmt: skip


def _hardtanh(node: Node) -> Node:
    bounds = float(node.get("min_val", -1)), float(node.get("max_val", 1))
    return node.called("relu6" if bounds == (0, 6) else "hardtanh")


def _attention(node: Node) -> Node:
    names = {"query": "query", "key": "key", "value": "value", "mask": "attn_mask"}
    return node.called("attention", names, causal=bool(node.get("is_causal", False)))


def _recurrence(node: Node) -> Node:
    """Say a recurrence, in which each position meets every matrix once."""
    batch, length, *_ = node.sizes()
    shapes = [node.shapes[value] for value in node.operands["params"]]
    return node.called(
        node.kind, flop=2 * batch * length * sum(one[0] * one[1] for one in shapes if len(one) == 2)
    )


MATRICES = {
    "addmm": {"left": "mat1", "right": "mat2", "bias": "self"},
    "baddbmm": {"left": "batch1", "right": "batch2", "bias": "self"},
    "mm": {"left": "self", "right": "mat2"},
    "bmm": {"left": "self", "right": "mat2"},
    "matmul": {"left": "self", "right": "other"},
    "mv": {"left": "self", "right": "vec"},
}
GROUPED = {
    "grouped_mm_fallback": {"input": "input", "weight": "weight"},
    "grouped_mm": {"input": "self", "weight": "mat2"},
    "_grouped_mm": {"input": "self", "weight": "mat2"},
}
"""Products with the matrices of all experts: their operands."""


def _each(*names: str) -> list[str]:
    """Return the names of operations of one, two and three dims."""
    return [name.format(dims) for name in names for dims in (1, 2, 3)]


ADAPTERS: Mapping[str, Callable[[Node], Node]] = {
    **dict.fromkeys((*_each("conv{}d", "conv_transpose{}d"), "convolution"), _conv),
    "linear": _linear,
    **{name: partial(_matrix, names) for name, names in MATRICES.items()},
    "einsum": _einsum,
    "tensordot": _tensordot,
    **{name: lambda node: node.called("grouped", GROUPED[node.kind]) for name in GROUPED},
    "scaled_dot_product_attention": _attention,
    **{name: partial(_norm, name) for name in ("layer_norm", "rms_norm", "batch_norm", "group_norm")},
    "instance_norm": partial(_norm, "group_norm"),
    "embedding": lambda node: node.called("lookup", {"table": "weight", "tokens": "indices"}),
    "permute": lambda node: node.called("transpose", order=node.get("dims")),
    **dict.fromkeys(("transpose", "mT", "t", "numpy_T"), _transpose),
    **dict.fromkeys(("expand", "expand_as"), lambda node: node.called("broadcast")),
    "slice": _slice,
    **dict.fromkeys(("select", "unbind"), _one),
    **dict.fromkeys(("split", "split_with_sizes", "chunk"), _part),
    **dict.fromkeys(_each("max_pool{}d", "max_pool{}d_with_indices"), partial(_pool, "max")),
    **dict.fromkeys(_each("avg_pool{}d"), partial(_pool, "average")),
    **dict.fromkeys(
        _each("adaptive_avg_pool{}d", "_adaptive_avg_pool{}d"),
        lambda node: node.called("adaptive_pool", mode="average"),
    ),
    **dict.fromkeys(_each("adaptive_max_pool{}d"), lambda node: node.called("adaptive_pool", mode="max")),
    **dict.fromkeys(
        ("dropout", "feature_dropout"),
        lambda node: node.called("dropout", probability=float(node.get("p", 0.5))),
    ),
    "hardtanh": _hardtanh,
    "type_as": lambda node: node.called("copy", {"input": "self"}),
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), _recurrence),
    "upsample_nearest2d": lambda node: node.called("resize", mode="nearest"),
    "upsample_bilinear2d": lambda node: node.called(
        "resize", mode=None if node.get("align_corners") else "bilinear"
    ),
}
