"""What a layer takes on one device: seconds, words and accesses of its phases, or the measured seconds of a data-parallel step."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hypar.errors import ProfileError
from hypar.machine.compute_models.base import ComputeModel, LocalShape, Work, memory_words, passing
from hypar.ops.dims import KERNEL
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
        words["weight"] = sum(words.pop(tensor) for tensor in nest.others)
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


# Measured times

STEP_TABLES = (".yaml", ".yml", ".csv")
"""Endings of the files of tables of measured times of steps."""


def is_step_table(file: object) -> bool:
    """Return whether something is a file of such a table, by its ending."""
    return isinstance(file, str | Path) and Path(file).suffix in STEP_TABLES


class LayerTimes(NamedTuple):
    """The times of a layer on a device, and of the exchange of its gradients.

    Attributes:
        name: the layer's name.
        forward_s: seconds of its forward phase.
        backward_s: seconds of its errors and gradients.
        exchange_s: seconds of the exchange of its gradients; None if it was not measured.
    """

    name: str
    forward_s: float
    backward_s: float
    exchange_s: float | None


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """The times of a training step, layer by layer.

    Attributes:
        layers: the layers from the first to the last; the backward phase takes them from the last to the first.
        sync_s: additional seconds of synchronisation for every chunk.
        source: the name of the table that they are from.
    """

    layers: tuple[LayerTimes, ...]
    sync_s: float
    source: str = ""

    @property
    def digest(self) -> str:
        """Return a hash of the times."""
        return hashlib.sha256(repr((self.layers, self.sync_s)).encode()).hexdigest()

    @cached_property
    def _by_name(self) -> dict[str, LayerTimes]:
        return {layer.name: layer for layer in self.layers}

    def phases(self, layer: str, cut: Sequence[str]) -> dict[str, float]:
        """Return the seconds of a layer's phases; the errors and the gradients were measured together.

        Args:
            layer: its name.
            cut: the dims that are cut.

        Raises:
            ProfileError: the layer was not measured, or is not cut in the batch alone.
        """
        own = self._by_name.get(layer)
        if own is None:
            allowed = "the layers of the network that was measured"
            raise ProfileError("measured times", f"no layer {layer!r}", allowed)
        if {*cut} - {"batch"}:
            found = f"{layer!r} is cut in {', '.join(cut)}"
            raise ProfileError("measured times", found, "data parallelism, in which they were measured")
        return {"forward": own.forward_s, "backward": own.backward_s, "gradient": 0.0}

    @property
    def exchanges(self) -> bool:
        """Return whether the exchange of gradients has times, too."""
        return any(layer.exchange_s is not None for layer in self.layers)

    def chunk_s(self, layers: Iterable[str]) -> float:
        """Return the seconds in which layers exchange their gradients together, synchronisation included."""
        return math.fsum((self.sync_s, *(self._by_name[name].exchange_s or 0.0 for name in layers)))

    @cached_property
    def ready(self) -> tuple[float, ...]:
        """Return the seconds of the backward phase until its first n layers are done: ``[layers + 1]``."""
        return tuple(accumulate((layer.backward_s for layer in reversed(self.layers)), initial=0.0))

    @cached_property
    def sent(self) -> tuple[float, ...]:
        """Return the seconds in which its first n layers exchange their gradients one by one: ``[layers + 1]``."""
        return tuple(accumulate((layer.exchange_s or 0.0 for layer in reversed(self.layers)), initial=0.0))
