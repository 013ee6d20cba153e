"""What a level does to a layer and to its tensors.

A *choice* divides one dim of a layer over the ways of a level. Its consequences are read off the layer's
einsum: a tensor that carries the dim is ``Shard``, a phase that contracts it leaves its result
``Partial``, every other tensor is ``Replicate``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hypar.ops.base import PHASES

if TYPE_CHECKING:
    from hypar.ops.base import Einsum


@dataclass(frozen=True, slots=True)
class Shard:
    """Every device holds its share of one dim of the tensor."""

    dim: str

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True, slots=True)
class Replicate:
    """Every device holds the whole tensor."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, slots=True)
class Partial:
    """Every device holds a term of the sum that is the tensor."""

    def __str__(self) -> str:
        return "P"


Placement = Shard | Replicate | Partial


class Choice(NamedTuple):
    """What a level does to a layer: the degree of one dim, or nothing at all.

    Attributes:
        dim: the op dim that is divided; None leaves the layer whole on every device.
        degree: over how many devices; 1 without a dim.
    """

    dim: str | None = None
    degree: int = 1

    def as_degrees(self) -> dict[str, int]:
        """The plan file's form, as ``{"batch": 2}``."""
        return {} if self.dim is None else {self.dim: self.degree}


WHOLE = Choice()
"""Every device does the whole layer: what a join may do, whose tensors are all on every device then."""


def placement(einsum: Einsum, choice: Choice, tensor: str) -> Placement:
    """Where a choice puts an operand of a layer.

    Args:
        einsum: the layer.
        choice: the dim that is divided.
        tensor: ``input``, ``weight`` or ``output``.
    """
    if choice.dim is None or choice.dim not in einsum.dims(tensor):
        return Replicate()
    names = {"input": einsum.input, "output": einsum.output}.get(tensor, {})
    return Shard(names.get(choice.dim, choice.dim))


def partial_results(einsum: Einsum, choice: Choice) -> tuple[str, ...]:
    """The results that a choice leaves Partial: those of the phases that contract its dim.

    Returns:
        Of ``output`` (forward), ``input`` (backward) and ``weight`` (gradient) those that are partial sums.
    """
    if choice.dim is None or not einsum.weight:
        return ()
    return tuple(
        phase.result
        for phase in PHASES.values()
        if choice.dim not in einsum.dims(phase.result)
        and any(choice.dim in einsum.dims(operand) for operand in phase.operands)
    )


def divisor(einsum: Einsum, choice: Choice, tensor: str) -> int:
    """By how much a choice divides a tensor's elements for the next level."""
    return choice.degree if choice.dim is not None and choice.dim in einsum.dims(tensor) else 1
