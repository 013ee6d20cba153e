"""JAX's primitives in the vocabulary: those of a jaxpr, operands by their position."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.importers.trace import Node


def _conv(node: Node) -> Node:
    sizes, spec, ends = (
        node.sizes("1"),
        node.get("dimension_numbers").rhs_spec,
        node.get("padding", ()),
    )
    plain = {*node.get("lhs_dilation", (1,)), node.get("batch_group_count", 1)} == {1} and len(spec) == 4
    padding = [low for low, _ in ends] if plain and all(low == high for low, high in ends) else None
    return node.called(
        "conv", {"input": "0", "weight": "1"}, out=sizes[spec[0]], kernel=[sizes[axis] for axis in spec[2:]],
        stride=[*node.get("window_strides")], padding=padding, dilation=[*node.get("rhs_dilation")],
        groups=node.get("feature_group_count", 1),
    )  # fmt: skip


def _dot(node: Node) -> Node:
    (mine, theirs), (before, beside) = node.get("dimension_numbers")
    left = [*range(len(node.sizes("0")))]
    right = [len(left) + axis for axis in range(len(node.sizes("1")))]
    for own, other in ((mine, theirs), (before, beside)):
        for one, two in zip(own, other, strict=True):
            right[two] = left[one]
    free = [axis for axis in left if axis not in {*mine, *before}]
    made = (*before, *free, *(letter for letter in right if letter not in left))
    return node.called("dot", {"left": "0", "right": "1"}, left=(*left,), right=(*right,), made=made)


def _gather(node: Node) -> Node:
    """Say rows of a table by tokens, which stand in an axis of one element."""
    table = node.sizes("0")
    rows = len(table) == 2 and tuple(node.get("slice_sizes")) == (1, table[1])
    return node.called("lookup" if rows else "gather rows", {"table": "0", "tokens": "1"})


def _broadcast(node: Node) -> Node:
    return node.called("broadcast", places=node.get("broadcast_dimensions"))


def _slice(node: Node) -> Node:
    own, made = node.sizes(), node.made
    cut = [axis for axis, size in enumerate(own) if made[axis] != size]
    if len(cut) != 1 or {*(node.get("strides") or (1,))} != {1}:
        return node.called("slice")
    return node.called("slice", axis=cut[0], start=node.get("start_indices")[cut[0]])


def _split(node: Node) -> Node:
    return node.called(
        "slice", axis=node.get("axis", 0), start=sum(node.get("sizes")[: node.get("index", 0)])
    )


def _pool(mode: str, node: Node) -> Node:
    """Say a pool of images; ``layout`` is that of the network's convolutions."""
    window, stride, ends = (node.get(name) for name in ("window_dimensions", "window_strides", "padding"))
    batch, channels, *places = node.get("layout")
    plain = {*node.get("window_dilation", (1,)), *node.get("base_dilation", (1,))} == {1}
    plain &= (
        len(window) == 4 and window[batch] == window[channels] == 1 and all(low == high for low, high in ends)
    )
    padding = [ends[axis][0] for axis in places] if plain else None
    kernel, steps = ([sizes[axis] for axis in places] if plain else [] for sizes in (window, stride))
    return node.called("pool", mode=mode, kernel=kernel, stride=steps, padding=padding)


def _transpose(node: Node) -> Node:
    return node.called("transpose", order=node.get("permutation"))


ADAPTERS: Mapping[str, Any] = {
    "conv_general_dilated": _conv,
    "dot_general": _dot,
    "reduce_window_max": partial(_pool, "max"),
    "reduce_window_sum": partial(_pool, "average"),
    "transpose": _transpose,
    "broadcast_in_dim": _broadcast,
    "gather": _gather,
    "slice": _slice,
    "split": _split,
}
