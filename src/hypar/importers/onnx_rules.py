"""The table of ONNX: operators of the default domain, operands by the names of their schemas."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from hypar.importers.dim_rules import (
    attention,
    elementwise,
    embedding,
    loss,
    norm,
    part,
    product,
    repeated,
    softmax,
    transposed,
)
from hypar.importers.positions import tokens
from hypar.importers.rules import (
    averaged,
    channels,
    convolved,
    either,
    fixed,
    group_norm,
    joined,
    matrix_letters,
    passed,
    pointwise,
    pool_of,
    pooled,
    prelu,
    reshaped,
    resized,
    row,
    short,
)
from hypar.importers.trace import DIMS

if TYPE_CHECKING:
    from hypar.importers.drafts import Held
    from hypar.importers.view import Rule, Said, Table, View


def _padding(view: View, kernel: list[int], dilation: list[int]) -> list[int] | None:
    """Return the padding at each end of each dim of a kernel; None where the two ends differ."""
    count = len(kernel)
    auto, stride = view.get("auto_pad", "NOTSET"), view.get("strides", [1] * count)
    if auto in {"NOTSET", "VALID"}:
        pads = view.get("pads", [0] * 2 * count) if auto == "NOTSET" else [0] * 2 * count
        return pads[:count] if pads[:count] == pads[count:] else None
    found = []
    for dim, size, step, gap in zip(DIMS[-count:], kernel, stride, dilation, strict=True):
        total = max(0, (view.made[dim] - 1) * step + gap * (size - 1) + 1 - view.read[dim])
        if total % 2:
            return None
        found.append(total // 2)
    return found


def _conv(op: str) -> Rule:
    def rule(view: View) -> Said | Held | None:
        weight = view.operand("W")
        if weight not in view.weights or bool(view.read) != bool(view.made):
            return None
        sizes, groups = view.sizes(weight), view.get("group", 1)
        ones = [1] * len(sizes[2:])
        dilation = view.get("dilations", ones)
        padding = _padding(view, [*sizes[2:]], dilation)
        if padding is None or (op == "conv_transpose" and view.get("output_shape")):
            return None
        return convolved(
            view,
            op,
            sizes[0] if op == "conv" else sizes[1] * groups,
            sizes[2:],
            stride=view.get("strides", ones),
            padding=padding,
            output_padding=view.get("output_padding", [0]),
            dilation=dilation,
            groups=groups,
            bias=view.operand("B") in view.weights,
        )

    return rule


def _pool(mode: str) -> Rule:
    def rule(view: View) -> Said | None:
        kernel = view.get("kernel_shape", [])
        ones = [1] * len(kernel)
        if (
            len(kernel) not in {1, 2, 3}
            or len(view.made) != max(3, 1 + len(kernel))
            or view.get("dilations", ones) != ones
        ):
            return None
        padding, up = _padding(view, kernel, ones), bool(view.get("ceil_mode", 0))
        if padding is None:
            return None
        stride = view.get("strides", ones)
        if len(kernel) == 1:
            return pooled(mode, row(kernel, 1), row(stride, 1), row(padding, 0), up=up)
        return pooled(mode, kernel, stride, padding, up=up)

    return rule


def _gemm(view: View) -> Said | Held | None:
    weight, bias, value = view.operand("B"), view.operand("C"), view.operand("A")
    if value is None or weight is None or view.get("alpha", 1) != 1 or view.get("beta", 1) != 1:
        return None
    turned = bool(view.get("transB", 0))
    if weight in view.weights and len(view.read) == 1 and not view.get("transA", 0):
        return [short("linear", out_features=view.sizes(weight)[1 - turned], bias=bias in view.weights)]
    left = [1, 0] if view.get("transA", 0) else [0, 1]
    return product(view, value, weight, (left, [2, 1] if turned else [1, 2], [0, 2]), bias or "")


def _matmul(view: View) -> Said | Held | None:
    left, right = view.operand("A"), view.operand("B")
    if left is None or right is None:
        return None
    if right in view.weights and len(view.read) == 1 and len(view.sizes(right)) == 2:
        return [short("linear", out_features=view.sizes(right)[-1], bias=False)]
    return product(view, left, right, matrix_letters(len(view.sizes(left)), len(view.sizes(right))))


def _gather(view: View) -> Held | None:
    """Say rows of a table by tokens, or one element of an axis."""
    data, axis, index = view.operand("data"), view.get("axis", 0), view.get("indices")
    if data in view.weights and axis == 0:
        return embedding(view, data, view.operand("indices"))
    if data in view.held and isinstance(index, int):
        own = view.sizes(view.data[0])
        return part(view, axis % len(own), index % own[axis], 1, drop=True)
    return None


def _slice(view: View) -> Held | None:
    starts, axes, steps = (view.get(name) for name in ("starts", "axes", "steps"))
    if not starts or len(starts) != 1 or not axes or (steps or [1]) != [1]:
        return None
    own = view.sizes(view.data[0])
    axis = axes[0] % len(own)
    start = min(starts[0] + own[axis] * (starts[0] < 0), own[axis])
    return part(view, axis, start, view.sizes(view.node.result)[axis])


def _split(view: View) -> Held | None:
    own, index, sizes = view.sizes(view.data[0]), view.get("index", 0), view.get("split")
    axis = view.get("axis", 0) % len(own)
    size = view.sizes(view.node.result)[axis]
    first = sum(sizes[:index]) if sizes else index * -(-own[axis] // view.get("num_outputs", 1))
    return part(view, axis, first, size)


def _layer_norm(view: View) -> Held | None:
    rank, axis = len(view.sizes(view.data[0])), view.get("axis", -1)
    scale = {"scale": (view.operand("Scale") or view.operand("scale")) in view.weights}
    axes = [*range(axis % rank, rank)]
    if view.node.kind == "RMSNormalization":
        return norm(view, "rms_norm", axes, scale)
    return norm(view, "layer_norm", axes, {**scale, "shift": view.operand("B") in view.weights})


def _group_norm(view: View) -> Said | None:
    """Say groups of channels, or each channel by itself; older versions of the operator train two numbers a group, which no op says."""
    groups = view.get("num_groups", view.read.get("channels", 0))
    return group_norm(view, groups, scale=True, shift=True) if len(view.weights) == 2 else None


def _global(mode: str) -> Rule:
    def rule(view: View) -> Said | None:
        return [(pool_of(view.read), {"mode": mode, "window": "global"})] if len(view.read) > 1 else None

    return rule


def _mean(view: View) -> Said | None:
    return averaged(view, view.get("axes", ()))


def _clip(view: View) -> Said | None:
    bounds = view.get("min"), view.get("max")
    return [("pointwise", {"function": "relu6"})] if bounds == (0, 6) else None


def _dropout(view: View) -> Said | Held | None:
    ratio = float(f"{view.get('ratio', 0.5):.6g}")
    return fixed("dropout", probability=ratio)(view) if ratio else []


def _softmax(view: View) -> Said | Held | None:
    if view.read:
        return [("softmax", {})] if channels(view, view.get("axis", -1)) else None
    return softmax(view, view.get("axis", -1)) if len(view.data) == 1 else None


def _resize(view: View) -> Said | None:
    mode, place = view.get("mode", "nearest"), view.get("coordinate_transformation_mode", "half_pixel")
    if mode == "linear":
        return resized("bilinear", view) if place in {"half_pixel", "pytorch_half_pixel"} else None
    return resized("nearest", view) if mode == "nearest" else None


def _batch_norm(view: View) -> Said | None:
    return [("batch_norm", {})] if len(view.weights) >= 2 else None


TABLE: Table = {
    "Conv": _conv("conv"),
    "ConvTranspose": _conv("conv_transpose"),
    "Gemm": _gemm,
    "MatMul": _matmul,
    "BatchNormalization": _batch_norm,
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization"), _group_norm),
    "MaxPool": _pool("max"),
    "AveragePool": _pool("average"),
    "GlobalAveragePool": _global("average"),
    "GlobalMaxPool": _global("max"),
    "ReduceMean": _mean,
    "Relu": fixed("relu"),
    "PRelu": prelu,
    "Clip": _clip,
    "Elu": pointwise("elu"),
    "Gelu": fixed("gelu"),
    "HardSwish": pointwise("hardswish"),
    "LeakyRelu": pointwise("leaky_relu"),
    "LRN": pointwise("lrn"),
    "Sigmoid": pointwise("sigmoid"),
    "Swish": fixed("silu"),
    "Tanh": pointwise("tanh"),
    "Dropout": _dropout,
    "Softmax": _softmax,
    "SoftmaxCrossEntropyLoss": loss,
    "LogSoftmax": _softmax,
    **dict.fromkeys(("Add", "Sum"), either(joined("add"), elementwise("add"))),
    "Mul": elementwise("multiply"),
    "Div": elementwise("divide"),
    "Attention": attention("Q", "K", "V", "attn_mask"),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _layer_norm),
    "Gather": _gather,
    "Slice": _slice,
    "Split": _split,
    "Expand": repeated,
    "Transpose": lambda view: transposed(
        view, view.get("perm", [*range(len(view.sizes(view.node.result)))][::-1])
    ),
    "Concat": either(joined("concat", "axis"), tokens("axis")),
    "Resize": _resize,
    "Upsample": partial(resized, "nearest"),
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), reshaped),
    **dict.fromkeys(("Identity", "Cast"), passed),
}


def flop(kind: str, shapes: list[tuple[int, ...]], made: tuple[int, ...], attributes: dict[str, Any]) -> int:
    """Return the operations of a contraction, two for each product; 0 for any other operator."""
    ranks = [len(sizes) for sizes in shapes]
    if kind == "Conv" and len(shapes) > 1:
        return 2 * math.prod(made) * math.prod(shapes[1][1:])
    if kind == "ConvTranspose" and ranks[:2] == [4, 4]:
        return 2 * math.prod(shapes[0]) * math.prod(shapes[1][1:])
    if kind == "Gemm" and ranks[:1] == [2]:
        return 2 * math.prod(made) * shapes[0][0 if attributes.get("transA", 0) else 1]
    if kind == "Attention" and ranks[:3] == [4, 4, 4]:
        return 2 * math.prod(shapes[0][:3]) * shapes[1][2] * (shapes[0][3] + shapes[2][3])
    return 2 * math.prod(made) * shapes[0][-1] if kind == "MatMul" and ranks[0] else 0
