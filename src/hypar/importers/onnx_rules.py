"""The table of ONNX: operators of the default domain, operands by the names of their schemas."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from hypar.importers.rules import (
    averaged,
    channels,
    convolved,
    fixed,
    joined,
    passed,
    pointwise,
    pooled,
    reshaped,
    resized,
    short,
)

if TYPE_CHECKING:
    from hypar.importers.rules import Rule, Said, Table, View


def _padding(view: View, kernel: list[int], dilation: list[int]) -> list[int] | None:
    """Return the padding at each end of height and width; None where the two ends differ."""
    auto, stride = view.get("auto_pad", "NOTSET"), view.get("strides", [1, 1])
    if auto in {"NOTSET", "VALID"}:
        pads = view.get("pads", [0] * 4) if auto == "NOTSET" else [0] * 4
        return pads[:2] if pads[:2] == pads[2:] else None
    found = []
    for dim, size, step, gap in zip(("height", "width"), kernel, stride, dilation, strict=True):
        total = max(0, (view.made[dim] - 1) * step + gap * (size - 1) + 1 - view.read[dim])
        if total % 2:
            return None
        found.append(total // 2)
    return found


def _conv(op: str) -> Rule:
    def rule(view: View) -> Said | None:
        weight = view.operand("W")
        if weight not in view.weights or len(view.sizes(weight)) != 4 or len(view.read) != 3 or not view.made:
            return None
        sizes, groups = view.sizes(weight), view.get("group", 1)
        dilation = view.get("dilations", [1, 1])
        padding = _padding(view, [*sizes[2:]], dilation)
        if padding is None or (op == "conv_transpose" and view.get("output_shape")):
            return None
        return convolved(
            view,
            op,
            sizes[0] if op == "conv" else sizes[1] * groups,
            sizes[2:],
            stride=view.get("strides", [1, 1]),
            padding=padding,
            output_padding=view.get("output_padding", [0, 0]),
            dilation=dilation,
            groups=groups,
            bias=view.operand("B") in view.weights,
        )

    return rule


def _pool(mode: str) -> Rule:
    def rule(view: View) -> Said | None:
        kernel = view.get("kernel_shape", [])
        if len(kernel) != 2 or len(view.made) != 3 or view.get("dilations", [1, 1]) != [1, 1]:
            return None
        padding = _padding(view, kernel, [1, 1])
        if padding is None:
            return None
        return pooled(mode, kernel, view.get("strides", [1, 1]), padding, up=bool(view.get("ceil_mode", 0)))

    return rule


def _gemm(view: View) -> Said | None:
    weight = view.operand("B")
    if weight not in view.weights or view.get("transA", 0) or view.get("alpha", 1) != 1:
        return None
    out = view.sizes(weight)[0 if view.get("transB", 0) else 1]
    return [short("linear", out_features=out, bias=view.operand("C") in view.weights)]


def _matmul(view: View) -> Said | None:
    weight = view.operand("B")
    return (
        [short("linear", out_features=view.sizes(weight)[-1], bias=False)] if weight in view.weights else None
    )


def _global(mode: str) -> Rule:
    def rule(view: View) -> Said | None:
        return [("pool", {"mode": mode, "window": "global"})] if len(view.read) == 3 else None

    return rule


def _mean(view: View) -> Said | None:
    return averaged(view, view.get("axes", ()))


def _clip(view: View) -> Said | None:
    bounds = view.get("min"), view.get("max")
    return [("pointwise", {"function": "relu6"})] if bounds == (0, 6) else None


def _dropout(view: View) -> Said | None:
    ratio = float(view.get("ratio", 0.5))
    return [short("dropout", probability=ratio)] if ratio else []


def _softmax(view: View) -> Said | None:
    return [("softmax", {})] if view.read and channels(view, view.get("axis", -1)) else None


def _resize(view: View) -> Said | None:
    mode, place = view.get("mode", "nearest"), view.get("coordinate_transformation_mode", "half_pixel")
    if mode == "linear":
        return resized("bilinear", view) if place in {"half_pixel", "pytorch_half_pixel"} else None
    return resized("nearest", view) if mode == "nearest" else None


def _batch_norm(view: View) -> Said | None:
    return [("batch_norm", {})] if len(view.weights) >= 2 else None


def _add(view: View) -> Said | None:
    return joined("add")(view)


TABLE: Table = {
    "Conv": _conv("conv"),
    "ConvTranspose": _conv("conv_transpose"),
    "Gemm": _gemm,
    "MatMul": _matmul,
    "BatchNormalization": _batch_norm,
    "MaxPool": _pool("max"),
    "AveragePool": _pool("average"),
    "GlobalAveragePool": _global("average"),
    "GlobalMaxPool": _global("max"),
    "ReduceMean": _mean,
    "Relu": fixed("relu"),
    "Clip": _clip,
    "Elu": pointwise("elu"),
    "Gelu": pointwise("gelu"),
    "HardSwish": pointwise("hardswish"),
    "LeakyRelu": pointwise("leaky_relu"),
    "LRN": pointwise("lrn"),
    "Sigmoid": pointwise("sigmoid"),
    "Swish": pointwise("silu"),
    "Tanh": pointwise("tanh"),
    "Dropout": _dropout,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Add": _add,
    "Sum": _add,
    "Concat": joined("concat", "axis"),
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
    return 2 * math.prod(made) * shapes[0][-1] if kind == "MatMul" and ranks[0] else 0
