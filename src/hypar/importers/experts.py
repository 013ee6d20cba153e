"""Rules on mixtures of experts: scores, the positions that go to experts, the experts' matrices, and the sum of what they make.

A routed tensor has an axis of positions and choices: the atoms of the positions, and behind them the atom of the choices of one
position. Its layer has the dims of ``dispatch`` instead, experts and slots. Gates note the layer whose largest ``scores``, or
shares, they are, and whether they are ``normalised``; what experts made notes its ``gates``, and scores the ``groups`` of which
a position takes the ``best``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.importers.atoms import BATCH
from hypar.importers.layers import OPAQUE, TensorAxes, refuse
from hypar.ops.windows import Routing

if TYPE_CHECKING:
    from hypar.importers.atoms import Axis
    from hypar.importers.layers import OpContext


def topk(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say the largest scores of each position, as gates; a softmax or a sigmoid before is part of it.

    A constant that is added before the choice says which ones are large alone.
    """
    atoms, rows = view.atoms, view.layers.rows
    over = view.positions(held, -1)
    refuse(view.node.axes(-1)[0] not in {-1, len(held.axes) - 1})
    number = held.number
    while rows[number].function == "other" and (node := rows[number].node) and node.op == "add":
        (number,) = rows[number].reads
    draft = rows[number]
    after = draft.op == "softmax" and atoms.leaves(draft.roles["over"]) == (over,)
    sigmoid = draft.function == "sigmoid"
    scores = draft.reads[0] if after or sigmoid else number
    dims = view.layers.dims(scores)
    refuse(over not in dims or len(dims) != 2)
    count = view.node.get("k", 0)
    limits = {name: view.draft(held).notes.get(name, 1) for name in ("groups", "best")}
    fields = {"count": count, "function": "sigmoid" if sigmoid else "softmax"}
    fields |= limits if limits["best"] < limits["groups"] else {}
    choices = atoms.new(count)
    axes = (*held.axes[:-1], (choices,))
    gates = view.put("top_k", [TensorAxes(scores, ())], axes, dims, roles={"over": (over,)}, fields=fields)
    view.layers.choices[choices] = gates.number
    view.draft(gates).notes["scores"] = number
    return gates


def best_groups(view: OpContext, held: TensorAxes) -> TensorAxes:
    """Say scores without those of groups that are not among the best: no layer."""
    view.draft(held).notes |= {name: view.node.get(name) for name in ("groups", "best")}
    return held


def gathered(view: OpContext) -> TensorAxes | None:
    """Say the scores that a choice took of those that it chose from: its gates."""
    values, index = view.tensor("self"), view.tensor("index")
    gates = view.layers.choices[_choices(view, index)]
    refuse(len(index.axes) != 2 or view.node.axes()[0] % 2 != 1)
    refuse(view.layers.rows[gates].notes["scores"] != values.number)
    return TensorAxes(gates, index.axes)


def normalised(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say gates divided by their sum where they are shares already, or the softmax of the largest scores, which is the same.

    A sigmoid of the scores counts as shares.
    """
    notes = view.draft(held).notes
    refuse("scores" not in notes)
    before = view.layers.rows[notes["scores"]]
    refuse((before.op == "softmax" or before.function == "sigmoid") != (view.node.op == "shares"))
    notes["normalised"] = True
    return held


def histogram(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say how many positions go to each expert: no layer."""
    return TensorAxes(held.number, ((_experts(view, _choices(view, held)),),))


def placed(view: OpContext) -> TensorAxes | None:
    """Say a permutation of routed positions that is written down in another order: no layer."""
    found = view.tensor("indices")
    return found if _routed(view, found) else None


def interleaved(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say a tensor whose positions are repeated one by one: no layer, but an atom that its maker does not have."""
    repeats, axis = view.node.get("repeats"), view.node.get("dim")
    refuse(not isinstance(repeats, int) or axis is None)
    axis %= len(held.axes)
    longer = (*held.axes[axis], view.atoms.new(repeats))
    return TensorAxes(held.number, (*held.axes[:axis], longer, *held.axes[axis + 1 :]))


def indexed(view: OpContext) -> TensorAxes | None:
    """Say routed positions of a tensor."""
    held, index = view.tensor("self"), view.tensor("indices")
    refuse(len(index.axes) != 1 or not _routed(view, index))
    refuse(view.sizes()[1:] != view.node.sizes("self")[1:])  # rows of another axis
    if _routed(view, held):
        return held  # in another order
    return _sent(view, TensorAxes(held.number, (index.axes[0], *held.axes[1:])))


def grouped(view: OpContext) -> TensorAxes | None:
    """Say a product of routed positions with the matrices of all experts, which stand one behind the other."""
    held, weight = view.tensor("input"), view.node.operand("weight")
    refuse(weight not in view.weights)
    atoms, (count, *_, width), experts = view.atoms, view.sizes(weight), _experts(view, _choices(view, held))
    sent = held if _slots(view, held.number) else _sent(view, held)
    refuse(count != atoms.size((experts,)))
    contracted, made = atoms.leaves(sent.axes[-1]), atoms.axis(width)
    dims = tuple(atom for atom in view.dims(sent) if atom not in contracted)
    refuse(view.trained(weight) != view.trace.elements(weight) or not made or not contracted)
    roles = {"contracted": contracted, "out": made, "each": (experts,)}
    axes = (*sent.axes[:-1], made)
    return view.put("linear", [sent], axes, (*dims, *made), roles=roles, fields={"bias": False})


def weighed(view: OpContext) -> TensorAxes | None:
    """Say the product of what experts made and the gates, as a part of the sum that follows."""
    refuse(len(view.data) != 2 or view.weights)
    one, two = (view.held[value] for value in view.data)
    made, gates = (two, one) if "scores" in view.draft(one).notes else (one, two)
    chosen = ["scores" in view.draft(held).notes for held in (gates, made)]
    refuse(chosen != [True, False] or not _routed(view, made))
    view.draft(made).notes["gates"] = gates.number
    return made


def summed(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say the sum of what the experts of each position made."""
    axes, atoms, rows = view.node.axes(), view.atoms, view.layers.rows
    gates = view.draft(held).notes.get("gates", -1)
    refuse(len(axes) != 1 or view.node.get("keepdim", False) or gates < 0)
    place = axes[0] % len(held.axes)
    own = atoms.leaves(held.axes[place])
    left = (*held.axes[:place], *held.axes[place + 1 :])
    positions = [atom for axis in left[:-1] for atom in atoms.leaves(axis) if atom != BATCH]
    slots = _slots(view, held.number)
    refuse(len(own) != 1 or own[0] not in view.layers.choices or len(positions) != 1 or not slots)
    count, notes = rows[gates].fields["count"], rows[gates].notes
    if "normalised" not in notes:  # no op says them
        shares, dims = TensorAxes(notes["scores"], ()), view.layers.dims(notes["scores"])
        gates = view.put(
            OPAQUE, [shares], (), dims, roles={"shape": dims}, fields={"kind": "topk"}, flop=0
        ).number
    roles = {"over": (_experts(view, own[0]),), "slots": slots}
    dims = (*positions, *atoms.leaves(left[-1]))
    return view.put(
        "combine", [held, TensorAxes(gates, ())], left, dims, roles=roles, fields={"count": count}
    )


def _routed(view: OpContext, held: TensorAxes) -> bool:
    """Return whether an axis of a tensor has an atom of choices."""
    return not view.layers.choices.keys().isdisjoint(view.atoms.leaves(sum(held.axes, ())))


def _choices(view: OpContext, held: TensorAxes) -> int:
    """Return the atom of the choices in the axes of a routed tensor."""
    refuse(not _routed(view, held))
    return next(atom for atom in view.atoms.leaves(sum(held.axes, ())) if atom in view.layers.choices)


def _experts(view: OpContext, choices: int) -> int:
    """Return the atom of the experts of which a position has some choices."""
    (experts,) = view.layers.rows[view.layers.choices[choices]].roles["over"]
    return experts


def _slots(view: OpContext, number: int) -> Axis:
    """Return the atom of the experts' slots among the dims of a layer; nothing where it is not routed."""
    slots = {atom for draft in view.layers.rows if draft.op == "dispatch" for atom in draft.roles["slots"]}
    return tuple(slots & {*view.layers.dims(number)})


def _sent(view: OpContext, held: TensorAxes) -> TensorAxes:
    """Return a tensor at the experts, through one ``dispatch`` for all its readers."""
    atoms, choices = view.atoms, _choices(view, held)
    for number, draft in enumerate(view.layers.rows):
        if draft.notes.get("choices") == choices and draft.reads == (held.number,):
            return TensorAxes(number, held.axes)
    positions = [atom for atom in atoms.leaves(held.axes[0]) if atom not in {BATCH, choices}]
    experts, count, dims = _experts(view, choices), atoms.size((choices,)), view.dims(held)
    refuse(len(positions) != 1 or positions[0] not in dims)
    slots = atoms.new(Routing(atoms.size((experts,)), count).num_slots(atoms.size((positions[0],))))
    return view.put(
        "dispatch", [held], held.axes, (experts, slots, *(atom for atom in dims if atom != positions[0])),
        roles={"over": (positions[0],), "slots": (slots,), "to": (experts,)}, fields={"count": count},
        weights=frozenset(), flop=0, node=None, notes={"choices": choices},
    )  # fmt: skip
