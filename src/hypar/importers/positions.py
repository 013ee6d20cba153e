"""Rules on the positions of a sequence: patches of an image, trained tokens before them, one of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.importers.drafts import Held
from hypar.importers.view import put

if TYPE_CHECKING:
    from hypar.importers.view import Rule, View

MOST_TOKENS = 64
"""Trained tokens that one concatenation may put before a sequence."""


def patches(view: View, held: Held) -> Held:
    """Return a view of an image as the positions of a sequence, where its convolution has one filter for each patch."""
    drafts, atoms = view.drafts, view.drafts.atoms
    draft = drafts.rows[held.number]
    axes = [atoms.leaves(axis) for axis in held.axes]
    named = [tuple(atoms.fixed.get(atom, "") for atom in axis) for axis in axes]
    if ("height", "width") not in named or draft.op != "conv" or draft.origin in drafts.undivided:
        return held
    if not _side_by_side(view, held.number):
        return held
    positions, made = (
        (atoms.new(atoms.size(axes[named.index(of)])),) for of in (("height", "width"), ("channels",))
    )
    fields = {key: value for key, value in draft.fields.items() if key in {"kernel", "bias"}}
    number = drafts.put(
        replace(
            draft, op="patch", fields=fields, dims=(*positions, *made), roles={"over": positions, "out": made},
            whole=draft.origin,
        )
    )  # fmt: skip
    instead = {("height", "width"): positions, ("channels",): made}
    return Held(number, tuple(instead.get(own, axis) for own, axis in zip(named, axes, strict=True)))


def _side_by_side(view: View, number: int) -> bool:
    """Return whether the windows of a convolution are patches that lie side by side and cover the image."""
    atoms, draft = view.drafts.atoms, view.drafts.rows[number]
    fields, kernel = draft.fields, draft.fields["kernel"]
    if (
        kernel != fields.get("stride")
        or kernel == 1
        or not {*fields} <= {"out_channels", "kernel", "stride", "bias"}
    ):
        return False
    read, made = ([*view.drafts.dims(one)][1:] for one in (draft.reads[0], number))
    sizes = kernel if isinstance(kernel, list) else [kernel, kernel]
    return [atoms.size((atom,)) for atom in read] == [
        atoms.size((atom,)) * size for atom, size in zip(made, sizes, strict=True)
    ]


def tokens(axis: str) -> Rule:
    """Return the rule of a concatenation of trained tokens and the positions behind them; ``axis`` is an argument."""

    def rule(view: View) -> Held | None:
        *first, last = view.node.read
        if last not in view.held or len(view.data) != 1 or [*view.weights] != first:
            return None
        held, place = view.held[last], view.get(axis, 0) % len(view.sizes(last))
        for value in reversed(first):
            found = _token(view, held, value, place)
            if found is None:
                return None
            held = found
        return held

    return rule


def _token(view: View, held: Held, value: str, axis: int) -> Held | None:
    """Say trained tokens before the positions of an axis."""
    drafts, atoms = view.drafts, view.drafts.atoms
    dims, over = drafts.dims(held.number), atoms.leaves(held.axes[axis])
    count, trained = view.sizes(value)[axis], view.identities[value]
    if len(over) != 1 or over[0] not in dims or over[0] in atoms.fixed or count > MOST_TOKENS:
        return None
    if view.trained(value) != count * atoms.size(dims) // atoms.size(over):
        return None
    for _ in range(count):
        longer = atoms.resized(over[0], atoms.size(over) + 1)
        dims = tuple(longer if atom == over[0] else atom for atom in dims)
        axes = (*held.axes[:axis], (longer,), *held.axes[axis + 1 :])
        held = put(view, "token", (held.number,), axes, dims=dims, roles={"over": over}, weights=trained)
        over = (longer,)
    return held


def one_of(view: View, axis: int, index: int, *, drop: bool) -> Held | None:
    """Say one of the positions of an axis, which is then left out or has one element."""
    held, atoms = view.held[view.data[0]], view.drafts.atoms
    dims, over = view.drafts.dims(held.number), atoms.leaves(held.axes[axis])
    if len(over) != 1 or over[0] not in dims or over[0] in atoms.fixed:
        return None
    left = atoms.resized(over[0], 1)
    kept = () if drop else ((),)
    return put(
        view, "select", (held.number,), (*held.axes[:axis], *kept, *held.axes[axis + 1 :]),
        dims=tuple(left if atom == over[0] else atom for atom in dims), roles={"over": over},
        fields={"index": index} if index else {},
    )  # fmt: skip


def scored_by(view: View, scores: Held, weight: str) -> Held | None:
    """Say the sum of an attention's scores and trained numbers, each their own or of a table whose rows have one for each head.

    The heads are the first axis of the scores with as many elements as a row: positions are behind them.
    """
    atoms, own = view.drafts.atoms, view.sizes(weight)
    axes = scores.axes[len(scores.axes) - len(own) :]
    alike = [at for at, axis in enumerate(axes) if own[at] == atoms.size(axis)]
    if view.trained(weight) == view.trace.elements(weight):
        places, fields = [at for at, size in enumerate(own) if size > 1], {}
    else:
        tables = [name for name, one in view.trace.parameters.items() if {one} == {*view.identities[weight]}]
        if not tables or len(view.sizes(tables[0])) != len(("rows", "heads")):
            return None
        rows, heads = view.sizes(tables[0])
        places, fields = [at for at in alike if own[at] == heads][:1], {"rows": rows}
    over = atoms.leaves(atom for at in places for atom in axes[at])
    if not over or not {*places} <= {*alike} or not {*over} <= {*view.drafts.dims(scores.number)}:
        return None
    return put(
        view, "position", (scores.number,), scores.axes, dims=view.drafts.dims(scores.number),
        roles={"over": over}, fields=fields, weights=view.identities[weight], flop=0,
    )  # fmt: skip
