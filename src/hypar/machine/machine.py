"""A machine, which answers elementary questions only: how long is this work, and how long are these bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.machine.compute_models.base import LocalShape
from hypar.machine.routing import LevelLink, Tier, level_links
from hypar.network.training import PHASES
from hypar.sharding.dims import CUTTABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hypar.machine.compute_models.base import ComputeModel, Work
    from hypar.machine.schema import HardwareFile
    from hypar.network.ops.base import Einsum


Degrees = Sequence[Any]
"""Over how many pieces each of ``CUTTABLE`` is divided: numbers, or equally long arrays of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTime:
    """What the phases of a layer take on each device.

    Attributes:
        seconds: of each phase, the slower of arithmetic and memory.
        work: of each phase, as the compute model says.
        macs: multiply-accumulates of a phase, as an even share.
        words: elements of each tensor on a device, as an even share.
        fullest: the same on the fullest device.
    """

    seconds: Mapping[str, float]
    work: Mapping[str, Work]
    macs: float
    words: Mapping[str, float]
    fullest: Mapping[str, float]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Machine:
    """Like devices and what links them.

    Attributes:
        name: the file's name without its ending.
        digest: a hash of everything but the sources.
        content: what the file says.
        compute: the compute model.
        tiers: networks, outermost first.
        changes: what was changed against the file.
    """

    name: str
    digest: str
    content: HardwareFile
    compute: ComputeModel
    tiers: tuple[Tier, ...]
    changes: Mapping[str, Any]

    @property
    def num_devices(self) -> int:
        """Devices of the machine."""
        return math.prod(tier.devices for tier in self.tiers)

    @property
    def flop_per_s(self) -> float:
        """Floating-point operations a second of one device, large work."""
        assumed = self.content.assumptions
        return self.compute.flop_per_s(assumed.units_per_device.value) * assumed.efficiency.value

    @property
    def overlap(self) -> bool:
        """Whether transfers run beside computation."""
        return self.content.assumptions.overlap.value == "full"

    @property
    def memory_bytes(self) -> float | None:
        """Capacity of a device's memory; None where the file does not say."""
        memory = self.content.device.memory
        return None if memory is None else memory.capacity.value

    def __repr__(self) -> str:
        """Name and size, short enough for a prompt."""
        wired = ", ".join(tier.name for tier in self.tiers) or "no network"
        changes = "".join(f", {name}={value}" for name, value in self.changes.items())
        return f"<Machine {self.name}: {self.num_devices} devices, {wired}{changes}>"

    def fits(self, num_bytes: float) -> bool:
        """Whether a device's memory holds so much; it does where the file does not say how large it is."""
        return self.memory_bytes is None or num_bytes <= self.memory_bytes

    def memory_seconds(self, num_bytes: float) -> float:
        """Time to move bytes between a device and its memory; none where the file does not say."""
        memory = self.content.device.memory
        return 0.0 if memory is None else num_bytes / memory.bandwidth.value

    def layer_time(self, einsum: Einsum, degrees: tuple[int, ...], element_bytes: int) -> LayerTime:
        """The phases of a layer on one device.

        Args:
            einsum: the whole layer.
            degrees: over how many pieces each of ``CUTTABLE`` is divided.
            element_bytes: bytes of one element.
        """
        return _layer_time(self, einsum, degrees, element_bytes)

    def layer_times(self, einsum: Einsum, degrees: NDArray[np.int64], element_bytes: int) -> list[LayerTime]:
        """As ``layer_time`` for several pieces, ``[pieces, CUTTABLE]``: one of arrays, or one a piece.

        A compute model that takes arrays is asked once.
        """
        if self.compute.takes_arrays:
            pieces = tuple(own if own.max() > 1 else 1 for own in degrees.T)
            return [_timed(self, einsum, pieces, element_bytes)]
        return [self.layer_time(einsum, tuple(row), element_bytes) for row in degrees.tolist()]

    def links(self, array: tuple[int, ...]) -> tuple[LevelLink, ...]:
        """How each level of an array communicates, outermost first.

        Raises:
            HardwareError: the array does not fit the machine.
        """
        return _links(self, array)


@lru_cache(maxsize=16384)
def _layer_time(machine: Machine, einsum: Einsum, degrees: tuple[int, ...], element_bytes: int) -> LayerTime:
    """As ``Machine.layer_time``."""
    return _timed(machine, einsum, degrees, element_bytes)


def _timed(machine: Machine, einsum: Einsum, degrees: Degrees, element_bytes: int) -> LayerTime:
    """The phases of a layer on one device, for numbers or arrays of them."""
    shape = local_shape(einsum, degrees)
    assumed = machine.content.assumptions
    work = {phase: machine.compute.work(shape, phase, assumed.units_per_device.value) for phase in PHASES}
    # Accesses are counted for an even share; the fullest device has as many more as it has more words.
    fullest = {
        tensor: einsum.elements(tensor) * fullest_share(einsum, degrees, tensor) for tensor in shape.words
    }
    uneven = sum(fullest.values()) / sum(shape.words.values())
    seconds = {
        phase: _slower(
            done.seconds / assumed.efficiency.value,
            machine.memory_seconds(done.accesses["memory"] * uneven * element_bytes),
        )
        for phase, done in work.items()
    }
    return LayerTime(seconds=seconds, work=work, macs=shape.macs, words=shape.words, fullest=fullest)


def _slower(arithmetic: Any, memory: Any) -> Any:
    """The longer of two times, of numbers or of arrays."""
    return np.maximum(arithmetic, memory) if isinstance(arithmetic, np.ndarray) else max(arithmetic, memory)


def local_shape(einsum: Einsum, degrees: Degrees) -> LocalShape:
    """What is left of a layer on one device; pieces of the fullest device are rounded up to whole elements."""
    pieces = dict(zip(CUTTABLE, degrees, strict=True))
    tensors = ("input", "weight", "output")
    return LocalShape(
        sizes={dim: fullest(size, pieces.get(dim, 1)) for dim, size in einsum.sizes.items()},
        windows=einsum.windows,
        words={
            tensor: einsum.elements(tensor) / math.prod(pieces.get(dim, 1) for dim in einsum.dims(tensor))
            for tensor in tensors
        },
        macs=einsum.macs / math.prod(pieces.get(dim, 1) for dim in einsum.sizes),
    )


def fullest_share(einsum: Einsum, degrees: Degrees, tensor: str) -> Any:
    """The part of a tensor that the fullest device has, its piece of each dim rounded up to whole elements."""
    share, carried = 1.0, einsum.dims(tensor)
    for dim, pieces in zip(CUTTABLE, degrees, strict=True):
        size = einsum.sizes[dim] if dim in carried else 0
        if size:
            share *= fullest(size, pieces) / size
    return share


def fullest(size: Any, pieces: Any) -> Any:
    """The largest of some pieces of a dim: of whole elements, or of a real size as it is.

    A size is real, a ``float``, where a share that is no whole number of elements has divided the dim.
    """
    return size / pieces if isinstance(size, float) else -(-size // pieces)


@lru_cache(maxsize=256)
def _links(machine: Machine, array: tuple[int, ...]) -> tuple[LevelLink, ...]:
    """As ``Machine.links``."""
    return level_links(machine.name, machine.tiers, array)
