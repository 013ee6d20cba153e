"""Normalisation by the root of the mean square."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hypar.network.ops.bases.normalising import Norm

if TYPE_CHECKING:
    from hypar.network.ops.base import Op


class RmsNorm(Norm):
    """Division by the root of the mean square over some dims, with a trained scale."""

    flop_per_element: ClassVar[int] = 4
    statistics: ClassVar[tuple[str, ...]] = ("square",)

    @property
    def back_statistics(self) -> tuple[str, ...]:  # type: ignore[override]
        """The sum of the product of the error with the normalised input, and the gradient of the scale."""
        return ("product", *self.trained)


plugin: type[Op] = RmsNorm
