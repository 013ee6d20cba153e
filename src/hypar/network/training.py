"""How a step trains a network: what a plan says of it beside its choices, and the number formats of a step."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

DTYPE_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
"""Size of one element of each number format."""

OPTIMIZERS = {"sgd": 0, "momentum": 1, "adam": 2}
"""The optimizers, with the numbers of their state for each weight."""


class Formats(NamedTuple):
    """The bytes of an element of each kind of tensor.

    Attributes:
        activation: F and E, and their transfers.
        weight: a weight as layers read it.
        gradient: a gradient as it is added up and exchanged.
        state: a number that the optimizer keeps for a weight.
        master: the copy of a weight that the optimizer updates; 0 where it updates the weight itself.
        loss: the shares of the loss; 0 for the bytes of an activation.
        operand: what a product with a weight reads, and keeps for its backward phase; 0 for the bytes of an activation.
    """

    activation: int
    weight: int
    gradient: int
    state: int
    master: int = 0
    loss: int = 0
    operand: int = 0

    def kept(self, optimizer: str) -> int:
        """Return the bytes that an optimizer keeps for an element of a weight, beside the weight and its gradient."""
        return self.master + OPTIMIZERS[optimizer] * self.state

    def updated(self, optimizer: str) -> int:
        """Return the bytes that an update moves: all that the optimizer keeps read and written, the weight too, its gradient read.

        A weight beside a copy is written alone.
        """
        weight = self.weight if self.master else 2 * self.weight
        return 2 * self.kept(optimizer) + weight + self.gradient

    def whole(self, zero: int, optimizer: str) -> int:
        """Return the bytes of an element of a weight that each device holds that has it, at a stage of ZeRO; others are shared."""
        each = self.kept(optimizer), self.gradient, self.weight
        return sum(own for stage, own in enumerate(each, start=1) if zero < stage)

    def of(self, phase: str) -> int:
        """Return the bytes of an element that moves in a phase."""
        return {"gradient": self.gradient, "weight": self.weight}.get(phase, self.activation)


PRECISIONS = {
    "fp32": Formats(4, 4, 4, 4),
    "bf16": Formats(2, 2, 2, 4, 4, 4),
    "bf16-fp32-gradients": Formats(2, 2, 4, 4, 4, 4),
    "fp8": Formats(2, 2, 2, 4, 4, 4, 1),
}
"""The number formats of a step by their names.

``bf16`` is mixed precision: with Adam 16 bytes of a parameter, 2 + 2 + 12 (Rajbhandari et al., ZeRO, SC20, 3.1); with gradients in fp32,
as Megatron-LM adds them up, 18 (Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, MLSys 2023). Frameworks hold the shares of a cross-entropy in fp32.
``fp8`` is ``bf16`` with the operands of products with weights in fp8 (Micikevicius et al., FP8 Formats for Deep Learning, 2022), as NVIDIA's
Transformer Engine casts them: weights, gradients and what moves stay in bf16, attention too.
"""


@lru_cache(maxsize=64)
def formats_of(precision: str | None, element_bytes: int) -> Formats:
    """Return the formats of a precision by its name; without one all tensors have the elements of the network."""
    return Formats(*[element_bytes] * 4) if precision is None else PRECISIONS[precision]


class Training(NamedTuple):
    """How a step trains.

    Attributes:
        microbatches: microbatches in a mini-batch, taken one after another without stages; gradients are added up, and weights
            updated once.
        precision: the number formats, one of ``PRECISIONS``; None for those of the network.
        zero: how weights rest between their uses, a stage of ZeRO: devices that add up the gradient of a piece of a weight share
            its optimizer state from 1 on, its gradient too from 2 on, and by 3 the piece itself.
        recompute: what the backward phase computes again, one of ``RECOMPUTED``.
    """

    microbatches: int = 1
    precision: str | None = None
    zero: int = 0
    recompute: str = "none"


AS_USUAL = Training()
"""How a step trains where nothing is said of it."""

GATHERED = 3
"""The stage of ZeRO by which weights are gathered for each use."""

RECOMPUTED = ("none", "gathers", "attention", "full:1/4", "full:1/2", "full:3/4", "full")
"""What the backward phase does again: nothing, gathers, each attention too, or a part or all of the blocks of layers from what they read.

Source: Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, MLSys 2023: 4.2.2, where a device keeps its
shard of the input of a layer and gathers it again, and 5, selective and full.
"""

ANYWHERE = RECOMPUTED[:2]
"""Those that any network can have; the others need attention, or blocks."""
