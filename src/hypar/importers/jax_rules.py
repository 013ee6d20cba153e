"""The table of JAX: primitives of a jaxpr, operands by their position."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hypar.importers.dim_rules import elementwise, embedding, part, product, softmax, transposed
from hypar.importers.drafts import Held
from hypar.importers.positions import tokens
from hypar.importers.rules import (
    channels,
    convolved,
    either,
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
    from hypar.importers.atoms import Axis
    from hypar.importers.view import Rule, Said, Table, View


def _conv(view: View) -> Said | Held | None:
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


def _dot(view: View) -> Said | Held | None:
    left, right = view.operand("0"), view.operand("1")
    (mine, theirs), (before, beside) = view.get("dimension_numbers")
    if left is None or right is None:
        return None
    if right in view.weights and len(view.read) == 1 and len(view.sizes(right)) == 2 and tuple(mine) == (1,):
        return [short("linear", out_features=view.sizes(right)[1 - theirs[0]], bias=False)]
    letters = [*range(len(view.sizes(left)))]
    others = [len(letters) + axis for axis in range(len(view.sizes(right)))]
    for own, other in ((mine, theirs), (before, beside)):
        for one, two in zip(own, other, strict=True):
            others[two] = letters[one]
    free = [axis for axis in letters if axis not in {*mine, *before}]
    made = [*before, *free, *(letter for letter in others if letter not in letters)]
    return product(view, left, right, (letters, others, made))


def _gather(view: View) -> Held | None:
    """Say rows of a table by tokens, which stand in an axis of one element."""
    table, tokens = view.operand("0"), view.operand("1")
    if table not in view.weights or tokens not in view.held or len(view.sizes(table)) != 2:
        return None
    if tuple(view.get("slice_sizes")) != (1, view.sizes(table)[1]):
        return None
    return embedding(view, table, tokens, rank=len(view.sizes(view.node.result)) - 1)


def _broadcast(view: View) -> Held | None:
    if len(view.data) != 1:
        return None
    held, sizes = view.held[view.data[0]], view.sizes(view.node.result)
    axes: list[Axis] = [view.drafts.atoms.axis(size) for size in sizes]
    for axis, own in zip(view.get("broadcast_dimensions"), held.axes, strict=True):
        if view.drafts.atoms.size(own) == sizes[axis]:
            axes[axis] = own
    return Held(held.number, tuple(axes))


def _slice(view: View) -> Held | None:
    own, made = view.sizes(view.data[0]), view.sizes(view.node.result)
    cut = [axis for axis, size in enumerate(own) if made[axis] != size]
    if len(cut) != 1 or {*(view.get("strides") or (1,))} != {1}:
        return None
    return part(view, cut[0], view.get("start_indices")[cut[0]], made[cut[0]])


def _split(view: View) -> Held | None:
    axis, sizes, index = view.get("axis", 0), view.get("sizes"), view.get("index", 0)
    return part(view, axis, sum(sizes[:index]), sizes[index])


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


def _softmax(view: View) -> Said | Held | None:
    axis = view.get("axis", -1)
    if view.read:
        return [("softmax", {})] if channels(view, axis) else None
    return softmax(view, axis if isinstance(axis, int) else axis[0]) if len(view.data) == 1 else None


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
    "gelu": fixed("gelu"),
    "silu": fixed("silu"),
    "softmax": _softmax,
    **dict.fromkeys(("add", "add_any"), either(joined("add"), elementwise("add"))),
    "mul": elementwise("multiply"),
    "div": elementwise("divide"),
    "transpose": lambda view: transposed(view, view.get("permutation")),
    "broadcast_in_dim": _broadcast,
    "gather": _gather,
    "slice": _slice,
    "split": _split,
    "concatenate": either(joined("concat", "dimension"), tokens("dimension")),
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
