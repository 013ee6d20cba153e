"""Row-stationary compute model: rows of kernel and output laid out over an array of processing elements.

Source: Chen, Emer and Sze, Eyeriss: A Spatial Architecture for Energy-Efficient Dataflow (ISCA 2016), section
V; Chen, Krishna, Emer and Sze, Eyeriss: An Energy-Efficient Reconfigurable Accelerator (JSSC 2017), section V.

A processing element convolves one row of the kernel with one row of the input. One 2-D convolution of one
sample, one input and one output channel is a *set* of R by E elements, R rows of the kernel and E rows of
the output: a row of W runs along a row of the set, a row of F_in along a diagonal, and the terms of a row of
F_out stand in a column. The three phases have the same set and only add up along another direction: forward
along columns, backward along diagonals, gradient along rows.

A set wider than the array is folded to pieces of ``e`` columns, and a piece wider than the array occupies
several bands of R rows. A piece has at least two columns, so that F_in is shared along diagonals, unless E
is 1. As many sets as fit work side by side on other channels and samples. The value of ``e`` with the fewest
cycles is used, of equal ones the value with the fewest folds, which has the most reuse.
"""

from __future__ import annotations

import math

from hypar.machine.compute_models.base import ComputeModel, ElementArray, LocalShape, Work, memory_words
from hypar.machine.spatial import SetLayout, layouts
from hypar.ops.nest import PHASES


class RowStationary(ElementArray):
    """Array of processing elements, each with registers for a few rows.

    With registers for ``weight_words``, ``input_words`` and ``output_words`` an element interleaves q input
    channels and p output channels, so that the buffer gives a row of F_in once for p and takes a row of
    F_out once for q of them; a row of W stays for all samples.
    """

    def mapping(self, kernel_height: int, height: int) -> SetLayout:
        """Return the layout of sets of some kernel and output rows that takes the fewest cycles, of equal ones the fewest folds."""
        every = layouts(self.rows.value, self.columns.value, kernel_height, height)
        return min(every, key=lambda laid: laid.folds / laid.sets)

    def work(self, shape: LocalShape, phase: str, units: int) -> Work:
        """Return cycles and accesses; rows are whole, and the last round of sets may be incomplete."""
        shape, phase = shape.as_convolution(phase)
        kernel, height = shape.size("kernel_height"), shape.size("height")
        laid = self.mapping(kernel, height)
        planes = math.prod(shape.size(dim) for dim in ("batch", "groups", "in_channels", "out_channels"))
        cycles = laid.rounds(planes, units) * shape.size("kernel_width") * shape.size("width")
        return Work(
            seconds=cycles / self.frequency.value,
            accesses=self._accesses(shape, phase, laid, planes),
            mapping={
                "active": min(laid.active, kernel * height * planes),
                "cycles": cycles,
                "utilisation": shape.padded_macs / (cycles * units * self.rows.value * self.columns.value),
                **laid._asdict(),
            },
        )

    def _accesses(self, shape: LocalShape, phase: str, laid: SetLayout, planes: int) -> dict[str, float]:
        """Return the words accessed in each memory, scaled to an even share of the work."""
        kernel, height = shape.size("kernel_height"), shape.size("height")
        taps, width = shape.size("kernel_width"), shape.size("width")
        result = PHASES[phase]
        hops = {
            "output": (kernel - 1) * height * width,
            "input": (min(kernel, height) - 1) * height * width,
            "weight": (height - 1) * kernel * taps,
        }
        read_rows = laid.folds * ((laid.columns - 1) * shape.window("height").stride + kernel)
        read_columns = (width - 1) * shape.window("width").stride + taps
        q = max(1, min(self.input_words.value // taps, shape.size("in_channels")))
        held = min(self.weight_words.value // (q * taps), self.output_words.value)
        p = max(1, min(held, shape.size("out_channels")))
        fetched = {
            "weight": laid.folds * kernel * taps / shape.size("batch"),
            "input": read_rows * read_columns / p,
            "output": height * width / q,
        }
        # A result is read, accumulated and written again.
        buffer = sum(words * (1 + (tensor == result)) for tensor, words in fetched.items())
        even = shape.macs / shape.padded_macs * planes
        return {
            "registers": 4 * shape.macs,
            "array": even * hops[result],
            "buffer": even * buffer,
            "memory": memory_words(shape),
        }


plugin: type[ComputeModel] = RowStationary
