"""The transfers of a tensor between two layers, as products of factors."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hypar.sharding.amounts.between import Between
    from hypar.sharding.amounts.flows import Flow


class Change(NamedTuple):
    """Elements that enter groups: a tensor's elements times the products of one factor, without those of another.

    Attributes:
        elements: elements of the tensor.
        gets: name of the factor that counts what is needed in the end.
        has: name of the factor that counts what is there already; empty for one copy.
        above: where a level is counted by itself, name of the factor whose product counts both above it; empty where each
            factor has its own.
    """

    elements: float
    gets: str
    has: str = ""
    above: str = ""


class Part(NamedTuple):
    """A transfer of a tensor between two layers.

    Attributes:
        phase: the phase.
        tensor: ``input`` of the consumer, or ``output`` of the producer; ``weight`` of both.
        forward: whether the consumer receives; otherwise the producer does.
        manner: name of its collectives in ``Manners``.
        changes: the elements that are received.
    """

    phase: str
    tensor: str
    forward: bool
    manner: str
    changes: tuple[Change, ...]

    @property
    def inside(self) -> bool:
        """Whether it adds up partial sums of the producer, which belong to the layer."""
        return self.tensor == "weight" or (self.manner == "sums" and self.tensor == "output")


@lru_cache(maxsize=4096)
def parts_of(flow: Flow, between: Between) -> tuple[Part, ...]:
    """Return the transfers of a tensor in the order in which they run: of F, then of E."""
    size, made, above = flow.elements, float(flow.made), "need" if flow.apart else ""
    found = []
    if made:
        found.append(Part("forward", "output", False, "sums", (Change(made, "terms"), Change(made, "left"))))
    if between.contracted:
        found.append(Part("forward", "input", False, "sums", (Change(2 * size, "kept", "alone", above),)))
    found.append(Part("forward", "input", True, "forward", (Change(size, "need", "both", above),)))
    if flow.error and flow.terms:
        changes = (Change(size, "need", "owned"), Change(size, "kept"))
        found.append(Part("backward", "input", False, "errors", changes))
    elif flow.error:
        manner = "errors" if made else "backward"
        found.append(Part("backward", "input", False, manner, (Change(size, "kept", "back", above),)))
    if flow.error and made:
        found.append(Part("backward", "output", False, "backward", (Change(made, "terms", "left"),)))
    return tuple(found)


@lru_cache(maxsize=4096)
def parts_of_weight(elements: int) -> tuple[Part, ...]:
    """Return the transfers of the gradient of a weight that two layers use, besides those among the producer's devices.

    A device with terms for the consumer that has none for the producer is one more that has terms, and gets the sum.
    """
    size = float(elements)
    return (
        Part("gradient", "weight", False, "backward", (Change(size, "need", "back"),)),
        Part("gradient", "weight", True, "forward", (Change(size, "need", "both"),)),
    )


@lru_cache(maxsize=4096)
def names_of(parts: tuple[Part, ...]) -> tuple[str, ...]:
    """Return the names of the factors that transfers count."""
    return tuple({name: None for part in parts for change in part.changes for name in change[1:] if name})


def phase_of(tensor: str) -> str:
    """Return the phase that computes a tensor: its value, its error, or its gradient.

    Examples:
        >>> phase_of("output"), phase_of("input 2"), phase_of("weight")
        ('forward', 'backward', 'gradient')
    """
    return {"output": "forward", "weight": "gradient"}.get(tensor, "backward")
