"""Layers before their dims have names, an operation as the rules see it, and the atoms of axes.

Atoms are the factors of the axes of tensors, which views regroup and operations equate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hypar.ops.windows import ShapeError
from hypar.registry import load_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hypar.importers.trace import Node, Trace
    from hypar.ops.base import Op, Shape

Axis = tuple[int, ...]
Axes = tuple[Axis, ...]

BATCH = 0
"""The atom of the samples."""

OPAQUE = "opaque"


class Atoms:
    """All atoms of a network; an axis is a product of atoms, outermost first, and an axis of one element may be empty.

    An atom may be split into several, and two atoms may turn out to be one; ``leaves`` says what became of them.

    Attributes:
        fixed: names of atoms that are already known, as ``channels``; these are never split.
        aliases: atoms that stand for another of the same tensor, as the keys' positions beside the queries'.
        before: the atom that an op makes longer or shorter, behind the atom that it makes: both are one dim by name.
    """

    def __init__(self, batch: int) -> None:
        self._sizes = [batch]
        self._became: dict[int, Axis] = {}
        self.fixed: dict[int, str] = {BATCH: "batch"}
        self.aliases: set[int] = set()
        self.before: dict[int, int] = {}
        self._within: dict[int, set[int]] = {}
        self._tensors = 0

    def note(self, axis: Iterable[int]) -> None:
        """Note that one more tensor has the atoms of an axis; two atoms of one tensor never become the same."""
        self._tensors += 1
        for atom in self.leaves(axis):
            self._within.setdefault(atom, set()).add(self._tensors)

    def new(self, size: int, name: str | None = None) -> int:
        """Return a new atom."""
        atom = len(self._sizes)
        self._sizes.append(int(size))
        if name is not None:
            self.fixed[atom] = name
        return atom

    def axis(self, size: int) -> Axis:
        """Return a new axis, empty for one element."""
        return (self.new(size),) if size > 1 else ()

    def leaves(self, axis: Iterable[int]) -> Axis:
        """Return the atoms that an axis consists of now."""
        found: list[int] = []
        for atom in axis:
            found += self.leaves(self._became[atom]) if atom in self._became else (atom,)
        return tuple(found)

    def size(self, axis: Iterable[int]) -> int:
        """Return the number of elements of an axis."""
        return math.prod(self._sizes[atom] for atom in axis)

    def resized(self, atom: int, size: int) -> int:
        """Return the atom of another size that ops make of one, under the same name."""
        for made, own in self.before.items():
            if own == atom and self.size((made,)) == size:
                return made
        self.before[made := self.new(size)] = atom
        return made

    def made(self, atom: int | None, name: str, size: int, *, renewed: bool) -> int:
        """Return the atom that a layer makes of one that it reads, of another size or not; without one a new one of a name."""
        if atom is None or (atom in self.fixed and (renewed or self.size((atom,)) != size)):
            return self.new(size, name)
        return atom if self.size((atom,)) == size else self.resized(atom, size)

    def first(self, atom: int) -> int:
        """Return the atom that ops made longer or shorter until it was this one."""
        (root,) = self.leaves((atom,))
        return self.first(self.before[root]) if root in self.before else root

    def regroup(self, axes: Iterable[Axis], sizes: Sequence[int]) -> Axes | None:
        """Return axes of other sizes over the same elements; None where an atom would have to be split that cannot be."""
        own, new = self.leaves(sum(axes, ())), tuple(map(self.axis, sizes))
        if not new or not self.align([atom for atom in own if self.size((atom,)) > 1], sum(new, ())):
            return None
        waiting, found = [*reversed(self.leaves(own))], list[Axis]()
        for axis in new:
            left, taken = len(self.leaves(axis)), list[int]()
            while waiting and (left or (not taken and self.size(waiting[-1:]) == 1)):
                taken.append(waiting.pop())
                left -= self.size(taken[-1:]) > 1
            found.append(tuple(taken))
        return (*found[:-1], (*found[-1], *reversed(waiting)))

    def align(self, one: Iterable[int], other: Iterable[int]) -> bool:
        """Split the atoms of two axes so that both have equal sizes in order; return whether that can be."""
        while True:
            first, second = self.leaves(one), self.leaves(other)
            pairs = (sorted(pair, key=self._sizes.__getitem__) for pair in zip(first, second, strict=False))
            unlike = next((pair for pair in pairs if self._sizes[pair[0]] != self._sizes[pair[1]]), None)
            if unlike is None:
                return len(first) == len(second)
            outer, large = self._sizes[unlike[0]], unlike[1]
            kept = (self.fixed, self.aliases, self.before, self.before.values())
            if outer == 1 or self._sizes[large] % outer or any(large in atoms for atoms in kept):
                return False
            self._became[large] = parts = self.new(outer), self.new(self._sizes[large] // outer)
            within = self._within.pop(large, set())
            self._within |= {part: {*within} for part in parts}

    def unite(self, one: Axis, other: Axis) -> bool:
        """Make the atoms of two axes the same; return whether that can be."""
        if self.size(one) != self.size(other) or not self.align(one, other):
            return False
        pairs = [(a, b) for a, b in zip(self.leaves(one), self.leaves(other), strict=True) if a != b]
        if any(BATCH in pair or self.aliases & {*pair} or self._apart(*pair) for pair in pairs):
            return False
        for a, b in pairs:
            kept, gone = (b, a) if b in self.fixed else (a, b)
            self._became[gone] = (kept,)
            self._within.setdefault(kept, set()).update(self._within.pop(gone, ()))
        return True

    def _apart(self, one: int, other: int) -> bool:
        """Return whether a tensor has both of two atoms, or one beside another of the other's name, or their names differ."""
        one, other = (one, other) if one in self.fixed else (other, one)
        name, named = self.fixed.get(one), other in self.fixed
        rivals = [one, *(atom for atom, own in self.fixed.items() if own == name and not named)]
        beside = any(self._within.get(atom, set()) & self._within.get(other, set()) for atom in rivals)
        return beside or (named and self.fixed[other] != name)


class Unsaid(Exception):  # noqa: N818 (no error, but another rule's turn)
    """Says that a rule has no layer for an operation."""


def refuse(fact: object) -> None:
    """Leave an operation to other rules where a fact holds."""
    if fact:
        raise Unsaid


@dataclass(slots=True, kw_only=True)
class LayerDraft:
    """A layer before it has a name.

    Attributes:
        op: name of its op.
        node: the operation that it says.
        fields: fields of the op.
        reads: numbers of the layers that it reads.
        dims: atoms of its output without the batch, in the order in which its op gives them.
        roles: atoms of the fields that name dims.
        others: atoms to which a field maps these.
        weights: identities of its trained tensors.
        flop: operations of the contractions in an opaque layer, over the whole example.
        tied: number of the layer whose weight it uses.
        notes: what the rules of experts know of it; whether it is ``one`` of several that say its operation; of an opaque layer,
            whether it reads a tensor that is ``named`` otherwise than images, or has features in ``parts``, of which an attention
            may read each.
    """

    op: str
    node: Node
    fields: dict[str, Any] = field(default_factory=dict)
    reads: tuple[int, ...] = ()
    dims: Axis = ()
    roles: dict[str, Axis] = field(default_factory=dict)
    others: dict[str, Axis] = field(default_factory=dict)
    weights: frozenset[str] = frozenset()
    flop: int = 0
    tied: int | None = None
    notes: dict[str, int] = field(default_factory=dict)

    def named(self, names: Callable[[Axis], Sequence[str]]) -> dict[str, Any]:
        """Return the fields that name dims, by the names of their atoms; those that have their default are left out."""
        known = load_plugin("ops", self.op).model_fields
        found: dict[str, Any] = {}
        for name, axis in self.roles.items():
            own, default = [*names(axis)], known[name].default
            others = [*names(self.others.get(name, axis))]
            if own != others:
                found[name] = dict(zip(own, others, strict=True))
            elif own != ([*default] if isinstance(default, tuple) else [default]):
                found["in" if name == "contracted" else name] = own[0] if len(own) == 1 else own
        return found


@dataclass(frozen=True, slots=True)
class TensorAxes:
    """A tensor that depends on the input: the layer that makes it, and how its axes consist of atoms.

    An atom that is none of the layer's dims is one along which the tensor is repeated.
    """

    number: int
    axes: Axes

    def replaced(self, place: int, *axes: Axis) -> TensorAxes:
        """Return the tensor with other axes in the place of one."""
        place %= len(self.axes)
        return TensorAxes(self.number, (*self.axes[:place], *axes, *self.axes[place + 1 :]))


@dataclass(frozen=True, slots=True)
class OpContext:
    """An operation as a rule sees it.

    Attributes:
        trace: the network.
        node: the operation.
        atoms: the atoms of all tensors.
        rows: the layers so far, to which a rule adds its own.
        held: what the values are that depend on the input, in order.
        weights: the trained tensors behind a value that depends on these alone, in order.
    """

    trace: Trace
    node: Node
    atoms: Atoms
    rows: list[LayerDraft]
    held: Mapping[str, TensorAxes]
    weights: Mapping[str, frozenset[str]]

    @property
    def data(self) -> tuple[str, ...]:
        """The values that depend on the input, each as often as it is read."""
        return tuple(value for value in self.node.read if value in self.held)

    @property
    def only(self) -> TensorAxes:
        """The tensor that an operation of one reads."""
        refuse(len(self.data) != 1)
        return self.held[self.data[0]]

    @property
    def read(self) -> Shape:
        """Shape of a sample of the first value as a vector, an image, a row or a volume; empty if it is none."""
        held = self.held[self.data[0]]
        return self.shape(self.dims(held)) if self.names(held) else {}

    @property
    def made(self) -> Shape:
        """Shape of a sample of the result, whose axes are those of the first value; empty if it has others."""
        names, sizes = self.names(self.held[self.data[0]]), self.node.made
        own = dict(zip(names, sizes, strict=False)) if len(names) == len(sizes) else {}
        return {name: own.get(name, size) for name, size in self.read.items() if own}

    @property
    def trained(self) -> frozenset[str]:
        """The trained tensors behind all values."""
        return frozenset[str]().union(*self.weights.values())

    def dims(self, made: TensorAxes | int) -> Axis:
        """Return the atoms of a layer, or of the one that makes a tensor."""
        return self.atoms.leaves(self.rows[made if isinstance(made, int) else made.number].dims)

    def tensor(self, operand: str) -> TensorAxes:
        """Return an operand that depends on the input."""
        refuse(self.node.operand(operand) not in self.held)
        return self.held[self.node.operand(operand)]

    def positions(self, held: TensorAxes, axis: int) -> int:
        """Return the atom of an axis of positions, which a layer may make longer or shorter."""
        over = self.atoms.leaves(held.axes[axis])
        refuse(len(over) != 1 or over[0] not in self.dims(held) or over[0] in self.atoms.fixed)
        return over[0]

    def names(self, held: TensorAxes) -> tuple[str, ...]:
        """Return the names of the axes of a vector, an image, a row or a volume; none where a tensor is no such."""
        atoms, dims = self.atoms, (BATCH, *self.dims(held))
        axes = [atoms.leaves(axis) for axis in held.axes]
        rest = {*dims}.difference(*axes)
        known = {*dims} <= atoms.fixed.keys() and all(atoms.size((atom,)) == 1 for atom in rest)
        whole = all(len(axis) == 1 and axis[0] in dims for axis in axes)
        return tuple(atoms.fixed[axis[0]] for axis in axes) if known and whole else ()

    def shape(self, dims: Axis) -> dict[str, int]:
        """Return the sizes of atoms by their names, which are letters for those that have none yet."""
        return {self.label(atom): self.atoms.size((atom,)) for atom in dims}

    def label(self, atom: int) -> str:
        """Return the name of an atom, letters in place of its number if it has none yet."""
        return self.atoms.fixed.get(atom) or "x" + "".join(chr(ord("a") + int(digit)) for digit in str(atom))

    def put(self, op: str, *reads: TensorAxes, axes: Axes | None = None, **said: Any) -> TensorAxes:
        """Add a layer whose op accepts the tensors that it reads, and of images as many parameters as are trained; return its result.

        Its axes are those of the first tensor or of an image, its weights the operation's, unless others are said. Of equal
        numbers of several dims the first is enough, and roles without atoms are left out.
        """
        own = {"weights": self.trained, "node": self.node}
        said["roles"] = {name: axis for name, axis in said.get("roles", {}).items() if axis}
        said["fields"] = {
            name: value[0] if isinstance(value, list) and len({*value}) == 1 else value
            for name, value in said.get("fields", {}).items()
        }
        draft = LayerDraft(op=op, reads=tuple(held.number for held in reads), **{**own, **said})
        images = all(map(self.names, reads))
        number = self.add(draft, images=images, fresh=images and axes is None)
        if axes is None:
            alike = draft.dims == self.dims(reads[0])
            axes = reads[0].axes if alike else self.image_axes(draft.dims, self.names(reads[0]))
        return TensorAxes(number, axes)

    def add(self, draft: LayerDraft, *, images: bool = False, fresh: bool = False) -> int:
        """Add a layer without fields that have their default, whose op says what it makes of what it reads; return its number.

        One that reads ``images`` alone has as many parameters as are trained; the weight of a ``fresh`` one makes all dims anew.
        """
        inputs, kind = [self.dims(number) for number in draft.reads], load_plugin("ops", draft.op)
        roles = {name: self.atoms.leaves(axis) for name, axis in draft.roles.items()}
        named = *roles.values(), *reversed(inputs), *draft.others.values()
        known = {self.label(atom): atom for dims in named for atom in dims}
        fields = draft.named(lambda axis: [*map(self.label, self.atoms.leaves(axis))])
        fields |= {name: self.shape(roles[name]) for name in kind.sized if name in roles}
        try:
            op: Op = kind(**draft.fields, **fields)
            shapes = tuple(map(self.shape, inputs))
            made, own = op.output_shape(shapes), op.nest(1, shapes).trained.values()
            trained = sum(self.trace.trained[one] for one in draft.weights)
            refuse(images and sum(math.prod(each.shape) for each in own) != trained)
        except (ShapeError, ValidationError):
            raise Unsaid from None
        given = op.model_dump(exclude_defaults=True)
        draft.fields = {name: value for name, value in draft.fields.items() if name in given}
        new = fresh and op.node == "weight"
        dims = (self.atoms.made(known.get(name), name, size, renewed=new) for name, size in made.items())
        draft.dims = tuple(dims)
        self.rows.append(draft)
        self.atoms.note(draft.dims)
        return len(self.rows) - 1

    def image_axes(self, dims: Axis, names: Sequence[str]) -> Axes:
        """Return the axes of a vector, an image, a row or a volume of some dims in the order of names."""
        own = {self.atoms.fixed[atom]: atom for atom in (BATCH, *dims)}
        return tuple((own[name],) for name in names if name in own)
