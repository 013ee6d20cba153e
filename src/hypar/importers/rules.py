"""The rules of operations that every framework has: on images, element by element, and on the axes of tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypar.importers.atoms import BATCH
from hypar.importers.layers import JOINED, TensorAxes
from hypar.importers.positions import beside, one_of, patches, scored_by, tokens
from hypar.importers.trace import DIMS, ROW
from hypar.registry import load_plugin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.importers.atoms import Axes, Axis
    from hypar.importers.layers import OpContext
    from hypar.network.ops.base import Shape

FUNCTIONS: Mapping[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in ("relu", "gelu", "silu")},
    **{
        name: ("pointwise", {"function": name})
        for name in ("elu", "hardswish", "leaky_relu", "lrn", "relu6", "sigmoid", "tanh")
    },
}
"""Functions of each element, with the layers that say them."""

OTHER = {"function": "other"}
"""Fields of a pointwise layer of any other function."""


def function(view: OpContext) -> TensorAxes | None:
    """Say a named function of each element."""
    op, fields = FUNCTIONS[view.node.op]
    return view.same(op, fields=fields)


def dropout(view: OpContext) -> TensorAxes | None:
    """Say a dropout, which is no layer where nothing is dropped."""
    probability = view.node.get("probability")
    return view.same("dropout", fields={"probability": probability}) if probability else view.only


def copied(view: OpContext) -> TensorAxes | None:
    """Return what is copied as it is: no layer."""
    return view.only if len(view.data) == 1 and view.sizes(view.data[0]) == view.sizes() else None


NEUTRAL = {"output_padding": 0, "groups": 1}
"""Fields that not all convolutions have, with the values that say nothing."""


def conv(view: OpContext) -> TensorAxes | None:
    """Say a convolution, whose arguments are a number for each dim of the kernel."""
    node, held = view.node, view.only
    kernel, transposed = node.get("kernel", []), node.get("transposed", False)
    if held is None or node.operand("weight") not in view.weights or node.get("padding") is None:
        return None
    names = ("kernel", "stride", "padding", "output_padding", "dilation", "groups")
    fields = {name: node.get(name, [0] if name == "output_padding" else None) for name in names}
    bias = node.operand("bias") in view.weights
    if not view.read and len(kernel) == 1 and not transposed:
        return along(view, held, bias=bias, **fields)
    ops = {2: "conv_transpose"} if transposed else {1: "conv1d", 2: "conv", 3: "conv3d"}
    op = ops.get(len(kernel), "")
    if not view.read or not op:
        return None
    for name in {*fields} - {*load_plugin("ops", op).model_fields}:
        value = fields.pop(name)
        if {*(value if isinstance(value, list) else [value])} != {NEUTRAL[name]}:
            return None
    return view.image(op, [held], {"out_channels": node.get("out"), **fields, "bias": bias}, view.made)


def along(view: OpContext, held: TensorAxes, *, groups: int, bias: bool, **fields: Any) -> TensorAxes | None:
    """Say a convolution along the last of three axes, that of the positions; the second one is that of the features."""
    atoms, made = view.atoms, view.node.get("out")
    over = view.positions(held, -1) if len(held.axes) == len(("batch", "features", "positions")) else None
    if over is None:
        return None
    read, each = atoms.leaves(held.axes[1]), tuple[int, ...]()
    if groups > 1 and made == groups == atoms.size(read):
        each, read = read, each
    elif groups > 1:
        parts: Axis = tuple(atoms.new(size) for size in (groups, atoms.size(read) // groups))
        if not atoms.unite(read, parts):
            return None
        each, read = (atoms.leaves((part,)) for part in parts)
    dims = view.dims(held)
    if not {*each, *read} <= {*dims}:
        return None
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


def pool(view: OpContext) -> TensorAxes | None:
    """Say a sliding pool; a stride that equals the kernel is left out."""
    node, held = view.node, view.only
    kernel, stride, padding = (node.get(name) for name in ("kernel", "stride", "padding"))
    if held is None or not view.read or padding is None or len(kernel) + 1 > max(len(view.read), ROW):
        return None
    if len(kernel) == 1:
        kernel, stride, padding = [1, *kernel], [1, *stride], [0, *padding]
    fields = {
        "mode": node.get("mode"),
        "kernel": kernel,
        **({} if stride == kernel else {"stride": stride}),
        "padding": padding,
    }
    if len(kernel) == len(DIMS[1:]):
        return None if node.get("up") else view.image("pool3d", [held], fields, view.made)
    return view.image("pool", [held], {**fields, "rounding": "up" if node.get("up") else "down"}, view.made)


def adaptive(view: OpContext) -> TensorAxes | None:
    """Say a pool to a given size: nothing, a global window, or windows side by side."""
    old, new, held = view.read, view.made, view.only
    if held is None or len(old) < ROW or len(new) != len(old) or old == new:
        return held if old and old == new else None
    _, *places = new
    if {new[dim] for dim in places} == {1}:
        return global_pool(view, view.node.get("mode"), new)
    if any(old[dim] % new[dim] for dim in places):
        return None
    kernel = [old[dim] // new[dim] for dim in places]
    return view.image(pool_of(old), [held], {"mode": view.node.get("mode"), "kernel": kernel}, new)


def global_pool(view: OpContext, mode: str, shape: Shape) -> TensorAxes | None:
    """Say a pool over the whole image."""
    held = view.only
    fields = {"mode": mode, "window": "global"}
    return None if held is None else view.image(pool_of(view.read), [held], fields, shape)


def pool_of(shape: Shape) -> str:
    """Return the pool of an image or of a volume."""
    return "pool3d" if "depth" in shape else "pool"


def reduced(view: OpContext) -> TensorAxes | None:
    """Say a mean, a sum or a maximum over the whole image, flattened where its axes are dropped.

    A sum is a mean but for a number; a maximum of a tensor and a number is a rectifier.
    """
    names = ("dim", "axes", "axis")
    if view.node.op == "max" and not any(view.node.get(name) is not None for name in names):
        return view.same("relu")
    read = view.read
    if len(view.data) != 1 or len(read) < ROW or not image_axes(view, view.node.axes()):
        return None
    ones = {dim: 1 if dim != "channels" else size for dim, size in read.items()}
    found = global_pool(view, "max" if view.node.op == "max" else "average", ones)
    return found if found is None or len(view.made) == len(read) else flattened(view, found)


def image_axes(view: OpContext, axes: Sequence[int]) -> bool:
    """Return whether axes of the only tensor are all of an image, of a row or of a volume but samples and channels."""
    rank = len(view.sizes(view.data[0]))
    over = {ROW: {2}, 4: {*view.trace.layout[2:]}, 5: {2, 3, 4}}
    return rank in over and {axis % rank for axis in axes} == over[rank]


def flattened(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say an image as a vector."""
    return view.image("flatten", [held], {}, view.made, weights=frozenset(), flop=0)


def resized(view: OpContext) -> TensorAxes | None:
    """Say an interpolation to a multiple of the size."""
    old, new, held, mode = view.read, view.made, view.only, view.node.get("mode")
    dims = ("height", "width")
    if (
        held is None
        or mode is None
        or len(old) != ROW
        or len(new) != ROW
        or any(new[dim] % old[dim] for dim in dims)
    ):
        return None
    scale = [new[dim] // old[dim] for dim in dims]
    return view.image("upsample", [held], {"mode": mode, "scale": scale}, new)


def channels(view: OpContext, axis: int) -> bool:
    """Return whether an axis of the first tensor is that of its channels."""
    rank = len(view.sizes(view.data[0]))
    return axis % rank == (view.trace.layout[1] if rank == 4 else 1)


def norm(view: OpContext) -> TensorAxes | None:
    """Say a normalisation over some axes, over groups of channels, or over samples and places."""
    node, held = view.node, view.only
    kind, axes, groups = (node.get(name) for name in ("kind", "over", "groups"))
    if held is None or "other" in node.operands:
        return None
    trained = {"scale": node.operand("weight") in view.weights, "shift": node.operand("bias") in view.weights}
    if kind == "rms_norm":
        del trained["shift"]
    if groups is not None or kind == "batch_norm":
        if not view.read or (groups and not channels(view, node.get("axis", 1))):
            return None
        own = {"groups": groups or view.read["channels"]} if kind == "group_norm" else {}
        return view.image(kind, [held], {**own, **trained}, view.made)
    rank = len(held.axes)
    place = view.trace.layout[1] if rank > 2 else 1
    if kind == "layer_norm" and view.read and {axis % rank for axis in axes} == {*range(rank)} - {place}:
        return view.image("batch_norm", [held], trained, view.made)
    over = view.atoms.leaves(atom for axis in axes for atom in held.axes[axis])
    if not over or BATCH in over or not {*over} <= {*view.dims(held)}:
        return None
    return view.same(kind, roles={"over": over}, fields=trained)


def softmax(view: OpContext) -> TensorAxes | None:
    """Say a softmax over an axis."""
    held, axis = view.only, view.node.axes(-1)[0]
    if held is None or not -len(held.axes) <= axis < len(held.axes):
        return None
    return view.same("softmax", roles={"over": view.atoms.leaves(held.axes[axis])})


def prelu(view: OpContext) -> TensorAxes | None:
    """Say a rectifier with trained slopes: the one axis with as many elements is that of channels."""
    if len(view.data) != 1 or len(view.weights) != 1:
        return None
    slopes = view.trained(next(iter(view.weights)))
    own = tuple(slopes if axis == 1 else 1 for axis in range(len(view.sizes())))
    return beside(view, "prelu", own)


def elementwise(view: OpContext) -> TensorAxes | None:
    """Say a sum or a product of tensors, of a tensor and a trained one, or of one and constants."""
    node = view.node
    if node.get("alpha", 1) != 1:
        return None
    if len(view.data) > 1:
        both = None if view.weights else joined(view)
        return scaled(view) if both is None and node.op == "multiply" and not view.weights else both
    if view.sizes(view.data[0]) != view.sizes():
        return None
    if not view.weights:
        return with_constants(view)
    if len(view.weights) > 1 or node.op == "divide":
        return None
    return shifted(view) if node.op == "add" else beside(view, "layer_scale")


def with_constants(view: OpContext) -> TensorAxes | None:
    """Say a sum or a product of a tensor and constants; a product with a number is no layer."""
    others = [value for value in view.node.read if value != view.data[0]]
    if view.node.op != "add" and all(view.trace.elements(value) == 1 for value in others):
        return view.only
    return view.same("pointwise", fields=OTHER)


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
    if view.sizes(large) != made or len(sizes) != len(made) or one.number == two.number:
        return None
    for own, other, size in zip(one.axes, two.axes, sizes, strict=True):
        if size > 1 and not atoms.unite(own, other):
            return None
    dims = view.dims(one)
    names = {atoms.fixed.get(atom) for atom in dims}
    rest = {*view.dims(two)} - {*dims}
    if any(atoms.size((atom,)) > 1 or atoms.fixed.get(atom) not in names for atom in rest):
        return None
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
        return scored_by(view, held, weight) or view.same("pointwise", fields=OTHER, weights=frozenset())
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
    return [TensorAxes(number, view.as_image(dict(view.image_atoms(number)), 4)) for number in draft.reads]


def features(view: OpContext, axis: int) -> TensorAxes | None:
    """Say a concatenation of features, of which an attention may read each part."""
    parts, atoms = [view.held[value] for value in view.data], view.atoms
    if len(parts) < 2 or not view.trace.uses(view.node.result) <= {"attention", "dot"}:
        return None
    *rest, last = range(len(parts[0].axes))
    if axis % (last + 1) != last:
        return None
    dims: dict[int, None] = {}
    for part in parts:
        own = view.dims(part)
        if not all(atoms.unite(parts[0].axes[place], part.axes[place]) for place in rest):
            return None
        if not own or own[-1:] != atoms.leaves(part.axes[last]):
            return None
    for part in parts:
        dims |= dict.fromkeys(view.dims(part)[:-1])
    made = atoms.axis(view.sizes()[last])
    return view.put(JOINED, parts, (*parts[0].axes[:-1], made), (*dims, *made))


def reshaped(view: OpContext) -> TensorAxes | None:
    """Say a view of the same elements in order: no layer, but ``flatten`` where an image becomes a vector."""
    held = view.only
    if held is None:
        return None
    read, made = view.read, view.made
    if read and read == made:
        return TensorAxes(held.number, view.as_image(view.image_atoms(held.number), len(view.sizes())))
    if len(read) > 1 and len(made) == 1:
        return flattened(view, held)
    axes = view.atoms.regroup(held.axes, view.sizes())
    return None if axes is None else patches(view, TensorAxes(held.number, axes))


def transposed(view: OpContext) -> TensorAxes | None:
    """Say axes in another order: no layer."""
    held, rank = view.only, len(view.sizes())
    order = [axis % rank for axis in view.node.get("order")]
    return None if held is None else TensorAxes(held.number, tuple(held.axes[axis] for axis in order))


def repeated(view: OpContext) -> TensorAxes | None:
    """Say a tensor that is repeated along axes of one element: no layer, but atoms that its maker does not have.

    ``places`` are the axes of the result in which the tensor's own axes stand; the last ones if they are not said.
    """
    held, made = view.only, view.sizes()
    if held is None:
        return None
    places = view.node.get("places", range(len(made) - len(held.axes), len(made)))
    own: Mapping[int, Axis] = dict(zip(places, held.axes, strict=True))
    axes: Axes = tuple(
        own[place] if place in own and view.atoms.size(own[place]) == size else view.atoms.axis(size)
        for place, size in enumerate(made)
    )
    return TensorAxes(held.number, axes)


def sliced(view: OpContext) -> TensorAxes | None:
    """Say consecutive elements of an axis: a linear layer of its own where one makes them, or one of some positions."""
    held, node, atoms = view.only, view.node, view.atoms
    if held is None or node.get("axis") is None:
        return None
    axis, start, drop = node.get("axis"), node.get("start"), node.get("drop", False)
    size = 1 if drop else view.sizes()[axis]
    if size == atoms.size(held.axes[axis]):
        return TensorAxes(held.number, (*held.axes[:axis], *held.axes[axis + drop :]))
    draft = view.draft(held)
    outer, *inner = atoms.leaves(held.axes[axis]) or (-1,)
    whole = draft.node.result if draft.node else ""
    inner_size, made = atoms.size(inner), atoms.leaves(draft.roles.get("out", ()))
    if draft.op != "linear" or outer not in made or draft.tied is not None:
        return one_of(view, held, axis, start, drop=drop) if size == 1 else None
    if start % inner_size or size % inner_size or not view.trace.uses(whole) <= {"part", "slice"}:
        return None
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


def rope(view: OpContext) -> TensorAxes | None:
    """Say a rotation of features by their positions."""
    held, atoms = view.only, view.atoms
    if held is None or view.weights:
        return None
    over, dim = atoms.leaves(held.axes[view.node.get("positions")]), atoms.leaves(held.axes[-1])
    return view.same("rope", roles={"over": over, "dim": dim}) if len(over) == len(dim) == 1 else None
