"""Rules on sequences, linear layers, products of two activations, attention and tables; and of mixtures of experts.

A routed tensor has an axis of positions and choices: the atoms of the positions, and behind them the atom of the choices of one
position. Its layer has the dims of ``dispatch`` instead, experts and slots. Gates note the layer whose largest ``scores``
they are, whether these are ``shares``, as a softmax gives them or a sigmoid, and whether they are ``normalised``; scores note
the ``groups`` of which a position takes the ``best``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from hypar.errors import ModelError
from hypar.importers import atoms
from hypar.importers.atoms import Atom, Axes, Axis
from hypar.importers.layers import OPAQUE, LayerDraft, Reading, TensorAxes, Unsaid, refuse
from hypar.importers.trace import VIEWS, Letters, matrix_letters
from hypar.ops.base import IMAGE
from hypar.ops.windows import round_of

Roles = Mapping[str, Letters]

MOST_TOKENS = 64
"""Trained tokens that one concatenation may put before a sequence."""


def patches(view: Reading, held: TensorAxes) -> TensorAxes:
    """Return a view of an image as the positions of a sequence, where its convolution has one filter for each patch."""
    draft, axes, places = held.layer, [atoms.leaves(axis) for axis in held.axes], ("height", "width")
    names = [tuple(atom.name for atom in axis) for axis in axes]
    plain = draft.op == "conv" and draft.fields.get("stride") == draft.fields["kernel"]
    viewed = {view.trace.nodes[number].op for number in view.trace.readers[draft.node.result]} <= VIEWS
    if places not in names or not plain or not viewed:
        return held
    fields = {name: value for name, value in draft.fields.items() if name not in {"out_channels", "stride"}}
    new: dict[tuple[str, ...], Axis] = {
        of: (Atom(atoms.size(axes[names.index(of)])),) for of in (places, ("channels",))
    }
    roles = {"over": new[places], "out": new["channels",]}
    with suppress(Unsaid):
        patch = view.add(replace(draft, op="patch", fields=fields, roles=roles, notes={"one": 1}))
        return TensorAxes(patch, tuple(new.get(of, axis) for of, axis in zip(names, axes, strict=True)))
    return held


def tokens(view: Reading, axis: int) -> TensorAxes:
    """Say a concatenation of trained tokens and the positions behind them."""
    *first, last = view.node.read
    refuse(last not in view.held or [*view.weights] != first)
    held = view.held[last]
    for value in reversed(first):
        count, own = view.trace.shapes[value][axis], view.weights[value]
        refuse(count > MOST_TOKENS)
        each = atoms.size(held.layer.dims) // atoms.size(held.axes[axis])
        refuse(sum(view.trace.trained[one] for one in own) != count * each)
        for _ in range(count):
            over = held.positions(axis)
            longer = held.replaced(axis, (over.of_size(over.size + 1),))
            held = view.put("token", held, axes=longer.axes, roles={"over": (over,)}, weights=own)
    return held


def beside(view: Reading, op: str, held: TensorAxes, own: tuple[int, ...] = ()) -> TensorAxes:
    """Say an op of a tensor and of an operation's trained numbers, which elements share along some axes, or of rows of a table.

    The trained numbers stand behind the tensor's last axes, or have a shape that is said. Which row of a table an element
    meets follows from its place; the axis of a row is the last one of its width, of scores of an attention the first, the heads.
    """
    (weight,), shapes, sizes = view.weights, view.trace.shapes, tuple(map(atoms.size, held.axes))
    said = sum(view.trace.trained[one] for one in view.trained)
    own = own or (1,) * (len(sizes) - len(shapes[weight])) + shapes[weight]
    places, fields = [place for place, size in enumerate(own) if size > 1], {}
    scores = held.layer.op == "matmul"
    if said != view.trace.elements(weight):
        tables = [shapes[name] for name, one in view.trace.parameters.items() if {one} == {*view.trained}]
        refuse(op != "position" or not tables or tables[0][-1] == 1 or (scores and len(tables[0]) != 2))
        fields = {"rows": said // tables[0][-1]}
        places = [place for place in places if own[place] == tables[0][-1] == sizes[place]]
        places = places[:1] if scores else places[-1:]
    refuse(any(own[place] != sizes[place] for place in places))
    refuse(not places and (scores or fields or op == "layer_scale"))
    over = atoms.leaves(atom for place in places for atom in held.axes[place])
    whole = op == "position" and {*over} == {*held.layer.dims}
    return view.put(op, held, fields=fields, roles={"over": () if whole else over})


def biased(view: Reading, scores: TensorAxes) -> TensorAxes:
    """Say a trained bias of scores; one that is made in another way, as by a small network of distances, no op says."""
    with suppress(Unsaid):
        return beside(view, "position", scores)
    return view.put("pointwise", scores, fields={"function": "other"}, weights=frozenset())


BETWEEN = frozenset({"dropout", "pointwise", "position", "softmax"})
"""Ops between the two products of an attention."""


def attention(view: Reading) -> TensorAxes:
    """Say an attention in one operation as two products and the softmax between, with a trained mask added to the scores."""
    query, key, value = (view.tensor(name) for name in ("query", "key", "value"))
    rank = len(query.axes)
    refuse({len(key.axes), len(value.axes)} != {rank})
    if view.batch in atoms.leaves(key.axes[-2]):
        found = "found an attention over its first axis, that of the samples"
        raise ModelError(view.trace.name, found, "samples first, as with batch_first=True")
    if rank > 3 and (groups := atoms.size(query.axes[-3]) // atoms.size(key.axes[-3])) > 1:
        key, value = (one.replaced(-3, (*one.axes[-3], Atom(groups))) for one in (key, value))
    letters = matrix_letters(rank, rank)
    *outer, inner, column = letters["right"]
    scores = activations(view, query, key, {**letters, "right": (*outer, column, inner)})
    scores = biased(view, scores) if view.node.operand("mask") in view.weights else scores
    shares = view.put("softmax", scores, roles={"over": atoms.leaves(scores.axes[-1])}, weights=frozenset())
    return activations(view, shares, value, letters)


def dot(view: Reading) -> TensorAxes:
    """Say a sum of products over the letters that the result lacks: a linear layer, or a product of two activations."""
    left, right, bias = (view.node.operand(name) for name in ("left", "right", "bias"))
    roles = {name: view.node.get(name) for name in ("left", "right", "made")}
    refuse(not left or not right or roles["left"] is None or view.node.get("scaled", False))
    if left in view.held and right in view.held:
        refuse(bias)
        return activations(view, view.held[left], view.held[right], roles)
    if right in view.held:
        left, right, roles = right, left, {**roles, "left": roles["right"], "right": roles["left"]}
    refuse(left not in view.held or right not in view.weights or (bias and bias not in view.weights))
    return _linear(view, view.held[left], right, roles, bias=bool(bias))


def _linear(view: Reading, held: TensorAxes, weight: str, roles: Roles, *, bias: bool) -> TensorAxes:
    """Say a linear layer over all positions of the axes that are not contracted."""
    of_data, of_result = roles["left"], roles["made"]
    sizes = dict(zip(roles["right"], view.trace.shapes[weight], strict=True))
    axes: dict[int, Axis] = dict(zip(of_data, held.axes, strict=True))
    read = [letter for letter in of_data if letter in sizes and letter not in of_result]
    made = [letter for letter in sizes if letter not in of_data]
    refuse(any(letter in sizes and letter in of_result and sizes[letter] > 1 for letter in of_data))
    contracted = atoms.leaves(atom for letter in read for atom in axes[letter])
    own = held.layer.dims
    refuse(not contracted)
    if len(view.read) == 1 and len(sizes) == 2:
        return view.put("linear", held, fields={"out_features": sizes[made[0]], "bias": bias})
    axes |= {letter: atoms.axis(sizes[letter]) for letter in made}
    new = tuple(atom for letter in made for atom in axes[letter])
    result = tuple(axes[letter] for letter in of_result)
    refuse(not new)
    order = tuple(atom for atom in own if atom in contracted)
    kept = tuple(atom for atom in own if atom not in contracted)
    if len(order) == 1 and tuple(atom.name for atom in (*order, *kept)) == IMAGE:
        found = view.put("conv", held, fields={"out_channels": atoms.size(new), "kernel": 1, "bias": bias})
        refuse(not atoms.unite((*new, *kept), found.layer.dims))
        return replace(found, axes=result)
    said = {"roles": {"contracted": order, "out": new}, "fields": {"bias": bias}}
    return view.put("linear", held, axes=result, tied=_owner(view, weight, (contracted, new)), **said)


def _owner(view: Reading, weight: str, axes: tuple[Axis, Axis]) -> LayerDraft | None:
    """Return the layer whose weight a linear layer uses, after making their dims the same."""
    identities = view.weights[weight]
    for draft in view.rows:
        owns = draft.op in {"embedding", "linear"} and draft.tied is None
        if not owns or identities.isdisjoint(draft.weights):
            continue
        theirs = draft.roles.get("over", draft.roles.get("contracted", ())), draft.roles.get("out", ())
        pairs = list(zip(axes, reversed(theirs) if draft.op == "embedding" else theirs, strict=True))
        if all(atoms.size(one) == atoms.size(other) for one, other in pairs):
            return draft if all(atoms.unite(one, other) for one, other in pairs) else None
    return None


def activations(view: Reading, left: TensorAxes, right: TensorAxes, roles: Roles) -> TensorAxes:
    """Say a product of two tensors that depend on the input; an attention where it is the second one of that."""
    of_left, of_right = roles["left"], roles["right"]
    if any(one.op == "softmax" for one in scores_of(right.layer)[1]):
        left, right, of_left, of_right = right, left, of_right, of_left
    one, two = dict(zip(of_left, left.axes, strict=True)), dict(zip(of_right, right.axes, strict=True))
    both = [letter for letter in one if letter in two]
    contracted = [letter for letter in both if letter not in roles["made"]]
    for letter in both:
        joined = atoms.unite(one[letter], two[letter])
        refuse(not joined and not (letter in contracted and atoms.align(one[letter], two[letter])))
    mine, theirs = (atoms.leaves(sum((side[at] for at in contracted), ())) for side in (one, two))
    shared = atoms.leaves(atom for letter in both if letter not in contracted for atom in one[letter])
    refuse(view.batch not in shared)
    taken = {atom.first for atom in left.layer.dims}
    free = (atom for atom in right.layer.dims if atom not in (*theirs, *shared))
    names = {atom: Atom(atom.size, apart=True) for atom in free if atom.first in taken}
    renamed = {at: tuple(names.get(atom, atom) for atom in atoms.leaves(axis)) for at, axis in two.items()}
    axes = tuple({**renamed, **one}[letter] for letter in roles["made"])
    if (found := _attention_of(view, left, right, (mine, theirs), axes)) is not None:
        return found
    others = {"over": theirs, "names": (*names.values(),)}
    said = {"roles": {"over": mine, "names": (*names,)}, "others": others, "weights": frozenset()}
    return view.put("matmul", left, right, axes=axes, **said)


def scores_of(layer: LayerDraft) -> tuple[LayerDraft, list[LayerDraft]]:
    """Return the layer before a softmax and what stands beside it, and these."""
    between = list[LayerDraft]()
    while layer.op in BETWEEN:
        between.append(layer)
        layer = layer.reads[0]
    return layer, between


def _attention_of(
    view: Reading, shares: TensorAxes, values: TensorAxes, keys: Axes, axes: Axes
) -> TensorAxes | None:
    """Say an attention where a product's first factor is a softmax of another product over the same dims."""
    scores, between = scores_of(shares.layer)
    softmax = [one for one in between if one.op == "softmax"]
    if scores.op != "matmul" or len(softmax) != 1 or any(one.op == "position" for one in between):
        return None
    aliased = dict(zip(scores.others["names"], scores.roles.get("names", ()), strict=True))
    if (atoms.leaves(softmax[0].roles["over"]), tuple(map(aliased.get, keys[0]))) != keys:
        return None
    nodes, masks = [one.node for one in between], view.trace.masks
    causal = any(node.get("is_causal") or not masks.isdisjoint(node.read) for node in nodes)
    parts = _parts(scores.reads, values.layer)
    read = [*parts[:2], values.layer, *parts[2:]]
    with suppress(Unsaid):
        found = view.put(
            "attention", *map(TensorAxes, read), axes=axes, roles={"over": keys[1]}, fields={"causal": causal},
            weights=frozenset(),
        )  # fmt: skip
        makers = read[:3]
        if len({maker.node.scope for maker in makers}) == 1 and all(maker.op == "linear" for maker in makers):
            for maker, name in zip(makers, ("q", "k", "v"), strict=True):
                maker.node = replace(maker.node, scope=(*maker.node.scope, name))
        return found
    return None


def _parts(factors: tuple[LayerDraft, ...], values: LayerDraft) -> list[LayerDraft]:
    """Return the queries and the keys of each part of their features, those with the dims of the values first.

    There are none where the parts of both are not of equal sizes.
    """
    queries, keys = (one.reads if "parts" in one.notes else (one,) for one in factors)
    parts = list(zip(queries, keys, strict=False))
    alike = len(parts) == 1 or all(atoms.unite(one.dims[-1:], other.dims[-1:]) for one, other in parts)
    if len(queries) != len(keys) or not alike:
        return []
    own = {*values.dims[:-1]}
    parts.sort(key=lambda part: {*part[1].dims[:-1]} != own)
    return [one for part in parts for one in part]


def lookup(view: Reading) -> TensorAxes:
    """Say a table whose rows are looked up by the input."""
    held, table = view.tensor("tokens"), view.node.operand("table")
    refuse(table not in view.weights)
    over, out = ((Atom(size),) for size in view.trace.shapes[table])
    axes = (*held.axes[: len(view.node.made) - 1], out)
    return view.put("embedding", held, axes=axes, roles={"over": over, "out": out})


# Experts


def topk(view: Reading) -> TensorAxes:
    """Say the largest scores of each position, as gates; a softmax or a sigmoid before is part of it.

    A constant that is added before the choice says which ones are large alone.
    """
    held, over = view.only, view.only.positions(-1)
    refuse(view.node.axes(-1)[0] not in {-1, len(held.axes) - 1})
    chosen = held.layer
    while chosen.fields.get("function") == "other" and chosen.node.op == "add":
        (chosen,) = chosen.reads
    sigmoid = chosen.fields.get("function") == "sigmoid"
    shares = sigmoid or (chosen.op == "softmax" and atoms.leaves(chosen.roles["over"]) == (over,))
    scores = chosen.reads[0] if shares else chosen
    refuse(len(scores.dims) != 2)
    limits = {name: held.layer.notes.get(name, 1) for name in ("groups", "best")}
    fields = {"count": view.node.get("k", 0), "function": "sigmoid" if sigmoid else "softmax"}
    fields |= limits if limits["best"] < limits["groups"] else {}
    choices = Atom(fields["count"])
    return view.put(
        "top_k", TensorAxes(scores), axes=(*held.axes[:-1], (choices,)), roles={"over": (over,)}, fields=fields,
        notes={"scores": chosen, "choices": choices, "shares": shares},
    )  # fmt: skip


def best_groups(view: Reading) -> TensorAxes:
    """Say scores without those of groups that are not among the best: no layer."""
    view.only.layer.notes |= {name: view.node.get(name) for name in ("groups", "best")}
    return view.only


def gathered(view: Reading) -> TensorAxes:
    """Say the scores that a choice took of those that it chose from: its gates."""
    values, index = view.tensor("self"), view.tensor("index")
    gates = _gates(view, index)
    refuse(len(index.axes) != 2 or view.node.axes()[0] % 2 != 1 or gates.notes["scores"] is not values.layer)
    return TensorAxes(gates, index.axes)


def normalised(view: Reading) -> TensorAxes:
    """Say gates divided by their sum where they are shares already, or the softmax of the largest scores, which is the same."""
    notes = view.only.layer.notes
    refuse(notes.get("shares") != (view.node.op == "shares"))
    notes["normalised"] = True
    return view.only


def placed(view: Reading) -> TensorAxes:
    """Say a permutation of routed positions that is written down in another order: no layer."""
    _gates(view, view.tensor("indices"))
    return view.tensor("indices")


def indexed(view: Reading) -> TensorAxes:
    """Say routed positions of a tensor, at their experts, through one ``dispatch`` for all its readers."""
    held, index = view.tensor("self"), view.tensor("indices")
    gates = _gates(view, index)
    choices, experts, count = gates.notes["choices"], gates.roles["over"], gates.fields["count"]
    refuse(len(index.axes) != 1 or view.node.made[1:] != view.node.sizes("self")[1:])  # rows of another axis
    with suppress(Unsaid):
        _gates(view, held)
        return held  # in another order
    axes = held.replaced(0, index.axes[0]).axes
    for draft in view.rows:
        if draft.op == "dispatch" and draft.notes["choices"] is choices and draft.reads == (held.layer,):
            return TensorAxes(draft, axes)
    positions = tuple(atom for atom in atoms.leaves(index.axes[0]) if atom not in {view.batch, choices})
    slots = Atom(-(-atoms.size(positions) // round_of(atoms.size(experts), count)))
    roles = {"over": positions, "slots": (slots,), "to": experts}
    said = {"fields": {"count": count}, "notes": {"choices": choices}}
    return view.put("dispatch", held, axes=axes, roles=roles, weights=frozenset(), **said)


def grouped(view: Reading) -> TensorAxes:
    """Say a product of routed positions with the matrices of all experts, which stand one behind the other."""
    held, weight = view.tensor("input"), view.node.operand("weight")
    refuse(weight not in view.weights)
    experts, (count, *_, width) = _gates(view, held).roles["over"], view.trace.shapes[weight]
    refuse(count != atoms.size(experts))
    contracted, made = atoms.leaves(held.axes[-1]), atoms.axis(width)
    roles = {"contracted": contracted, "out": made, "each": experts}
    return view.put("linear", held, axes=(*held.axes[:-1], made), roles=roles, fields={"bias": False})


def weighed(view: Reading) -> TensorAxes:
    """Say the product of what experts made and the gates, with the sum over the choices that follows, along which it is repeated."""
    refuse(len(view.data) != 2 or view.weights)
    both = (view.held[value] for value in view.data)
    made, gates = sorted(both, key=lambda held: "scores" in held.layer.notes)
    notes, routed = gates.layer.notes, _gates(view, made)
    refuse("scores" not in notes or made.layer is routed)
    slots = {atom for draft in view.rows if draft.op == "dispatch" for atom in draft.roles["slots"]}
    slots &= {*made.layer.dims}
    refuse(not slots)
    shares = TensorAxes(routed)
    if "normalised" not in notes:  # no op says them
        scores = TensorAxes(notes["scores"])
        shape = {"shape": scores.layer.dims}
        shares = view.put(OPAQUE, scores, axes=(), roles=shape, fields={"kind": "topk"})
    fields, roles = {"count": notes["choices"].size}, {"over": routed.roles["over"], "slots": (*slots,)}
    return view.put("combine", made, shares, axes=made.axes, roles=roles, fields=fields)


def summed(view: Reading) -> TensorAxes:
    """Say the sum over the choices of each position, which is part of a ``combine``: no layer."""
    held, axes = view.only, view.node.axes()
    refuse(held.layer.op != "combine" or len(axes) != 1)
    refuse(atoms.leaves(held.axes[axes[0]]) != (_gates(view, held).notes["choices"],))
    return held.replaced(axes[0])


def _gates(view: Reading, held: TensorAxes) -> LayerDraft:
    """Return the gates of a routed tensor, whose axes have the atom of their choices."""
    axis = atoms.leaves(sum(held.axes, ()))
    found = [draft for draft in view.rows if draft.op == "top_k" and draft.notes["choices"] in axis]
    refuse(not found)
    return found[0]
