"""Base class of compute models, with their input and result."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self

from hypar.files.validation import Count, Hertz, Record, Sourced
from hypar.ops.nest import PHASES
from hypar.ops.windows import Window

if TYPE_CHECKING:
    from hypar.machine.schema import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalShape:
    """Shape of a layer on one device.

    Attributes:
        sizes: whole elements of each op dim on the fullest device; of the input along transposed windows.
        windows: the windows that read F_in along the spatial dims.
        words: elements of ``input``, ``weight`` and ``output`` on a device, as an even share.
        macs: multiply-accumulates of a phase, as an even share.
        zeros: fraction of zeros in ``input`` and ``output``, where the network gives it.
    """

    sizes: Mapping[str, int]
    windows: Mapping[str, Window]
    words: Mapping[str, float]
    macs: float
    zeros: Mapping[str, float] = field(default_factory=dict)

    def size(self, dim: str) -> int:
        """Return the elements of a dim; 1 if the layer has no such dim."""
        return self.sizes.get(dim, 1)

    def window(self, dim: str) -> Window:
        """Return the window along a spatial dim; one of a single place if there is none."""
        return self.windows.get(dim) or Window(kernel=1)

    def as_convolution(self, phase: str) -> tuple[LocalShape, str]:
        """Return the shape and the phase of a convolution with the same arithmetic.

        A transposed convolution is the backward phase of a convolution whose output is its input; its own backward
        phase is the forward phase of that one. Other layers are returned as they are.
        """
        if not any(window.transposed for window in self.windows.values()):
            return self, phase
        swapped = {"in_channels": "out_channels", "out_channels": "in_channels"}
        ends = {"input": "output", "output": "input"}
        windows = {
            dim: replace(window, transposed=False, output_padding=0) for dim, window in self.windows.items()
        }
        shape = replace(
            self,
            sizes={dim: self.sizes[swapped.get(dim, dim)] for dim in self.sizes},
            windows=windows,
            words={tensor: self.words[ends.get(tensor, tensor)] for tensor in self.words},
            zeros={ends[tensor]: fraction for tensor, fraction in self.zeros.items()},
        )
        return shape, {"forward": "backward", "backward": "forward"}.get(phase, phase)

    @property
    def padded_macs(self) -> int:
        """Multiply-accumulates of a phase on the fullest device, whose shards are rounded up."""
        return math.prod(self.sizes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Work of one phase of a layer on one device.

    Attributes:
        seconds: time of the arithmetic alone, at full efficiency.
        accesses: words read or written in ``registers``, ``array`` (from one processing element to the
            next), ``buffer`` and ``memory``.
        mapping: details of the phase's mapping to the device, with names of the compute model's own.
        buffer_seconds: time of the words between buffer and array; 0 where the model gives it no bound.
        skipped: part of the multiply-accumulates that take no energy, as one of their factors is zero.
    """

    seconds: float
    accesses: Mapping[str, float]
    mapping: Mapping[str, float]
    buffer_seconds: float = 0.0
    skipped: float = 0.0


class ComputeModel(Record):
    """Compute model of a device; subclasses add the fields of a hardware file.

    Attributes:
        takes_arrays: whether the numbers of a shape may be arrays, for many shapes at once.
    """

    takes_arrays: ClassVar[bool] = False

    def beside(self, device: Device) -> Self:  # noqa: ARG002
        """Return the model of an array in a device; one for which its buffer or energies matter has a method of its own."""
        return self

    def of_format(self, element_bytes: int) -> Self:  # noqa: ARG002
        """Return the model for numbers of some bytes; the same if their format makes no difference."""
        return self

    @abstractmethod
    def flop_per_s(self, units: int) -> float:
        """Return the floating-point operations per second of identical units at full efficiency."""

    @abstractmethod
    def work(self, shape: LocalShape, phase: str, units: int) -> Work:
        """Return the work of a phase, ``forward``, ``backward`` or ``gradient``, of a layer on a device, whose units share it."""


def memory_words(shape: LocalShape) -> float:
    """Return the words of the two operands and the result of any phase, each counted once."""
    return sum(shape.words[tensor] for tensor in PHASES.values())


def passing(words: float) -> dict[str, float]:
    """Return the accesses of words that pass buffer and memory, and neither registers nor an array's network."""
    return {"registers": 0.0, "array": 0.0, "buffer": words, "memory": words}


class ElementArray(ComputeModel):
    """Units that are an array of processing elements, each with registers for a few words of each tensor."""

    rows: Sourced[Count]
    columns: Sourced[Count]
    frequency: Sourced[Hertz]
    weight_words: Sourced[Count]
    input_words: Sourced[Count]
    output_words: Sourced[Count]

    def flop_per_s(self, units: int) -> float:
        """Return two operations per cycle on every processing element."""
        return 2.0 * units * self.rows.value * self.columns.value * self.frequency.value
