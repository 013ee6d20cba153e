"""Rules on mixtures of experts: scores, the positions that go to experts, the experts' matrices, and the sum of what they make.

A routed tensor has an axis of positions and choices: the atoms of the positions, and behind them the atom of the choices of one
position. Its layer has the dims of ``dispatch`` instead, experts and slots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypar.importers.atoms import BATCH
from hypar.importers.layers import OPAQUE, TensorAxes
from hypar.network.routing import slots_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.importers.atoms import Axis
    from hypar.importers.layers import OpContext


@dataclass(slots=True)
class Routing:
    """What is known of mixtures of experts.

    Attributes:
        gates: number of the gates behind the atom of the choices of a position.
        scores: number of the layer whose largest scores, or shares, are gates.
        normalised: numbers of the gates that add up to 1.
        weighed: number of the gates of the layer that experts end with.
        sent: number of the ``dispatch`` of a layer's output, by its number and the atom of the choices.
        matrices: trained value behind one that is the matrix of an expert for each position.
        limited: the groups of a layer's scores, and how many of them a position takes.
    """

    gates: dict[int, int] = field(default_factory=dict)
    scores: dict[int, int] = field(default_factory=dict)
    normalised: set[int] = field(default_factory=set)
    weighed: dict[int, int] = field(default_factory=dict)
    sent: dict[tuple[int, int], int] = field(default_factory=dict)
    matrices: dict[str, str] = field(default_factory=dict)
    limited: dict[int, tuple[int, int]] = field(default_factory=dict)


def routing(view: OpContext) -> Routing:
    """Return what is known of the network's mixtures of experts."""
    found: Routing = view.layers.routing.setdefault("experts", Routing())
    return found


def topk(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say the largest scores of each position, as gates; a softmax or a sigmoid before is part of it.

    A constant that is added before the choice says which ones are large alone.
    """
    atoms, rows, known = view.atoms, view.layers.rows, routing(view)
    over = view.positions(held, -1)
    if over is None or view.node.axes(-1)[0] not in {-1, len(held.axes) - 1}:
        return None
    number = held.number
    while rows[number].function == "other" and (node := rows[number].node) and node.op == "add":
        (number,) = rows[number].reads
    draft = rows[number]
    after = draft.op == "softmax" and atoms.leaves(draft.roles["over"]) == (over,)
    sigmoid = draft.function == "sigmoid"
    scores = draft.reads[0] if after or sigmoid else number
    dims = view.layers.dims(scores)
    if over not in dims or len(dims) != 2:
        return None
    count = view.node.get("k", 0)
    groups, best = known.limited.get(held.number, (1, 1))
    fields = {
        "count": count,
        **({"function": "sigmoid"} if sigmoid else {}),
        **({"groups": groups, "best": best} if best < groups else {}),
    }
    choices = atoms.new(count)
    axes = (*held.axes[:-1], (choices,))
    gates = view.put("top_k", [TensorAxes(scores, ())], axes, dims, roles={"over": (over,)}, fields=fields)
    known.gates[choices] = gates.number
    known.scores[gates.number] = number
    return gates


def best_groups(view: OpContext, held: TensorAxes) -> TensorAxes:
    """Say scores without those of groups that are not among the best: no layer."""
    routing(view).limited[held.number] = view.node.get("groups"), view.node.get("best")
    return held


def gathered(view: OpContext) -> TensorAxes | None:
    """Say the scores that a choice took of those that it chose from: its gates."""
    values, index = (view.held.get(view.node.operand(name)) for name in ("self", "index"))
    choices = None if index is None else _choices(view, index)
    if values is None or index is None or choices is None or len(index.axes) != 2:
        return None
    gates = routing(view).gates[choices]
    if view.node.axes()[0] % 2 != 1 or routing(view).scores[gates] != values.number:
        return None
    return TensorAxes(gates, index.axes)


def normalised(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say gates divided by their sum where they are shares already, or the softmax of the largest scores, which is the same.

    A sigmoid of the scores counts as shares.
    """
    known, shared = routing(view), view.node.op == "shares"
    if held.number not in known.scores:
        return None
    before = view.layers.rows[known.scores[held.number]]
    if (before.op == "softmax" or before.function == "sigmoid") != shared:
        return None
    known.normalised.add(held.number)
    return held


def histogram(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say how many positions go to each expert: no layer."""
    choices = _choices(view, held)
    return None if choices is None else TensorAxes(held.number, ((_experts(view, choices),),))


def placed(view: OpContext) -> TensorAxes | None:
    """Say a permutation of routed positions that is written down in another order: no layer."""
    found = view.held.get(view.node.operand("indices"))
    return found if found is not None and _choices(view, found) is not None else None


def interleaved(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say a tensor whose positions are repeated one by one: no layer, but an atom that its maker does not have."""
    repeats, axis = view.node.get("repeats"), view.node.get("dim")
    if not isinstance(repeats, int) or axis is None:
        return None
    axis %= len(held.axes)
    longer = (*held.axes[axis], view.atoms.new(repeats))
    return TensorAxes(held.number, (*held.axes[:axis], longer, *held.axes[axis + 1 :]))


def indexed(view: OpContext) -> TensorAxes | None:
    """Say routed positions of a tensor, or the matrix of an expert for each of them."""
    values, index = view.node.operand("self"), view.held.get(view.node.operand("indices"))
    if not values or index is None or len(index.axes) != 1 or _choices(view, index) is None:
        return None
    if view.sizes()[1:] != view.sizes(values)[1:]:
        return None  # rows of another axis
    if values in view.weights:
        routing(view).matrices[view.node.result] = values
        return TensorAxes(index.number, (*index.axes, *map(view.atoms.axis, view.sizes(values)[1:])))
    held = view.held[values]
    if _choices(view, held) is not None:
        return held  # in another order
    return _sent(view, TensorAxes(held.number, (index.axes[0], *held.axes[1:])))


def grouped(view: OpContext) -> TensorAxes | None:
    """Say a product of routed positions with the matrices of all experts, which stand one behind the other."""
    held, weight = view.held.get(view.node.operand("input")), view.node.operand("weight")
    if held is None or weight not in view.weights or len(view.sizes(weight)) != 3:
        return None
    return _matrices(view, held, view.weights[weight], view.sizes(weight))


def batched(view: OpContext) -> TensorAxes | None:
    """Say a product of the matrix of an expert for each routed position, and that position as a column."""
    left, right = view.node.operand("left"), view.held.get(view.node.operand("right"))
    weight = routing(view).matrices.get(left, "")
    if not weight or right is None or len(right.axes) != 3 or right.axes[2]:
        return None
    first = view.held[left].axes[0]
    if not view.atoms.unite(first, right.axes[0]):
        return None
    count, made, read = view.sizes(weight)
    trained = frozenset([view.trace.parameters[weight]])
    found = _matrices(view, TensorAxes(right.number, (first, right.axes[1])), trained, (count, read, made))
    return None if found is None else TensorAxes(found.number, (*found.axes, ()))


def weighed(view: OpContext) -> TensorAxes | None:
    """Say the product of what experts made and the gates, as a part of the sum that follows."""
    if len(view.data) != 2 or view.weights:
        return None
    known, (one, two) = routing(view), (view.held[value] for value in view.data)
    made, gates = (two, one) if one.number in known.scores else (one, two)
    if gates.number not in known.scores or _choices(view, made) is None or made.number in known.scores:
        return None
    known.weighed[made.number] = gates.number
    return made


def summed(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Say the sum of what the experts of each position made."""
    axes, atoms, known = view.node.axes(), view.atoms, routing(view)
    if len(axes) != 1 or view.node.get("keepdim", False) or held.number not in known.weighed:
        return None
    place = axes[0] % len(held.axes)
    own = atoms.leaves(held.axes[place])
    left = (*held.axes[:place], *held.axes[place + 1 :])
    positions = [atom for axis in left[:-1] for atom in atoms.leaves(axis) if atom != BATCH]
    slots = _slots(view, held.number)
    if len(own) != 1 or own[0] not in known.gates or len(positions) != 1 or not slots:
        return None
    gates = known.weighed[held.number]
    count = view.layers.rows[gates].fields["count"]
    if gates not in known.normalised:  # no op says them
        shares, dims = known.scores[gates], view.layers.dims(known.scores[gates])
        fields, roles = {"kind": "topk"}, {"shape": dims}
        gates = view.put(
            OPAQUE, [TensorAxes(shares, ())], (), dims, roles=roles, fields=fields, flop=0
        ).number
    roles = {"over": (_experts(view, own[0]),), "slots": slots}
    dims = (*positions, *atoms.leaves(left[-1]))
    return view.put(
        "combine", [held, TensorAxes(gates, ())], left, dims, roles=roles, fields={"count": count}
    )


def _choices(view: OpContext, held: TensorAxes) -> int | None:
    """Return the atom of the choices in the axes of a tensor; None if it is not routed."""
    found = (atom for axis in held.axes for atom in view.atoms.leaves(axis))
    return next((atom for atom in found if atom in routing(view).gates), None)


def _experts(view: OpContext, choices: int) -> int:
    """Return the atom of the experts of which a position has some choices."""
    (experts,) = view.layers.rows[routing(view).gates[choices]].roles["over"]
    return experts


def _slots(view: OpContext, number: int) -> Axis:
    """Return the atom of the experts' slots among the dims of a layer; nothing where it is not routed."""
    sent = (view.layers.rows[one].roles["slots"][0] for one in routing(view).sent.values())
    return tuple({*sent} & {*view.layers.dims(number)})


def _sent(view: OpContext, held: TensorAxes) -> TensorAxes | None:
    """Return a tensor at the experts, through one ``dispatch`` for all its readers."""
    atoms, sent, choices = view.atoms, routing(view).sent, _choices(view, held)
    if choices is None:
        return None
    key = (held.number, choices)
    if key not in sent:
        positions = [atom for atom in atoms.leaves(held.axes[0]) if atom not in {BATCH, choices}]
        experts, count, dims = _experts(view, choices), atoms.size((choices,)), view.dims(held)
        if len(positions) != 1 or positions[0] not in dims:
            return None
        slots = atoms.new(slots_of(atoms.size((positions[0],)), atoms.size((experts,)), count))
        sent[key] = view.put(
            "dispatch", [held], held.axes, (experts, slots, *(atom for atom in dims if atom != positions[0])),
            roles={"over": (positions[0],), "slots": (slots,), "to": (experts,)}, fields={"count": count},
            weights=frozenset(), flop=0, node=None,
        ).number  # fmt: skip
    return TensorAxes(sent[key], held.axes)


def _matrices(
    view: OpContext, held: TensorAxes, weights: frozenset[str], sizes: Sequence[int]
) -> TensorAxes | None:
    """Say the product of a routed tensor with a matrix of each expert, of sizes experts, read and made."""
    atoms, choices = view.atoms, _choices(view, held)
    if choices is None or sizes[0] != atoms.size((_experts(view, choices),)):
        return None
    sent = held if _slots(view, held.number) else _sent(view, held)
    if sent is None:
        return None
    contracted, made = atoms.leaves(sent.axes[-1]), atoms.axis(sizes[2])
    dims = tuple(atom for atom in view.dims(sent) if atom not in contracted)
    if sum(view.trace.trained[one] for one in weights) != math.prod(sizes) or not made or not contracted:
        return None
    roles = {"contracted": contracted, "out": made, "each": (_experts(view, choices),)}
    axes = (*sent.axes[:-1], made)
    return view.put(
        "linear", [sent], axes, (*dims, *made), roles=roles, weights=weights, fields={"bias": False}
    )
