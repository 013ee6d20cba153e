"""Layers before their dims have names, and an operation as the rules see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hypar.importers.atoms import BATCH, Atoms
from hypar.ops.windows import ShapeError
from hypar.registry import load_plugin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.importers.atoms import Axes, Axis
    from hypar.importers.trace import Node, Trace
    from hypar.ops.base import Op, Shape

OPAQUE = "opaque"
JOINED = "joined"
"""In place of an op: a concatenation of features, which an attention reads part by part, and no model file has."""

Pairs = tuple[tuple[int, int], ...]


class Unsaid(Exception):  # noqa: N818 (no error, but another rule's turn)
    """Says that a rule has no layer for an operation, as None does."""


def refuse(fact: object) -> None:
    """Leave an operation to other rules where a fact holds."""
    if fact:
        raise Unsaid


@dataclass(slots=True, kw_only=True)
class LayerDraft:
    """A layer before it has a name.

    Attributes:
        op: name of its op.
        fields: fields of the op.
        reads: numbers of the layers that it reads.
        dims: atoms of its output without the batch, in the order in which its op gives them.
        roles: atoms of the fields that name dims.
        pairs: atoms of the fields that map dims to others.
        scope: path of the module that runs it.
        weights: identities of its trained tensors.
        flop: operations of the contractions that it says, over the whole example.
        tied: number of the layer whose weight it uses.
        node: the operation that it says.
        whole: result of the operation of which it says a part alone.
        notes: what the rules of experts know of it; of an opaque layer, whether it reads a tensor that is ``named`` otherwise than images.
    """

    op: str
    fields: dict[str, Any]
    reads: tuple[int, ...]
    dims: Axis
    roles: dict[str, Axis] = field(default_factory=dict)
    pairs: dict[str, Pairs] = field(default_factory=dict)
    scope: tuple[str, ...] = ()
    weights: frozenset[str] = frozenset()
    flop: int = 0
    tied: int | None = None
    node: Node | None = None
    whole: str = ""
    notes: dict[str, int] = field(default_factory=dict)

    @property
    def function(self) -> str:
        """The function of a layer that is pointwise; empty for any other."""
        return str(self.fields["function"]) if self.op == "pointwise" else ""


@dataclass(frozen=True, slots=True)
class TensorAxes:
    """A tensor that depends on the input: the layer that makes it, and how its axes consist of atoms.

    An atom that is none of the layer's dims is one along which the tensor is repeated.
    """

    number: int
    axes: Axes


class Layers:
    """The layers so far, and the atoms of all their tensors.

    Attributes:
        atoms: the atoms.
        rows: the layers.
        choices: number of the gates behind each atom of the choices of a position.
    """

    def __init__(self, atoms: Atoms) -> None:
        self.atoms = atoms
        self.rows: list[LayerDraft] = []
        self.choices: dict[int, int] = {}

    def put(self, draft: LayerDraft) -> int:
        """Add a layer and return its number."""
        self.rows.append(draft)
        self.atoms.note(draft.dims, len(self.rows) - 1)
        return len(self.rows) - 1

    def dims(self, number: int) -> Axis:
        """Return the atoms of a layer's output."""
        return self.atoms.leaves(self.rows[number].dims)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpContext:
    """An operation as a rule sees it.

    Attributes:
        trace: the network.
        node: the operation.
        layers: the layers so far, to which a rule adds its own.
        held: what the values are that depend on the input, in order.
        weights: the trained tensors behind a value that depends on these alone, in order.
    """

    trace: Trace
    node: Node
    layers: Layers
    held: Mapping[str, TensorAxes]
    weights: Mapping[str, frozenset[str]]

    @property
    def atoms(self) -> Atoms:
        """The atoms of all tensors."""
        return self.layers.atoms

    @property
    def data(self) -> tuple[str, ...]:
        """The values that depend on the input, each as often as it is read."""
        return tuple(value for value in self.node.read if value in self.held)

    @property
    def read(self) -> Shape:
        """Shape of a sample of the first value as a vector, an image, a row or a volume; empty if it is none."""
        return self.shape(self.held[self.data[0]])

    @property
    def made(self) -> Shape:
        """Shape of a sample of the result, whose axes are those of the first value; empty if it has others."""
        names, sizes = self.names(self.held[self.data[0]]), self.sizes()
        own = dict(zip(names, sizes, strict=False)) if len(names) == len(sizes) else {}
        return {name: own.get(name, size) for name, size in self.read.items() if own}

    def sizes(self, value: str = "") -> tuple[int, ...]:
        """Return the shape of a value; of the result unless one is named."""
        return self.trace.shapes[value or self.node.result]

    def trained(self, value: str) -> int:
        """Return the elements of the trained tensors behind a value."""
        return sum(self.trace.trained[identity] for identity in self.weights[value])

    def dims(self, held: TensorAxes) -> Axis:
        """Return the atoms of the layer that makes a tensor."""
        return self.layers.dims(held.number)

    def draft(self, held: TensorAxes) -> LayerDraft:
        """Return the layer that makes a tensor."""
        return self.layers.rows[held.number]

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

    def shape(self, held: TensorAxes) -> Shape:
        """Return the shape of a sample of a vector, an image, a row or a volume; nothing where a tensor is no such."""
        dims = self.dims(held) if self.names(held) else ()
        return {self.atoms.fixed[atom]: self.atoms.size((atom,)) for atom in dims}

    def put(self, op: str, reads: Sequence[TensorAxes], axes: Axes, dims: Axis, **said: Any) -> TensorAxes:
        """Add a layer and return its result; ``said`` are further attributes of the draft.

        Its fields are without those that have their default; it has the operation's weights and FLOP unless others are said.
        """
        draft = LayerDraft(
            op=op,
            fields=short(op, said.pop("fields", {})),
            reads=tuple(held.number for held in reads),
            dims=dims,
            scope=self.node.scope,
            weights=said.pop("weights", frozenset[str]().union(*self.weights.values())),
            flop=said.pop("flop", self.node.flop),
            node=said.pop("node", self.node),
            **said,
        )
        return TensorAxes(self.layers.put(draft), axes)

    def same(self, op: str, **said: Any) -> TensorAxes:
        """Add a layer whose output is as its only input."""
        refuse(len(self.data) != 1 or self.sizes(self.data[0]) != self.sizes())
        held = self.held[self.data[0]]
        return self.put(op, [held], held.axes, self.dims(held), **said)

    def image(
        self, op: str, reads: Sequence[TensorAxes], fields: Mapping[str, Any], shape: Shape, **said: Any
    ) -> TensorAxes:
        """Add a layer that reads and gives vectors, images, rows or volumes.

        The op has to give that shape, and to have as many parameters as there are in trained tensors.
        """
        fields, inputs = short(op, fields), tuple(map(self.shape, reads))
        weights = said.get("weights", frozenset[str]().union(*self.weights.values()))
        refuse(not all(inputs))
        try:
            own_op: Op = load_plugin("ops", op)(**fields)
            refuse(own_op.output_shape(inputs) != shape)
            refuse(own_op.num_parameters(inputs) != sum(self.trace.trained[one] for one in weights))
        except (ShapeError, ValidationError):
            raise Unsaid from None
        dims = tuple(self.atoms.new(size, name) for name, size in shape.items())
        axes = self.image_axes(dims, self.names(reads[0]))
        return self.put(op, reads, axes, dims, fields=fields, **said)

    def image_axes(self, dims: Axis, names: Sequence[str]) -> Axes:
        """Return the axes of a vector, an image, a row or a volume of some dims in the order of names."""
        own = {self.atoms.fixed[atom]: atom for atom in (BATCH, *dims)}
        return tuple((own[name],) for name in names if name in own)


def short(op: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields without those that have their default; equal numbers of several dims are written as one."""
    if op == JOINED:
        return dict(fields)
    defaults = {name: own.default for name, own in load_plugin("ops", op).model_fields.items()}
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, list | tuple):
            sizes = tuple(int(size) for size in value)
            default = defaults[name] if isinstance(defaults[name], tuple) else ()
            # A field of one dim has its default as that of the dim in a pair.
            if not default or sizes not in {default, default[-1:]}:
                found[name] = sizes[0] if len({*sizes}) == 1 else list(sizes)
        elif value != defaults[name]:
            found[name] = value
    return found
