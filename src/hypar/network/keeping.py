"""What ops keep of the forward phase and what they read and write, and the ops that come behind a layer that is cut."""

from __future__ import annotations

from typing import NamedTuple


class Keeps(NamedTuple):
    """The memory that an op keeps from its forward phase until its backward phase.

    Attributes:
        input: whether it keeps its input.
        output: whether it keeps its output.
        elements: further numbers of the network's number format, for each sample.
        mask_bytes: bytes of a mask or of indices, for each sample.
        statistics: numbers of the network's number format, for all samples together.
    """

    input: bool = False
    output: bool = False
    elements: int = 0
    mask_bytes: int = 0
    statistics: int = 0


class Traffic(NamedTuple):
    """The elements that an op reads from memory and writes to it, and its floating-point operations, for some samples.

    A product of tensors counts its operands, its result and its operations by its einsum, and here what it moves besides.

    Attributes:
        forward: elements that the forward phase reads and writes.
        backward: elements that the backward phase reads and writes.
        mask_bytes: bytes of a mask or of indices that the forward phase writes and the backward phase reads.
        flop: operations of the forward phase; the backward phase takes as many if it moves anything.
    """

    forward: float = 0
    backward: float = 0
    mask_bytes: float = 0
    flop: float = 0

    def times(self, count: float) -> Traffic:
        """Return the traffic of several times as many samples."""
        return Traffic(*(count * own for own in self))


class Trailing(NamedTuple):
    """An op as memory sees it: the tensor that it reads, the one that it writes, and what it keeps of a mini-batch.

    Attributes:
        source: number of the tensor that it reads; None for one that comes from another cut layer, or for none.
        target: number of the tensor that it writes; that of ``source`` if it overwrites what it reads.
        elements: elements of that tensor.
        contracted: dims of the cut layer's output that have been summed over.
        passes: whether the error of an input is the error of its output, or a part of it, without memory of its own.
        keeps_input: whether it keeps the tensor that it reads.
        keeps_output: whether it keeps the tensor that it writes.
        more_elements: further numbers that it keeps.
        more_bytes: further bytes that it keeps.
        statistics: numbers that it keeps of each channel, for all samples together.
        traffic: the elements that it reads and writes.
        readers: the number of ops that read the tensor that it writes, whose errors are added up.
    """

    source: int | None
    target: int
    elements: int
    contracted: frozenset[str] = frozenset()
    passes: bool = False
    keeps_input: bool = False
    keeps_output: bool = False
    more_elements: int = 0
    more_bytes: int = 0
    statistics: int = 0
    traffic: Traffic = Traffic()
    readers: int = 1
