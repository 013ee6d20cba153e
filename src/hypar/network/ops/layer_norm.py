"""Layer normalisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hypar.network.ops.bases.normalising import Norm

if TYPE_CHECKING:
    from hypar.network.ops.base import Op


class LayerNorm(Norm):
    """Normalisation to mean 0 and variance 1 over some dims, with a trained scale and shift."""

    flop_per_element: ClassVar[int] = 5
    statistics: ClassVar[tuple[str, ...]] = ("sum", "square")
    shift: bool = True

    @property
    def trained(self) -> tuple[str, ...]:
        """The scale, which frameworks call weight, and the shift, which they call bias."""
        return ("weight",) * self.scale + ("bias",) * self.shift

    @property
    def back_statistics(self) -> tuple[str, ...]:  # type: ignore[override]
        """The sums of the error and of its product with the normalised input; gradients of trained tensors."""
        return ("error", "product", *self.trained)


plugin: type[Op] = LayerNorm
