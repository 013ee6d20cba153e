"""The table of PyTorch: operations of ATen, without their overloads and the underscore of in-place forms."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hypar.importers.attending import features
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
from hypar.importers.experts import (
    GROUPED,
    batched,
    chosen,
    counted,
    gated,
    grouped,
    interleaved,
    looked_up,
    normalised,
    placed,
    summed,
    taken,
)
from hypar.importers.positions import tokens
from hypar.importers.rules import (
    adaptive,
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
    pooled,
    prelu,
    reshaped,
    resized,
    row,
    short,
    sizes_of,
)

if TYPE_CHECKING:
    from hypar.importers.drafts import Held
    from hypar.importers.view import Rule, Said, Table, View


def _conv(view: View) -> Said | Held | None:
    weight = view.operand("weight")
    if weight not in view.weights:
        return None
    sizes, transposed = (
        view.sizes(weight),
        view.node.kind == "conv_transpose2d" or view.get("transposed", False),
    )
    groups, dims = view.get("groups", 1), len(sizes) - 2
    padding = view.get("padding", 0)
    if isinstance(padding, str):
        extents = [
            dilation * (size - 1)
            for dilation, size in zip(sizes_of(view.get("dilation", 1), dims), sizes[2:], strict=True)
        ]
        if padding == "same" and any(extent % 2 for extent in extents):
            return None
        padding = [extent // 2 if padding == "same" else 0 for extent in extents]
    return convolved(
        view,
        "conv_transpose" if transposed else "conv",
        sizes[1] * groups if transposed else sizes[0],
        sizes[2:],
        stride=sizes_of(view.get("stride", 1), dims),
        padding=sizes_of(padding, dims),
        output_padding=sizes_of(view.get("output_padding", 0), dims),
        dilation=sizes_of(view.get("dilation", 1), dims),
        groups=groups,
        bias=view.operand("bias") in view.weights,
    )


def _linear(view: View) -> Said | Held | None:
    weight, bias, value = view.operand("weight"), view.operand("bias"), view.operand("input")
    if view.read and len(view.read) == 1 and weight in view.weights:
        return [short("linear", out_features=view.sizes(weight)[0], bias=bias in view.weights)]
    rank = len(view.sizes(view.node.result))
    roles = [*range(rank)], [rank, rank - 1], [*range(rank - 1), rank]
    return product(view, value, weight, roles, bias or "")


def _matrix(view: View) -> Said | Held | None:
    """Say ``addmm``, ``mm``, ``bmm`` and ``matmul``."""
    left = view.operand("mat1") or view.operand("self") or view.operand("input")
    right, added = view.operand("mat2") or view.operand("other"), view.operand("self")
    bias = added if view.node.kind in {"addmm", "baddbmm"} and added else ""
    if view.node.kind == "addmm":
        left = view.operand("mat1")
    if view.get("beta", 1) != 1 or view.get("alpha", 1) != 1 or left is None or right is None:
        return None
    if right in view.weights and len(view.read) == 1 and len(view.sizes(right)) == 2:
        return [short("linear", out_features=view.sizes(right)[-1], bias=bool(bias))]
    return product(view, left, right, matrix_letters(len(view.sizes(left)), len(view.sizes(right))), bias)


def _einsum(view: View) -> Held | None:
    equation = str(view.get("equation", "")).replace(" ", "")
    values = view.node.operands.get("tensors", ())
    sides, arrow, made = equation.partition("->")
    if not arrow or sides.count(",") != 1 or "." in equation or len(values) != 2:
        return None
    left, right = ([*map(ord, side)] for side in sides.split(","))
    return product(view, *values, (left, right, [*map(ord, made)]))


def _layer_norm(view: View) -> Held | None:
    trained = {"scale": view.operand("weight"), "shift": view.operand("bias")}
    has = {field: operand in view.weights for field, operand in trained.items()}
    axes = [-1 - place for place in range(len(view.get("normalized_shape", (1,))))]
    if view.node.kind == "layer_norm":
        return norm(view, "layer_norm", axes, has)
    return norm(view, "rms_norm", axes, {"scale": has["scale"]})


def _permuted(view: View) -> Held | None:
    rank = len(view.sizes(view.node.result))
    order = [*range(rank)]
    if view.node.kind == "permute":
        order = [axis % rank for axis in view.get("dims")]
    else:
        pair_of = (
            (-2, -1) if view.node.kind in {"mT", "t", "numpy_T"} else (view.get("dim0"), view.get("dim1"))
        )
        one, other = (axis % rank for axis in pair_of)
        order[one], order[other] = order[other], order[one]
    return transposed(view, order)


def _slice(view: View) -> Held | None:
    own, axis = view.sizes(view.data[0]), view.get("dim", 0)
    axis %= len(own)
    start = view.get("start", 0)
    if view.get("step", 1) != 1:
        return None
    return part(view, axis, start + own[axis] * (start < 0), view.sizes(view.node.result)[axis])


def _select(view: View) -> Held | None:
    own, axis = view.sizes(view.data[0]), view.get("dim", 0)
    axis %= len(own)
    return part(view, axis, view.get("index", 0) % own[axis], 1, drop=True)


def _split(view: View) -> Held | None:
    """Say one of the parts of a tensor; ``index`` is its number."""
    own, axis, index = view.sizes(view.data[0]), view.get("dim", 0), view.get("index", 0)
    axis %= len(own)
    if view.node.kind == "unbind":
        return part(view, axis, index, 1, drop=True)
    sizes = next((view.get(key) for key in ("split_sizes", "split_size", "chunks") if view.get(key)), 1)
    size = view.sizes(view.node.result)[axis]
    if isinstance(sizes, list | tuple):
        return part(view, axis, sum(sizes[:index]), size)
    step = -(-own[axis] // sizes) if "chunks" in view.node.attributes else sizes
    return part(view, axis, index * step, size)


def _pool(mode: str) -> Rule:
    def rule(view: View) -> Said | None:
        dilation = view.get("dilation", 1)
        ones = {*dilation} if isinstance(dilation, list | tuple) else {dilation}
        if ones != {1} or view.get("divisor_override") or not view.read:
            return None
        size, padding = view.get("kernel_size"), view.get("padding", 0)
        stride = view.get("stride") or size
        up = bool(view.get("ceil_mode", False))
        if "pool1d" in view.node.kind:
            return pooled(mode, row(size, 1), row(stride, 1), row(padding, 0), up=up)
        dims = 3 if "pool3d" in view.node.kind else 2
        return pooled(mode, *(sizes_of(value, dims) for value in (size, stride, padding)), up=up)

    return rule


def _batch_norm(view: View) -> Said | None:
    trained = {"scale": "weight", "shift": "bias"}
    return [
        short("batch_norm", **{field: view.operand(name) in view.weights for field, name in trained.items()})
    ]


def _group_norm(view: View) -> Said | None:
    groups = view.get("num_groups", view.read.get("channels", 0))
    trained = (view.operand(name) in view.weights for name in ("weight", "bias"))
    return group_norm(view, groups, **dict(zip(("scale", "shift"), trained, strict=True)))


def _dropout(view: View) -> Said | Held | None:
    probability = float(view.get("p", 0.5))
    return fixed("dropout", probability=probability)(view) if probability else []


def _hardtanh(view: View) -> Said | None:
    bounds = float(view.get("min_val", -1)), float(view.get("max_val", 1))
    return [("pointwise", {"function": "relu6"})] if bounds == (0, 6) else None


def _softmax(view: View) -> Said | Held | None:
    if view.read:
        return [("softmax", {})] if channels(view, view.get("dim", 1)) else None
    return normalised(view, "") or softmax(view, view.get("dim", -1)) if len(view.data) == 1 else None


def _add(view: View) -> Said | Held | None:
    return either(joined("add"), elementwise("add"))(view) if view.get("alpha", 1) == 1 else None


def _bilinear(view: View) -> Said | None:
    return None if view.get("align_corners", False) else resized("bilinear", view)


def _mean(view: View) -> Said | None:
    return averaged(view, view.get("dim", ()))


_POINTWISE = ("elu", "hardswish", "leaky_relu", "relu6", "sigmoid", "tanh")
_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "convolution", "conv_transpose2d")
_VIEWS = ("flatten", "view", "reshape", "_unsafe_view", "squeeze", "unsqueeze", "unflatten")
_PASSED = (
    "contiguous",
    "clone",
    "alias",
    "detach",
    "_to_copy",
    "to",
    "lift_fresh_copy",
)

TABLE: Table = {
    **dict.fromkeys(_CONVOLUTIONS, _conv),
    **dict.fromkeys(_VIEWS, reshaped),
    **dict.fromkeys(_PASSED, passed),
    **{name: pointwise(name) for name in _POINTWISE},
    **{name: fixed(name) for name in ("relu", "gelu", "silu")},
    "linear": _linear,
    **dict.fromkeys(("addmm", "mm", "matmul"), _matrix),
    "bmm": either(batched, _matrix),
    **dict.fromkeys(GROUPED, grouped),
    "topk": chosen,
    "histc": counted,
    "index": looked_up,
    "index_put": placed,
    "repeat_interleave": interleaved,
    "sum": summed,
    "gather": taken,
    "einsum": _einsum,
    "scaled_dot_product_attention": attention("query", "key", "value", "attn_mask"),
    **dict.fromkeys(("layer_norm", "rms_norm"), _layer_norm),
    "embedding": lambda view: embedding(view, view.operand("weight"), view.operand("indices")),
    "cross_entropy_loss": loss,
    "mul": either(gated, elementwise("multiply")),
    "div": elementwise("divide"),
    **dict.fromkeys(("permute", "transpose", "mT", "t", "numpy_T"), _permuted),
    **dict.fromkeys(("expand", "expand_as"), repeated),
    "slice": _slice,
    "select": _select,
    **dict.fromkeys(("split", "split_with_sizes", "chunk", "unbind"), _split),
    "batch_norm": _batch_norm,
    **dict.fromkeys(("group_norm", "instance_norm"), _group_norm),
    **{f"max_pool{dims}d{more}": _pool("max") for dims in (1, 2, 3) for more in ("", "_with_indices")},
    **{f"avg_pool{dims}d": _pool("average") for dims in (1, 2, 3)},
    **{f"adaptive_avg_pool{dims}d": partial(adaptive, "average") for dims in (1, 2, 3)},
    **{f"_adaptive_avg_pool{dims}d": partial(adaptive, "average") for dims in (2, 3)},
    "prelu": prelu,
    **{f"adaptive_max_pool{dims}d": partial(adaptive, "max") for dims in (2, 3)},
    "mean": _mean,
    "dropout": _dropout,
    "feature_dropout": _dropout,
    "hardtanh": _hardtanh,
    "softmax": _softmax,
    "_softmax": _softmax,
    "log_softmax": _softmax,
    "add": _add,
    "cat": either(joined("concat", "dim"), tokens("dim"), features("dim")),
    "upsample_nearest2d": partial(resized, "nearest"),
    "upsample_bilinear2d": _bilinear,
}
