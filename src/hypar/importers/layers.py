"""Layers before their dims have names, and a network as its rules read it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from hypar.importers import atoms
from hypar.importers.atoms import Atom, Axes, Axis
from hypar.importers.trace import Node, Trace
from hypar.ops.base import Op, Shape
from hypar.ops.windows import ShapeError
from hypar.registry import load_plugin

OPAQUE = "opaque"


class Unsaid(Exception):  # noqa: N818 (no error, but another rule's turn)
    """Says that a rule has no layer for an operation."""


def refuse(fact: object) -> None:
    """Leave an operation to other rules where a fact holds."""
    if fact:
        raise Unsaid


@dataclass(slots=True, kw_only=True, eq=False)
class LayerDraft:
    """A layer before it has a name.

    Attributes:
        op: name of its op.
        node: the operation that it says.
        fields: fields of the op.
        reads: the layers that it reads.
        made: atoms of its output without the batch, in the order in which its op gives them.
        roles: atoms of the fields that name dims.
        others: atoms to which a field maps these.
        weights: identities of its trained tensors.
        flop: operations of the contractions in an opaque layer, over the whole example.
        tied: the layer whose weight it uses.
        notes: what the rules of experts know of it; whether it is ``one`` of several that say its operation; of an opaque layer,
            whether it reads a tensor that is ``named`` otherwise than images, or has features in ``parts``, of which an attention
            may read each.
    """

    op: str
    node: Node
    fields: dict[str, Any] = field(default_factory=dict)
    reads: tuple[LayerDraft, ...] = ()
    made: Axis = ()
    roles: dict[str, Axis] = field(default_factory=dict)
    others: dict[str, Axis] = field(default_factory=dict)
    weights: frozenset[str] = frozenset()
    flop: int = 0
    tied: LayerDraft | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def dims(self) -> Axis:
        """What the atoms of its output are now."""
        return atoms.leaves(self.made)

    def named(self) -> dict[str, Any]:
        """Return the fields that name dims, by the labels of their atoms; those that have their default are left out."""
        known = load_plugin("ops", self.op).model_fields
        found: dict[str, Any] = {}
        for name, axis in self.roles.items():
            default, both = known[name].default, (axis, self.others.get(name, axis))
            own, others = ([atom.label for atom in atoms.leaves(one)] for one in both)
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

    layer: LayerDraft
    axes: Axes = ()

    def replaced(self, place: int, *axes: Axis) -> TensorAxes:
        """Return the tensor with other axes in the place of one."""
        place %= len(self.axes)
        return TensorAxes(self.layer, (*self.axes[:place], *axes, *self.axes[place + 1 :]))

    def positions(self, axis: int) -> Atom:
        """Return the atom of an axis of positions, which a layer may make longer or shorter."""
        over = atoms.leaves(self.axes[axis])
        refuse(len(over) != 1 or over[0] not in self.layer.dims or over[0].name)
        return over[0]


class Reading:
    """A network as its rules read it: its layers so far, and the operation whose turn it is.

    Attributes:
        trace: the network.
        node: the operation.
        batch: the atom of the samples.
        rows: the layers, to which a rule adds its own.
        known: the values that depend on the input: tensors, and opaque layers whose shape a model file cannot say, with operations
            that no layer holds yet.
    """

    node: Node

    def __init__(self, trace: Trace) -> None:
        self.trace, self.batch = trace, Atom(trace.batch, "batch", apart=True)
        self.rows: list[LayerDraft] = []
        self.known: dict[str, TensorAxes | LayerDraft] = {}

    @property
    def held(self) -> dict[str, TensorAxes]:
        """The tensors that the operation reads, in order."""
        known = ((value, self.known.get(value)) for value in self.node.read)
        return {value: held for value, held in known if isinstance(held, TensorAxes)}

    @property
    def weights(self) -> dict[str, frozenset[str]]:
        """The trained tensors of each value that depends on these alone, in order.

        An op says one alone where it has as many elements as the value, as the directions of a weight normalisation.
        """
        found, known = dict[str, frozenset[str]](), self.trace.weights
        for value in (value for value in self.node.read if value in known):
            sizes = {one: self.trace.trained[one] for one in known[value]}
            largest = max(sizes, key=lambda one: (sizes[one], one))
            alone = sizes[largest] == self.trace.elements(value) != sum(sizes.values())
            found[value] = frozenset([largest]) if alone else known[value]
        return found

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
        return shape_of(held.layer.dims) if self.names(held) else {}

    @property
    def trained(self) -> frozenset[str]:
        """The trained tensors behind all values."""
        return frozenset[str]().union(*self.weights.values())

    def tensor(self, operand: str) -> TensorAxes:
        """Return an operand that depends on the input."""
        refuse(self.node.operand(operand) not in self.held)
        return self.held[self.node.operand(operand)]

    def names(self, held: TensorAxes) -> tuple[str, ...]:
        """Return the names of the axes of a vector, an image, a row or a volume; none where a tensor is no such."""
        dims, axes = (self.batch, *held.layer.dims), [atoms.leaves(axis) for axis in held.axes]
        rest = {*dims}.difference(*axes)
        known = all(atom.name for atom in dims) and all(atom.size == 1 for atom in rest)
        whole = all(len(axis) == 1 and axis[0] in dims for axis in axes)
        return tuple(axis[0].name for axis in axes) if known and whole else ()

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
        images = all(map(self.names, reads))
        draft = LayerDraft(op=op, reads=tuple(held.layer for held in reads), **{**own, **said})
        self.add(draft, images=images, fresh=images and axes is None)
        if axes is None:
            first, alike = reads[0], draft.dims == reads[0].layer.dims
            axes = first.axes if alike else self.image_axes(draft.dims, self.names(first))
        return TensorAxes(draft, axes)

    def add(self, draft: LayerDraft, *, images: bool = False, fresh: bool = False) -> LayerDraft:
        """Add a layer without fields that have their default, whose op says what it makes of what it reads; return it.

        One that reads ``images`` alone has as many parameters as are trained; the weight of a ``fresh`` one makes all dims anew.
        """
        inputs, kind = [read.dims for read in draft.reads], load_plugin("ops", draft.op)
        roles = {name: atoms.leaves(axis) for name, axis in draft.roles.items()}
        named = *roles.values(), *reversed(inputs), *draft.others.values()
        known = {atom.label: atom for dims in named for atom in dims}
        fields = draft.named() | {name: shape_of(roles[name]) for name in kind.sized if name in roles}
        try:
            op: Op = kind(**draft.fields, **fields)
            shapes = tuple(map(shape_of, inputs))
            made, own = op.output_shape(shapes), op.nest(1, shapes).trained.values()
            trained = sum(self.trace.trained[one] for one in draft.weights)
            refuse(images and sum(math.prod(each.shape) for each in own) != trained)
        except (ShapeError, ValidationError):
            raise Unsaid from None
        given = op.model_dump(exclude_defaults=True)
        draft.fields = {name: value for name, value in draft.fields.items() if name in given}
        dims = list[Atom]()
        for name, size in made.items():
            atom = known.get(name)
            if atom is None or (atom.name and ((fresh and op.node == "weight") or atom.size != size)):
                atom = Atom(size, name)
            dims.append(atom if atom.size == size else atom.of_size(size))
        draft.made = tuple(dims)
        for atom in draft.dims:
            atom.tensors.append(draft.made)
        self.rows.append(draft)
        return draft

    def image_axes(self, dims: Axis, names: Sequence[str]) -> Axes:
        """Return the axes of a vector, an image, a row or a volume of some dims in the order of names."""
        own = {atom.name: atom for atom in (self.batch, *dims)}
        return tuple((own[name],) for name in names if name in own)


def shape_of(dims: Axis) -> dict[str, int]:
    """Return the sizes of atoms by their names."""
    return {atom.label: atom.size for atom in dims}
