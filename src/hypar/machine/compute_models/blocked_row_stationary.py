"""Row-stationary compute model whose mapping and traffic are searched, buffer and registers considered.

Source: Chen, Emer and Sze, Eyeriss: A Spatial Architecture for Energy-Efficient Dataflow (ISCA 2016), sections V and
VI; Chen, Krishna, Emer and Sze, Eyeriss: An Energy-Efficient Reconfigurable Accelerator (JSSC 2017), sections IV and V.

Sets are those of ``row_stationary``. A mapping is chosen for each phase of a layer: see ``machine/spatial.py``.
The arithmetic takes the cycles of the mapping; the words between buffer and array take the cycles that
``buffer_words_per_cycle`` allows, and the longer of the two is the time.

Feature maps with zeros lie in memory run-length coded where ``zeros`` are saved. A word of 64 bits holds three pairs and one bit
that marks the last word of a code; a pair is the number of zeros before an element, in 5 bits, and that element, in 16. A
mapping reads some channels of a sample, so that each channel of a sample is a code of its own, and a vector is one. The zeros
at its end take a pair, and its last word may have room for two more (JSSC 2017, section III).

The backward phase of a strided convolution is done on F_out's gradient with zeros put between its elements, or as one
convolution for each place that a kernel can have relative to the stride, whichever takes fewer cycles.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr

from hypar.files.validation import AsNumber, Count, Sourced
from hypar.machine.compute_models.base import ComputeModel, ElementArray, LocalShape, Work
from hypar.machine.schema import Device
from hypar.machine.spatial import Blocking, PhaseLoops, Unit, best_blocking
from hypar.ops.nest import PHASES
from hypar.ops.windows import Window

MOST_ZEROS = 31
"""Zeros of a run that one pair counts."""

PAIRS = 3
"""Pairs of a word of 64 bits."""

PAIR_WORDS = 64 / PAIRS / 16
"""Words of 16 bits that a pair takes."""


def _open(value: Any, why: str) -> Any:
    return Sourced(value=value, source=f"not given: {why}")


class BlockedRowStationary(ElementArray):
    """Array of processing elements with a buffer, each element with registers for a few rows."""

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

    def beside(self, device: Device) -> Self:
        """Return the model of an array beside the buffer of a device, if it has one; energies are the costs of words."""
        placed, energy = self.model_copy(), device.energy
        if device.buffer is not None:
            placed._buffer_words = math.floor(device.buffer.value / device.word.value)
        if self.fewest.value == "words" and energy is not None and energy.buffer.value:
            placed._costs = energy.buffer.value, energy.array.value if energy.array else 0.0
        return placed

    @property
    def unit(self) -> Unit:
        """The array with its buffer as mappings are searched for it."""
        given = {name: getattr(self, name).value for name in Unit._fields if name in type(self).model_fields}
        words = math.inf if self._buffer_words is None else self._buffer_words
        return Unit(**given, buffer=max(0, words - self.weight_buffer_words.value), costs=self._costs)

    def _packed(self, shape: LocalShape) -> tuple[float, ...]:
        """Return the words in memory for an element of F_in and for one of F_out, a code being a channel of a sample, or a vector."""
        found = []
        for tensor, channels in (("input", "in_channels"), ("output", "out_channels")):
            vector = shape.words[tensor] / (shape.size("batch") * shape.size("groups"))
            plane = vector / shape.size(channels)
            zeros = shape.zeros.get(tensor) if self.zeros.value == "saved" else None
            found.append(run_length_words(zeros, plane if plane > 1 else max(1.0, vector)))
        return tuple(found)

    def work(self, shape: LocalShape, phase: str, units: int) -> Work:
        """Return cycles and accesses of the best mapping; the last round of sets may be incomplete."""
        own, phase = shape.as_convolution(phase)
        unit, ways = self.unit, _ways(own, phase, self._packed(own))
        parts = min((_placed(way, unit, units) for way in ways), key=lambda each: unit.rank(*_counts(each)))
        (whole, first), (cycles, memory, buffer) = parts[0], _counts(parts)
        even = own.macs / own.padded_macs
        words = even * units * buffer
        # Elements of the result that no tap meets are zeros, and written all the same.
        made = sum(loops.all_samples * loops.filters * loops.height * loops.width for loops, _ in parts)
        met = math.inf if phase == "gradient" else even * made
        left = max(0.0, own.words[PHASES[phase]] - met) * whole.packed[1]
        read = "output" if phase == "backward" else "input"
        skipped = own.zeros.get(read, 0.0) if self.zeros.value == "saved" else 0.0
        rate = None if self.buffer_words_per_cycle is None else units * self.buffer_words_per_cycle.value
        return Work(
            seconds=cycles / self.frequency.value,
            buffer_seconds=0.0 if rate is None else words / (rate * self.frequency.value),
            accesses={
                "registers": (4 - 3 * skipped) * own.macs,
                "array": even
                * units
                * math.fsum(found.loops.array_words(*found.interleaved, found.tile[0]) for _, found in parts),
                "buffer": words,
                "memory": even * units * memory + left,
            },
            skipped=skipped,
            mapping={
                "active": min(first.layout.active, whole.kernel * whole.height * whole.planes),
                "cycles": cycles,
                "utilisation": own.padded_macs / (cycles * units * self.rows.value * self.columns.value),
                **first.layout._asdict(),
                **dict(zip(_MAPPED, (*first.grid, *first.interleaved, *first.tile), strict=True)),
            },
        )


_MAPPED = (
    *("side_channels", "side_filters", "side_samples", "channels", "filters"),
    *("tile_samples", "tile_filters", "tile_channels"),
)
"""Names of the numbers of a mapping besides those of its layout."""

Parts = list[tuple[PhaseLoops, Blocking]]
"""Loops one after another, of all units, with the mapping of one of these."""


def run_length_words(zeros: float | None, elements: float = math.inf) -> float:
    """Return the words that an element of a feature map takes in memory, its zeros being anywhere.

    A pair stands for an element and for the zeros before it, up to ``MOST_ZEROS``: for one and for z + z^2 + ... elements
    in the mean, z being the fraction of zeros. Without many zeros that is more than a word. A code ends inside a run as
    often as an element makes no pair, and its last word has room for one pair in the mean.

    Args:
        zeros: fraction of zeros; None if not known, so that the map is not coded.
        elements: elements of a code.
    """
    if zeros is None:
        return 1.0
    pairs = 1 / sum(zeros**run for run in range(MOST_ZEROS + 1))
    return PAIR_WORDS * (pairs + (1 - pairs + (PAIRS - 1) / 2) / elements)


def _counts(parts: Parts) -> tuple[float, ...]:
    """Return cycles, words from memory and words from the buffer of a unit in all parts."""
    return tuple(map(sum, zip(*(found.counts for _, found in parts), strict=True)))


def _placed(way: tuple[PhaseLoops, ...], unit: Unit, units: int) -> Parts:
    """Return all loops with their mappings, samples and filters shared by the units so that the fewest words move."""
    found = []
    for loops in way:
        shares = [(own, units // own) for own in range(1, units + 1) if units % own == 0]
        each = [
            loops._replace(samples=-(-loops.samples // own), filters=-(-loops.filters // other))
            for own, other in shares
        ]
        mapped = (best_blocking(own, unit, loops.planes, units) for own in each)
        found.append((loops, min(mapped, key=lambda own: unit.rank(*own.counts))))
    return found


def _ways(shape: LocalShape, phase: str, packed: tuple[float, ...]) -> tuple[tuple[PhaseLoops, ...], ...]:
    """Return the ways to do a phase, each as loops one after another; errors have as many words as what they are of."""
    high, wide = shape.window("height"), shape.window("width")
    sizes = {name: math.ceil(shape.size(dim)) for name, dim in _LOOPS.items()}
    whole = PhaseLoops(
        **sizes,
        stride=high.stride,
        extent=high.extent,
        read_width=(sizes["width"] - 1) * wide.stride + wide.extent,
        gradient=PHASES[phase] == "weight",
        across=wide.stride,
        packed=packed,
    )
    if phase != "backward":
        return ((whole,),)
    back = whole._replace(channels=whole.filters, filters=whole.channels, packed=packed[::-1])
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


_LOOPS = {
    "samples": "batch", "groups": "groups", "channels": "in_channels", "filters": "out_channels",
    "kernel": "kernel_height", "taps": "kernel_width", "height": "height", "width": "width",
}  # fmt: skip
"""The dims of loops."""


def _folded(back: PhaseLoops, high: Window, wide: Window) -> tuple[PhaseLoops, ...]:
    """Return a convolution for each remainder of a place by the strides, with the taps that meet it, the most first."""
    counts = (
        Counter(tap * window.dilation % window.stride for tap in range(window.kernel))
        for window in (high, wide)
    )
    return tuple(
        back._replace(
            kernel=rows,
            taps=taps,
            stride=1,
            extent=(rows - 1) * high.dilation + 1,
            read_width=back.width + (taps - 1) * wide.dilation,
            across=1,
        )
        for rows, taps in product(*(sorted(own.values(), reverse=True) for own in counts))
    )


plugin: type[ComputeModel] = BlockedRowStationary
