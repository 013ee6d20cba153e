"""Rules on sequences, linear layers, products of two activations, attention and tables; and of mixtures of experts.

A routed tensor has an axis of positions and choices: the atoms of the positions, and behind them the atom of the choices of one
position. Its layer has the dims of ``dispatch`` instead, experts and slots. Gates note the layer whose largest ``scores``
they are, whether these are ``shares``, as a softmax gives them or a sigmoid, and whether they are ``normalised``; what experts
made notes its ``gates``, and scores the ``groups`` of which a position takes the ``best``.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.errors import ModelError
from hypar.importers.layers import BATCH, OPAQUE, OpContext, TensorAxes, Unsaid, refuse
from hypar.importers.trace import VIEWS, Letters, matrix_letters
from hypar.ops.windows import round_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.importers.layers import Axes, Axis, LayerDraft

    Roles = Mapping[str, Letters]

MOST_TOKENS = 64
"""Trained tokens that one concatenation may put before a sequence."""


def patches(view: OpContext, held: TensorAxes) -> TensorAxes:
    """Return a view of an image as the positions of a sequence, where its convolution has one filter for each patch."""
    atoms, draft = view.atoms, view.rows[held.number]
    axes = [atoms.leaves(axis) for axis in held.axes]
    named = [tuple(atoms.fixed.get(atom, "") for atom in axis) for axis in axes]
    plain = draft.op == "conv" and draft.fields.get("stride") == draft.fields["kernel"]
    viewed = {view.trace.nodes[number].op for number in view.trace.readers[draft.node.result]} <= VIEWS
    if ("height", "width") not in named or not plain or not viewed:
        return held
    places = [named.index(of) for of in (("height", "width"), ("channels",))]
    positions, made = ((atoms.new(atoms.size(axes[place])),) for place in places)
    fields = {name: value for name, value in draft.fields.items() if name not in {"out_channels", "stride"}}
    roles: dict[str, Axis] = {"over": positions, "out": made}
    with suppress(Unsaid):
        instead = dict(zip(places, (positions, made), strict=True))
        number = view.add(replace(draft, op="patch", fields=fields, roles=roles, notes={"one": 1}))
        held = TensorAxes(number, tuple(instead.get(at, axis) for at, axis in enumerate(axes)))
    return held


def tokens(view: OpContext, axis: int) -> TensorAxes:
    """Say a concatenation of trained tokens and the positions behind them."""
    *first, last = view.node.read
    refuse(last not in view.held or [*view.weights] != first)
    held = view.held[last]
    for value in reversed(first):
        count, own = view.trace.shapes[value][axis], view.weights[value]
        refuse(count > MOST_TOKENS)
        each = view.atoms.size(view.dims(held)) // view.atoms.size(held.axes[axis])
        refuse(sum(view.trace.trained[one] for one in own) != count * each)
        for _ in range(count):
            over = view.positions(held, axis)
            longer = held.replaced(axis, (view.atoms.resized(over, view.atoms.size((over,)) + 1),))
            held = view.put("token", held, axes=longer.axes, roles={"over": (over,)}, weights=own)
    return held


def beside(view: OpContext, op: str, held: TensorAxes, own: tuple[int, ...] = ()) -> TensorAxes:
    """Say an op of a tensor and of an operation's trained numbers, which elements share along some axes, or of rows of a table.

    The trained numbers stand behind the tensor's last axes, or have a shape that is said. Which row of a table an element
    meets follows from its place; the axis of a row is the last one of its width, of scores of an attention the first, the heads.
    """
    (weight,), shapes, sizes = view.weights, view.trace.shapes, tuple(map(view.atoms.size, held.axes))
    said = sum(view.trace.trained[one] for one in view.trained)
    own = own or (1,) * (len(sizes) - len(shapes[weight])) + shapes[weight]
    places, fields = [place for place, size in enumerate(own) if size > 1], {}
    scores = view.rows[held.number].op == "matmul"
    if said != view.trace.elements(weight):
        tables = [shapes[name] for name, one in view.trace.parameters.items() if {one} == {*view.trained}]
        refuse(op != "position" or not tables or tables[0][-1] == 1 or (scores and len(tables[0]) != 2))
        fields = {"rows": said // tables[0][-1]}
        places = [place for place in places if own[place] == tables[0][-1] == sizes[place]]
        places = places[:1] if scores else places[-1:]
    refuse(any(own[place] != sizes[place] for place in places))
    refuse(not places and (scores or fields or op == "layer_scale"))
    over = view.atoms.leaves(atom for place in places for atom in held.axes[place])
    whole = op == "position" and {*over} == {*view.dims(held)}
    return view.put(op, held, fields=fields, roles={"over": () if whole else over})


def biased(view: OpContext, scores: TensorAxes) -> TensorAxes:
    """Say a trained bias of scores; one that is made in another way, as by a small network of distances, no op says."""
    with suppress(Unsaid):
        return beside(view, "position", scores)
    return view.put("pointwise", scores, fields={"function": "other"}, weights=frozenset())


BETWEEN = frozenset({"dropout", "pointwise", "position", "softmax"})
"""Ops between the two products of an attention."""


def attention(view: OpContext) -> TensorAxes:
    """Say an attention in one operation as two products and the softmax between, with a trained mask added to the scores."""
    query, key, value = (view.tensor(name) for name in ("query", "key", "value"))
    atoms, rank = view.atoms, len(query.axes)
    refuse({len(key.axes), len(value.axes)} != {rank})
    if BATCH in atoms.leaves(key.axes[-2]):
        found = "found an attention over its first axis, that of the samples"
        raise ModelError(view.trace.name, found, "samples first, as with batch_first=True")
    if rank > 3 and (groups := atoms.size(query.axes[-3]) // atoms.size(key.axes[-3])) > 1:
        key, value = (one.replaced(-3, (*one.axes[-3], atoms.new(groups))) for one in (key, value))
    letters = matrix_letters(rank, rank)
    *outer, inner, column = letters["right"]
    scores = activations(view, query, key, {**letters, "right": (*outer, column, inner)})
    scores = biased(view, scores) if view.node.operand("mask") in view.weights else scores
    shares = view.put("softmax", scores, roles={"over": atoms.leaves(scores.axes[-1])}, weights=frozenset())
    return activations(view, shares, value, letters)


def dot(view: OpContext) -> TensorAxes:
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


def _linear(view: OpContext, held: TensorAxes, weight: str, roles: Roles, *, bias: bool) -> TensorAxes:
    """Say a linear layer over all positions of the axes that are not contracted."""
    atoms, of_data, of_result = view.atoms, roles["left"], roles["made"]
    sizes = dict(zip(roles["right"], view.trace.shapes[weight], strict=True))
    axes: dict[int, Axis] = dict(zip(of_data, held.axes, strict=True))
    read = [letter for letter in of_data if letter in sizes and letter not in of_result]
    made = [letter for letter in sizes if letter not in of_data]
    refuse(any(letter in sizes and letter in of_result and sizes[letter] > 1 for letter in of_data))
    contracted = atoms.leaves(atom for letter in read for atom in axes[letter])
    own = view.dims(held)
    refuse(not contracted)
    if len(view.read) == 1 and len(sizes) == 2:
        return view.put("linear", held, fields={"out_features": sizes[made[0]], "bias": bias})
    axes |= {letter: atoms.axis(sizes[letter]) for letter in made}
    new = tuple(atom for letter in made for atom in axes[letter])
    result = tuple(axes[letter] for letter in of_result)
    refuse(not new)
    order = tuple(atom for atom in own if atom in contracted)
    kept = tuple(atom for atom in own if atom not in contracted)
    if [*map(view.label, order)] == ["channels"] and [*map(view.label, kept)] == ["height", "width"]:
        found = view.put("conv", held, fields={"out_channels": atoms.size(new), "kernel": 1, "bias": bias})
        refuse(not atoms.unite((*new, *kept), view.dims(found)))
        return replace(found, axes=result)
    tied = _owner(view, weight, (contracted, new))
    said = {"roles": {"contracted": order, "out": new}, "fields": {"bias": bias}}
    return view.put("linear", held, axes=result, tied=tied, **said)


def _owner(view: OpContext, weight: str, axes: tuple[Axis, Axis]) -> int | None:
    """Return the layer whose weight a linear layer uses, after making their dims the same."""
    atoms, identities = view.atoms, view.weights[weight]
    owners = ((at, draft) for at, draft in enumerate(view.rows) if draft.op in {"embedding", "linear"})
    for number, draft in owners:
        if draft.tied is not None or not identities & draft.weights:
            continue
        theirs = draft.roles.get("over", draft.roles.get("contracted", ())), draft.roles.get("out", ())
        pairs = list(zip(axes, reversed(theirs) if draft.op == "embedding" else theirs, strict=True))
        if all(atoms.size(one) == atoms.size(other) for one, other in pairs):
            return number if all(atoms.unite(one, other) for one, other in pairs) else None
    return None


def activations(view: OpContext, left: TensorAxes, right: TensorAxes, roles: Roles) -> TensorAxes:
    """Say a product of two tensors that depend on the input; an attention where it is the second one of that."""
    atoms, of_left, of_right = view.atoms, roles["left"], roles["right"]
    if any(view.rows[one].op == "softmax" for one in scores_of(view.rows, right.number)[1]):
        left, right, of_left, of_right = right, left, of_right, of_left
    one, two = dict(zip(of_left, left.axes, strict=True)), dict(zip(of_right, right.axes, strict=True))
    both = [letter for letter in one if letter in two]
    contracted = [letter for letter in both if letter not in roles["made"]]
    for letter in both:
        joined = atoms.unite(one[letter], two[letter])
        refuse(not joined and not (letter in contracted and atoms.align(one[letter], two[letter])))
    mine, theirs = (atoms.leaves(sum((side[at] for at in contracted), ())) for side in (one, two))
    shared = atoms.leaves(atom for letter in both if letter not in contracted for atom in one[letter])
    refuse(BATCH not in shared)
    taken = {atoms.first(atom) for atom in view.dims(left)}
    free = (atom for atom in view.dims(right) if atom not in (*theirs, *shared))
    names = {atom: atoms.new(atoms.size((atom,))) for atom in free if atoms.first(atom) in taken}
    atoms.aliases |= {*names.values()}
    renamed = {at: tuple(names.get(atom, atom) for atom in atoms.leaves(axis)) for at, axis in two.items()}
    axes = tuple({**renamed, **one}[letter] for letter in roles["made"])
    if (found := _attention_of(view, left, right, (mine, theirs), axes)) is not None:
        return found
    roles, others = {"over": mine, "names": (*names,)}, {"over": theirs, "names": (*names.values(),)}
    return view.put("matmul", left, right, axes=axes, roles=roles, others=others, weights=frozenset())


def scores_of(rows: Sequence[LayerDraft], number: int) -> tuple[int, list[int]]:
    """Return the layer before a softmax and what stands beside it, and these."""
    between = list[int]()
    while rows[number].op in BETWEEN:
        between.append(number)
        number = rows[number].reads[0]
    return number, between


def _attention_of(
    view: OpContext, shares: TensorAxes, values: TensorAxes, keys: Axes, axes: Axes
) -> TensorAxes | None:
    """Say an attention where a product's first factor is a softmax of another product over the same dims."""
    rows, leaves = view.rows, view.atoms.leaves
    number, between = scores_of(rows, shares.number)
    scores = rows[number]
    softmax = [rows[one] for one in between if rows[one].op == "softmax"]
    if scores.op != "matmul" or len(softmax) != 1 or any(rows[one].op == "position" for one in between):
        return None
    aliased = dict(zip(scores.others["names"], scores.roles.get("names", ()), strict=True))
    if leaves(softmax[0].roles["over"]) != keys[0] or tuple(aliased.get(atom) for atom in keys[0]) != keys[1]:
        return None
    causal = any(view.trace.causal(rows[one].node) for one in between)
    parts = _parts(view, scores.reads, values.number)
    numbers = [*parts[:2], values.number, *parts[2:]]
    with suppress(Unsaid):
        found = view.put(
            "attention", *(TensorAxes(number, ()) for number in numbers), axes=axes, roles={"over": keys[1]},
            fields={"causal": causal}, weights=frozenset(),
        )  # fmt: skip
        makers = [rows[number] for number in numbers[:3]]
        if len({maker.node.scope for maker in makers}) == 1 and all(maker.op == "linear" for maker in makers):
            for maker, name in zip(makers, ("q", "k", "v"), strict=True):
                maker.node = replace(maker.node, scope=(*maker.node.scope, name))
        return found
    return None


def _parts(view: OpContext, factors: tuple[int, ...], values: int) -> list[int]:
    """Return the queries and the keys of each part of their features, those with the dims of the values first.

    There are none where the parts of both are not of equal sizes.
    """
    rows, dims, atoms = view.rows, view.dims, view.atoms
    queries, keys = (rows[one].reads if "parts" in rows[one].notes else (one,) for one in factors)
    parts = list(zip(queries, keys, strict=False))
    alike = len(parts) == 1 or all(atoms.unite(dims(one)[-1:], dims(other)[-1:]) for one, other in parts)
    if len(queries) != len(keys) or not alike:
        return []
    own = {*dims(values)[:-1]}
    parts.sort(key=lambda part: {*dims(part[1])[:-1]} != own)
    return [number for part in parts for number in part]


def lookup(view: OpContext) -> TensorAxes:
    """Say a table whose rows are looked up by the input."""
    held, table = view.tensor("tokens"), view.node.operand("table")
    refuse(table not in view.weights)
    over, out = ((view.atoms.new(size),) for size in view.trace.shapes[table])
    axes = (*held.axes[: len(view.node.made) - 1], out)
    return view.put("embedding", held, axes=axes, roles={"over": over, "out": out})


# Experts


def topk(view: OpContext) -> TensorAxes:
    """Say the largest scores of each position, as gates; a softmax or a sigmoid before is part of it.

    A constant that is added before the choice says which ones are large alone.
    """
    held, rows = view.only, view.rows
    over, number = view.positions(held, -1), held.number
    refuse(view.node.axes(-1)[0] not in {-1, len(held.axes) - 1})
    while rows[number].fields.get("function") == "other" and rows[number].node.op == "add":
        (number,) = rows[number].reads
    draft = rows[number]
    sigmoid = draft.fields.get("function") == "sigmoid"
    shares = sigmoid or (draft.op == "softmax" and view.atoms.leaves(draft.roles["over"]) == (over,))
    scores = draft.reads[0] if shares else number
    refuse(len(view.dims(scores)) != 2)
    limits = {name: rows[held.number].notes.get(name, 1) for name in ("groups", "best")}
    fields = {"count": view.node.get("k", 0), "function": "sigmoid" if sigmoid else "softmax"}
    fields |= limits if limits["best"] < limits["groups"] else {}
    choices = view.atoms.new(fields["count"])
    return view.put(
        "top_k", TensorAxes(scores, ()), axes=(*held.axes[:-1], (choices,)), roles={"over": (over,)}, fields=fields,
        notes={"scores": number, "choices": choices, "shares": shares},
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
    """Say gates divided by their sum where they are shares already, or the softmax of the largest scores, which is the same."""
    notes = view.rows[view.only.number].notes
    refuse(notes.get("shares") != (view.node.op == "shares"))
    notes["normalised"] = True
    return view.only


def counted(view: OpContext) -> TensorAxes:
    """Say how many positions go to each expert, or a permutation of these that is written down in another order: no layer."""
    placed = view.node.op == "index_put"
    held = view.tensor("indices") if placed else view.only
    _, gates = _routed(view, held)
    return held if placed else TensorAxes(held.number, (view.rows[gates].roles["over"],))


def indexed(view: OpContext) -> TensorAxes:
    """Say routed positions of a tensor, at their experts, through one ``dispatch`` for all its readers."""
    held, index, atoms = view.tensor("self"), view.tensor("indices"), view.atoms
    choices, gates = _routed(view, index)
    refuse(len(index.axes) != 1 or view.node.made[1:] != view.node.sizes("self")[1:])  # rows of another axis
    with suppress(Unsaid):
        _routed(view, held)
        return held  # in another order
    axes = held.replaced(0, index.axes[0]).axes
    for number, draft in enumerate(view.rows):
        if draft.op == "dispatch" and draft.notes["choices"] == choices and draft.reads == (held.number,):
            return TensorAxes(number, axes)
    positions = tuple(atom for atom in atoms.leaves(index.axes[0]) if atom not in {BATCH, choices})
    experts, count = view.rows[gates].roles["over"], atoms.size((choices,))
    slots = atoms.new(-(-atoms.size(positions) // round_of(atoms.size(experts), count)))
    roles = {"over": positions, "slots": (slots,), "to": experts}
    said = {"fields": {"count": count}, "notes": {"choices": choices}}
    return view.put("dispatch", held, axes=axes, roles=roles, weights=frozenset(), **said)


def grouped(view: OpContext) -> TensorAxes:
    """Say a product of routed positions with the matrices of all experts, which stand one behind the other."""
    held, weight = view.tensor("input"), view.node.operand("weight")
    refuse(weight not in view.weights)
    (_, gates), atoms, (count, *_, width) = _routed(view, held), view.atoms, view.trace.shapes[weight]
    experts = view.rows[gates].roles["over"]
    refuse(count != atoms.size(experts))
    contracted, made = atoms.leaves(held.axes[-1]), atoms.axis(width)
    roles = {"contracted": contracted, "out": made, "each": experts}
    return view.put("linear", held, axes=(*held.axes[:-1], made), roles=roles, fields={"bias": False})


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
    notes, experts = rows[gates].notes, rows[gates].roles["over"]
    slots = {atom for draft in rows if draft.op == "dispatch" for atom in draft.roles["slots"]}
    slots &= {*view.dims(held)}
    refuse(not slots or atoms.leaves(held.axes[axes[0]]) != (notes["choices"],))
    shares = TensorAxes(gates, ())
    if "normalised" not in notes:  # no op says them
        shape, scores = {"shape": view.dims(notes["scores"])}, TensorAxes(notes["scores"], ())
        shares = view.put(OPAQUE, scores, axes=(), roles=shape, fields={"kind": "topk"})
    fields, roles = {"count": rows[gates].fields["count"]}, {"over": experts, "slots": (*slots,)}
    return view.put("combine", held, shares, axes=held.replaced(axes[0]).axes, roles=roles, fields=fields)


def _routed(view: OpContext, held: TensorAxes) -> tuple[int, int]:
    """Return the atom of the choices in the axes of a routed tensor, and the number of the gates."""
    gates = {draft.notes["choices"]: number for number, draft in enumerate(view.rows) if draft.op == "top_k"}
    found = [atom for atom in view.atoms.leaves(sum(held.axes, ())) if atom in gates]
    refuse(not found)
    return found[0], gates[found[0]]
