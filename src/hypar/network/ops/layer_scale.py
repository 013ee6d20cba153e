"""Scale of a layer: a trained number for each channel, as of ConvNeXt's blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.network.keeping import Keeps
from hypar.network.named import Names
from hypar.network.ops.bases.trained import Trained

if TYPE_CHECKING:
    from hypar.network.ops.base import Op, Shape


class LayerScale(Trained):
    """``F_out = F_in W``, with one trained number for each element of the dims ``over``.

    Source: Touvron and others, Going deeper with image transformers (ICCV 2021), section 2.
    """

    over: Names | None = ("channels",)

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:  # noqa: ARG002
        """Return that it keeps its input, a factor of the gradient."""
        return Keeps(input=True)


plugin: type[Op] = LayerScale
