"""The rules of operations that every framework has: on images, element by element, and on the axes of tensors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from hypar.importers import atoms
from hypar.importers.atoms import Atom, Axes, Axis
from hypar.importers.layers import OPAQUE, Reading, TensorAxes, refuse
from hypar.importers.sequences import beside, biased, patches, tokens
from hypar.importers.trace import Node, numbers
from hypar.ops.families.elementwise import FUNCTIONS


def function(view: Reading) -> TensorAxes:
    """Say an operation without trained tensors and contractions as a function of each element; a copy is no layer."""
    op, held, probability = view.node.op, view.only, view.node.get("probability")
    refuse(op.endswith("_pool") or view.weights or view.node.flop)
    if op == "copy" or (op == "dropout" and not probability):
        return held
    if op in {"dropout", "gelu", "relu", "silu"}:
        return view.put(op, held, fields={"probability": probability} if probability else {})
    return view.put("pointwise", held, fields={"function": op if op in FUNCTIONS else "other"})


def windows(node: Node, kernel: list[int], stride: int | list[int]) -> dict[str, list[int]]:
    """Return the fields of an operation on windows, with a number for each dim, and a stride unless another is given.

    The padding is given as one number, one for each dim, those of the first ends and then the last ones, or as the word for as
    much as the sizes of the result need; no layer has one that is not that of both ends of each dim.
    """
    dims, given = len(kernel), node.get("padding", 0)
    usual = {"stride": stride, "dilation": 1, "output_padding": 0}
    said = {name: numbers(node.get(name) or number, dims) for name, number in usual.items()}
    if not any(said["output_padding"]):
        del said["output_padding"]
    if isinstance(given, str) and given != "valid":
        moves = zip(node.sizes()[2:], node.made[2:], kernel, said["stride"], said["dilation"], strict=True)
        both = [max(0, (new - 1) * step + gap * (size - 1) + 1 - old) for old, new, size, step, gap in moves]
        given = [one // 2 for one in both] + [-(-one // 2) for one in both]
    ends = numbers(0 if given == "valid" else given, dims)
    further = (node.get(name, 1) for name in ("lhs_dilation", "base_dilation", "batch_group_count"))
    even = ends[dims:] in ([], ends[:dims]) and {one for own in further for one in numbers(own)} == {1}
    refuse(not even or node.get("output_shape") or node.get("divisor_override"))
    return {"kernel": kernel, **said, "padding": ends[:dims]}


def conv(view: Reading) -> TensorAxes:
    """Say a convolution, whose arguments are a number for each dim of the kernel."""
    node, kernel, transposed = view.node, view.node.get("kernel"), view.node.get("transposed")
    refuse(node.operand("weight") not in view.weights)
    refuse("dimension_numbers" in node.attributes and len(kernel) != len(("height", "width")))
    fields: dict[str, Any] = {**windows(node, kernel, 1), "groups": node.get("groups")}
    bias = node.operand("bias") in view.weights
    if not view.read and len(kernel) == 1 and not transposed:
        return along(view, view.only, bias=bias, **fields)
    op = "conv_transpose" if transposed else {1: "conv1d", 3: "conv3d"}.get(len(kernel), "conv")
    return view.put(op, view.only, fields={"out_channels": node.get("out"), **fields, "bias": bias})


def along(view: Reading, held: TensorAxes, *, bias: bool, groups: int = 1, **fields: Any) -> TensorAxes:
    """Say a convolution along the last of three axes, that of the positions; the second one is that of the features."""
    made = view.node.get("out")
    refuse(len(held.axes) != len(("batch", "features", "positions")))
    over, places = held.positions(-1), view.node.made[-1]
    each, read = atoms.regroup(held.axes[1:2], (groups, atoms.size(held.axes[1]) // groups)) or ((), ())
    refuse(not (each or read) or (not read and made > groups))
    new = atoms.axis(made // groups)
    left = over if over.size == places else over.of_size(places)
    roles = {"over": (over,), "contracted": read, "out": new if read else (), "each": each}
    said = {name: value[0] for name, value in fields.items()}
    weight, *rest = view.weights.values()
    apart = bias and bool(each)
    found = view.put(
        "sequence_conv", held, axes=(held.axes[0], (*each, *new), (left,)), roles=roles,
        weights=weight if apart else weight.union(*rest), fields={**said, "bias": bias and not apart},
    )  # fmt: skip
    return view.put("position", found, roles={"over": (*each, *new)}, weights=rest[0]) if apart else found


def pool(view: Reading) -> TensorAxes:
    """Say a sliding pool, whose sizes are those of the last axes; a stride that equals the kernel is left out."""
    node, names, places = view.node, view.names(view.only), [*view.read][1:]
    size = numbers(node.get("kernel"), len(node.made) - 2)
    said = windows(node, size, size)

    def along(name: str, plain: int) -> list[int]:
        of_axis = dict(zip(reversed(names), reversed(said[name]), strict=False))
        return [of_axis.get(place, plain) for place in places]

    kernel, stride = along("kernel", 1), along("stride", 1)
    refuse(not places or {*said["dilation"]} != {1} or math.prod(kernel) != math.prod(size))
    moves = {} if stride == kernel else {"stride": stride}
    further = {"rounding": "up"} if node.get("ceil_mode") else {}
    mode, padding = node.op.removesuffix("_pool"), along("padding", 0)
    return pooled(view, mode, kernel=kernel, **moves, padding=padding, **further)


def pooled(view: Reading, mode: str, **fields: Any) -> TensorAxes:
    """Say a pool of an image or of a volume."""
    return view.put("pool3d" if "depth" in view.read else "pool", view.only, fields={"mode": mode, **fields})


def reduced(view: Reading) -> TensorAxes:
    """Say a pool to a given size, or a mean, a sum or a maximum over an image: a global window, or windows side by side.

    It is no layer where the image has that size, and flattened where axes are dropped. A sum is a mean but for a number; a maximum
    of a tensor and a number is a rectifier.
    """
    node, held, old, names = view.node, view.only, view.read, view.names(view.only)
    if node.op == "max" and "axis" not in node.attributes:
        return view.put("relu", held)
    adaptive = node.op.startswith("adaptive")
    over = {*names} - {"batch", "channels"}
    refuse(not adaptive and (len(old) < 3 or {names[axis] for axis in node.axes()} != over))
    new = {**old, **dict(zip(names, node.made, strict=False))} if adaptive else dict.fromkeys(old, 1)
    places = [*old][1:]
    refuse(not old or any(old[dim] % new[dim] for dim in places))
    if adaptive and all(old[dim] == new[dim] for dim in places):
        return held
    alone = all(new[dim] == 1 for dim in places)
    size = {"window": "global"} if alone else {"kernel": [old[dim] // new[dim] for dim in places]}
    found = pooled(view, "max" if node.op.endswith("max") else "average", **size)
    return found if len(node.made) == len(names) else view.put("flatten", found)


def resized(view: Reading) -> TensorAxes:
    """Say an interpolation to a multiple of the size, bilinear between the middles of elements or nearest."""
    node, old, names = view.node, view.read, view.names(view.only)
    word, place = node.get("mode", node.kind), node.get("coordinate_transformation_mode", "half_pixel")
    smooth = place in {"half_pixel", "pytorch_half_pixel"} and not node.get("align_corners")
    refuse(word == "cubic" or ("linear" in word and not smooth) or len(old) != 3)
    new = {**old, **dict(zip(names, node.made, strict=True))}
    scale = [new[dim] // old[dim] for dim in ("height", "width")]
    mode = "bilinear" if "linear" in word else "nearest"
    return view.put("upsample", view.only, fields={"mode": mode, "scale": scale})


def norm(view: Reading) -> TensorAxes:
    """Say a normalisation over the last axes or those that are said, over groups of channels, or over samples and places."""
    node, held, names, kind = view.node, view.only, view.names(view.only), view.node.op
    fields = {"scale": "weight"} if kind == "rms_norm" else {"scale": "weight", "shift": "bias"}
    trained = {field: node.operand(name) in view.weights for field, name in fields.items()}
    refuse("other" in node.operands)
    if kind in {"batch_norm", "group_norm"}:
        groups = node.get("num_groups", 0)
        refuse(not names or (groups and names[node.get("axis", 1)] != "channels"))
        own = {"groups": groups or view.read["channels"]} if kind == "group_norm" else {}
        return view.put(kind, held, fields={**own, **trained})
    rank = len(held.axes)
    last = len(node.get("normalized_shape", ())) or rank - node.get("axis", -1) % rank
    axes = node.get("over", range(-last, 0))
    if kind == "layer_norm" and names and {names[axis] for axis in axes} == {*names} - {"channels"}:
        return view.put("batch_norm", held, fields=trained)
    over = atoms.leaves(atom for axis in axes for atom in held.axes[axis])
    return view.put(kind, held, roles={"over": over}, fields=trained)


def softmax(view: Reading) -> TensorAxes:
    """Say a softmax over the last axis, or a mean cross-entropy over the second one, unless another is said."""
    loss = view.node.op == "loss"
    held, (axis,) = view.held[view.data[0]], view.node.axes(1 if loss else -1)
    refuse(not -len(held.axes) <= axis < len(held.axes))
    op, roles = "cross_entropy" if loss else "softmax", {"over": atoms.leaves(held.axes[axis])}
    return view.put(op, held, axes=() if loss else None, roles=roles)


def prelu(view: Reading) -> TensorAxes:
    """Say a rectifier with trained slopes, of which there are as many as channels, or one."""
    slopes = sum(view.trace.trained[one] for one in view.trained)
    own = tuple(slopes if axis == 1 else 1 for axis in range(len(view.only.axes)))
    refuse(len(view.weights) != 1)
    return beside(view, "prelu", view.only, own)


def elementwise(view: Reading) -> TensorAxes:
    """Say a sum or a product of tensors, of a tensor and a trained one, or of one and constants.

    A product with a number is no layer.
    """
    op, several = view.node.op, len(view.data) > 1
    refuse(view.node.get("alpha", 1) != 1 or len(view.weights) > (not several))
    if several:
        return joined(view)
    refuse(view.trace.shapes[view.data[0]] != view.node.made or (view.weights and op == "divide"))
    if view.weights:
        return owned(view)
    others = [value for value in view.node.read if value != view.data[0]]
    number = op != "add" and all(view.trace.elements(value) == 1 for value in others)
    return view.only if number else view.put("pointwise", view.only, fields={"function": "other"})


def joined(view: Reading) -> TensorAxes:
    """Say an op of tensors of equal dims, or the product of a tensor with one that has one element along some axes."""
    large, *small = sorted(view.data, key=view.trace.elements, reverse=True)
    first, others = view.held[large], [view.held[value] for value in small]
    refuse(view.node.op == "divide" or len({held.layer for held in (first, *others)}) < len(view.node.read))
    for value, other in zip(small, others, strict=True):
        refuse(len(other.axes) != len(first.axes))
        for one, two, size in zip(first.axes, other.axes, view.trace.shapes[value], strict=True):
            refuse((size > 1 or view.node.op != "multiply") and not atoms.unite(one, two))
    alike = all({*first.layer.dims} == {*other.layer.dims} for other in others)
    refuse(not alike and view.node.op != "multiply")
    return view.put(view.node.op if alike else "scale", first, *others, axes=first.axes)


def owned(view: Reading) -> TensorAxes:
    """Say the sum or the product of a tensor and a trained one: the bias, the scale or the shift of the layer before, or positions."""
    held, (weight,), shapes = view.only, view.weights, view.trace.shapes
    draft, readers = held.layer, view.trace.readers
    field, own = ("bias", "out") if draft.op in {"linear", "conv", "patch"} else ("shift", "over")
    field = field if view.node.op == "add" else "scale"
    made = draft.roles.get(own, draft.dims[:1])
    free = draft.fields.get(field) is False and view.trace.elements(weight) == atoms.size(made)
    alone = len(readers[draft.node.result]) == len(readers[view.data[0]]) == 1
    if free and alone and {size for size in shapes[weight] if size > 1} <= {*shapes[view.data[0]]}:
        del draft.fields[field]
        draft.weights |= view.weights[weight]
        draft.node = view.node
        return held
    if view.node.op != "add":
        return beside(view, "layer_scale", held)
    return biased(view, held) if draft.op == "matmul" else beside(view, "position", held)


def concat(view: Reading) -> TensorAxes:
    """Say a concatenation of channels, of trained tokens and positions, or of features of an attention."""
    (axis,), parts = view.node.axes(0), [view.held[value] for value in view.data]
    if len(parts) == 1:
        return tokens(view, axis)
    refuse(not len({*view.data}) == len(view.data) == len(view.node.read))
    if not all(map(view.names, parts)) or view.names(parts[0])[axis] != "channels":
        return features(view, axis, *parts)
    every = list[TensorAxes]()
    for value, part in view.held.items():
        inner = part.layer.op == "concat" and len(view.trace.readers[value]) == 1  # read by nothing else
        reads = part.layer.reads if inner else ()
        own = [TensorAxes(read, view.image_axes(read.dims, view.names(part))) for read in reads]
        every += own or [part]
    return view.put("concat", *every)


def features(view: Reading, axis: int, first: TensorAxes, *others: TensorAxes) -> TensorAxes:
    """Say a concatenation of features, of which an attention may read each part; for any other it is opaque."""
    parts, (*rest, last) = (first, *others), range(len(first.axes))
    refuse(axis % (last + 1) != last or not view.trace.uses(view.node.result) <= {"attention", "dot"})
    for part in parts:
        united = all(atoms.unite(first.axes[place], part.axes[place]) for place in rest)
        refuse(not united or not part.layer.dims or part.layer.dims[-1:] != atoms.leaves(part.axes[last]))
    dims = dict.fromkeys(atom for part in parts for atom in part.layer.dims[:-1])
    made = atoms.axis(view.node.made[last])
    said = {"roles": {"shape": (*dims, *made)}, "fields": {"kind": view.node.kind}, "notes": {"parts": 1}}
    return view.put(OPAQUE, *parts, axes=(*first.axes[:-1], made), **said)


def reshaped(view: Reading) -> TensorAxes:
    """Say a view of the same elements in order: no layer, but ``flatten`` where an image becomes a vector."""
    held, sizes = view.only, view.node.made
    axes: Axes = ()
    if len(view.read) > 1 and len(sizes) == 2 and sizes[0] == view.trace.batch:
        return view.put("flatten", held)
    if view.read and len(sizes) != len(held.axes):  # a row with its height, or without
        axes = view.image_axes(held.layer.dims, view.trace.images.get(len(sizes), ()))
    if tuple(map(atoms.size, axes)) != sizes:
        axes = atoms.regroup(held.axes, sizes) or ()
    return patches(view, TensorAxes(held.layer, axes))


def transposed(view: Reading) -> TensorAxes:
    """Say axes in another order, the opposite one unless it is said: no layer."""
    order = view.node.get("order", range(len(view.only.axes))[::-1])
    return TensorAxes(view.only.layer, tuple(view.only.axes[axis] for axis in order))


def repeated(view: Reading) -> TensorAxes:
    """Say a tensor that is repeated along axes of one element: no layer, but atoms that its maker does not have.

    ``broadcast_dimensions`` are the axes of the result in which the tensor's own stand; the last ones if they are not said.
    """
    held, made = view.only, view.node.made
    places = view.node.get("broadcast_dimensions", range(len(made) - len(held.axes), len(made)))
    own = {at: axis for at, axis in zip(places, held.axes, strict=True) if atoms.size(axis) == made[at]}
    axes = (own[place] if place in own else atoms.axis(size) for place, size in enumerate(made))
    return TensorAxes(held.layer, tuple(axes))


def sliced(view: Reading) -> TensorAxes:
    """Say consecutive elements of an axis: a linear layer of its own where one makes them, or one of some positions.

    The first one is said, from the end if negative, or stands behind parts ``before``. One alone may have no axis.
    """
    node, held, sizes = view.node, view.only, view.node.sizes()
    axis, start, before = node.get("axis", 0) % len(sizes), node.get("start", 0), node.get("before", ())
    drop = len(node.made) < len(sizes)
    refuse(node.get("step", 1) != 1)
    start = min(start + sizes[axis] * (start < 0), sizes[axis])
    start = sum(one[axis] for one in before) if before and not drop else start
    size = 1 if drop else node.made[axis]
    if size == atoms.size(held.axes[axis]):
        return held.replaced(axis, *held.axes[axis : axis + (not drop)])
    draft = held.layer
    outer, *inner = atoms.leaves(held.axes[axis]) or (Atom(1),)
    inner_size, made = atoms.size(inner), atoms.leaves(draft.roles.get("out", ()))
    if draft.op != "linear" or outer not in made or draft.tied is not None:
        refuse(size > 1)
        one, over = held.replaced(axis, *([] if drop else [()])), held.positions(axis)
        return view.put("select", held, axes=one.axes, roles={"over": (over,)}, fields={"index": start})
    whole = draft.node.result
    refuse(start % inner_size or size % inner_size or not view.trace.uses(whole) <= {"part", "slice"})
    new = atoms.axis(size // inner_size)

    def swapped(dims: Axis) -> Axis:
        return tuple(atom for one in atoms.leaves(dims) for atom in (new if one is outer else (one,)))

    part = view.add(replace(draft, roles={**draft.roles, "out": swapped(made)}, notes={"one": 1}))
    found = TensorAxes(part, tuple(map(swapped, held.axes)))
    return found.replaced(axis) if drop else found


def rope(view: Reading) -> TensorAxes:
    """Say a rotation of features by their positions."""
    held = view.only
    over, dim = (atoms.leaves(held.axes[axis]) for axis in (view.node.get("positions"), -1))
    refuse(len(over) != 1 or len(dim) != 1 or view.weights)
    return view.put("rope", held, roles={"over": over, "dim": dim})
