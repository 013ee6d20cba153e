"""Rules on mixtures of experts: scores, the positions that go to experts, the experts' matrices, and the sum of what they make.

A routed tensor has an axis of positions and choices: the atoms of the positions, and behind them the atom of the choices of one
position. Its layer has the dims of ``dispatch`` instead, experts and slots. Gates note the layer whose largest ``scores``, or
shares, they are, and whether they are ``normalised``; what experts made notes its ``gates``, and scores the ``groups`` of which
a position takes the ``best``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hypar.importers.atoms import BATCH
from hypar.importers.layers import OPAQUE, TensorAxes, Unsaid, refuse
from hypar.ops.windows import round_of

if TYPE_CHECKING:
    from hypar.importers.atoms import Axis
    from hypar.importers.layers import OpContext


def topk(view: OpContext) -> TensorAxes:
    """Say the largest scores of each position, as gates; a softmax or a sigmoid before is part of it.

    A constant that is added before the choice says which ones are large alone.
    """
    held, rows = view.only, view.rows
    over, number = view.positions(held, -1), held.number
    refuse(view.node.axes(-1)[0] not in {-1, len(held.axes) - 1})
    while rows[number].fields.get("function") == "other" and (node := rows[number].node) and node.op == "add":
        (number,) = rows[number].reads
    draft = rows[number]
    after = draft.op == "softmax" and view.atoms.leaves(draft.roles["over"]) == (over,)
    sigmoid = draft.fields.get("function") == "sigmoid"
    scores = draft.reads[0] if after or sigmoid else number
    refuse(len(view.dims(scores)) != 2)
    limits = {name: rows[held.number].notes.get(name, 1) for name in ("groups", "best")}
    fields = {"count": view.node.get("k", 0), "function": "sigmoid" if sigmoid else "softmax"}
    fields |= limits if limits["best"] < limits["groups"] else {}
    choices = view.atoms.new(fields["count"])
    return view.put(
        "top_k", TensorAxes(scores, ()), axes=(*held.axes[:-1], (choices,)), roles={"over": (over,)}, fields=fields,
        notes={"scores": number, "choices": choices},
    )  # fmt: skip


def best_groups(view: OpContext) -> TensorAxes:
    """Say scores without those of groups that are not among the best: no layer."""
    view.rows[view.only.number].notes |= {name: view.node.get(name) for name in ("groups", "best")}
    return view.only


def gathered(view: OpContext) -> TensorAxes:
    """Say the scores that a choice took of those that it chose from: its gates."""
    values, index = view.tensor("self"), view.tensor("index")
    _, gates = _routed(view, index)
    refuse(len(index.axes) != 2 or view.node.axes()[0] % 2 != 1)
    refuse(view.rows[gates].notes["scores"] != values.number)
    return TensorAxes(gates, index.axes)


def normalised(view: OpContext) -> TensorAxes:
    """Say gates divided by their sum where they are shares already, or the softmax of the largest scores, which is the same.

    A sigmoid of the scores counts as shares.
    """
    notes = view.rows[view.only.number].notes
    refuse("scores" not in notes)
    before = view.rows[notes["scores"]]
    shares = before.op == "softmax" or before.fields.get("function") == "sigmoid"
    refuse(shares != (view.node.op == "shares"))
    notes["normalised"] = True
    return view.only


def counted(view: OpContext) -> TensorAxes:
    """Say how many positions go to each expert, or a permutation of these that is written down in another order: no layer."""
    placed = view.node.op == "index_put"
    held = view.tensor("indices") if placed else view.only
    _, gates = _routed(view, held)
    return held if placed else TensorAxes(held.number, (view.rows[gates].roles["over"],))


def interleaved(view: OpContext) -> TensorAxes:
    """Say a tensor whose positions are repeated one by one: no layer, but an atom that its maker does not have."""
    held, repeats, axis = view.only, view.node.get("repeats"), view.node.get("axis")
    refuse(not isinstance(repeats, int) or axis is None)
    return held.replaced(axis, (*held.axes[axis], view.atoms.new(repeats)))


def indexed(view: OpContext) -> TensorAxes:
    """Say routed positions of a tensor."""
    held, index = view.tensor("self"), view.tensor("indices")
    _routed(view, index)
    refuse(len(index.axes) != 1 or view.sizes()[1:] != view.node.sizes("self")[1:])  # rows of another axis
    with suppress(Unsaid):
        _routed(view, held)
        return held  # in another order
    return _sent(view, held.replaced(0, index.axes[0]))


def grouped(view: OpContext) -> TensorAxes:
    """Say a product of routed positions with the matrices of all experts, which stand one behind the other."""
    held, weight = view.tensor("input"), view.node.operand("weight")
    refuse(weight not in view.weights)
    (_, gates), atoms, (count, *_, width) = _routed(view, held), view.atoms, view.sizes(weight)
    experts = view.rows[gates].roles["over"]
    sent = held if _slots(view, held) else _sent(view, held)
    refuse(count != atoms.size(experts))
    contracted, made = atoms.leaves(sent.axes[-1]), atoms.axis(width)
    roles = {"contracted": contracted, "out": made, "each": experts}
    return view.put("linear", sent, axes=(*sent.axes[:-1], made), roles=roles, fields={"bias": False})


def weighed(view: OpContext) -> TensorAxes:
    """Say the product of what experts made and the gates, as a part of the sum that follows."""
    refuse(len(view.data) != 2 or view.weights)
    both = (view.held[value] for value in view.data)
    made, gates = sorted(both, key=lambda held: "scores" in view.rows[held.number].notes)
    refuse("scores" not in view.rows[gates.number].notes or "scores" in view.rows[made.number].notes)
    _routed(view, made)
    view.rows[made.number].notes["gates"] = gates.number
    return made


def summed(view: OpContext) -> TensorAxes:
    """Say the sum of what the experts of each position made."""
    held, axes, atoms, rows = view.only, view.node.axes(), view.atoms, view.rows
    gates = view.rows[held.number].notes.get("gates", -1)
    refuse(len(axes) != 1 or gates < 0)
    left, own, slots = held.replaced(axes[0]).axes, held.axes[axes[0]], _slots(view, held)
    refuse(not slots or atoms.leaves(own) != (rows[gates].notes["choices"],))
    notes, experts = rows[gates].notes, rows[gates].roles["over"]
    fields = {"count": rows[gates].fields["count"]}
    shares = TensorAxes(gates, ())
    if "normalised" not in notes:  # no op says them
        shape, scores = {"shape": view.dims(notes["scores"])}, TensorAxes(notes["scores"], ())
        shares = view.put(OPAQUE, scores, axes=(), roles=shape, fields={"kind": "topk"})
    roles = {"over": experts, "slots": slots}
    return view.put("combine", held, shares, axes=left, roles=roles, fields=fields)


def _routed(view: OpContext, held: TensorAxes) -> tuple[int, int]:
    """Return the atom of the choices in the axes of a routed tensor, and the number of the gates."""
    gates = {draft.notes["choices"]: number for number, draft in enumerate(view.rows) if draft.op == "top_k"}
    found = [atom for atom in view.atoms.leaves(sum(held.axes, ())) if atom in gates]
    refuse(not found)
    return found[0], gates[found[0]]


def _slots(view: OpContext, held: TensorAxes) -> Axis:
    """Return the atom of the experts' slots among the dims of a layer; nothing where it is not routed."""
    slots = {atom for draft in view.rows if draft.op == "dispatch" for atom in draft.roles["slots"]}
    return tuple(slots & {*view.dims(held)})


def _sent(view: OpContext, held: TensorAxes) -> TensorAxes:
    """Return a tensor at the experts, through one ``dispatch`` for all its readers."""
    atoms, (choices, gates) = view.atoms, _routed(view, held)
    for number, draft in enumerate(view.rows):
        if draft.op == "dispatch" and draft.notes["choices"] == choices and draft.reads == (held.number,):
            return TensorAxes(number, held.axes)
    positions = tuple(atom for atom in atoms.leaves(held.axes[0]) if atom not in {BATCH, choices})
    experts, count = view.rows[gates].roles["over"], atoms.size((choices,))
    slots = atoms.new(-(-atoms.size(positions) // round_of(atoms.size(experts), count)))
    roles = {"over": positions, "slots": (slots,), "to": experts}
    said = {"fields": {"count": count}, "notes": {"choices": choices}}
    return view.put("dispatch", held, axes=held.axes, roles=roles, weights=frozenset(), **said)
