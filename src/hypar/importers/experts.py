"""Rules on mixtures of experts: scores, the positions that go to experts, the experts' matrices, and the sum of what they make.

A routed tensor has an axis of positions and choices: the atoms of the positions, and behind them the atom of the choices of one
position. Its layer has the dims of ``dispatch`` instead, experts and slots.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.importers.atoms import BATCH
from hypar.importers.drafts import Held
from hypar.importers.view import put
from hypar.ops.windows import Routing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.importers.atoms import Axis
    from hypar.importers.drafts import Draft
    from hypar.importers.view import View


GROUPED = {
    "grouped_mm_fallback": ("input", "weight"),
    "_grouped_mm": ("self", "mat2"),
    "grouped_mm": ("self", "mat2"),
}
"""Products with the matrices of all experts: their operands."""


def chosen(view: View) -> Held | None:
    """Say the largest scores of each position, as gates; a softmax or a sigmoid before is part of it.

    A constant that is added before the choice says which ones are large alone.
    """
    held, atoms, rows = view.held[view.data[0]], view.drafts.atoms, view.drafts.rows
    over, count = atoms.leaves(held.axes[-1]), view.get("k", 0)
    if len(over) != 1 or view.get("dim", -1) not in {-1, len(held.axes) - 1} or over[0] in atoms.fixed:
        return None
    number, routing = held.number, view.drafts.routing
    while _function(rows[number]) == "other" and (node := rows[number].node) and node.kind == "add":
        (number,) = rows[number].reads
    draft = rows[number]
    after = draft.op == "softmax" and atoms.leaves(draft.roles["over"]) == over
    sigmoid = _function(draft) == "sigmoid"
    scores = draft.reads[0] if after or sigmoid else number
    dims = view.drafts.dims(scores)
    if over[0] not in dims or len(dims) != 2:
        return None
    choices = atoms.new(count)
    groups, best = routing.limited.get(held.number, (1, 1))
    fields = {
        "count": count,
        **({"function": "sigmoid"} if sigmoid else {}),
        **({"groups": groups, "best": best} if best < groups else {}),
    }
    gates = put(
        view, "top_k", (scores,), (*held.axes[:-1], (choices,)), dims=dims, roles={"over": over}, fields=fields
    )  # fmt: skip
    routing.experts[choices] = over[0]
    routing.scores[gates.number] = number
    routing.chosen[choices] = gates.number
    return gates


def _function(draft: Draft) -> str:
    """Return the function of a layer that is pointwise; empty for any other."""
    return str(draft.fields["function"]) if draft.op == "pointwise" else ""


def of_best_groups(view: View) -> Held:
    """Say scores without those of groups that are not among the best: no layer."""
    held = view.held[view.data[0]]
    view.drafts.routing.limited[held.number] = view.get("groups"), view.get("best")
    return held


def taken(view: View) -> Held | None:
    """Say the scores that a choice took of those that it chose from: its gates."""
    values, index = (view.held.get(view.operand(name) or "") for name in ("self", "index"))
    choices = None if index is None else _choices(view, index)
    if values is None or index is None or choices is None or view.get("dim") % len(index.axes) != 1:
        return None
    gates = view.drafts.routing.chosen[choices]
    if len(index.axes) != 2 or view.drafts.routing.scores[gates] != values.number:
        return None
    return Held(gates, index.axes)


def normalised(view: View, op: str) -> Held | None:
    """Say gates that are shares of a softmax, divided by their sum, or the softmax of the largest scores, which is the same.

    Args:
        view: the operation.
        op: op before the choice, which is no part of it: ``softmax``, as which a sigmoid counts, or none.
    """
    held, routing = view.held.get(view.data[0]) if len(view.data) == 1 else None, view.drafts.routing
    if held is None or held.number not in routing.scores:
        return None
    before = view.drafts.rows[routing.scores[held.number]]
    if (before.op == "softmax" or _function(before) == "sigmoid") != (op == "softmax"):
        return None
    routing.normalised.add(held.number)
    return held


def counted(view: View) -> Held | None:
    """Say how many positions go to each expert: no layer."""
    held = view.held[view.data[0]]
    choices = _choices(view, held)
    return None if choices is None else Held(held.number, ((view.drafts.routing.experts[choices],),))


def placed(view: View) -> Held | None:
    """Say a permutation of routed positions that is written down in another order: no layer."""
    found = view.held.get(view.operand("indices") or "")
    return found if found is not None and _choices(view, found) is not None else None


def interleaved(view: View) -> Held | None:
    """Say a tensor whose positions are repeated one by one: no layer, but an atom that its maker does not have."""
    repeats, axis = view.get("repeats"), view.get("dim")
    if len(view.data) != 1 or not isinstance(repeats, int) or axis is None:
        return None
    held = view.held[view.data[0]]
    axis %= len(held.axes)
    longer = (*held.axes[axis], view.drafts.atoms.new(repeats))
    return Held(held.number, (*held.axes[:axis], longer, *held.axes[axis + 1 :]))


def looked_up(view: View) -> Held | None:
    """Say routed positions of a tensor, or the matrix of an expert for each of them."""
    values, index = view.operand("self"), view.held.get(view.operand("indices") or "")
    if values is None or index is None or len(index.axes) != 1 or _choices(view, index) is None:
        return None
    if view.sizes(view.node.result)[1:] != view.sizes(values)[1:]:
        return None  # rows of another axis
    if values in view.identities:
        view.drafts.routing.matrices[view.node.result] = values, view.identities[values]
        axes = [view.drafts.atoms.axis(size) for size in view.sizes(values)[1:]]
        return Held(index.number, (*index.axes, *axes))
    held = view.held[values]
    if _choices(view, held) is not None:
        return held  # in another order
    return _sent(view, Held(held.number, (index.axes[0], *held.axes[1:])))


def grouped(view: View) -> Held | None:
    """Say a product of routed positions with the matrices of all experts, which stand one behind the other."""
    value, weight = (view.operand(name) for name in GROUPED[view.node.kind])
    if (
        value is None
        or weight is None
        or value not in view.held
        or weight not in view.identities
        or len(view.sizes(weight)) != 3
    ):
        return None
    return _matrices(view, view.held[value], view.identities[weight], view.sizes(weight))


def batched(view: View) -> Held | None:
    """Say a product of the matrix of an expert for each routed position, and that position as a column."""
    left, right = view.operand("self"), view.operand("mat2")
    weight, trained = view.drafts.routing.matrices.get(left or "", ("", frozenset[str]()))
    if not weight or right is None or len(view.held[right].axes) != 3 or view.held[right].axes[2]:
        return None
    held, matrices = view.held[right], view.held[left or ""]
    if not view.drafts.atoms.unite(matrices.axes[0], held.axes[0]):
        return None
    count, made, read = view.sizes(weight)
    routed = Held(held.number, (matrices.axes[0], held.axes[1]))
    found = _matrices(view, routed, trained, (count, read, made))
    return None if found is None else Held(found.number, (*found.axes, ()))


def gated(view: View) -> Held | None:
    """Say the product of what experts made and the gates, as a part of the sum that follows."""
    if len(view.data) != 2 or view.weights:
        return None
    routing, (one, two) = view.drafts.routing, (view.held[value] for value in view.data)
    made, gates = (two, one) if one.number in routing.scores else (one, two)
    if gates.number not in routing.scores or _choices(view, made) is None or made.number in routing.scores:
        return None
    routing.gates[made.number] = gates.number
    return made


def summed(view: View) -> Held | None:
    """Say the sum of what the experts of each position made."""
    held, axes, atoms = view.held[view.data[0]], view.get("dim", ()), view.drafts.atoms
    if (
        len(view.data) != 1
        or len(axes) != 1
        or view.get("keepdim", False)
        or held.number not in view.drafts.routing.gates
    ):
        return None
    place = axes[0] % len(held.axes)
    own = atoms.leaves(held.axes[place])
    if len(own) != 1 or own[0] not in view.drafts.routing.experts:
        return None
    left = (*held.axes[:place], *held.axes[place + 1 :])
    return _combined(view, held, own[0], left)


def _combined(view: View, held: Held, choices: int, axes: tuple[Axis, ...]) -> Held | None:
    atoms, routing = view.drafts.atoms, view.drafts.routing
    gates, experts = routing.gates[held.number], routing.experts[choices]
    positions = [atom for axis in axes[:-1] for atom in atoms.leaves(axis) if atom != BATCH]
    slots = next((atom for atom in view.drafts.dims(held.number) if atom in routing.slots), None)
    if len(positions) != 1 or slots is None:
        return None
    count = view.drafts.rows[gates].fields["count"]
    if gates not in routing.normalised:  # no op says them
        shares = routing.scores[gates]
        gates = put(
            view, "opaque", (shares,), (), dims=view.drafts.dims(shares), roles={"shape": view.drafts.dims(shares)},
            fields={"kind": "topk"}, flop=0,
        ).number  # fmt: skip
    dims = (*positions, *atoms.leaves(axes[-1]))
    return put(
        view, "combine", (held.number, gates), axes, dims=dims, roles={"over": (experts,), "slots": (slots,)},
        fields={"count": count},
    )  # fmt: skip


def _choices(view: View, held: Held) -> int | None:
    """Return the atom of the choices in the first axes of a tensor; None if it is not routed."""
    found = [atom for axis in held.axes for atom in view.drafts.atoms.leaves(axis)]
    return next((atom for atom in found if atom in view.drafts.routing.experts), None)


def _sent(view: View, held: Held) -> Held | None:
    """Return a tensor at the experts, through one ``dispatch`` for all its readers."""
    atoms, routing = view.drafts.atoms, view.drafts.routing
    choices = _choices(view, held)
    if choices is None:
        return None
    key = (held.number, choices)
    if key not in routing.sent:
        positions = [atom for atom in atoms.leaves(held.axes[0]) if atom not in {BATCH, choices}]
        experts, count = routing.experts[choices], atoms.size((choices,))
        dims = view.drafts.dims(held.number)
        if len(positions) != 1 or positions[0] not in dims:
            return None
        slots = atoms.new(Routing(atoms.size((experts,)), count).num_slots(atoms.size((positions[0],))))
        routing.slots.add(slots)
        routing.sent[key] = put(
            view, "dispatch", (held.number,), held.axes, fields={"count": count}, weights=frozenset(), flop=0, node=None,
            roles={"over": (positions[0],), "slots": (slots,), "to": (experts,)},
            dims=(experts, slots, *(atom for atom in dims if atom != positions[0])),
        ).number  # fmt: skip
    return Held(routing.sent[key], held.axes)


def _matrices(view: View, held: Held, weights: frozenset[str], sizes: Sequence[int]) -> Held | None:
    """Say the product of a routed tensor with a matrix of each expert, of sizes experts, read and made."""
    atoms, routing = view.drafts.atoms, view.drafts.routing
    choices = _choices(view, held)
    if choices is None or sizes[0] != atoms.size((routing.experts[choices],)):
        return None
    if not routing.slots & {*view.drafts.dims(held.number)}:
        sent = _sent(view, held)
        if sent is None:
            return None
        held = sent
    contracted, made = atoms.leaves(held.axes[-1]), atoms.axis(sizes[2])
    dims = tuple(atom for atom in view.drafts.dims(held.number) if atom not in contracted)
    if sum(view.trace.trained[one] for one in weights) != math.prod(sizes) or not made or not contracted:
        return None
    return put(
        view, "linear", (held.number,), (*held.axes[:-1], made), dims=(*dims, *made), fields={"bias": False},
        roles={"contracted": contracted, "out": made, "each": (routing.experts[choices],)},
        weights=weights, flop=view.node.flop,
    )  # fmt: skip
