"""An operation as a rule sees it, and what a rule says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypar.importers.drafts import Draft, Held

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.importers.atoms import Axes
    from hypar.importers.drafts import Drafts
    from hypar.importers.trace import Node, Trace
    from hypar.ops.base import Shape

Entry = tuple[str, dict[str, Any]]
"""An op and its fields."""

Said = list[Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """An operation as a rule sees it.

    Attributes:
        trace: the network.
        node: the operation.
        data: the values among its operands that depend on the network's input, in order.
        weights: those that depend on trained tensors alone, in order.
        drafts: the layers so far, to which a rule on named dims adds its own.
        held: what the values are that depend on the input.
        identities: the trained tensors behind a value that depends on these alone.
        read: shape of a sample of the first value that depends on the input, if it is a vector or an image; else empty.
        images: whether all of these values are vectors or images.
    """

    trace: Trace
    node: Node
    data: tuple[str, ...]
    weights: tuple[str, ...]
    drafts: Drafts
    held: Mapping[str, Held]
    identities: Mapping[str, frozenset[str]]
    read: Shape
    images: bool

    def get(self, name: str, default: Any = None) -> Any:
        """Return an argument."""
        value = self.node.attributes.get(name, default)
        return default if value is None else value

    def operand(self, name: str) -> str | None:
        """Return the only value of an operand; None if it is not given."""
        return next(iter(self.node.operands.get(name, ())), None)

    @property
    def made(self) -> Shape:
        """Shape of a sample of the result as a vector or an image; empty if it is neither."""
        return self.trace.sample(self.node.result) or {}

    def axes(self, value: str) -> Axes:
        """Return the axes of a value that depends on the input."""
        return self.held[value].axes

    def sizes(self, value: str) -> tuple[int, ...]:
        """Return the shape of a value."""
        return self.trace.shapes[value]

    def trained(self, value: str) -> int:
        """Return the elements of the trained tensors behind a value."""
        return sum(self.trace.trained[identity] for identity in self.identities[value])


Rule = Callable[[View], "Said | Held | None"]
Table = Mapping[str, Rule]


def put(view: View, op: str, inputs: Sequence[int], axes: Axes, **said: Any) -> Held:
    """Add a layer for an operation and return its result; ``said`` are further attributes of the draft."""
    weights = frozenset[str]().union(*(view.identities[value] for value in view.weights))
    draft = Draft(
        op=op,
        fields=said.pop("fields", {}),
        reads=tuple(inputs),
        scope=view.node.scope,
        kind=view.node.kind,
        weights=said.pop("weights", weights),
        flop=said.pop("flop", view.node.flop),
        node=said.pop("node", view.node),
        **said,
    )
    return Held(view.drafts.put(draft), axes)
