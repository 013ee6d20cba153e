"""The sums that the pipeline's Tables I and II make of a network's stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.studies.sections.pipeline.published import EXTRA, TWICE

if TYPE_CHECKING:
    from hypar.studies.pipeline.result import Pipeline, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A pipeline at batch 1, and the sums that Tables I and II make of the published stages.

    Attributes:
        found: the pipeline.
        extra: whether ``EXTRA`` has the tensor more; it is as large as what that stage receives.
        twice: whether the errors of ``TWICE`` count twice.
        digits: whether sums are of numbers of two digits: the weights in all rounded, the rest cut off.
    """

    found: Pipeline
    extra: bool = False
    twice: bool = False
    digits: bool = False

    def kept(self, stage: Stage) -> int:
        """Bytes of the tensors that a stage keeps of one image."""
        more = stage.memory["received"] if self.extra and self.number(stage) == EXTRA else 0
        return (stage.memory["activations"] + more) // stage.in_flight

    def number(self, stage: Stage) -> int:
        """From 1."""
        return self.found.stages.index(stage) + 1

    def activations(self, stage: Stage) -> int:
        """Bytes of all that are in flight."""
        return stage.in_flight * self.kept(stage)

    def errors(self, stage: Stage) -> int:
        """Bytes: an error for each tensor of one image."""
        return self.kept(stage) * (2 if self.twice and self.number(stage) in TWICE else 1)

    @property
    def weights(self) -> int:
        """Bytes of all weights and statistics, and as many of gradients."""
        own = sum(stage.memory["weights"] for stage in self.found.stages)
        return 2 * (round(own, -4) if self.digits else own)

    def cut(self, num_bytes: int) -> int:
        """A size, to two digits after the point in MB where that is asked for."""
        return num_bytes // 10_000 * 10_000 if self.digits else num_bytes

    def pipeline(self, batch: int) -> int:
        """Bytes of all stages."""
        rows = ((self.activations(stage), self.errors(stage)) for stage in self.found.stages)
        return self.weights + batch * sum(self.cut(size) for row in rows for size in row)

    def threads(self, batch: int) -> int:
        """Bytes of as many threads, each with the whole network and its own mini-batch."""
        whole = self.cut(sum(self.kept(stage) for stage in self.found.stages))
        return len(self.found.stages) * (self.weights + batch * 2 * whole)


def readings(found: Pipeline) -> dict[str, Counted]:
    """Return Tables I and II as hypar counts them, and with their misprints one after the other."""
    return {
        "ours": Counted(found=found),
        "with the tenth tensor": Counted(found=found, extra=True),
        "and errors twice": Counted(found=found, extra=True, twice=True),
        "in two digits": Counted(found=found, extra=True, twice=True, digits=True),
    }


def cut_beside(published: float, ours: float) -> tuple[str, str, str]:
    """Put a number of two digits beside ours with one more, and ours over it."""
    return f"{published:.2f}", f"{ours:.3f}", f"{ours / published:.2f}"
