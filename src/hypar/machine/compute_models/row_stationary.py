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

from functools import lru_cache

from hypar.machine.compute_models.base import ComputeModel, ElementArray, LocalShape, Work, memory_words
from hypar.machine.spatial.sets import SetLayout, layouts
from hypar.ops.nest import PHASES


class RowStationary(ElementArray):
    """Array of processing elements, each with registers for a few rows.

    With registers for ``weight_words``, ``input_words`` and ``output_words`` an element interleaves q input
    channels and p output channels, so that the buffer gives a row of F_in once for p and takes a row of
    F_out once for q of them; a row of W stays for all samples.
    """

    def mapping(self, kernel_height: int, height: int) -> SetLayout:
        """Return the layout of sets of given kernel and output rows."""
        return _mapping(self.rows.value, self.columns.value, kernel_height, height)

    def work(self, shape: LocalShape, phase: str, units: int) -> Work:
        """Return cycles and accesses; rows are whole, and the last round of sets may be incomplete."""
        shape, phase = shape.as_convolution(phase)
        kernel, height = shape.size("kernel_height"), shape.size("height")
        taps, width = shape.size("kernel_width"), shape.size("width")
        laid = self.mapping(kernel, height)
        planes = (
            shape.size("batch")
            * shape.size("groups")
            * shape.size("in_channels")
            * shape.size("out_channels")
        )
        rounds = -(-planes // (laid.sets * units))
        cycles = rounds * laid.folds * laid.kernel_folds * taps * width
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
        window = shape.windows.get("height"), shape.windows.get("width")
        strides = [1 if along is None else along.stride for along in window]
        read_rows = laid.folds * ((laid.columns - 1) * strides[0] + kernel)
        q = max(1, min(self.input_words.value // taps, shape.size("in_channels")))
        p = max(
            1, min(self.weight_words.value // (q * taps), self.output_words.value, shape.size("out_channels"))
        )
        fetched = {
            "weight": laid.folds * kernel * taps / shape.size("batch"),
            "input": read_rows * ((width - 1) * strides[1] + taps) / p,
            "output": height * width / q,
        }
        # A result is read, accumulated and written again.
        buffer = sum(words * (1 + (tensor == result)) for tensor, words in fetched.items())
        even = shape.macs / shape.padded_macs
        return {
            "registers": 4 * shape.macs,
            "array": even * planes * hops[result],
            "buffer": even * planes * buffer,
            "memory": memory_words(shape),
        }


@lru_cache(maxsize=4096)
def _mapping(rows: int, columns: int, kernel_height: int, height: int) -> SetLayout:
    """Return the layout with the fewest cycles, of equal ones the one with the fewest folds."""
    return min(layouts(rows, columns, kernel_height, height), key=lambda laid: laid.folds / laid.sets)


plugin: type[ComputeModel] = RowStationary
