"""Loops of a phase, and the unit that they are mapped to: an array of processing elements with a buffer."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

ANY, BANK = "any", "bank"
"""Where the rows of F_in lie that a pass reads."""


class Unit(NamedTuple):
    """An array of processing elements with a buffer.

    Attributes:
        rows: rows of elements.
        columns: columns of elements.
        weight_words: register words of an element for W.
        input_words: register words of an element for F_in.
        output_words: register words of an element for F_out.
        buffer: words of F_in, of F_out, and of W unless it has a part of its own.
        bank_words: words of a bank; a tile takes whole banks.
        weight_buffer_words: words of the part through which W streams to the array; 0 if W shares the buffer.
        resident: ``result`` if a tile of the result always stays until it is finished, else ``any``.
        fewest: whether mappings are chosen by ``cycles`` and then words, by ``words`` and then cycles, or by the
            ``product`` of cycles and words from memory.
        sets: ``line`` if sets stand only below or only beside one another, else ``any``.
        pass_rows: ``bank`` if the rows of F_in that a pass reads of a sample lie in one bank, unless the pass has one channel,
            or as many as it takes to fill the array. Rows that do not fit it with one channel may be halved. Else ``any``.
        costs: cost of a word from the buffer and of one from the array's network, by which mappings with equal words from
            memory are chosen.
    """

    rows: int
    columns: int
    weight_words: int
    input_words: int
    output_words: int
    buffer: float = math.inf
    bank_words: int = 1
    weight_buffer_words: int = 0
    resident: str = "any"
    fewest: str = "cycles"
    sets: str = "any"
    pass_rows: str = ANY
    costs: tuple[float, float] = (1.0, 0.0)

    def rank(self, cycles: float, memory: float, buffer: float) -> tuple[float, ...]:
        """Return what mappings are compared by, the least first: cycles, words from memory, words from the buffer."""
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

    def held_rows(self, columns: Any) -> Any:
        """Return the input rows that some output rows read."""
        return columns * self.stride + (self.extent - self.stride)

    def words(self, folds: Any) -> tuple[Any, int, int]:
        """Return the words of F_in, padding and what two pieces of a set both read included, of F_out and of W."""
        rows = folds * (self.extent - self.stride) + self.height * self.stride
        read = self.all_samples * self.channels * self.read_width * rows
        made = self.all_samples * self.filters * self.height * self.width
        return read / self.zeros, made, self.groups * self.filters * self.channels * self.kernel * self.taps

    def halved(self) -> PhaseLoops:
        """Return the loops over halves of rows, the first of which is longer by a column if the width is odd."""
        width = -(-self.width // 2)
        return self._replace(
            samples=2 * self.samples,
            width=width,
            read_width=self.read_width - (self.width - width) * self.across,
            whole_width=self.read_width,
        )

    def array_words(self, channels: Any, filters: Any, samples: Any) -> Any:
        """Return the words that elements take from the array's network: rows of F_in and W, and terms of F_out.

        Args:
            channels: channels of an element.
            filters: filters of an element.
            samples: samples in the buffer.
        """
        rows = self.planes * self.kernel * self.height
        return rows * (self.read_width / (filters * self.zeros) + self.width / channels + self.taps / samples)
