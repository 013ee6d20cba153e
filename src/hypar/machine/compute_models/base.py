"""What a compute model is asked, and what it answers."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hypar.files.quantities import Description
from hypar.network.training import PHASES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.ops.base import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalShape:
    """What a plan leaves of a layer on one device.

    Attributes:
        sizes: whole elements of each op dim on the fullest device.
        windows: how F_in is read along the spatial dims.
        words: elements of ``input``, ``weight`` and ``output`` on a device, as an even share.
        macs: multiply-accumulates of a phase, as an even share.
    """

    sizes: Mapping[str, int]
    windows: Mapping[str, Window]
    words: Mapping[str, float]
    macs: float

    def size(self, dim: str) -> int:
        """Elements of a dim; 1 of a dim that the layer does not have."""
        return self.sizes.get(dim, 1)

    @property
    def padded_macs(self) -> int:
        """Multiply-accumulates of a phase on the fullest device, whose pieces are rounded up."""
        return math.prod(self.sizes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one phase of a layer is to one device.

    Attributes:
        seconds: time of the arithmetic alone, at full efficiency.
        accesses: words read or written in ``registers``, ``array`` (from one processing element to the
            next), ``buffer`` and ``memory``.
        mapping: how the phase lies on the device, in the compute model's own words.
    """

    seconds: float
    accesses: Mapping[str, float]
    mapping: Mapping[str, float]


class ComputeModel(Description):
    """How a device computes; subclasses add the fields of a hardware file.

    Attributes:
        takes_arrays: whether the numbers of a shape may be arrays, for many shapes at once.
    """

    takes_arrays: ClassVar[bool] = False

    @abstractmethod
    def flop_per_s(self, units: int) -> float:
        """Floating-point operations a second of so many like units at full efficiency."""

    @abstractmethod
    def work(self, shape: LocalShape, phase: str, units: int) -> Work:
        """One phase of a layer on a device of several like units.

        Args:
            shape: the layer on this device.
            phase: ``forward``, ``backward`` or ``gradient``.
            units: compute units of the device, which share the work.
        """


def memory_words(shape: LocalShape, phase: str) -> float:
    """Words of a phase's two operands and its result, each once."""
    of = PHASES[phase]
    return sum(shape.words[tensor] for tensor in (*of.operands, of.result))
