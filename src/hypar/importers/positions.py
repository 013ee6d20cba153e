"""Rules on the positions of a sequence: patches of an image, trained tokens before them, one of them, numbers added to them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypar.importers.layers import TensorAxes
from hypar.importers.trace import VIEWS

if TYPE_CHECKING:
    from hypar.importers.atoms import Axis
    from hypar.importers.layers import OpContext

MOST_TOKENS = 64
"""Trained tokens that one concatenation may put before a sequence."""


def patches(view: OpContext, held: TensorAxes) -> TensorAxes:
    """Return a view of an image as the positions of a sequence, where its convolution has one filter for each patch."""
    atoms, draft = view.atoms, view.draft(held)
    axes = [atoms.leaves(axis) for axis in held.axes]
    named = [tuple(atoms.fixed.get(atom, "") for atom in axis) for axis in axes]
    if ("height", "width") not in named or draft.op != "conv" or not _side_by_side(view, held.number):
        return held
    whole = draft.node.result if draft.node else ""
    if not {view.trace.nodes[number].op for number in view.trace.readers[whole]} <= VIEWS:
        return held
    positions, made = (
        (atoms.new(atoms.size(axes[named.index(of)])),) for of in (("height", "width"), ("channels",))
    )
    fields = {key: value for key, value in draft.fields.items() if key in {"kernel", "bias"}}
    roles: dict[str, Axis] = {"over": positions, "out": made}
    dims = (*positions, *made)
    number = view.layers.put(replace(draft, op="patch", fields=fields, dims=dims, roles=roles, whole=whole))
    instead = {("height", "width"): positions, ("channels",): made}
    return TensorAxes(number, tuple(instead.get(own, axis) for own, axis in zip(named, axes, strict=True)))


def _side_by_side(view: OpContext, number: int) -> bool:
    """Return whether the windows of a convolution are patches that lie side by side and cover the image."""
    atoms, draft = view.atoms, view.layers.rows[number]
    fields, kernel = draft.fields, draft.fields["kernel"]
    if kernel != fields.get("stride") or not {*fields} <= {"out_channels", "kernel", "stride", "bias"}:
        return False
    read, made = ([*view.layers.dims(one)][1:] for one in (draft.reads[0], number))
    sizes = kernel if isinstance(kernel, list) else [kernel, kernel]
    return [atoms.size((atom,)) for atom in read] == [
        atoms.size((atom,)) * size for atom, size in zip(made, sizes, strict=True)
    ]


def tokens(view: OpContext, axis: int) -> TensorAxes | None:
    """Say a concatenation of trained tokens and the positions behind them."""
    *first, last = view.node.read
    if last not in view.held or [*view.weights] != first:
        return None
    held: TensorAxes | None = view.held[last]
    for value in reversed(first):
        held = None if held is None else _token(view, held, value, axis % len(view.sizes(last)))
    return held


def _token(view: OpContext, held: TensorAxes, value: str, axis: int) -> TensorAxes | None:
    """Say trained tokens before the positions of an axis."""
    atoms, dims, over = view.atoms, view.dims(held), view.positions(held, axis)
    count, trained = view.sizes(value)[axis], view.weights[value]
    if over is None or count > MOST_TOKENS:
        return None
    if view.trained(value) != count * atoms.size(dims) // atoms.size((over,)):
        return None
    for _ in range(count):
        longer = atoms.resized(over, atoms.size((over,)) + 1)
        dims = tuple(longer if atom == over else atom for atom in dims)
        axes = (*held.axes[:axis], (longer,), *held.axes[axis + 1 :])
        held = view.put("token", [held], axes, dims, roles={"over": (over,)}, weights=trained)
        over = longer
    return held


def one_of(view: OpContext, held: TensorAxes, axis: int, index: int, *, drop: bool) -> TensorAxes | None:
    """Say one of the positions of an axis, which is then left out or has one element."""
    over = view.positions(held, axis)
    if over is None:
        return None
    left = view.atoms.resized(over, 1)
    axes = (*held.axes[:axis], *(() if drop else ((),)), *held.axes[axis + 1 :])
    dims = tuple(left if atom == over else atom for atom in view.dims(held))
    return view.put("select", [held], axes, dims, roles={"over": (over,)}, fields={"index": index})


def beside(view: OpContext, op: str, own: tuple[int, ...] = ()) -> TensorAxes | None:
    """Say an op of a tensor and of trained numbers that its elements share along some axes, or of rows of a table.

    Args:
        view: the operation.
        op: the op.
        own: shape of the trained numbers behind the tensor's axes, if not the last ones as they have them.
    """
    (value,), (weight,) = view.data, view.weights
    sizes, trained, said = view.sizes(value), view.sizes(weight), view.trained(weight)
    if not own and said != view.trace.elements(weight):
        # Rows of a table, whose width is the last axis: which one an element meets follows from its place along the others.
        table = op == "position" and trained[-1] > 1 and said % trained[-1] == 0
        fields = {"rows": said // trained[-1]}
        return _added(view, op, view.held[value], weight, [len(sizes) - 1], fields) if table else None
    own = own or (1,) * (len(sizes) - len(trained)) + trained
    places = [place for place, size in enumerate(own) if size > 1]
    if any(own[place] != sizes[place] for place in places) or (op == "layer_scale" and not places):
        return None
    return _added(view, op, view.held[value], weight, places)


def scored_by(view: OpContext, scores: TensorAxes, weight: str) -> TensorAxes | None:
    """Say the sum of an attention's scores and trained numbers, each their own or of a table whose rows have one for each head.

    The heads are the first axis of the scores with as many elements as a row: positions are behind them.
    """
    sizes = [view.atoms.size(axis) for axis in scores.axes]
    own = (1,) * (len(sizes) - len(view.sizes(weight))) + view.sizes(weight)
    alike = [place for place, size in enumerate(own) if size == sizes[place]]
    if view.trained(weight) == view.trace.elements(weight):
        places = [place for place, size in enumerate(own) if size > 1]
        fits = bool(places) and {*places} <= {*alike}
        return _added(view, "position", scores, weight, places, flop=0) if fits else None
    tables = [name for name, one in view.trace.parameters.items() if {one} == {*view.weights[weight]}]
    if not tables or len(view.sizes(tables[0])) != len(("rows", "heads")):
        return None
    rows, heads = view.sizes(tables[0])
    places = [place for place in alike if own[place] == heads][:1]
    return _added(view, "position", scores, weight, places, {"rows": rows}, flop=0) if places else None


def _added(
    view: OpContext, op: str, held: TensorAxes, weight: str, places: list[int], fields: dict[str, Any] | None = None,
    **said: Any,
) -> TensorAxes | None:  # fmt: skip
    """Say an op of a tensor and of trained numbers along some of its axes."""
    over = view.atoms.leaves(atom for place in places for atom in held.axes[place])
    if not {*over} <= {*view.dims(held)}:
        return None
    said = {"weights": view.weights[weight], "roles": {"over": over} if over else {}, **said}
    return view.put(op, [held], held.axes, view.dims(held), fields=fields or {}, **said)
