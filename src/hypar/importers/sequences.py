"""Rules on sequences: patches, trained tokens and positions; linear layers, products of two activations, attention, and tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.errors import ModelError
from hypar.importers.atoms import BATCH
from hypar.importers.layers import JOINED, TensorAxes, refuse
from hypar.importers.trace import VIEWS
from hypar.ops.windows import ShapeError
from hypar.registry import load_plugin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.importers.atoms import Axes, Axis
    from hypar.importers.layers import OpContext
    from hypar.importers.trace import Letters

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
    refuse(last not in view.held or [*view.weights] != first)
    held = view.held[last]
    for value in reversed(first):
        held = _token(view, held, value, axis % len(view.sizes(last)))
    return held


def _token(view: OpContext, held: TensorAxes, value: str, axis: int) -> TensorAxes:
    """Say trained tokens before the positions of an axis."""
    atoms, dims, over = view.atoms, view.dims(held), view.positions(held, axis)
    count, trained = view.sizes(value)[axis], view.weights[value]
    refuse(count > MOST_TOKENS)
    refuse(view.trained(value) != count * atoms.size(dims) // atoms.size((over,)))
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
    left = view.atoms.resized(over, 1)
    axes = (*held.axes[:axis], *(() if drop else ((),)), *held.axes[axis + 1 :])
    dims = tuple(left if atom == over else atom for atom in view.dims(held))
    return view.put("select", [held], axes, dims, roles={"over": (over,)}, fields={"index": index})


def beside(view: OpContext, op: str, own: tuple[int, ...] = ()) -> TensorAxes:
    """Say an op of a tensor and of trained numbers that its elements share along some axes, or of rows of a table.

    The trained numbers stand behind the tensor's last axes, or have a shape that is said. Which row of a table an element
    meets follows from its place; the axis of a row is the last one of its width, of scores of an attention the first, the heads.
    """
    (value,), (weight,) = view.data, view.weights
    held, sizes, said = view.held[value], view.sizes(value), view.trained(weight)
    own = own or (1,) * (len(sizes) - len(view.sizes(weight))) + view.sizes(weight)
    places, fields = [place for place, size in enumerate(own) if size > 1], {}
    scores = view.draft(held).op == "matmul"
    if said != view.trace.elements(weight):
        tables = [
            view.sizes(name)
            for name, one in view.trace.parameters.items()
            if {one} == {*view.weights[weight]}
        ]
        refuse(op != "position" or not tables or tables[0][-1] == 1 or (scores and len(tables[0]) != 2))
        fields = {"rows": said // tables[0][-1]}
        places = [place for place in places if own[place] == tables[0][-1] == sizes[place]]
        places = places[:1] if scores else places[-1:]
    refuse(any(own[place] != sizes[place] for place in places))
    refuse(not places and (scores or fields or op == "layer_scale"))
    over = view.atoms.leaves(atom for place in places for atom in held.axes[place])
    refuse(not {*over} <= {*view.dims(held)})
    roles = {"over": over} if over else {}
    return view.put(op, [held], held.axes, view.dims(held), fields=fields, roles=roles)


BETWEEN = frozenset({"pointwise", "dropout"})
"""Ops between the two products of an attention, besides its softmax and what is added to its scores."""


def dot(view: OpContext) -> TensorAxes | None:
    """Say a sum of products over the letters that the result lacks: a linear layer, or a product of two activations."""
    node = view.node
    left, right, bias = (node.operand(name) for name in ("left", "right", "bias"))
    roles = {name: node.get(name) for name in ("left", "right", "made")}
    refuse(not left or not right or roles["left"] is None or node.get("scaled", False))
    if left in view.held and right in view.held:
        if node.get("scores") and BATCH in view.atoms.leaves(view.held[right].axes[-2]):
            found = "found an attention over its first axis, that of the samples"
            raise ModelError(view.trace.name, found, "samples first, as with batch_first=True")
        return None if bias else activations(view, view.held[left], view.held[right], roles)
    if right in view.held:
        left, right, roles = right, left, {**roles, "left": roles["right"], "right": roles["left"]}
    refuse(left not in view.held or right not in view.weights or (bias and bias not in view.weights))
    return _linear(view, view.held[left], right, roles, bias=bool(bias))


def _linear(
    view: OpContext, held: TensorAxes, weight: str, roles: Mapping[str, Letters], *, bias: bool
) -> TensorAxes | None:
    """Say a linear layer over all positions of the axes that are not contracted."""
    atoms, of_data, of_result = view.atoms, roles["left"], roles["made"]
    sizes = dict(zip(roles["right"], view.sizes(weight), strict=True))
    axes: dict[int, Axis] = dict(zip(of_data, held.axes, strict=True))
    read = [letter for letter in of_data if letter in sizes and letter not in of_result]
    made = [letter for letter in sizes if letter not in of_data]
    refuse(any(letter in sizes and letter in of_result and sizes[letter] > 1 for letter in of_data))
    contracted = atoms.leaves(atom for letter in read for atom in axes[letter])
    own = view.dims(held)
    refuse(not {*contracted} <= {*own} or not contracted or BATCH in contracted)
    if len(view.read) == 1 and len(sizes) == 2:
        out = {"out_features": sizes[made[0]], "bias": bias}
        return view.image("linear", [held], out, {"channels": sizes[made[0]]})
    axes |= {letter: atoms.axis(sizes[letter]) for letter in made}
    new, result = (
        tuple(atom for letter in made for atom in axes[letter]),
        tuple(axes[letter] for letter in of_result),
    )
    refuse(not new)
    order = tuple(atom for atom in own if atom in contracted)
    kept = tuple(atom for atom in own if atom not in contracted)
    if [atoms.fixed.get(atom) for atom in (*order, *kept)] == ["channels", "height", "width"]:
        atoms.fixed[new[0]] = "channels"
        fields = {"out_channels": atoms.size(new), "kernel": 1, "bias": bias}
        return view.put("conv", [held], result, (*new, *kept), fields=fields)
    return view.put(
        "linear", [held], result, (*kept, *new), roles={"contracted": order, "out": new}, fields={"bias": bias},
        tied=_owner(view, weight, (contracted, new)),
    )  # fmt: skip


def _owner(view: OpContext, weight: str, axes: tuple[Axis, Axis]) -> int | None:
    """Return the layer whose weight a linear layer uses, after making their dims the same."""
    atoms, identities = view.atoms, view.weights[weight]
    for number, draft in enumerate(view.layers.rows):
        owns = draft.op in {"embedding", "linear"} and draft.tied is None
        if not owns or not identities & draft.weights:
            continue
        theirs = draft.roles.get("over", draft.roles.get("contracted", ())), draft.roles.get("out", ())
        pairs = list(zip(axes, reversed(theirs) if draft.op == "embedding" else theirs, strict=True))
        if all(atoms.size(one) == atoms.size(other) for one, other in pairs):
            united = [atoms.unite(one, other) for one, other in pairs]
            return number if all(united) else None
    return None


def activations(
    view: OpContext, left: TensorAxes, right: TensorAxes, roles: Mapping[str, Letters]
) -> TensorAxes | None:
    """Say a product of two tensors that depend on the input; an attention where it is the second one of that."""
    atoms, of_left, of_right = view.atoms, roles["left"], roles["right"]
    if any(view.layers.rows[one].op == "softmax" for one in _scores(view, right.number)[1]):
        left, right, of_left, of_right = right, left, of_right, of_left
    one, two = dict(zip(of_left, left.axes, strict=True)), dict(zip(of_right, right.axes, strict=True))
    both = [letter for letter in one if letter in two]
    contracted = [letter for letter in both if letter not in roles["made"]]
    for letter in both:
        joined = atoms.unite(one[letter], two[letter])
        refuse(not joined and not (letter in contracted and atoms.align(one[letter], two[letter])))
    mine, theirs = (
        atoms.leaves(atom for letter in contracted for atom in side[letter]) for side in (one, two)
    )
    shared = atoms.leaves(atom for letter in both if letter not in contracted for atom in one[letter])
    first, second = view.dims(left), view.dims(right)
    refuse(BATCH not in shared or not {*mine} <= {*first} or not {*theirs} <= {*second})
    found = _attention_of(view, left, right, (mine, theirs))
    taken = {atoms.first(atom) for atom in first}
    names = {
        atom: atoms.new(atoms.size((atom,)))
        for atom in second
        if atoms.first(atom) in taken and atom not in theirs and atom not in shared
    }
    atoms.aliases |= {*names.values()}
    free = {
        letter: tuple(names.get(atom, atom) for atom in atoms.leaves(axis))
        for letter, axis in two.items()
        if letter not in one
    }
    axes = tuple({**free, **one}[letter] for letter in roles["made"])
    if found is not None:
        return replace(found, axes=axes)
    others = [names.get(atom, atom) for atom in second if atom not in theirs and atom not in shared]
    dims = (*(atom for atom in first if atom not in mine), *(atom for atom in others if atom not in first))
    pairs = {"over": tuple(zip(mine, theirs, strict=True)), "names": tuple(names.items())}
    pairs = {field: pair for field, pair in pairs.items() if pair}
    return view.put("matmul", [left, right], axes, dims, pairs=pairs, weights=frozenset())


def _scores(view: OpContext, number: int) -> tuple[int, list[int]]:
    """Return the layer before a softmax and what stands beside it, and these."""
    rows, between = view.layers.rows, []
    while rows[number].op in BETWEEN or rows[number].op == "softmax":
        between.append(number)
        number = rows[number].reads[0]
    return number, between


def _attention_of(
    view: OpContext, shares: TensorAxes, values: TensorAxes, keys: tuple[Axis, Axis]
) -> TensorAxes | None:
    """Say an attention where a product's first factor is a softmax of another product over the same dims."""
    rows, leaves = view.layers.rows, view.atoms.leaves
    number, between = _scores(view, shares.number)
    scores = rows[number]
    softmax = [rows[one] for one in between if rows[one].op == "softmax"]
    if scores.op != "matmul" or len(softmax) != 1:
        return None
    aliased = {atom: own for own, atom in scores.pairs.get("names", ())}
    if leaves(softmax[0].roles["over"]) != keys[0] or tuple(aliased.get(atom) for atom in keys[0]) != keys[1]:
        return None
    masked = [node for one in between if (node := rows[one].node)]
    causal = any(map(view.trace.causal, masked))
    parts, dims = _parts(view, scores.reads, values.number), view.layers.dims
    numbers = [*parts[:2], values.number, *parts[2:]]
    sizes = [{str(atom): view.atoms.size((atom,)) for atom in dims(number)} for number in numbers]
    try:
        load_plugin("ops", "attention")(over=[*map(str, keys[1])]).output_shape(tuple(sizes))
    except ShapeError:
        return None
    makers = [rows[number] for number in numbers[:3]]
    if len({maker.scope for maker in makers}) == 1 and all(maker.op == "linear" for maker in makers):
        for maker, name in zip(makers, ("q", "k", "v"), strict=True):
            maker.scope = (*maker.scope, name)
    return view.put(
        "attention", [TensorAxes(number, ()) for number in numbers], (), (*dims(numbers[0])[:-1], dims(values.number)[-1]),
        roles={"over": keys[1]}, weights=frozenset(), fields={"causal": causal}, flop=view.node.flop + scores.flop,
    )  # fmt: skip


def _parts(view: OpContext, factors: tuple[int, ...], values: int) -> list[int]:
    """Return the queries and the keys of each part of their features, those with the dims of the values first.

    There are none where the parts of both are not of equal sizes.
    """
    rows, dims, atoms = view.layers.rows, view.layers.dims, view.atoms
    queries, keys = (rows[one].reads if rows[one].op == JOINED else (one,) for one in factors)
    parts = list(zip(queries, keys, strict=False))
    alike = len(parts) == 1 or all(atoms.unite(dims(one)[-1:], dims(other)[-1:]) for one, other in parts)
    if len(queries) != len(keys) or not alike:
        return []
    own = {*dims(values)[:-1]}
    parts.sort(key=lambda part: {*dims(part[1])[:-1]} != own)
    return [number for part in parts for number in part]


def lookup(view: OpContext) -> TensorAxes | None:
    """Say a table whose rows are looked up by the input."""
    table, tokens = view.node.operand("table"), view.node.operand("tokens")
    refuse(table not in view.weights or tokens not in view.held)
    held, (rows, width) = view.held[tokens], view.sizes(table)
    over, out = (view.atoms.new(rows),), (view.atoms.new(width),)
    axes: Axes = (*held.axes[: len(view.sizes()) - 1], out)
    return view.put("embedding", [held], axes, (*view.dims(held), *out), roles={"over": over, "out": out})


def loss(view: OpContext) -> TensorAxes | None:
    """Say a mean cross-entropy of scores, whose classes are the second axis unless another is said."""
    held, (axis,) = view.held[view.data[0]], view.node.axes(1)
    refuse(axis >= len(held.axes))
    over = view.atoms.leaves(held.axes[axis])
    return view.put("cross_entropy", [held], (), view.dims(held), roles={"over": over})
