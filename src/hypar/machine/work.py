"""What a layer takes on one device: seconds, words and accesses of its phases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.machine.compute_models.base import ComputeModel, LocalShape, Work, memory_words, passing
from hypar.ops.dims import KERNEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.ops.nest import Nest


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


def phase_work(nest: Nest, shape: LocalShape, phase: str, compute: ComputeModel, units: int) -> Work:
    """Return the work of a phase of a layer: as the compute model says, or of copies where nothing is multiplied."""
    if nest.macs:
        return compute.work(shape, phase, units)
    # An embedding copies words; the words of a join are its op's.
    copies = nest.multiplies and (np.any(shape.words["weight"]) or phase != "gradient")
    return Work(seconds=0.0, accesses=passing(memory_words(shape) if copies else 0.0), mapping={})


def slower(one: Any, other: Any) -> Any:
    """Return the longer of two times, of arrays one by one."""
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
