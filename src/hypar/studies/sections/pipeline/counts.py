"""The sums over a network's stages in the pipeline's Tables I and II."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.studies.sections.pipeline.published import EXTRA, TWICE

if TYPE_CHECKING:
    from hypar.studies.sections.pipeline.blocks import Blocks, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A pipeline at batch 1, and the sums of Tables I and II over the published stages.

    Attributes:
        found: the pipeline.
        extra: whether ``EXTRA`` holds one more tensor; it is as large as that stage's input.
        twice: whether the errors of ``TWICE`` count twice.
        digits: whether sums are of numbers of two digits: the weights in all rounded, the rest cut off.
    """

    found: Blocks
    extra: bool = False
    twice: bool = False
    digits: bool = False

    def kept(self, stage: Stage) -> int:
        """Return the bytes of the tensors that a stage keeps of one image."""
        more = stage.memory["received"] if self.extra and self.number(stage) == EXTRA else 0
        return (stage.memory["activations"] + more) // stage.in_flight

    def number(self, stage: Stage) -> int:
        """Return the number of a stage, from 1."""
        return self.found.stages.index(stage) + 1

    def activations(self, stage: Stage) -> int:
        """Return the bytes of all activations in flight."""
        return stage.in_flight * self.kept(stage)

    def errors(self, stage: Stage) -> int:
        """Return the bytes of the errors: one for each tensor of one image."""
        return self.kept(stage) * (2 if self.twice and self.number(stage) in TWICE else 1)

    @property
    def weights(self) -> int:
        """Return the bytes of all weights and statistics, and as many of gradients."""
        own = sum(stage.memory["weights"] for stage in self.found.stages)
        return 2 * (round(own, -4) if self.digits else own)

    def cut(self, num_bytes: int) -> int:
        """Cut a size to two decimals in MB, if ``digits`` is set."""
        return num_bytes // 10_000 * 10_000 if self.digits else num_bytes

    def pipeline(self, batch: int) -> int:
        """Return the bytes of all stages."""
        rows = ((self.activations(stage), self.errors(stage)) for stage in self.found.stages)
        return self.weights + batch * sum(self.cut(size) for row in rows for size in row)

    def threads(self, batch: int) -> int:
        """Return the bytes of as many threads, each with the whole network and its own mini-batch."""
        whole = self.cut(sum(self.kept(stage) for stage in self.found.stages))
        return len(self.found.stages) * (self.weights + batch * 2 * whole)


def readings(found: Blocks) -> dict[str, Counted]:
    """Return Tables I and II as hypar counts them, and with their misprints added one by one."""
    return {
        "ours": Counted(found=found),
        "with the tenth tensor": Counted(found=found, extra=True),
        "and errors twice": Counted(found=found, extra=True, twice=True),
        "in two digits": Counted(found=found, extra=True, twice=True, digits=True),
    }


def cut_beside(published: float, ours: float) -> tuple[str, str, str]:
    """Format a number of two decimals beside ours with one more, and the ratio of ours to it."""
    return f"{published:.2f}", f"{ours:.3f}", f"{ours / published:.2f}"
