"""The rules of operations that every framework has: on images, element by element, and on the axes of tensors."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypar.importers.atoms import BATCH
from hypar.importers.layers import JOINED, TensorAxes, Unsaid, refuse
from hypar.importers.sequences import beside, one_of, patches, tokens
from hypar.registry import load_plugin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.importers.atoms import Axes, Axis
    from hypar.importers.layers import OpContext
    from hypar.ops.base import Shape

FUNCTIONS: Mapping[str, tuple[str, dict[str, str]]] = {
    **{name: (name, {}) for name in ("relu", "gelu", "silu")},
    **{
        name: ("pointwise", {"function": name})
        for name in ("elu", "hardswish", "leaky_relu", "lrn", "relu6", "sigmoid", "tanh")
    },
}
"""Named functions of each element, with the layers that say them."""

OTHER = {"function": "other"}
"""Fields of a pointwise layer of any other function."""


def dropout(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say a dropout, which is no layer where nothing is dropped."""
    probability = view.node.get("probability")
    return view.same("dropout", fields={"probability": probability}) if probability else held


def copied(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Return what is copied as it is: no layer."""
    return held if view.sizes(view.data[0]) == view.sizes() else None


NEUTRAL = {"output_padding": 0, "groups": 1}
"""Fields that not all convolutions have, with the values that say nothing."""


def conv(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say a convolution, whose arguments are a number for each dim of the kernel."""
    node, kernel, transposed = view.node, view.node.get("kernel", []), view.node.get("transposed", False)
    refuse(node.operand("weight") not in view.weights or node.get("padding") is None)
    names = ("kernel", "stride", "padding", "output_padding", "dilation", "groups")
    fields = {name: node.get(name, [0] if name == "output_padding" else None) for name in names}
    bias = node.operand("bias") in view.weights
    if not view.read and len(kernel) == 1 and not transposed:
        return along(view, held, bias=bias, **fields)
    ops = {2: "conv_transpose"} if transposed else {1: "conv1d", 2: "conv", 3: "conv3d"}
    op = ops.get(len(kernel), "")
    refuse(not view.read or not op)
    for name in {*fields} - {*load_plugin("ops", op).model_fields}:
        value = fields.pop(name)
        refuse({*(value if isinstance(value, list) else [value])} != {NEUTRAL[name]})
    return view.image(op, [held], {"out_channels": node.get("out"), **fields, "bias": bias}, view.made)


def along(view: OpContext, held: TensorAxes, *, groups: int, bias: bool, **fields: Any) -> TensorAxes | None:
    """Say a convolution along the last of three axes, that of the positions; the second one is that of the features."""
    atoms, made = view.atoms, view.node.get("out")
    refuse(len(held.axes) != len(("batch", "features", "positions")))
    over = view.positions(held, -1)
    read, each = atoms.leaves(held.axes[1]), tuple[int, ...]()
    if groups > 1 and made == groups == atoms.size(read):
        each, read = read, each
    elif groups > 1:
        parts: Axis = tuple(atoms.new(size) for size in (groups, atoms.size(read) // groups))
        refuse(not atoms.unite(read, parts))
        each, read = (atoms.leaves((part,)) for part in parts)
    dims = view.dims(held)
    refuse(not {*each, *read} <= {*dims})
    new, places = atoms.axis(made // groups), view.sizes()[-1]
    left = over if atoms.size((over,)) == places else atoms.resized(over, places)
    roles = {
        "over": (over,),
        **({"contracted": read, "out": new} if read else {}),
        **({"each": each} if each else {}),
    }
    names = load_plugin("ops", "sequence_conv").model_fields
    said = {name: value[0] for name, value in fields.items() if name in names}
    weight, *rest = view.weights.values()
    apart = bias and bool(each)
    found = view.put(
        "sequence_conv", [held], (held.axes[0], (*each, *new), (left,)), roles=roles,
        dims=(*(left if atom == over else atom for atom in dims if atom not in read), *new),
        weights=weight if apart else weight.union(*rest), fields={**said, "bias": bias and not apart},
    )  # fmt: skip
    if not apart:
        return found
    roles = {"over": (*each, *new)}
    return view.put("position", [found], found.axes, view.dims(found), roles=roles, weights=rest[0], flop=0)


def pool(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say a sliding pool, whose sizes are those of the last axes; a stride that equals the kernel is left out."""
    node, up, (_, *places) = view.node, view.node.get("up", False), view.read or ("",)
    refuse(not places or node.get("padding") is None)

    def along(name: str, plain: int) -> list[int]:
        of_axis = dict(zip(reversed(view.names(held)), reversed(node.get(name)), strict=False))
        return [of_axis.get(place, plain) for place in places]

    kernel, stride = along("kernel", 1), along("stride", 1)
    refuse(math.prod(kernel) != math.prod(node.get("kernel")))
    moves = {} if stride == kernel else {"stride": stride}
    fields = {"mode": node.get("mode"), "kernel": kernel, **moves, "padding": along("padding", 0)}
    if "depth" in places:
        return None if up else view.image("pool3d", [held], fields, view.made)
    return view.image("pool", [held], {**fields, "rounding": "up" if up else "down"}, view.made)


def adaptive(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say a pool to a given size, which is no layer where that is the size."""
    old, new = view.read, view.made
    if len(old) < 3 or old == new:
        return held if old else None
    return pooled_to(view, held, view.node.get("mode"), new) if new else None


def pooled_to(view: OpContext, held: TensorAxes, mode: str, new: Shape) -> TensorAxes | None:
    """Say a pool to a given size: a global window, or windows side by side."""
    old, (_, *places) = view.read, new
    op = "pool3d" if "depth" in old else "pool"
    if {new[dim] for dim in places} == {1}:
        return view.image(op, [held], {"mode": mode, "window": "global"}, new)
    refuse(any(old[dim] % new[dim] for dim in places))
    return view.image(op, [held], {"mode": mode, "kernel": [old[dim] // new[dim] for dim in places]}, new)


def reduced(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say a mean, a sum or a maximum over the whole image, flattened where its axes are dropped.

    A sum is a mean but for a number; a maximum of a tensor and a number is a rectifier.
    """
    node, read = view.node, view.read
    if node.op == "max" and not {"dim", "axes", "axis"} & {*node.attributes}:
        return view.same("relu")
    names = view.names(held)
    refuse(len(read) < 3 or {names[axis] for axis in node.axes()} != {*names} - {"batch", "channels"})
    ones = {dim: 1 if dim != "channels" else size for dim, size in read.items()}
    found = pooled_to(view, held, "max" if node.op == "max" else "average", ones)
    return found if found is None or len(view.sizes()) == len(names) else flattened(view, found)


def flattened(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say an image as a vector."""
    return view.image("flatten", [held], {}, {"channels": view.sizes()[-1]}, weights=frozenset(), flop=0)


def resized(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say an interpolation to a multiple of the size."""
    old, new, mode, dims = view.read, view.made, view.node.get("mode"), ("height", "width")
    refuse(mode is None or not len(old) == len(new) == 3 or any(new[dim] % old[dim] for dim in dims))
    scale = [new[dim] // old[dim] for dim in dims]
    return view.image("upsample", [held], {"mode": mode, "scale": scale}, new)


def channels(view: OpContext, axis: int) -> bool:
    """Return whether an axis of the first tensor is that of its channels."""
    names = view.names(view.held[view.data[0]])
    return bool(names) and names[axis] == "channels"


TRAINED = {"scale": "weight", "shift": "bias"}
"""Fields of a normalisation, with the operands that are trained tensors where these are true."""


def norm(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say a normalisation over some axes, over groups of channels, or over samples and places."""
    node = view.node
    kind, axes, groups = (node.get(name) for name in ("kind", "over", "groups"))
    trained = {field: node.operand(name) in view.weights for field, name in TRAINED.items()}
    refuse("other" in node.operands)
    if kind == "rms_norm":
        del trained["shift"]
    if groups is not None or kind == "batch_norm":
        refuse(not view.read or (groups and not channels(view, node.get("axis", 1))))
        own = {"groups": groups or view.read["channels"]} if kind == "group_norm" else {}
        return view.image(kind, [held], {**own, **trained}, view.made)
    names = view.names(held)
    if kind == "layer_norm" and names and {names[axis] for axis in axes} == {*names} - {"channels"}:
        return view.image("batch_norm", [held], trained, view.made)
    over = view.atoms.leaves(atom for axis in axes for atom in held.axes[axis])
    refuse(not over or BATCH in over or not {*over} <= {*view.dims(held)})
    return view.same(kind, roles={"over": over}, fields=trained)


def softmax(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say a softmax over an axis."""
    (axis,) = view.node.axes(-1)
    refuse(not -len(held.axes) <= axis < len(held.axes))
    return view.same("softmax", roles={"over": view.atoms.leaves(held.axes[axis])})


def prelu(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say a rectifier with trained slopes, of which there are as many as channels, or one."""
    slopes = sum(map(view.trained, view.weights))
    own = tuple(slopes if axis == 1 else 1 for axis in range(len(held.axes)))
    return beside(view, "prelu", own) if len(view.weights) == 1 else None


def elementwise(view: OpContext) -> TensorAxes | None:
    """Say a sum or a product of tensors, of a tensor and a trained one, or of one and constants.

    A product with a number is no layer.
    """
    op, several = view.node.op, len(view.data) > 1
    plain = view.node.get("alpha", 1) == 1 and len(view.weights) <= (not several)
    if several and plain:
        return joined(view) or (scaled(view) if op == "multiply" else None)
    refuse(not plain or several or view.sizes(view.data[0]) != view.sizes())
    if view.weights:
        return shifted(view) if op == "add" else beside(view, "layer_scale") if op == "multiply" else None
    others = [value for value in view.node.read if value != view.data[0]]
    number = op != "add" and all(view.trace.elements(value) == 1 for value in others)
    return view.held[view.data[0]] if number else view.same("pointwise", fields=OTHER)


def joined(view: OpContext) -> TensorAxes | None:
    """Say an op of tensors of equal dims."""
    parts = [view.held[value] for value in view.data]
    sizes = {view.sizes(value) for value in (*view.data, view.node.result)}
    numbers = {held.number for held in parts}
    if view.node.op == "divide" or len(sizes) > 1 or len(numbers) < len(view.node.read):
        return None
    first = parts[0]
    for other in parts[1:]:
        if not all(view.atoms.unite(one, two) for one, two in zip(first.axes, other.axes, strict=True)):
            return None
    if any({*view.dims(first)} != {*view.dims(other)} for other in parts[1:]):
        return None
    return view.put(view.node.op, parts, first.axes, view.dims(first))


def scaled(view: OpContext) -> TensorAxes | None:
    """Say the product of a tensor with one that has one element along some axes."""
    made, atoms = view.sizes(), view.atoms
    large, small = sorted(view.data, key=view.trace.elements, reverse=True)
    one, two, sizes = view.held[large], view.held[small], view.sizes(small)
    refuse(view.sizes(large) != made or len(sizes) != len(made) or one.number == two.number)
    for own, other, size in zip(one.axes, two.axes, sizes, strict=True):
        refuse(size > 1 and not atoms.unite(own, other))
    dims = view.dims(one)
    names = {atoms.fixed.get(atom) for atom in dims}
    rest = {*view.dims(two)} - {*dims}
    refuse(any(atoms.size((atom,)) > 1 or atoms.fixed.get(atom) not in names for atom in rest))
    return view.put("scale", [one, two], one.axes, dims)


def shifted(view: OpContext) -> TensorAxes | None:
    """Say the sum of a tensor and a trained one: the bias of the layer before, or learned positions."""
    (value,), (weight,) = view.data, view.weights
    held = view.held[value]
    draft, elements = view.draft(held), view.trace.elements(weight)
    if draft.op in {"linear", "conv", "patch"} and draft.fields.get("bias") is False:
        made = draft.roles.get("out", draft.dims[:1])
        sizes = [size for size in view.sizes(weight) if size > 1]
        if elements == view.atoms.size(made) and {*sizes} <= {*view.sizes(value)}:
            del draft.fields["bias"]
            draft.weights |= view.weights[weight]
            draft.node = view.node
            return held
    if elements == view.atoms.size(view.dims(held)) == view.trained(weight):
        return view.same("position")
    if draft.op == "matmul":
        # Numbers of a bias of scores that are made in another way, as by a small network of distances, no op says.
        with suppress(Unsaid):
            return beside(view, "position")
        return view.same("pointwise", fields=OTHER, weights=frozenset())
    return beside(view, "position")


def concat(view: OpContext) -> TensorAxes | None:
    """Say a concatenation of channels, of trained tokens and positions, or of features of an attention."""
    (axis,), parts = view.node.axes(0), [view.held[value] for value in view.data]
    distinct = len({*view.data}) == len(view.data) == len(view.node.read)
    if len(parts) > 1 and distinct and channels(view, axis) and all(map(view.shape, parts)):
        own = [number for value in view.data for number in inlined(view, value)]
        return view.image("concat", own, {}, view.made)
    return tokens(view, axis) if len(parts) == 1 else features(view, axis) if distinct else None


def inlined(view: OpContext, value: str) -> list[TensorAxes]:
    """Return the parts of a concatenation that nothing else reads, any other tensor alone."""
    held = view.held[value]
    draft = view.draft(held)
    if draft.op != "concat" or len(view.trace.readers[value]) > 1:
        return [held]
    names, dims = view.names(held), view.layers.dims
    return [TensorAxes(number, view.image_axes(dims(number), names)) for number in draft.reads]


def features(view: OpContext, axis: int) -> TensorAxes | None:
    """Say a concatenation of features, of which an attention may read each part."""
    parts, atoms = [view.held[value] for value in view.data], view.atoms
    refuse(len(parts) < 2 or not view.trace.uses(view.node.result) <= {"attention", "dot"})
    *rest, last = range(len(parts[0].axes))
    refuse(axis % (last + 1) != last)
    for part in parts:
        united = all(atoms.unite(parts[0].axes[place], part.axes[place]) for place in rest)
        refuse(not united or not view.dims(part) or view.dims(part)[-1:] != atoms.leaves(part.axes[last]))
    dims = dict.fromkeys(atom for part in parts for atom in view.dims(part)[:-1])
    made = atoms.axis(view.sizes()[last])
    return view.put(JOINED, parts, (*parts[0].axes[:-1], made), (*dims, *made))


def reshaped(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say a view of the same elements in order: no layer, but ``flatten`` where an image becomes a vector."""
    if len(view.read) > 1 and len(view.sizes()) == 2 and view.sizes()[0] == view.trace.batch:
        return flattened(view, held)
    axes: Axes = ()
    if view.read and len(view.sizes()) != len(held.axes):  # a row with its height, or without
        axes = view.image_axes(view.dims(held), view.trace.images.get(len(view.sizes()), ()))
    if tuple(map(view.atoms.size, axes)) != view.sizes():
        axes = view.atoms.regroup(held.axes, view.sizes()) or ()
        refuse(not axes)
    return patches(view, TensorAxes(held.number, axes))


def transposed(view: OpContext, held: TensorAxes) -> TensorAxes:
    """Say axes in another order: no layer."""
    return TensorAxes(held.number, tuple(held.axes[axis] for axis in view.node.get("order")))


def repeated(view: OpContext, held: TensorAxes) -> TensorAxes:
    """Say a tensor that is repeated along axes of one element: no layer, but atoms that its maker does not have.

    ``places`` are the axes of the result in which the tensor's own axes stand; the last ones if they are not said.
    """
    made = view.sizes()
    places = view.node.get("places", range(len(made) - len(held.axes), len(made)))
    own: Mapping[int, Axis] = dict(zip(places, held.axes, strict=True))
    axes: Axes = tuple(
        own[place] if place in own and view.atoms.size(own[place]) == size else view.atoms.axis(size)
        for place, size in enumerate(made)
    )
    return TensorAxes(held.number, axes)


def sliced(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say consecutive elements of an axis: a linear layer of its own where one makes them, or one of some positions."""
    atoms, axis, start = view.atoms, view.node.get("axis"), view.node.get("start")
    refuse(axis is None)
    drop = view.node.get("drop", False)
    size = 1 if drop else view.sizes()[axis]
    if size == atoms.size(held.axes[axis]):
        return TensorAxes(held.number, (*held.axes[:axis], *held.axes[axis + drop :]))
    draft = view.draft(held)
    outer, *inner = atoms.leaves(held.axes[axis]) or (-1,)
    whole = draft.node.result if draft.node else ""
    inner_size, made = atoms.size(inner), atoms.leaves(draft.roles.get("out", ()))
    if draft.op != "linear" or outer not in made or draft.tied is not None:
        return one_of(view, held, axis, start, drop=drop) if size == 1 else None
    refuse(start % inner_size or size % inner_size or not view.trace.uses(whole) <= {"part", "slice"})
    new = atoms.axis(size // inner_size)

    def swapped(dims: Axis) -> Axis:
        return tuple(atom for one in atoms.leaves(dims) for atom in (new if one == outer else (one,)))

    flop = draft.flop * size // inner_size // atoms.size((outer,))
    roles = {**draft.roles, "out": swapped(made)}
    part = replace(
        draft, whole=whole, fields=dict(draft.fields), dims=swapped(draft.dims), flop=flop, roles=roles
    )
    axes = tuple(swapped(one) for one in held.axes)
    return TensorAxes(view.layers.put(part), (*axes[:axis], *axes[axis + drop :]))


def rope(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say a rotation of features by their positions."""
    over, dim = (view.atoms.leaves(held.axes[axis]) for axis in (view.node.get("positions"), -1))
    single = len(over) == len(dim) == 1 and not view.weights
    return view.same("rope", roles={"over": over, "dim": dim}) if single else None
