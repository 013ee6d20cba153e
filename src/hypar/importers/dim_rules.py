"""Rules on tensors of named dims: products, attention, normalisations, sums; they are the same for all frameworks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypar.errors import ModelError
from hypar.importers.atoms import BATCH
from hypar.importers.attending import attend, attention_of, is_softmax
from hypar.importers.drafts import Held
from hypar.importers.masks import causal
from hypar.importers.positions import one_of, patches, scored_by
from hypar.importers.view import put

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.importers.atoms import Axes, Axis
    from hypar.importers.view import Rule, View

Letters = Sequence[int]
"""A letter for each axis of a tensor; axes with one letter are the same index."""


def same(view: View, op: str, **said: Any) -> Held | None:
    """Say an op whose output is as its only input."""
    if len(view.data) != 1 or view.sizes(view.data[0]) != view.sizes(view.node.result):
        return None
    held = view.held[view.data[0]]
    return put(view, op, (held.number,), held.axes, dims=view.drafts.dims(held.number), **said)


def alike(op: str, **fields: Any) -> Rule:
    """Return the rule of an op whose output is as its only input."""
    return lambda view: same(view, op, fields=dict(fields))


def product(
    view: View, left: str | None, right: str | None, roles: tuple[Letters, Letters, Letters], bias: str = ""
) -> Held | None:
    """Say a sum of products over the letters that the result lacks: a linear layer, or a product of two activations.

    Args:
        view: the operation.
        left: its first factor.
        right: its second factor.
        roles: letters of the axes of the first, of the second, and of the result.
        bias: a value that is added.
    """
    if left is None or right is None:
        return None
    if left in view.held and right in view.held:
        return None if bias else _activations(view, view.held[left], view.held[right], roles)
    if right in view.held:
        left, right, roles = right, left, (roles[1], roles[0], roles[2])
    if left not in view.held or right not in view.identities or (bias and bias not in view.identities):
        return None
    return _linear(view, left, right, roles, bias)


def _linear(
    view: View, data: str, weight: str, roles: tuple[Letters, Letters, Letters], bias: str
) -> Held | None:
    """Say a linear layer over all positions of the axes that are not contracted."""
    held, atoms = view.held[data], view.drafts.atoms
    of_data, of_weight, of_result = roles
    sizes = dict(zip(of_weight, view.sizes(weight), strict=True))
    axes: dict[int, Axis] = dict(zip(of_data, held.axes, strict=True))
    read = [letter for letter in of_data if letter in sizes and letter not in of_result]
    made = [letter for letter in of_weight if letter not in of_data]
    if any(letter in sizes and letter in of_result and sizes[letter] > 1 for letter in of_data):
        return None
    contracted = atoms.leaves(atom for letter in read for atom in axes[letter])
    own = view.drafts.dims(held.number)
    if not {*contracted} <= {*own} or not contracted or BATCH in contracted:
        return None
    axes |= {letter: atoms.axis(sizes[letter]) for letter in made}
    new = tuple(atom for letter in made for atom in axes[letter])
    if not new:
        return None
    result = tuple(axes[letter] for letter in of_result)
    order = tuple(atom for atom in own if atom in contracted)
    kept = tuple(atom for atom in own if atom not in contracted)
    names = {atoms.fixed.get(atom) for atom in kept}
    if names == {"height", "width"} and [atoms.fixed.get(atom) for atom in order] == ["channels"]:
        atoms.fixed[new[0]] = "channels"
        fields = {"out_channels": atoms.size(new), "kernel": 1, **({} if bias else {"bias": False})}
        return put(view, "conv", (held.number,), result, dims=(*new, *kept), fields=fields)
    return put(
        view, "linear", (held.number,), result, dims=(*kept, *new), roles={"contracted": order, "out": new},
        fields={} if bias else {"bias": False}, tied=_owner(view, weight, (contracted, new)),
    )  # fmt: skip


def _owner(view: View, weight: str, axes: tuple[Axis, Axis]) -> int | None:
    """Return the layer whose weight a linear layer uses, after making their dims the same."""
    atoms, identities = view.drafts.atoms, view.identities[weight]
    for number, draft in enumerate(view.drafts.rows):
        if (
            draft.op not in {"embedding", "linear"}
            or draft.tied is not None
            or not identities & draft.weights
        ):
            continue
        theirs = draft.roles.get("over", draft.roles.get("contracted", ())), draft.roles.get("out", ())
        pairs = list(zip(axes, reversed(theirs) if draft.op == "embedding" else theirs, strict=True))
        if all(atoms.size(one) == atoms.size(other) for one, other in pairs):
            united = [atoms.unite(one, other) for one, other in pairs]
            return number if all(united) else None
    return None


def _activations(view: View, left: Held, right: Held, roles: tuple[Letters, Letters, Letters]) -> Held | None:
    """Say a product of two tensors that depend on the input; an attention where it is the second one of that."""
    atoms, rows = view.drafts.atoms, view.drafts
    if is_softmax(view, right):
        left, right, roles = right, left, (roles[1], roles[0], roles[2])
    one, two = dict(zip(roles[0], left.axes, strict=True)), dict(zip(roles[1], right.axes, strict=True))
    contracted = [letter for letter in one if letter in two and letter not in roles[2]]
    for letter in (letter for letter in one if letter in two and letter in roles[2]):
        if not atoms.unite(one[letter], two[letter]):
            return None
    for letter in contracted:
        if not atoms.unite(one[letter], two[letter]) and not atoms.align(one[letter], two[letter]):
            return None
    mine, theirs = (
        atoms.leaves(atom for letter in contracted for atom in side[letter]) for side in (one, two)
    )
    shared = atoms.leaves(
        atom for letter in one if letter in two and letter in roles[2] for atom in one[letter]
    )
    first, second = rows.dims(left.number), rows.dims(right.number)
    if BATCH not in shared or not {*mine} <= {*first} or not {*theirs} <= {*second}:
        return None
    found = attention_of(view, left, right, (mine, theirs))
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
    axes = tuple({**free, **one}[letter] for letter in roles[2])
    if found is not None:
        return replace(found, axes=axes)
    others = [names.get(atom, atom) for atom in second if atom not in theirs and atom not in shared]
    dims = (*(atom for atom in first if atom not in mine), *(atom for atom in others if atom not in first))
    pairs = {"over": tuple(zip(mine, theirs, strict=True)), "names": tuple(names.items())}
    return put(
        view, "matmul", (left.number, right.number), axes, dims=dims,
        pairs={field: pair for field, pair in pairs.items() if pair}, weights=frozenset(),
    )  # fmt: skip


def attention(query: str, key: str, value: str, mask: str, *, causal_by: str = "is_causal") -> Rule:
    """Return the rule of an attention that is one operation; the arguments name its operands."""

    def rule(view: View) -> Held | None:
        values = [view.operand(name) for name in (query, key, value)]
        if any(one not in view.held for one in values):
            return None
        q, k, v = (view.held[one] for one in values if one)
        atoms = view.drafts.atoms
        if len({len(held.axes) for held in (q, k, v)}) > 1 or len(q.axes) < 3:
            return None
        for place, axis in enumerate(q.axes[:-2]):
            heads, other = k.axes[place], v.axes[place]
            groups = atoms.size(axis) // atoms.size(heads)
            repeated = () if groups == 1 else (atoms.new(groups),)
            if not (atoms.unite(axis, (*heads, *repeated)) and atoms.unite(axis, (*other, *repeated))):
                return None
        if not atoms.unite(q.axes[-1], k.axes[-1]) or not atoms.unite(k.axes[-2], v.axes[-2]):
            return None
        positions = atoms.leaves(k.axes[-2])
        if BATCH in positions:
            found = "found an attention over its first axis, that of the samples"
            raise ModelError(view.trace.name, found, "samples first, as with batch_first=True")
        hidden = bool(view.get(causal_by, False)) or causal(view.trace, view.node, mask)
        axes = (*q.axes[:-1], v.axes[-1])
        said = None
        if atoms.leaves(q.axes[-2]) == positions and view.operand(mask) not in view.weights:
            reads = (q.number, k.number, v.number)
            said = attend(view, reads, positions, causal=hidden, flop=view.node.flop, axes=axes)
        return said or _in_steps(view, q, k, v, view.operand(mask))

    return rule


def _in_steps(view: View, queries: Held, keys: Held, values: Held, mask: str | None) -> Held | None:
    """Say an attention as two products with a softmax between, and what is trained of its mask.

    So are those whose queries and keys are of unlike sequences.
    """
    rank = len(queries.axes)
    *before, row, features = range(rank)
    column, made = rank, rank + 1
    letters = ([*before, row, features], [*before, column, features], [*before, row, column])
    scores = _activations(view, queries, keys, letters)
    if scores is None:
        return None
    over, product = view.drafts.atoms.leaves(scores.axes[-1]), view.drafts.rows[scores.number]
    if mask in view.weights:
        scores = scored_by(view, scores, mask) or scores
    shares = put(
        view, "softmax", (scores.number,), scores.axes, dims=view.drafts.dims(scores.number), roles={"over": over},
        weights=frozenset(), flop=0,
    )  # fmt: skip
    product.flop //= 2
    letters = ([*before, row, column], [*before, column, made], [*before, row, made])
    found = _activations(view, shares, values, letters)
    if found is not None:
        view.drafts.rows[found.number].flop -= product.flop
    return found


def softmax(view: View, axis: int) -> Held | None:
    """Say a softmax over an axis."""
    axes = view.axes(view.data[0])
    if not -len(axes) <= axis < len(axes):
        return None
    return same(view, "softmax", roles={"over": view.drafts.atoms.leaves(axes[axis])})


def norm(view: View, op: str, axes: Sequence[int], trained: Mapping[str, bool]) -> Held | None:
    """Say a normalisation over some axes; ``trained`` tells of each tensor whether it is there."""
    if not view.data:
        return None
    held, atoms = view.held[view.data[0]], view.drafts.atoms
    over = atoms.leaves(atom for axis in axes for atom in held.axes[axis])
    if not over or BATCH in over or not {*over} <= {*view.drafts.dims(held.number)}:
        return None
    return same(
        view, op, roles={"over": over}, fields={name: False for name, has in trained.items() if not has}
    )


def embedding(view: View, table: str | None, tokens: str | None, *, rank: int | None = None) -> Held | None:
    """Say a table whose rows are looked up by the input, of which the first axes are taken, if not all."""
    if table is None or tokens is None or table not in view.identities or tokens not in view.held:
        return None
    held, atoms = view.held[tokens], view.drafts.atoms
    rows, width = view.sizes(table)
    over, out = (atoms.new(rows),), (atoms.new(width),)
    dims = (*view.drafts.dims(held.number), *out)
    return put(
        view,
        "embedding",
        (held.number,),
        (*held.axes[:rank], out),
        dims=dims,
        roles={"over": over, "out": out},
    )


def loss(view: View) -> Held | None:
    """Say a mean cross-entropy of scores, whose classes are the second axis."""
    held = view.held.get(view.data[0]) if view.data else None
    if held is None or len(held.axes) < 2:
        return None
    over = view.drafts.atoms.leaves(held.axes[1])
    return put(
        view, "cross_entropy", (held.number,), (), dims=view.drafts.dims(held.number), roles={"over": over}
    )


def elementwise(op: str) -> Rule:
    """Return the rule of a sum or a product of tensors, of a tensor and a trained one, or of one and constants.

    A product with a number is no layer.
    """

    def rule(view: View) -> Held | None:
        made = view.sizes(view.node.result)
        if len(view.data) == 2 and not view.weights:
            return _joined(view, op) or (_scaled(view) if op == "multiply" else None)
        if len(view.data) != 1 or view.sizes(view.data[0]) != made:
            return None
        if not view.weights:
            others = [value for value in view.node.read if value != view.data[0]]
            if op != "add" and all(view.trace.elements(value) == 1 for value in others):
                return view.held[view.data[0]]
            return same(view, "pointwise", fields={"function": "other"})
        if len(view.weights) > 1 or op == "divide":
            return None
        return _shifted(view) if op == "add" else shared(view, "layer_scale")

    return rule


def _joined(view: View, op: str) -> Held | None:
    """Say an op of two tensors of equal dims."""
    if op == "divide":
        return None
    one, two = (view.held[value] for value in view.data)
    sizes = {view.sizes(value) for value in (*view.data, view.node.result)}
    if one.number == two.number or len(sizes) > 1:
        return None
    if not all(view.drafts.atoms.unite(a, b) for a, b in zip(one.axes, two.axes, strict=True)):
        return None
    dims = view.drafts.dims(one.number)
    if {*dims} != {*view.drafts.dims(two.number)}:
        return None
    return put(view, op, (one.number, two.number), one.axes, dims=dims)


def _scaled(view: View) -> Held | None:
    """Say the product of a tensor with one that has one element along some axes."""
    made, atoms = view.sizes(view.node.result), view.drafts.atoms
    large, small = sorted(view.data, key=view.trace.elements, reverse=True)
    sizes = view.sizes(small)
    if (
        view.sizes(large) != made
        or len(sizes) != len(made)
        or view.held[large].number == view.held[small].number
    ):
        return None
    one, two = view.held[large], view.held[small]
    for own, other, size in zip(one.axes, two.axes, sizes, strict=True):
        if size > 1 and not atoms.unite(own, other):
            return None
    dims = view.drafts.dims(one.number)
    rest = {*view.drafts.dims(two.number)} - {*dims}
    names = {atoms.fixed.get(atom) for atom in dims}
    if any(atoms.size((atom,)) > 1 or atoms.fixed.get(atom) not in names for atom in rest):
        return None
    return put(view, "scale", (one.number, two.number), one.axes, dims=dims)


def _shifted(view: View) -> Held | None:
    """Say the sum of a tensor and a trained one: the bias of the layer before, or learned positions."""
    (value,), (weight,) = view.data, view.weights
    held = view.held[value]
    draft, elements = view.drafts.rows[held.number], view.trace.elements(weight)
    atoms = view.drafts.atoms
    if draft.op in {"linear", "conv", "patch"} and draft.fields.get("bias") is False:
        made = draft.roles.get("out", draft.dims[:1])
        sizes = [size for size in view.sizes(weight) if size > 1]
        if elements == atoms.size(made) and {*sizes} <= {*view.sizes(value)}:
            del draft.fields["bias"]
            draft.weights |= view.identities[weight]
            return held
    if elements == atoms.size(view.drafts.dims(held.number)) == view.trained(weight):
        return same(view, "position")
    if draft.op == "matmul":
        # Numbers of a bias of scores that are made in another way, as by a small network of distances, no op says.
        return scored_by(view, held, weight) or same(
            view, "pointwise", fields={"function": "other"}, weights=frozenset()
        )
    return shared(view, "position")


def shared(view: View, op: str, *, alone: bool = True) -> Held | None:
    """Say an op of a tensor and of trained numbers that its elements share along some axes, or of rows of a table.

    Args:
        view: the operation.
        op: the op.
        alone: whether the trained tensor has the axes of the other; else the one with as many elements is that of channels.
    """
    (value,), (weight,) = view.data, view.weights
    held, atoms = view.held[value], view.drafts.atoms
    sizes, own = view.sizes(value), view.sizes(weight)
    if alone:
        own = (1,) * (len(sizes) - len(own)) + own
    else:
        own = tuple(view.trained(weight) if axis == 1 else 1 for axis in range(len(sizes)))
    places = [place for place, size in enumerate(own) if size > 1]
    rows = 0
    if view.trained(weight) != view.trace.elements(weight):
        # Rows of a table, whose width is the last axis: which one an element meets follows from its place along the others.
        rows, places = view.trained(weight) // own[-1], places[-1:]
        if op != "position" or places != [len(own) - 1] or view.trained(weight) % own[-1]:
            return None
    if any(own[place] != sizes[place] for place in places):
        return None
    over = atoms.leaves(atom for place in places for atom in held.axes[place])
    if BATCH in over or not {*over} <= {*view.drafts.dims(held.number)} or (op == "layer_scale" and not over):
        return None
    return same(view, op, roles={"over": over} if over else {}, fields={"rows": rows} if rows else {})


def viewed(view: View) -> Held | None:
    """Say a view of the same elements in order: no layer."""
    if len(view.data) != 1:
        return None
    held = view.held[view.data[0]]
    axes = view.drafts.atoms.regroup(held.axes, view.sizes(view.node.result))
    return None if axes is None else patches(view, Held(held.number, axes))


def transposed(view: View, order: Sequence[int]) -> Held | None:
    """Say axes in another order: no layer."""
    if len(view.data) != 1:
        return None
    held = view.held[view.data[0]]
    return Held(held.number, tuple(held.axes[axis] for axis in order))


def repeated(view: View) -> Held | None:
    """Say a tensor that is repeated along axes of one element: no layer, but atoms that its maker does not have."""
    if len(view.data) != 1:
        return None
    held, made = view.held[view.data[0]], view.sizes(view.node.result)
    own = view.sizes(view.data[0])
    axes: Axes = ((),) * (len(made) - len(own)) + held.axes
    sizes = (1,) * (len(made) - len(own)) + own
    found = [
        view.drafts.atoms.axis(size) if old == 1 and size > 1 else axis
        for axis, old, size in zip(axes, sizes, made, strict=True)
    ]
    return Held(held.number, tuple(found))


def part(view: View, axis: int, start: int, size: int, *, drop: bool = False) -> Held | None:
    """Say consecutive elements of an axis: a linear layer of its own where one makes them.

    Args:
        view: the operation.
        axis: the axis.
        start: the first element.
        size: how many.
        drop: whether the axis, then of one element, is left out.
    """
    if len(view.data) != 1:
        return None
    held, atoms = view.held[view.data[0]], view.drafts.atoms
    draft = view.drafts.rows[held.number]
    outer, *inner = atoms.leaves(held.axes[axis]) or (-1,)
    if size == atoms.size(held.axes[axis]):
        return Held(held.number, (*held.axes[:axis], *held.axes[axis + drop :]))
    inner_size = atoms.size(inner)
    made = atoms.leaves(draft.roles.get("out", ()))
    if draft.op != "linear" or outer not in made or draft.tied is not None:
        return one_of(view, axis, start, drop=drop) if size == 1 else None
    if start % inner_size or size % inner_size or (origin := draft.origin) in view.drafts.undivided:
        return None
    new = atoms.axis(size // inner_size)

    def swapped(dims: Axis) -> Axis:
        return tuple(atom for one in atoms.leaves(dims) for atom in (new if one == outer else (one,)))

    flop = draft.flop * size // inner_size // atoms.size((outer,))
    copy = replace(
        draft, whole=origin, fields=dict(draft.fields), dims=swapped(draft.dims), flop=flop, roles={**draft.roles, "out": swapped(made)}
    )  # fmt: skip
    axes = tuple(swapped(one) for one in held.axes)
    return Held(view.drafts.put(copy), (*axes[:axis], *axes[axis + drop :]))
