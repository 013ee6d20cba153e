"""Loops of a phase, and the array and the buffer that they are mapped to."""

from __future__ import annotations

from typing import Any, NamedTuple

CHANNELS, FILTERS, SAMPLES = "channels", "filters", "samples"
INNERMOST = (CHANNELS, FILTERS, SAMPLES)
"""Loops that may be the innermost one outside the buffer."""


class Array(NamedTuple):
    """Processing elements of a unit.

    Attributes:
        rows: rows of elements.
        columns: columns of elements.
        weight_words: register words of an element for W.
        input_words: register words of an element for F_in.
        output_words: register words of an element for F_out.
        line: whether sets stand only below or only beside one another.
    """

    rows: int
    columns: int
    weight_words: int
    input_words: int
    output_words: int
    line: bool = False


class Store(NamedTuple):
    """Buffer of a unit.

    Attributes:
        words: words of F_in, of F_out, and of W unless it has a part of its own; None without a limit.
        bank: words of a bank; a tile takes whole banks.
        weights: words of the part through which W streams to the array; 0 if W shares the buffer.
        keeps_result: whether a tile of the result always stays until it is finished.
        fewest: whether mappings are chosen by ``cycles`` and then words, by ``words`` and then cycles, or by the
            ``product`` of cycles and words from memory.
        pass_in_bank: whether the rows of F_in that a pass reads of a sample lie in one bank, unless the pass has one
            channel, or as many as it takes to fill the array. Rows that do not fit it with one channel may be halved.
        costs: cost of a word from the buffer and of one from the array's network, by which mappings with equal words from
            memory are chosen.
    """

    words: int | None
    bank: int = 1
    weights: int = 0
    keeps_result: bool = False
    fewest: str = "cycles"
    pass_in_bank: bool = False
    costs: tuple[float, float] = (1.0, 0.0)

    def rank(self, cycles: float, memory: float, buffer: float) -> tuple[float, ...]:
        """Return what a mapping is chosen by, the least first."""
        if self.fewest == "words":
            return memory, buffer, cycles
        return (cycles, memory, buffer) if self.fewest == "cycles" else (cycles * memory, buffer)


class PhaseLoops(NamedTuple):
    """Loops of one phase of a layer on one unit.

    Attributes:
        samples: samples, N.
        groups: groups of channels; those below are of one group.
        channels: input channels, C.
        filters: output channels, M.
        kernel: rows of the kernel, R.
        taps: columns of the kernel, S.
        height: output rows, E.
        width: output columns, F.
        stride: input rows between output rows.
        extent: input rows from the first to the last tap.
        read_width: input columns that are read, padding included.
        gradient: whether W is the result, and not F_out.
        zeros: elements of the input for each one that is read, the others being zeros put in between.
        across: input columns between output columns.
        packed: words in memory for an element of F_in and for one of F_out.
        whole_width: ``read_width`` of whole rows if these are halves of rows, which count as samples; otherwise 0.
    """

    samples: int
    groups: int
    channels: int
    filters: int
    kernel: int
    taps: int
    height: int
    width: int
    stride: int
    extent: int
    read_width: int
    gradient: bool
    zeros: int = 1
    across: int = 1
    packed: tuple[float, float] = (1.0, 1.0)
    whole_width: int = 0

    @property
    def planes(self) -> int:
        """Sets of the phase."""
        return self.samples * self.groups * self.channels * self.filters

    @property
    def all_samples(self) -> int:
        """Samples of all groups, which share nothing but, within a group, W."""
        return self.samples * self.groups

    def held_rows(self, columns: int) -> int:
        """Return the input rows that some output rows read."""
        return columns * self.stride + (self.extent - self.stride)

    def columns_within(self, rows: int) -> int:
        """Return the most output rows that read no more than some input rows."""
        return max(0, (rows - self.extent) // self.stride + 1)

    def read_rows(self, folds: int) -> int:
        """Return the input rows that all pieces of a set read, padding included."""
        return folds * (self.extent - self.stride) + self.height * self.stride

    def words(self, folds: Any) -> tuple[Any, int, int]:
        """Return the words of F_in, padding and what two pieces both read included, of F_out and of W."""
        read = self.all_samples * self.channels * self.read_width * self.read_rows(folds)
        made = self.all_samples * self.filters * self.height * self.width
        weights = self.groups * self.filters * self.channels * self.kernel * self.taps
        return read if self.zeros == 1 else read / self.zeros, made, weights

    def stored(self, folds: Any) -> tuple[Any, float, int]:
        """Return the same words as they lie in memory."""
        read, made, weights = self.words(folds)
        if self.packed == (1.0, 1.0):
            return read, made, weights
        return read * self.packed[0], made * self.packed[1], weights

    def halved(self) -> PhaseLoops:
        """Return the loops over halves of rows, the first of which is longer by a column if the width is odd."""
        width = -(-self.width // 2)
        return self._replace(
            samples=2 * self.samples,
            width=width,
            read_width=self.read_width - (self.width - width) * self.across,
            whole_width=self.read_width,
        )
