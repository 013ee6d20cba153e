"""Cross-entropy of a softmax: the loss of a network that ends in scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.network.ops.bases.normalising import Shares

if TYPE_CHECKING:
    from hypar.network.ops.base import Op


class CrossEntropy(Shares):
    """A softmax whose mean cross-entropy against a label for each position is the loss.

    It gives the shares, of which the loss takes the label's; whichever device has it takes it, so that dividing the dim
    adds up one number for each position, as in Megatron-LM's vocabulary-parallel loss.
    """


plugin: type[Op] = CrossEntropy
