"""Rules: what an operation of a framework is called in a model file, with its fields.

A table of a framework has one rule for each name of an operation. A rule looks at the operation and returns the layers that
say it, one behind the other, or None where no layer can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.importers.dim_rules import same, shared, viewed
from hypar.importers.trace import DIMS, ROW
from hypar.importers.view import put
from hypar.registry import load_plugin

if TYPE_CHECKING:
    from hypar.importers.atoms import Axis
    from hypar.importers.drafts import Held
    from hypar.importers.view import Entry, Rule, Said, View
    from hypar.ops.base import Shape


def either(*rules: Rule) -> Rule:
    """Return the rule that takes the first of several that says an operation."""

    def rule(view: View) -> Said | Held | None:
        return next((said for one in rules if (said := one(view)) is not None), None)

    return rule


def short(op: str, **fields: Any) -> Entry:
    """Return an entry without the fields that have their default; equal numbers of several dims are written as one."""
    kind = load_plugin("ops", op)
    defaults = {name: field.default for name, field in kind.model_fields.items()}
    found = {}
    for name, value in fields.items():
        if isinstance(value, list | tuple):
            sizes = tuple(int(size) for size in value)
            default = defaults[name] if isinstance(defaults[name], tuple) else ()
            # A field of one dim has its default as that of the dim in a pair.
            if not default or sizes not in {default, default[-1:]}:
                found[name] = sizes[0] if len({*sizes}) == 1 else list(sizes)
        elif value != defaults[name]:
            found[name] = value
    return op, found


def fixed(op: str, **fields: Any) -> Rule:
    """Return the rule of an op with fields that are always the same, on one tensor of unchanged shape."""

    def rule(view: View) -> Said | Held | None:
        if not view.read:
            return same(view, op, fields=short(op, **fields)[1])
        return [short(op, **fields)] if len(view.data) == 1 and view.read == view.made else None

    return rule


def pointwise(function: str) -> Rule:
    """Return the rule of a named function of each element."""
    return fixed("pointwise", function=function)


def passed(view: View) -> Said | None:
    """Return no layer: the result is the operand."""
    return [] if len(view.data) == 1 else None


def reshaped(view: View) -> Said | Held | None:
    """Say a view: nothing where the shape stays, ``flatten`` where an image becomes a vector."""
    if len(view.data) != 1 or not view.read:
        return viewed(view)
    if view.read == view.made:
        return []
    return [("flatten", {})] if len(view.read) > 1 and len(view.made) == 1 else viewed(view)


def joined(op: str, axis: str = "") -> Rule:
    """Return the rule of a join of tensors that all depend on the input."""

    def rule(view: View) -> Said | None:
        if (
            not view.images
            or len(view.data) < 2
            or len(set(view.data)) < len(view.data)
            or len(view.data) != len(view.node.read)
        ):
            return None
        return [(op, {})] if not axis or channels(view, view.get(axis, 0)) else None

    return rule


def matrix_letters(left: int, right: int) -> tuple[list[int], list[int], list[int]]:
    """Return the letters of a product of matrices with some axes before, of the ranks of its factors.

    Examples:
        >>> matrix_letters(3, 2)
        ([0, 1, 2], [2, 3], [0, 1, 3])
    """
    rank = max(left, right)
    before = [*range(rank - 2)]
    row, inner, column = rank - 2, rank - 1, rank
    return (
        [*before[rank - left :], row, inner],
        [*before[rank - right :], inner, column],
        [*before, row, column],
    )


def channels(view: View, axis: int) -> bool:
    """Return whether an axis of the first tensor is that of its channels."""
    rank = len(view.sizes(view.data[0]))
    return axis % rank == (view.trace.layout[1] if rank == 4 else 1)


def image_axes(view: View, axes: Any) -> bool:
    """Return whether axes of the first tensor are all of an image, of a row or of a volume but samples and channels."""
    rank = len(view.sizes(view.data[0]))
    over = {ROW: {2}, 4: {*view.trace.layout[2:]}, 5: {2, 3, 4}}
    return rank in over and {int(axis) % rank for axis in axes} == over[rank]


def averaged(view: View, axes: Any) -> Said | None:
    """Say a mean over the whole image, flattened where its axes are dropped."""
    if len(view.data) != 1 or not view.read or not image_axes(view, axes):
        return None
    mean: Entry = (pool_of(view.read), {"mode": "average", "window": "global"})
    return [mean] if len(view.made) == len(view.read) else [mean, ("flatten", {})]


def pool_of(shape: Shape) -> str:
    """Return the pool of an image or of a volume."""
    return "pool3d" if "depth" in shape else "pool"


def resized(mode: str, view: View) -> Said | None:
    """Say an interpolation to a multiple of the size."""
    old, new = view.read, view.made
    if len(old) != 3 or len(new) != 3 or any(new[dim] % old[dim] for dim in ("height", "width")):
        return None
    scale = [new[dim] // old[dim] for dim in ("height", "width")]
    return [short("upsample", mode=mode, scale=scale)] if len(view.data) == 1 else None


def adaptive(mode: str, view: View) -> Said | None:
    """Say a pool to a given size: nothing, a global window, or windows side by side."""
    old, new = view.read, view.made
    if len(old) < len(("channels", "height", "width")) or len(new) != len(old):
        return None
    if old == new:
        return []
    op, (_, *places) = pool_of(old), new
    if {new[dim] for dim in places} == {1}:
        return [(op, {"mode": mode, "window": "global"})]
    if any(old[dim] % new[dim] for dim in places):
        return None
    return [short(op, mode=mode, kernel=[old[dim] // new[dim] for dim in places])]


NEUTRAL = {"output_padding": 0, "groups": 1}
"""Fields that not all convolutions have, with the values that say nothing."""


def convolved(
    view: View, op: str, out_channels: int, kernel: Any, *, bias: bool, **fields: Any
) -> Said | Held | None:
    """Say a convolution; fields have a number for each dim of the kernel."""
    if not view.read and op == "conv" and len(kernel) == 1:
        return along(view, out_channels, bias=bias, kernel=kernel, **fields)
    if op == "conv":
        op = {1: "conv1d", 2: "conv", 3: "conv3d"}.get(len(kernel), "")
    if not view.read or not op or (op == "conv_transpose" and len(kernel) != 2):
        return None
    has = load_plugin("ops", op).model_fields
    given = {name: value for name, value in fields.items() if name in has}
    if any(any(size != NEUTRAL[name] for size in _all(fields[name])) for name in {*fields} - {*given}):
        return None
    return [short(op, out_channels=out_channels, kernel=list(kernel), **given, bias=bias)]


def along(view: View, made: int, *, groups: int, bias: bool, **fields: Any) -> Held | None:
    """Say a convolution along the last of three axes, that of the positions; the second one is that of the features.

    Args:
        view: the operation.
        made: its filters.
        groups: groups of features.
        bias: whether it has a bias.
        fields: the kernel and fields of one number each.
    """
    held, atoms = view.held[view.data[0]], view.drafts.atoms
    dims, over = view.drafts.dims(held.number), atoms.leaves(held.axes[-1])
    if len(view.data) > 1 or len(held.axes) != len(("batch", "features", "positions")):
        return None
    if len(over) != 1 or over[0] not in dims or over[0] in atoms.fixed:
        return None
    read, each = atoms.leaves(held.axes[1]), tuple[int, ...]()
    if groups > 1 and made == groups == atoms.size(read):
        each, read = read, each
    elif groups > 1:
        parts: Axis = tuple(atoms.new(size) for size in (groups, atoms.size(read) // groups))
        if not atoms.unite(read, parts):
            return None
        dims, (each, read) = view.drafts.dims(held.number), (atoms.leaves((part,)) for part in parts)
    if not {*each, *read} <= {*dims}:
        return None
    new = atoms.axis(made // groups)
    places = view.sizes(view.node.result)[-1]
    left = over[0] if atoms.size(over) == places else atoms.resized(over[0], places)
    roles = {
        "over": over,
        **({"contracted": read, "out": new} if read else {}),
        **({"each": each} if each else {}),
    }
    names = load_plugin("ops", "sequence_conv").model_fields
    said = {name: sizes_of(value, 1)[0] for name, value in fields.items() if name in names}
    weight, *rest = (view.identities[value] for value in view.weights)
    apart = bias and bool(each)
    found = put(
        view, "sequence_conv", (held.number,), (held.axes[0], (*each, *new), (left,)), roles=roles,
        dims=(*(left if atom == over[0] else atom for atom in dims if atom not in read), *new),
        weights=weight if apart else weight.union(*rest),
        fields={**short("sequence_conv", **said)[1], **({} if bias and not apart else {"bias": False})},
    )  # fmt: skip
    if not apart:
        return found
    return put(
        view, "position", (found.number,), found.axes, dims=view.drafts.dims(found.number),
        roles={"over": (*each, *new)}, weights=rest[0], flop=0,
    )  # fmt: skip


def _all(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def pooled(mode: str, kernel: Any, stride: Any, padding: Any, *, up: bool) -> Said | None:
    """Say a sliding pool; a stride that equals the kernel is left out."""
    fields = {} if tuple(stride) == tuple(kernel) else {"stride": list(stride)}
    if len(kernel) == len(DIMS[1:]):
        said = short("pool3d", mode=mode, kernel=list(kernel), **fields, padding=list(padding))
        return None if up else [said]
    return [
        short(
            "pool",
            mode=mode,
            kernel=list(kernel),
            **fields,
            padding=list(padding),
            rounding="up" if up else "down",
        )
    ]


def sizes_of(value: Any, dims: int) -> list[int]:
    """Return a number for each of some dims, of one number or as many."""
    items = _all(value)
    return [int(item) for item in (items * dims if len(items) == 1 else items)]


def pair(value: Any) -> list[int]:
    """Return two numbers, of one or two."""
    return sizes_of(value, 2)


def row(value: Any, beside: int) -> list[int]:
    """Return the pair of a number along a row, behind that across it."""
    (size,) = sizes_of(value, 1)
    return [beside, size]


def group_norm(view: View, groups: int, *, scale: bool, shift: bool) -> Said | None:
    """Say a normalisation of groups of channels."""
    return [short("group_norm", groups=groups, scale=scale, shift=shift)] if view.read else None


def prelu(view: View) -> Held | None:
    """Say a rectifier with trained slopes."""
    return shared(view, "prelu", alone=False) if len(view.data) == len(view.weights) == 1 else None
