"""Roofline compute model: time is the longer of arithmetic and memory access.

Source: Williams, Waterman and Patterson, Roofline (CACM 2009). The efficiency of the arithmetic grows with
the work of a phase, ``flop / (flop + half_efficiency_flop)``, as small kernels do not fill a device. The machine
adds memory time for every compute model.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field

from hypar.errors import HardwareError
from hypar.files.validation import AsNumber, FlopPerSecond, Sourced
from hypar.machine.compute_models.base import ComputeModel, LocalShape, Work, memory_words, passing

FP8_BYTES, FP32_BYTES = 1, 4
"""Bytes of a number of the formats fp8 and fp32."""


class Roofline(ComputeModel):
    """Compute model with a peak and the work at which half of it is reached.

    Attributes:
        peak: the peak for numbers of the device's word.
        half_efficiency_flop: the operations of a phase that runs at half of it.
        fp32_peak: the peak for numbers of four bytes and more; None where that is the same.
        fp8_peak: the peak for numbers of one byte; None where it computes with none.
    """

    takes_arrays: ClassVar[bool] = True

    peak: Sourced[FlopPerSecond]
    half_efficiency_flop: Sourced[Annotated[float, AsNumber, Field(ge=0, le=1e30)]]
    fp32_peak: Sourced[FlopPerSecond] | None = None
    fp8_peak: Sourced[FlopPerSecond] | None = None

    def of_format(self, element_bytes: int) -> Self:
        """Return the model with the peak for numbers of some bytes.

        Raises:
            HardwareError: it has none for numbers of one byte.
        """
        if element_bytes == FP8_BYTES and self.fp8_peak is None:
            raise HardwareError("compute", "no fp8_peak", "another precision, or a machine with an fp8_peak")
        peaks = {FP8_BYTES: self.fp8_peak, FP32_BYTES: self.fp32_peak}
        peak = peaks.get(min(element_bytes, FP32_BYTES))
        return self if peak is None else self.model_copy(update={"peak": peak})

    def flop_per_s(self, units: int) -> float:
        """Return the peak."""
        return units * self.peak.value

    def work(self, shape: LocalShape, phase: str, units: int) -> Work:  # noqa: ARG002 (each moves as many words)
        """Return the work of a phase, with two operations per multiply-accumulate."""
        flop = 2.0 * shape.padded_macs
        efficiency = flop / (flop + self.half_efficiency_flop.value)
        return Work(
            seconds=flop / (units * self.peak.value * efficiency),
            accesses=passing(memory_words(shape)),
            mapping={"efficiency": efficiency},
        )


plugin: type[ComputeModel] = Roofline
