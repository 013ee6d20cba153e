"""Row-stationary compute model whose mapping and traffic are searched, buffer and registers considered.

Source: Chen, Emer and Sze, Eyeriss: A Spatial Architecture for Energy-Efficient Dataflow (ISCA 2016), sections V and
VI; Chen, Krishna, Emer and Sze, Eyeriss: An Energy-Efficient Reconfigurable Accelerator (JSSC 2017), sections IV and V.

Sets are those of ``row_stationary``. A mapping is chosen for each phase of a layer: see ``machine/spatial/blocking.py``.
The arithmetic takes the cycles of the mapping; the words between buffer and array take the cycles that
``buffer_words_per_cycle`` allows, and the longer of the two is the time.

The backward phase of a strided convolution is done on F_out's gradient with zeros put between its elements, or as one
convolution for each place that a kernel can have relative to the stride, whichever takes fewer cycles.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field, PrivateAttr

from hypar.files.quantities import AsNumber, Count, Sourced
from hypar.machine.compute_models.base import ComputeModel, ElementArray, LocalShape, Work
from hypar.machine.spatial.blocking import Blocking, best_blocking, counts
from hypar.machine.spatial.loops import Array, PhaseLoops, Store
from hypar.machine.spatial.passes import array_words
from hypar.machine.spatial.zeros import run_length_words
from hypar.ops.nest import PHASES
from hypar.ops.windows import Window

if TYPE_CHECKING:
    from typing import Self


class Placed(NamedTuple):
    """Loops of one of several units with their mapping, and the sets that all units have together."""

    loops: PhaseLoops
    blocking: Blocking
    planes: int
    units: int

    @property
    def counts(self) -> tuple[float, float, float]:
        """Cycles, words from memory and words from the buffer of a unit, by which mappings are chosen."""
        return counts(self.loops, self.blocking, self.planes, self.units)

    @property
    def results(self) -> int:
        """Elements of F_out that all units make."""
        return self.planes // self.loops.channels * self.loops.height * self.loops.width

    @property
    def array_words(self) -> float:
        """Words that elements take from the array's network: rows of F_in and W, and terms of F_out."""
        loops, own = self.loops.halved() if self.blocking.halved else self.loops, self.blocking
        return self.units * float(array_words(loops, own.interleaved, own.tile[0]))


def _open(value: Any, why: str) -> Any:
    """Return the default of a field, with the reason that the file gives none."""
    return Sourced(value=value, source=f"not given: {why}")


class BlockedRowStationary(ElementArray):
    """Array of processing elements with a buffer, each element with registers for a few rows."""

    buffered: ClassVar[bool] = True

    bank_words: Sourced[Count] = _open(1, "a tile takes the words that it has")
    weight_buffer_words: Sourced[Annotated[int, Field(ge=0, le=2**40)]] = _open(0, "W shares the buffer")
    buffer_words_per_cycle: Sourced[Annotated[float, AsNumber, Field(gt=0, le=1e12)]] | None = None
    resident: Sourced[Literal["any", "result"]] = _open("any", "any tensor may stay in the buffer")
    fewest: Sourced[Literal["cycles", "words", "product"]] = _open("cycles", "time before traffic")
    sets: Sourced[Literal["any", "line"]] = _open("any", "sets stand below and beside one another")
    pass_rows: Sourced[Literal["any", "bank"]] = _open(
        "any", "a pass reads as many rows of F_in as the buffer holds"
    )
    zeros: Sourced[Literal["kept", "saved"]] = _open(
        "kept", "zeros are stored and multiplied like other numbers"
    )
    _buffer_words: int | None = PrivateAttr(default=None)
    _costs: tuple[float, float] = PrivateAttr(default=(1.0, 0.0))

    def beside(self, buffer_words: float | None, costs: tuple[float, float] = (1.0, 0.0)) -> Self:
        """Return the model of an array beside a buffer of some words."""
        placed = self.model_copy()
        placed._buffer_words = None if buffer_words is None else math.floor(buffer_words)
        if self.fewest.value == "words":
            placed._costs = costs
        return placed

    @property
    def array(self) -> Array:
        """Processing elements of a unit."""
        return Array(
            self.rows.value,
            self.columns.value,
            self.weight_words.value,
            self.input_words.value,
            self.output_words.value,
            self.sets.value == "line",
        )

    @property
    def store(self) -> Store:
        """Buffer of a unit."""
        words, own = self._buffer_words, self.weight_buffer_words.value
        return Store(
            None if words is None else max(0, words - own),
            self.bank_words.value,
            own,
            self.resident.value == "result",
            self.fewest.value,
            self.pass_rows.value == "bank",
            self._costs,
        )

    def _packed(self, shape: LocalShape) -> tuple[float, float]:
        """Return the words in memory for an element of F_in and for one of F_out; 1 where zeros are not known."""
        if not (self.zeros.value == "saved" and shape.zeros):
            return 1.0, 1.0
        return _coded(shape, "input", "in_channels"), _coded(shape, "output", "out_channels")

    def _best(self, ways: tuple[tuple[PhaseLoops, ...], ...], units: int) -> list[Placed]:
        """Return the best of the ways to do a phase, the first of equal ones."""
        array, store = self.array, self.store
        found = [_placed(all_loops, array, store, units) for all_loops in ways]
        return min(
            found, key=lambda parts: store.rank(*map(sum, zip(*(part.counts for part in parts), strict=True)))
        )

    def work(self, shape: LocalShape, phase: str, units: int) -> Work:
        """Return cycles and accesses of the best mapping; the last round of sets may be incomplete."""
        own, phase = shape.as_convolution(phase)
        found = self._best(_nests(own, phase, self._packed(own)), units)
        first, cycles = found[0], sum(part.counts[0] for part in found)
        even = own.macs / own.padded_macs
        words = even * math.fsum(part.units * part.blocking.buffer for part in found)
        # Elements of the result that no tap meets are zeros, and written all the same.
        met = math.inf if phase == "gradient" else even * sum(part.results for part in found)
        left = max(0.0, own.words[PHASES[phase]] - met) * first.loops.packed[1]
        read = "output" if phase == "backward" else "input"
        skipped = own.zeros.get(read, 0.0) if self.zeros.value == "saved" else 0.0
        rate = None if self.buffer_words_per_cycle is None else units * self.buffer_words_per_cycle.value
        return Work(
            seconds=cycles / self.frequency.value,
            buffer_seconds=0.0 if rate is None else words / (rate * self.frequency.value),
            accesses={
                "registers": (4 - 3 * skipped) * own.macs,
                "array": even * math.fsum(part.array_words for part in found),
                "buffer": words,
                "memory": even * math.fsum(part.units * part.blocking.memory for part in found) + left,
            },
            skipped=skipped,
            mapping={
                "active": min(
                    first.blocking.layout.active, first.loops.kernel * first.loops.height * first.planes
                ),
                "cycles": cycles,
                "utilisation": own.padded_macs / (cycles * units * self.rows.value * self.columns.value),
                **_named(first.blocking),
            },
        )


def _coded(shape: LocalShape, tensor: str, channels: str) -> float:
    """Return the words in memory for an element of a feature map, a code being a channel of a sample, or a vector."""
    vector = shape.words[tensor] / (shape.size("batch") * shape.size("groups"))
    plane = vector / shape.size(channels)
    return run_length_words(shape.zeros.get(tensor), plane if plane > 1 else max(1.0, vector))


def _named(found: Blocking) -> dict[str, int]:
    """Return the numbers of a mapping with their names."""
    names = ("side_channels", "side_filters", "side_samples", "channels", "filters")
    tile = ("tile_samples", "tile_filters", "tile_channels")
    return {
        **found.layout._asdict(),
        **dict(zip(names, (*found.grid, *found.interleaved), strict=True)),
        **dict(zip(tile, found.tile, strict=True)),
    }


def _placed(all_loops: tuple[PhaseLoops, ...], array: Array, store: Store, units: int) -> list[Placed]:
    """Return all loops with their mappings, samples and filters shared by the units so that the fewest words move."""
    planes, found = all_loops[0].planes, []
    for loops in all_loops:
        shares = [_shared(loops, share, units // share) for share in _divisors(units)]
        each = [Placed(own, best_blocking(own, array, store, planes, units), planes, units) for own in shares]
        found.append(min(each, key=lambda placed: store.rank(*placed.counts)))
    return found


def _shared(loops: PhaseLoops, samples: int, filters: int) -> PhaseLoops:
    """Return the part of a loops on one of the units among which samples and filters are shared."""
    return loops._replace(samples=-(-loops.samples // samples), filters=-(-loops.filters // filters))


@lru_cache(maxsize=256)
def _divisors(units: int) -> tuple[int, ...]:
    return tuple(share for share in range(1, units + 1) if units % share == 0)


def _nests(
    shape: LocalShape, phase: str, packed: tuple[float, float] = (1.0, 1.0)
) -> tuple[tuple[PhaseLoops, ...], ...]:
    """Return the ways to do a phase, each as all_loops of loops one after another.

    Args:
        shape: the layer.
        phase: the phase.
        packed: words in memory for an element of F_in and for one of F_out; their errors have as many.
    """
    whole = _forward(shape)._replace(gradient=PHASES[phase] == "weight", packed=packed)
    if phase != "backward":
        return ((whole,),)
    back = whole._replace(channels=whole.filters, filters=whole.channels, packed=packed[::-1])
    high, wide = _window(shape, "height"), _window(shape, "width")
    steps = high.stride * wide.stride
    dense = back._replace(
        height=back.height * high.stride,
        width=back.width * wide.stride,
        stride=1,
        read_width=back.width * wide.stride + wide.extent - 1,
        across=1,
        zeros=steps,
    )
    return ((dense,),) if steps == 1 else (_folded(back, high, wide), (dense,))


def _forward(shape: LocalShape) -> PhaseLoops:
    """Return the loops of the forward phase; sizes of real shares are rounded up."""
    sizes = {dim: math.ceil(size) for dim, size in shape.sizes.items()}
    high, wide = _window(shape, "height"), _window(shape, "width")
    width = sizes.get("width", 1)
    return PhaseLoops(
        samples=sizes.get("batch", 1),
        groups=sizes.get("groups", 1),
        channels=sizes.get("in_channels", 1),
        filters=sizes.get("out_channels", 1),
        kernel=sizes.get("kernel_height", 1),
        taps=sizes.get("kernel_width", 1),
        height=sizes.get("height", 1),
        width=width,
        stride=high.stride,
        extent=high.extent,
        read_width=(width - 1) * wide.stride + wide.extent,
        gradient=False,
        across=wide.stride,
    )


def _window(shape: LocalShape, dim: str) -> Window:
    return shape.windows.get(dim) or Window(kernel=1)


def _folded(back: PhaseLoops, high: Window, wide: Window) -> tuple[PhaseLoops, ...]:
    """Return a convolution for each remainder of a place by the strides, with the taps that meet it."""
    return tuple(
        back._replace(
            kernel=rows,
            taps=taps,
            stride=1,
            extent=(rows - 1) * high.dilation + 1,
            read_width=back.width + (taps - 1) * wide.dilation,
            across=1,
        )
        for rows in _meeting(high)
        for taps in _meeting(wide)
    )


@lru_cache(maxsize=256)
def _meeting(window: Window) -> tuple[int, ...]:
    """Return the number of taps for each remainder that some tap meets, the most first."""
    counts = Counter(tap * window.dilation % window.stride for tap in range(window.kernel))
    return tuple(sorted(counts.values(), reverse=True))


plugin: type[ComputeModel] = BlockedRowStationary
