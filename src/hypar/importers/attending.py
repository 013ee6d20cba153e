"""Attention: two products with a softmax between, of queries and keys whose features may be joined of parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.importers.drafts import JOINED
from hypar.importers.masks import causal as hides
from hypar.importers.view import put

if TYPE_CHECKING:
    from hypar.importers.atoms import Axes, Axis
    from hypar.importers.drafts import Held
    from hypar.importers.view import Rule, View

SCORED = frozenset({"pointwise", "dropout"})
"""Ops between the two products of an attention, besides its softmax."""


def _scores(view: View, shares: Held) -> tuple[int, list[int]]:
    """Return the layer before a softmax and what stands beside it, and these."""
    rows = view.drafts.rows
    number, between = shares.number, []
    while rows[number].op in SCORED or rows[number].op == "softmax":
        between.append(number)
        number = rows[number].reads[0]
    return number, between


def is_softmax(view: View, held: Held) -> bool:
    """Return whether a tensor is a softmax, dropout and the like aside."""
    return any(view.drafts.rows[one].op == "softmax" for one in _scores(view, held)[1])


def attention_of(view: View, shares: Held, values: Held, keys: tuple[Axis, Axis]) -> Held | None:
    """Say an attention where a product's first factor is a softmax of another product over the same dims."""
    rows = view.drafts.rows
    number, between = _scores(view, shares)
    scores = rows[number]
    softmax = [rows[one] for one in between if rows[one].op == "softmax"]
    if scores.op != "matmul" or len(softmax) != 1:
        return None
    leaves = view.drafts.atoms.leaves
    aliased = {atom: own for own, atom in scores.pairs.get("names", ())}
    if leaves(softmax[0].roles["over"]) != keys[0] or tuple(aliased.get(atom) for atom in keys[0]) != keys[1]:
        return None
    hidden = any(node and hides(view.trace, node) for node in (rows[one].node for one in between))
    queries, second = scores.reads
    return attend(
        view, (queries, second, values.number), keys[1], causal=hidden, flop=view.node.flop + scores.flop
    )


def attend(
    view: View, reads: tuple[int, int, int], positions: Axis, *, causal: bool, flop: int, axes: Axes = ()
) -> Held | None:
    """Say an attention; None where queries, keys and values are not as the op has them."""
    parts = _parts(view, reads)
    if not parts:
        return None
    dims = view.drafts.dims
    (first, _), values = parts[0], dims(reads[2])
    if any(
        not {*positions} <= {*dims(number)} for number in (*(one for pair in parts for one in pair), reads[2])
    ):
        return None
    if {*dims(parts[0][1])[:-1]} != {*values[:-1]} or values[-1] in positions:
        return None
    for one, other in parts:
        queries, keys = dims(one), dims(other)
        if queries[-1] != keys[-1] or queries[-1] in positions or not {*keys[:-1]} <= {*queries[:-1]}:
            return None
        if {*queries[:-1]} != {*dims(first)[:-1]}:
            return None
    makers = [view.drafts.rows[number] for number in (*parts[0], reads[2])]
    if len({maker.scope for maker in makers}) == 1 and all(maker.op == "linear" for maker in makers):
        for maker, name in zip(makers, ("q", "k", "v"), strict=True):
            maker.scope = (*maker.scope, name)
    numbers = (*parts[0], reads[2], *(one for pair in parts[1:] for one in pair))
    return put(
        view, "attention", numbers, axes, dims=(*dims(first)[:-1], values[-1]), roles={"over": positions},
        weights=frozenset(), fields={"causal": True} if causal else {}, flop=flop,
    )  # fmt: skip


def _parts(view: View, reads: tuple[int, int, int]) -> list[tuple[int, int]]:
    """Return the queries and the keys of each part of their features, those with the dims of the values first.

    There are none where the parts of both are not of equal sizes.
    """
    rows, dims, atoms = view.drafts.rows, view.drafts.dims, view.drafts.atoms
    queries, keys = (rows[number].reads if rows[number].op == JOINED else (number,) for number in reads[:2])
    parts = list(zip(queries, keys, strict=False))
    if len(queries) != len(keys) or (
        len(parts) > 1 and not all(atoms.unite(dims(one)[-1:], dims(other)[-1:]) for one, other in parts)
    ):
        return []
    values = {*dims(reads[2])[:-1]}
    return sorted(parts, key=lambda part: {*dims(part[1])[:-1]} != values)


def features(axis: str) -> Rule:
    """Return the rule of a concatenation of features, of which an attention may read each part; ``axis`` is an argument."""

    def rule(view: View) -> Held | None:
        if len(view.data) < 2 or view.data != view.node.read or view.node.result in view.drafts.undivided:
            return None
        parts, atoms = [view.held[value] for value in view.data], view.drafts.atoms
        *rest, last = range(len(parts[0].axes))
        if view.get(axis, 0) % (last + 1) != last:
            return None
        dims: dict[int, None] = {}
        for part in parts:
            own = view.drafts.dims(part.number)
            if not all(atoms.unite(parts[0].axes[place], part.axes[place]) for place in rest):
                return None
            if not own or own[-1:] != atoms.leaves(part.axes[last]):
                return None
        for part in parts:
            dims |= dict.fromkeys(view.drafts.dims(part.number)[:-1])
        made = atoms.axis(view.sizes(view.node.result)[last])
        numbers = [part.number for part in parts]
        return put(view, JOINED, numbers, (*parts[0].axes[:-1], made), dims=(*dims, *made))

    return rule
