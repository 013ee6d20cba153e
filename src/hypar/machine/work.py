"""What a layer takes on one device: seconds, words and accesses of its phases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.machine.compute_models.base import ComputeModel, LocalShape, Work, memory_words
from hypar.ops.dims import KERNEL
from hypar.ops.nest import PHASES, Nest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.machine.links import Tier
    from hypar.machine.schema import HardwareFile
    from hypar.machine.step_times import StepTimes

Degrees = Sequence[Any]
"""Degree of each of the dims that a layer counts: numbers, or arrays of equal length."""


@dataclass(frozen=True, kw_only=True)
class LayerTime:
    """Times of a layer's phases on each device.

    Attributes:
        seconds: longest time of arithmetic, buffer and memory, for each phase.
        work: work of each phase as given by the compute model.
        macs: multiply-accumulates of a phase, as an even share.
        words: elements of each tensor on a device, as an even share.
        fullest: elements of each tensor on the fullest device.
    """

    seconds: Mapping[str, float]
    work: Mapping[str, Work]
    macs: float
    words: Mapping[str, float]
    fullest: Mapping[str, float]

    @cached_property
    def accesses(self) -> Mapping[str, float]:
        """The accesses to each place in the three phases on one device."""
        work = self.work.values()
        places = next(iter(work)).accesses
        return {place: math.fsum(done.accesses[place] for done in work) for place in places}

    def done_macs(self, phase: str) -> float:
        """Return the multiply-accumulates of a phase that take energy."""
        return self.macs * (1 - self.work[phase].skipped)


@dataclass(frozen=True, eq=False, kw_only=True)
class Devices:
    """Identical devices and the networks that link them.

    Attributes:
        content: the content of their file.
        compute: the compute model.
        tiers: networks, outermost first.
        measured: measured times of a network's layers in data parallelism; they replace those of the compute model, and
            those of the links where the exchange of gradients was measured too.
        staged: for the devices of a stage the level of its arrays below the stages, and the ways of the stages; None if no
            level of an array is left out.
    """

    content: HardwareFile
    compute: ComputeModel
    tiers: tuple[Tier, ...]
    measured: StepTimes | None = None
    staged: tuple[int, int] | None = None

    def flop_per_s(self, element_bytes: int) -> float:
        """Return the floating-point operations per second of one device, for large work on numbers of some bytes."""
        assumed, compute = self.content.assumptions, self.compute.of_format(element_bytes)
        return compute.flop_per_s(assumed.units_per_device.value) * assumed.efficiency.value

    def times(self, nest: Nest) -> bool:
        """Return whether the computation of a layer, with the ops behind it, takes time."""
        return nest.multiplies or (self.counts_unweighted and bool(nest.behind))

    @property
    def memory_bytes(self) -> float | None:
        """Capacity of a device's memory without what a framework keeps for itself; None if the file gives none."""
        memory, kept = self.content.device.memory, self.content.assumptions.reserve
        return None if memory is None else memory.capacity.value - (0.0 if kept is None else kept.value)

    def memory_seconds(self, num_bytes: float) -> float:
        """Return the time to move bytes between a device and its memory; 0 if no bandwidth is given."""
        memory = self.content.device.memory
        return 0.0 if memory is None else num_bytes / memory.bandwidth.value

    def layer_time(
        self, nest: Nest, degrees: tuple[int, ...], element_bytes: int, layer: str = ""
    ) -> LayerTime:
        """Return the times of a layer's phases on one device.

        Args:
            nest: the whole layer.
            degrees: the degree of each of the dims that the layer counts, ``Nest.counted``.
            element_bytes: bytes of one element.
            layer: the layer's name, if its phases take the measured times; work and memory are the compute model's.

        Raises:
            ProfileError: the layer was not measured, or is not cut in the batch alone.
        """
        time = _layer_time(self, nest, degrees, element_bytes)
        if self.measured is None or not layer:
            return time
        cut = [dim for dim, degree in zip(nest.counted, degrees, strict=True) if degree > 1]
        return replace(time, seconds=self.measured.phases(layer, cut))

    def timed(self, nest: Nest, degrees: Degrees, element_bytes: int) -> LayerTime:
        """Return ``layer_time`` anew, for numbers or arrays of degrees if the compute model takes arrays."""
        shape, compute = local_shape(nest, degrees), self.compute.of_format(element_bytes)
        assumed = self.content.assumptions
        units = assumed.units_per_device.value
        work = {
            phase: compute.work(shape, phase, units) if nest.macs else _copying(nest, shape, phase)
            for phase in PHASES
        }
        if not nest.sends and assumed.unweighted.value == "counted":
            work["backward"] = _nothing(work["backward"])
        # Accesses are counted for an even share; those of the fullest device grow in proportion to its words.
        fullest = {
            tensor: nest.elements(tensor) * fullest_share(nest, degrees, tensor) for tensor in nest.names
        }
        uneven = sum(fullest.values()) / sum(shape.words.values())
        seconds = {
            phase: _slower(
                _slower(done.seconds / assumed.efficiency.value, done.buffer_seconds),
                self.memory_seconds(done.accesses["memory"] * uneven * element_bytes),
            )
            for phase, done in work.items()
        }
        if nest.others:
            # Both errors of a product of activations come before any layer that reads them.
            seconds |= {
                "backward": seconds["backward"] + seconds["gradient"],
                "gradient": seconds["gradient"] * 0,
            }
        if self.counts_unweighted:
            for phase in ("forward", "backward"):
                more, words = _unweighted(self, nest, degrees, phase, element_bytes)
                seconds[phase] = seconds[phase] + more
                accesses = {**work[phase].accesses}
                accesses |= {place: accesses[place] + words for place in ("buffer", "memory")}
                work[phase] = replace(work[phase], accesses=accesses)
        return LayerTime(seconds=seconds, work=work, macs=shape.macs, words=shape.words, fullest=fullest)

    @property
    def counts_unweighted(self) -> bool:
        """Whether ops without a weight take time, which measured times of layers leave no room for."""
        return self.content.assumptions.unweighted.value == "counted" and self.measured is None


_layer_time = lru_cache(maxsize=16384)(Devices.timed)


def _unweighted(
    devices: Devices, nest: Nest, degrees: Degrees, phase: str, element_bytes: int
) -> tuple[Any, Any]:
    """Return seconds and words in memory of a phase of the layer besides its products, and of the ops behind it.

    Each op takes the longer of its words at the memory's bandwidth and its operations at the full speed of the device.
    """
    seconds = moved = 0.0
    for own in nest.behind:
        share = nest.elements("output") * fullest_share(nest, degrees, "output", own.contracted)
        elements = own.forward if phase == "forward" else own.backward
        words = elements + own.mask_bytes / element_bytes
        computing = own.flop / devices.flop_per_s(element_bytes) if words else 0.0
        seconds = seconds + share * max(devices.memory_seconds(words * element_bytes), computing)
        moved = moved + share * words
    return seconds, moved


def _copying(nest: Nest, shape: LocalShape, phase: str) -> Work:
    """Return the work of a phase that only moves words, as that of an embedding; none of a join, whose words are its op's."""
    copies = nest.multiplies and (np.any(shape.words["weight"]) or phase != "gradient")
    words = memory_words(shape) if copies else 0.0
    accesses = {"registers": 0.0, "array": 0.0, "buffer": words, "memory": words}
    return Work(seconds=0.0, accesses=accesses, mapping={})


def _nothing(work: Work) -> Work:
    accesses = {place: count * 0.0 for place, count in work.accesses.items()}
    return Work(seconds=work.seconds * 0.0, accesses=accesses, mapping={}, skipped=1.0)


def _slower(one: Any, other: Any) -> Any:
    several = isinstance(one, np.ndarray) or isinstance(other, np.ndarray)
    return np.maximum(one, other) if several else max(one, other)


def local_shape(nest: Nest, degrees: Degrees) -> LocalShape:
    """Return a layer's shape on one device; shards of the fullest device are rounded up to whole elements."""
    degree = dict(zip(nest.counted, degrees, strict=True))
    sizes = {dim: fullest(size, degree.get(dim, 1)) for dim, size in nest.steps.items()}
    words = {
        tensor: nest.elements(tensor) / math.prod(degree.get(dim, 1) for dim in nest.names[tensor])
        for tensor in nest.names
    }
    if nest.others:
        # The further inputs of a product of activations are the weight of its three products.
        words = {
            "input": words["input"],
            "weight": sum(words[tensor] for tensor in nest.others),
            "output": words["output"],
        }
    return LocalShape(
        sizes=as_matrices(nest, sizes) if nest.unsized.extra or nest.products else sizes,
        windows=nest.windows,
        words=words,
        macs=nest.macs_among(degree),
        zeros=nest.zeros,
    )


def as_matrices(nest: Nest, sizes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the sizes of a layer as those of products of matrices, whose dims every compute model knows.

    A named dim counts as ``batch`` where no weight has it, as ``in_channels`` or ``out_channels`` where the weight contracts
    or makes it, and as ``groups`` where all tensors have it. A chain of products counts as one of as many operations.
    """
    named = nest.unsized.extra
    if nest.products:
        shared = frozenset.intersection(*map(frozenset, nest.products))
        inner = [math.prod(sizes[dim] for dim in own if dim not in shared) for own in nest.products]
        rows = math.prod(sizes[dim] for dim in shared) * nest.fraction
        return {"batch": rows, "in_channels": sum(inner), "out_channels": 1}
    # Of other kernels than an image's none slides on a machine's array: taps are input channels, places of outputs samples.
    if any(dim.startswith(KERNEL) and dim not in {f"{KERNEL}height", f"{KERNEL}width"} for dim in sizes):
        named = tuple(dim for dim in sizes if dim not in {"batch", "in_channels", "out_channels"})
    found = {dim: size for dim, size in sizes.items() if dim not in named}
    for dim in named:
        carried = [tensor for tensor in ("input", "weight", "output") if dim in nest.names[tensor]]
        role = _AS_MATRICES.get(tuple(carried), "groups")
        found[role] = found.get(role, 1) * sizes[dim]
    return found


_AS_MATRICES: dict[tuple[str, ...], str] = {
    ("weight",): "in_channels",
    ("input", "output"): "batch",
    ("input", "weight"): "in_channels",
    ("weight", "output"): "out_channels",
}
"""The dim of a convolution that stands for dims of some tensors."""


def fullest_share(nest: Nest, degrees: Degrees, tensor: str, whole: frozenset[str] = frozenset()) -> Any:
    """Return the fraction of a tensor on the fullest device, its shard of each dim rounded up; of some axes all is there."""
    share, carried = 1.0, nest.names[tensor]
    for dim, degree in zip(nest.counted, degrees, strict=True):
        size = nest.sizes[dim] if dim in carried and carried[dim] not in whole else 0
        if size:
            share *= fullest(size, degree) / size
    return share


def fullest(size: Any, degree: Any) -> Any:
    """Return the largest shard of a dim: in whole elements, or exact for a real size.

    A size is real, a ``float``, if a share that is no whole number of elements has divided the dim.
    """
    return size / degree if isinstance(size, float) else -(-size // degree)
