"""The rules of operations that every framework has: on images, element by element, and on the axes of tensors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypar.importers import atoms
from hypar.importers.atoms import Atom
from hypar.importers.layers import OPAQUE, Reading, TensorAxes, refuse
from hypar.importers.sequences import beside, biased, patches, tokens
from hypar.ops.families.elementwise import FUNCTIONS

if TYPE_CHECKING:
    from hypar.importers.atoms import Axes, Axis


def function(view: Reading) -> TensorAxes:
    """Say an operation without trained tensors and contractions as a function of each element."""
    refuse(view.node.op == "pool" or view.weights or view.node.flop)
    op, held = view.node.op, view.only
    if op in {"gelu", "relu", "silu"}:
        return view.put(op, held)
    return view.put("pointwise", held, fields={"function": op if op in FUNCTIONS else "other"})


def dropout(view: Reading) -> TensorAxes:
    """Say a dropout; a copy is no layer, as a dropout of nothing."""
    probability = view.node.get("probability")
    return view.put("dropout", view.only, fields={"probability": probability}) if probability else view.only


def conv(view: Reading) -> TensorAxes:
    """Say a convolution, whose arguments are a number for each dim of the kernel."""
    node, kernel, transposed = view.node, view.node.get("kernel", []), view.node.get("transposed", False)
    refuse(node.operand("weight") not in view.weights or node.get("padding") is None)
    names = ("kernel", "stride", "padding", "output_padding", "dilation", "groups")
    fields = {name: node.get(name) for name in names if name in node.attributes}
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
    refuse(not places or node.get("padding") is None)

    def along(name: str, plain: int) -> list[int]:
        of_axis = dict(zip(reversed(names), reversed(node.get(name)), strict=False))
        return [of_axis.get(place, plain) for place in places]

    kernel, stride = along("kernel", 1), along("stride", 1)
    refuse(math.prod(kernel) != math.prod(node.get("kernel")))
    moves = {} if stride == kernel else {"stride": stride}
    further = {"rounding": "up"} if node.get("ceil_mode") else {}
    return pooled(view, node.get("mode"), kernel=kernel, **moves, padding=along("padding", 0), **further)


def pooled(view: Reading, mode: str, **fields: Any) -> TensorAxes:
    """Say a pool of an image or of a volume."""
    return view.put("pool3d" if "depth" in view.read else "pool", view.only, fields={"mode": mode, **fields})


def adaptive(view: Reading) -> TensorAxes:
    """Say a pool to a given size, which is no layer where that is the size: a global window, or windows side by side."""
    old, new, mode = view.read, view.made, view.node.get("mode")
    refuse(not new)
    _, *places = new
    if {new[dim] for dim in places} == {1} and old != new:
        return pooled(view, mode, window="global")
    refuse(any(old[dim] % new[dim] for dim in places))
    kernel = [old[dim] // new[dim] for dim in places]
    return view.only if old == new else pooled(view, mode, kernel=kernel)


def reduced(view: Reading) -> TensorAxes:
    """Say a mean, a sum or a maximum over the whole image, flattened where its axes are dropped.

    A sum is a mean but for a number; a maximum of a tensor and a number is a rectifier.
    """
    node, read, names = view.node, view.read, view.names(view.only)
    if node.op == "max" and "axis" not in node.attributes:
        return view.put("relu", view.only)
    refuse(len(read) < 3 or {names[axis] for axis in node.axes()} != {*names} - {"batch", "channels"})
    found = pooled(view, "max" if node.op == "max" else "average", window="global")
    return found if len(view.node.made) == len(names) else view.put("flatten", found)


def resized(view: Reading) -> TensorAxes:
    """Say an interpolation to a multiple of the size."""
    old, new, mode, dims = view.read, view.made, view.node.get("mode"), ("height", "width")
    refuse(mode is None or not len(old) == len(new) == 3)
    scale = [new[dim] // old[dim] for dim in dims]
    return view.put("upsample", view.only, fields={"mode": mode, "scale": scale})


def norm(view: Reading) -> TensorAxes:
    """Say a normalisation over some axes, over groups of channels, or over samples and places."""
    node, held, names = view.node, view.only, view.names(view.only)
    kind, axes, groups = (node.get(name) for name in ("kind", "over", "groups"))
    fields = {"scale": "weight"} if kind == "rms_norm" else {"scale": "weight", "shift": "bias"}
    trained = {field: node.operand(name) in view.weights for field, name in fields.items()}
    refuse("other" in node.operands)
    if groups is not None or kind == "batch_norm":
        refuse(not names or (groups and names[node.get("axis", 1)] != "channels"))
        own = {"groups": groups or view.read["channels"]} if kind == "group_norm" else {}
        return view.put(kind, held, fields={**own, **trained})
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
        return shifted(view) if op == "add" else beside(view, "layer_scale", view.only)
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


def shifted(view: Reading) -> TensorAxes:
    """Say the sum of a tensor and a trained one: the bias of the layer before, or learned positions."""
    held, (weight,) = view.only, view.weights
    draft, elements = held.layer, view.trace.elements(weight)
    if draft.op in {"linear", "conv", "patch"} and draft.fields.get("bias") is False:
        made = draft.roles.get("out", draft.dims[:1])
        sizes = [size for size in view.trace.shapes[weight] if size > 1]
        if elements == atoms.size(made) and {*sizes} <= {*view.trace.shapes[view.data[0]]}:
            del draft.fields["bias"]
            draft.weights |= view.weights[weight]
            draft.node = view.node
            return held
    return biased(view, held) if draft.op == "matmul" else beside(view, "position", held)


def concat(view: Reading) -> TensorAxes:
    """Say a concatenation of channels, of trained tokens and positions, or of features of an attention."""
    (axis,), parts = view.node.axes(0), [view.held[value] for value in view.data]
    if len(parts) == 1:
        return tokens(view, axis)
    refuse(not len({*view.data}) == len(view.data) == len(view.node.read))
    if all(map(view.names, parts)) and view.names(parts[0])[axis] == "channels":
        return view.put("concat", *(part for value in view.data for part in inlined(view, value)))
    return features(view, axis, *parts)


def inlined(view: Reading, value: str) -> list[TensorAxes]:
    """Return the parts of a concatenation that nothing else reads, any other tensor alone."""
    held = view.held[value]
    draft = held.layer
    if draft.op != "concat" or len(view.trace.readers[value]) > 1:
        return [held]
    names = view.names(held)
    return [TensorAxes(read, view.image_axes(read.dims, names)) for read in draft.reads]


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
    """Say axes in another order: no layer."""
    return TensorAxes(view.only.layer, tuple(view.only.axes[axis] for axis in view.node.get("order")))


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
    """Say consecutive elements of an axis: a linear layer of its own where one makes them, or one of some positions."""
    held, axis, start = view.only, view.node.get("axis"), view.node.get("start")
    refuse(axis is None)
    drop = view.node.get("drop", False)
    size = 1 if drop else view.node.made[axis]
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

    roles = {**draft.roles, "out": swapped(made)}
    part = view.add(replace(draft, roles=roles, notes={"one": 1}))
    found = TensorAxes(part, tuple(map(swapped, held.axes)))
    return found.replaced(axis) if drop else found


def rope(view: Reading) -> TensorAxes:
    """Say a rotation of features by their positions."""
    held = view.only
    over, dim = (atoms.leaves(held.axes[axis]) for axis in (view.node.get("positions"), -1))
    refuse(len(over) != 1 or len(dim) != 1 or view.weights)
    return view.put("rope", held, roles={"over": over, "dim": dim})
