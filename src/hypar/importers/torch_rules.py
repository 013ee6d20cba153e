"""The table of PyTorch: operations of ATen, without their overloads and the underscore of in-place forms."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hypar.importers.rules import (
    adaptive,
    averaged,
    channels,
    convolved,
    fixed,
    joined,
    pair,
    passed,
    pointwise,
    pooled,
    reshaped,
    resized,
    short,
)

if TYPE_CHECKING:
    from hypar.importers.rules import Rule, Said, Table, View


def _conv(view: View) -> Said | None:
    weight = view.operand("weight")
    if weight not in view.weights:
        return None
    sizes, transposed = (
        view.sizes(weight),
        view.node.kind == "conv_transpose2d" or view.get("transposed", False),
    )
    groups = view.get("groups", 1)
    padding = view.get("padding", 0)
    if isinstance(padding, str):
        extents = [
            dilation * (size - 1)
            for dilation, size in zip(pair(view.get("dilation", 1)), sizes[2:], strict=True)
        ]
        if padding == "same" and any(extent % 2 for extent in extents):
            return None
        padding = [extent // 2 if padding == "same" else 0 for extent in extents]
    return convolved(
        view,
        "conv_transpose" if transposed else "conv",
        sizes[1] * groups if transposed else sizes[0],
        sizes[2:],
        stride=pair(view.get("stride", 1)),
        padding=pair(padding),
        output_padding=pair(view.get("output_padding", 0)),
        dilation=pair(view.get("dilation", 1)),
        groups=groups,
        bias=view.operand("bias") in view.weights,
    )


def _linear(view: View) -> Said | None:
    weight = view.operand("weight")
    if weight not in view.weights:
        return None
    return [short("linear", out_features=view.sizes(weight)[0], bias=view.operand("bias") in view.weights)]


def _matrix(view: View) -> Said | None:
    """Say ``addmm`` and ``mm`` with a trained right-hand side."""
    right = view.operand("mat2") or view.operand("other")
    if right not in view.weights or view.get("beta", 1) != 1 or view.get("alpha", 1) != 1:
        return None
    return [short("linear", out_features=view.sizes(right)[-1], bias=len(view.weights) == 2)]


def _pool(mode: str) -> Rule:
    def rule(view: View) -> Said | None:
        kernel = pair(view.get("kernel_size"))
        if pair(view.get("dilation", 1)) != [1, 1] or view.get("divisor_override") or not view.read:
            return None
        stride = pair(view.get("stride") or kernel)
        return pooled(
            mode, kernel, stride, pair(view.get("padding", 0)), up=bool(view.get("ceil_mode", False))
        )

    return rule


def _batch_norm(view: View) -> Said | None:
    trained = {"scale": "weight", "shift": "bias"}
    return [
        short("batch_norm", **{field: view.operand(name) in view.weights for field, name in trained.items()})
    ]


def _dropout(view: View) -> Said | None:
    probability = float(view.get("p", 0.5))
    return [short("dropout", probability=probability)] if probability else []


def _hardtanh(view: View) -> Said | None:
    bounds = float(view.get("min_val", -1)), float(view.get("max_val", 1))
    return [("pointwise", {"function": "relu6"})] if bounds == (0, 6) else None


def _softmax(view: View) -> Said | None:
    return [("softmax", {})] if view.read and channels(view, view.get("dim", 1)) else None


def _add(view: View) -> Said | None:
    return joined("add")(view) if view.get("alpha", 1) == 1 else None


def _bilinear(view: View) -> Said | None:
    return None if view.get("align_corners", False) else resized("bilinear", view)


def _mean(view: View) -> Said | None:
    return averaged(view, view.get("dim", ()))


_POINTWISE = ("elu", "gelu", "hardswish", "leaky_relu", "relu6", "sigmoid", "silu", "tanh")
_CONVOLUTIONS = ("conv2d", "convolution", "conv_transpose2d")
_VIEWS = ("flatten", "view", "reshape", "_unsafe_view", "squeeze", "unsqueeze")
_PASSED = (
    "contiguous",
    "clone",
    "alias",
    "detach",
    "_to_copy",
    "to",
    "lift_fresh_copy",
    "_assert_tensor_metadata",
)

TABLE: Table = {
    **dict.fromkeys(_CONVOLUTIONS, _conv),
    **dict.fromkeys(_VIEWS, reshaped),
    **dict.fromkeys(_PASSED, passed),
    **{name: pointwise(name) for name in _POINTWISE},
    "relu": fixed("relu"),
    "linear": _linear,
    "addmm": _matrix,
    "mm": _matrix,
    "matmul": _matrix,
    "batch_norm": _batch_norm,
    "max_pool2d": _pool("max"),
    "max_pool2d_with_indices": _pool("max"),
    "avg_pool2d": _pool("average"),
    "adaptive_avg_pool2d": partial(adaptive, "average"),
    "_adaptive_avg_pool2d": partial(adaptive, "average"),
    "adaptive_max_pool2d": partial(adaptive, "max"),
    "mean": _mean,
    "dropout": _dropout,
    "feature_dropout": _dropout,
    "hardtanh": _hardtanh,
    "softmax": _softmax,
    "_softmax": _softmax,
    "log_softmax": _softmax,
    "add": _add,
    "cat": joined("concat", "dim"),
    "upsample_nearest2d": partial(resized, "nearest"),
    "upsample_bilinear2d": _bilinear,
}
