"""Drafts: the layers of a network before their dims have names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypar.importers.atoms import Atoms, Axes, Axis
    from hypar.importers.trace import Node

JOINED = "joined"
"""In place of an op: a concatenation of features, which an attention reads part by part, and no model file has."""

Pairs = tuple[tuple[int, int], ...]


@dataclass(slots=True, kw_only=True)
class Draft:
    """A layer before it has a name.

    Attributes:
        op: name of its op.
        fields: fields of the op.
        reads: numbers of the layers that it reads.
        dims: atoms of its output without the batch, in the order in which its op gives them.
        roles: atoms of the fields that name dims.
        pairs: atoms of the fields that map dims to others.
        scope: path of the module that runs it.
        kind: the framework's name of the operation.
        weights: identities of its trained tensors, the largest first.
        flop: operations of the contractions that it says, over the whole example.
        tied: number of the layer whose weight it uses.
        node: the operation that it says.
        whole: result of the operation of which it says a part alone.
    """

    op: str
    fields: dict[str, Any]
    reads: tuple[int, ...]
    dims: Axis
    roles: dict[str, Axis] = field(default_factory=dict)
    pairs: dict[str, Pairs] = field(default_factory=dict)
    scope: tuple[str, ...] = ()
    kind: str = ""
    weights: frozenset[str] = frozenset()
    flop: int = 0
    tied: int | None = None
    node: Node | None = None
    whole: str = ""

    @property
    def origin(self) -> str:
        """Result of the operation that it says; empty if it says none."""
        return self.node.result if self.node else ""

    @property
    def naming(self) -> tuple[str, ...]:
        """The fields that name dims."""
        return tuple("in" if field == "contracted" else field for field in (*self.roles, *self.pairs))


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor that depends on the input: the layer that makes it, and how its axes consist of atoms.

    An atom that is none of the layer's dims is one along which the tensor is repeated.
    """

    number: int
    axes: Axes


@dataclass(slots=True)
class Routing:
    """What is known of mixtures of experts.

    Attributes:
        experts: atom of the experts of which the atom of the choices of a position are some.
        scores: number of the layer whose largest scores, or shares, are gates.
        normalised: numbers of the gates that add up to 1.
        slots: atoms of the experts' slots.
        sent: number of the ``dispatch`` of a layer's output, by its number and the atom of the choices.
        matrices: trained value and its identities behind one that is the matrix of an expert for each position.
        gates: number of the gates of the layer that experts end with.
        chosen: number of the gates behind the atom of the choices.
        limited: the groups of a layer's scores, and how many of them a position takes.
    """

    experts: dict[int, int] = field(default_factory=dict)
    scores: dict[int, int] = field(default_factory=dict)
    normalised: set[int] = field(default_factory=set)
    slots: set[int] = field(default_factory=set)
    sent: dict[tuple[int, int], int] = field(default_factory=dict)
    matrices: dict[str, tuple[str, frozenset[str]]] = field(default_factory=dict)
    gates: dict[int, int] = field(default_factory=dict)
    chosen: dict[int, int] = field(default_factory=dict)
    limited: dict[int, tuple[int, int]] = field(default_factory=dict)


class Drafts:
    """The layers so far, and the atoms of all their tensors.

    Attributes:
        routing: what is known of mixtures of experts.
        undivided: results of linear layers that stay whole, though parts of them are read, and of concatenations that
            something else than attention reads.
    """

    def __init__(self, atoms: Atoms, undivided: frozenset[str] = frozenset()) -> None:
        self.atoms, self.undivided = atoms, undivided
        self.rows: list[Draft] = []
        self.routing = Routing()

    def put(self, draft: Draft) -> int:
        """Add a layer and return its number."""
        self.rows.append(draft)
        self.atoms.note(draft.dims, len(self.rows) - 1)
        return len(self.rows) - 1

    def dims(self, number: int) -> Axis:
        """Return the atoms of a layer's output."""
        return self.atoms.leaves(self.rows[number].dims)
