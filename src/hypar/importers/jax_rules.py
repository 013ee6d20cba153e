"""The table of JAX: primitives of a jaxpr, operands by their position."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hypar.importers.rules import (
    channels,
    convolved,
    fixed,
    image_axes,
    joined,
    passed,
    pointwise,
    pooled,
    reshaped,
    short,
)

if TYPE_CHECKING:
    from hypar.importers.rules import Rule, Said, Table, View


def _conv(view: View) -> Said | None:
    weight, numbers = view.operand("1"), view.get("dimension_numbers")
    ends = view.get("padding", ())
    if weight not in view.weights or len(numbers.rhs_spec) != 4 or view.get("batch_group_count", 1) != 1:
        return None
    if any(low != high for low, high in ends) or any(size != 1 for size in view.get("lhs_dilation", ())):
        return None
    sizes = view.sizes(weight)
    return convolved(
        view,
        "conv",
        sizes[numbers.rhs_spec[0]],
        [sizes[axis] for axis in numbers.rhs_spec[2:]],
        stride=view.get("window_strides"),
        padding=[low for low, _ in ends],
        dilation=view.get("rhs_dilation"),
        groups=view.get("feature_group_count", 1),
        bias=view.operand("bias") in view.weights,
    )


def _dot(view: View) -> Said | None:
    weight = view.operand("1")
    (left, right), batched = view.get("dimension_numbers")
    if weight not in view.weights or any(batched) or len(view.sizes(weight)) != 2 or tuple(left) != (1,):
        return None
    out = view.sizes(weight)[1 - right[0]]
    return [short("linear", out_features=out, bias=view.operand("bias") in view.weights)]


def _pool(mode: str) -> Rule:
    def rule(view: View) -> Said | None:
        window, stride = view.get("window_dimensions"), view.get("window_strides")
        ends, layout = view.get("padding"), view.trace.layout
        if len(window) != 4 or {*view.get("window_dilation", (1,)), *view.get("base_dilation", (1,))} != {1}:
            return None
        if any(window[axis] != 1 for axis in layout[:2]) or any(low != high for low, high in ends):
            return None
        kernel, steps = ([sizes[axis] for axis in layout[2:]] for sizes in (window, stride))
        return pooled(mode, kernel, steps, [ends[axis][0] for axis in layout[2:]], up=False)

    return rule


def _reduced(mode: str) -> Rule:
    def rule(view: View) -> Said | None:
        if len(view.made) != 1 or not image_axes(view, view.get("axes", ())):
            return None
        return [("pool", {"mode": mode, "window": "global"}), ("flatten", {})]

    return rule


def _softmax(view: View) -> Said | None:
    return [("softmax", {})] if view.read and channels(view, view.get("axis", -1)) else None


TABLE: Table = {
    "conv_general_dilated": _conv,
    "dot_general": _dot,
    "reduce_window_max": _pool("max"),
    "reduce_window_sum": _pool("average"),
    "reduce_sum": _reduced("average"),
    "reduce_max": _reduced("max"),
    "relu": fixed("relu"),
    "relu6": pointwise("relu6"),
    "logistic": pointwise("sigmoid"),
    "sigmoid": pointwise("sigmoid"),
    "tanh": pointwise("tanh"),
    "gelu": pointwise("gelu"),
    "silu": pointwise("silu"),
    "softmax": _softmax,
    "add": joined("add"),
    "concatenate": joined("concat", "dimension"),
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), reshaped),
    **dict.fromkeys(
        ("copy", "convert_element_type", "stop_gradient", "sharding_constraint", "scaled"), passed
    ),
}


def flop(kind: str, shapes: list[tuple[int, ...]], made: tuple[int, ...], params: dict[str, Any]) -> int:
    """Return the operations of a contraction, two for each product; 0 for any other primitive."""
    if kind == "dot_general":
        contracted = [shapes[0][axis] for axis in params["dimension_numbers"][0][0]]
        return 2 * math.prod([*made, *contracted])
    if kind == "conv_general_dilated":
        out: int = shapes[1][params["dimension_numbers"].rhs_spec[0]]
        return 2 * math.prod(made) * math.prod(shapes[1]) // out
    return 0
