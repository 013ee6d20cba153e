"""Volume: bytes received, summed over all devices and levels.

Source: HyPar (HPCA 2019), section 3, whose tables follow from the placements; in bytes over all devices
instead of elements over one half of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hypar.costs.base import PARTS
from hypar.errors import OptionError
from hypar.placement import Choice, Partial, Placement, Replicate, partial_results, placement
from hypar.traffic import after_contraction, equal_shares, received, resolve

if TYPE_CHECKING:
    from hypar.costs.base import Cost, Level, LocalSizes, Options
    from hypar.graph import CutLayer, Tensor
    from hypar.ops.base import Einsum
    from hypar.problem import Costs


MOST_WEIGHT = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """Bytes received.

    Attributes:
        inter_weight: what a byte between layers counts against a byte inside one. 1 is what is moved; one
            half reproduces HyPar's Figures 5, 9 and 10, where amounts inside a layer are counted in both
            directions and those between layers in one.
    """

    unit: ClassVar[str] = "bytes"
    inter_weight: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a weight that is none."""
        if not (isinstance(self.inter_weight, int | float) and 0 <= self.inter_weight <= MOST_WEIGHT):
            raise OptionError(
                "inter-weight", f"found {self.inter_weight}", f"a number from 0 to {MOST_WEIGHT:,}"
            )

    def layer_costs(self, level: Level, layer: CutLayer, options: Options, sizes: LocalSizes) -> Costs:
        """Adding up what a choice leaves partial: whole results, or the halo of a cut image's gradient."""
        einsum = layer.einsum
        amounts = (
            _elements(einsum, layer.output_elements) * sizes.parts[:3] * (level.groups * level.element_bytes)
        )
        total: Costs = np.einsum("tp,tc->pc", amounts, _inside(einsum, options, level.ways))
        for column, halo in _halos(einsum, options, level.ways, sizes).items():
            total[:, column] += halo * level.ways * amounts[0]
        return total

    def tensor_costs(
        self,
        level: Level,
        tensor: Tensor,
        ends: tuple[CutLayer, CutLayer],
        options: tuple[Options, Options],
        sizes: LocalSizes,
    ) -> Costs:
        """F from producer to consumer, E from consumer to producer."""
        made, read = ends[0].einsum, ends[1].einsum
        parts = _between(made, read, options, tensor.contracted, level.ways)
        scale = self.inter_weight * level.groups * level.element_bytes * tensor.elements
        amount = scale * sizes.of("input")
        costs: Costs = parts[:, None, :] * amount[:, None]
        for column, halo in _halos(read, options[1], level.ways, sizes).items():
            need = placement(read, options[1][column], "input")
            for row, choice in zip(costs, options[0], strict=True):
                have = resolve(_left(made, choice, tensor.contracted))
                row[:, column] += _halo_total(have, need, level.ways, halo) * amount
        return costs


@lru_cache(maxsize=4096)
def _elements(einsum: Einsum, output_elements: int) -> Costs:
    """Elements of the three tensors, ``[3, 1]``."""
    return np.array(
        [[einsum.input_elements], [einsum.elements("weight")], [output_elements]], dtype=np.float64
    )


@lru_cache(maxsize=4096)
def _inside(einsum: Einsum, options: Options, ways: int) -> Costs:
    """Parts of each tensor that all devices receive to add up what is partial, ``[3, options]``."""
    whole = _total(Partial(), resolve(Partial()), ways)
    partial = [partial_results(einsum, choice) for choice in options]
    return np.array([[whole * (tensor in results) for results in partial] for tensor in PARTS[:3]])


@lru_cache(maxsize=4096)
def _between(
    made: Einsum, read: Einsum, options: tuple[Options, Options], contracted: frozenset[str], ways: int
) -> Costs:
    """Parts of a tensor that all devices receive, F and E together, without halo: ``[made, read]``."""
    parts = np.zeros((len(options[0]), len(options[1])))
    for row, maker in enumerate(options[0]):
        have = _left(made, maker, contracted)
        # Partial sums are added up first. A gradient spread back over dims that were summed away is needed
        # whole by every device.
        start = resolve(have)
        first = _total(have, start, ways)
        for column, reader in enumerate(options[1]):
            forward = first + _total(start, placement(read, reader, "input"), ways)
            parts[row, column] = forward + _total(_settled(read, reader, "input"), start, ways)
    return parts


def _left(made: Einsum, choice: Choice, contracted: frozenset[str]) -> Placement:
    """Where a producer leaves the tensor that its consumer reads."""
    return after_contraction(_settled(made, choice, "output"), contracted)


def _settled(einsum: Einsum, choice: Choice, tensor: str) -> Placement:
    """Where a result is once its partial sums are added up."""
    if tensor in partial_results(einsum, choice):
        return resolve(Partial())
    return placement(einsum, choice, tensor)


@lru_cache(maxsize=4096)
def _total(have: Placement, need: Placement, ways: int) -> float:
    """Parts of a tensor received by all like devices of a group."""
    return float(sum(received(have, need, equal_shares(ways))))


def _halos(einsum: Einsum, options: Options, ways: int, sizes: LocalSizes) -> dict[int, Costs]:
    """What a device reads past its own piece of a cut image, in parts of F_in, for the options that cut one.

    Two neighbouring pieces share the elements by which a window reaches past its stride. There are
    ``ways - 1`` borders, so a device has on average ``(ways - 1) / ways`` of them, and never more than all
    the rest of the image.
    """
    found = {}
    for column, dim, size in _cut_windows(einsum, options):
        found[column] = (ways - 1) / ways * np.minimum(size / sizes.of(dim), 1.0)
    return found


@lru_cache(maxsize=4096)
def _cut_windows(einsum: Einsum, options: Options) -> tuple[tuple[int, str, float], ...]:
    """The options that cut an image read by a window: index, dim, and halo in parts of F_in along it."""
    return tuple(
        (column, dim, window.halo / einsum.input_sizes[dim])
        for column, choice in enumerate(options)
        for dim, window in einsum.windows.items()
        if choice.dim == dim and window.halo
    )


def _halo_total(have: Placement, need: Placement, ways: int, halo: Costs) -> Costs:
    """The parts that all devices receive because of the halo alone."""
    if isinstance(have, Replicate):
        return np.zeros_like(halo)
    with_halo = sum(received(have, need, equal_shares(ways), halo))
    return np.asarray(with_halo - _total(have, need, ways))


plugin: Cost = Volume()
