"""Local response normalisation: every element divided by a power of the squares in the channels around it.

``F_out[c] = F_in[c] d[c]^-beta`` with ``d[c] = k + alpha / n sum F_in[c']^2`` over the n channels around c.

Source: PyTorch's ``LocalResponseNorm`` with its default alpha, beta and k, and the n of AlexNet (NIPS 2012, section 3.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.execution.taps import Reading, reading
from hypar.network.ops.pointwise import LRN_CHANNELS as NEIGHBOURS
from hypar.network.windows import Window

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Indices

ALPHA, BETA, K = 1e-4, 0.75, 1.0


def channels(made: Indices, size: int) -> Reading:
    """Return the channels that some channels of the output read, those around them."""
    return reading(Window(kernel=NEIGHBOURS, padding=NEIGHBOURS // 2), made, size)


def forward(read: Array, around: Reading) -> Array:
    """Return the normalised elements of the channels in the middle of what was read."""
    return _middle(read, around) * _divisor(read, around) ** -BETA


def backward(read: Array, error: Array, around: Reading) -> Array:
    """Return the terms of the error of everything that was read."""
    divisor = _divisor(read, around)
    shared = error * _middle(read, around) * divisor ** (-BETA - 1) * (-2 * ALPHA * BETA / NEIGHBOURS)
    batch, _, *image = read.shape
    spread = np.zeros((batch, len(around.elements) + 1, *image))
    for places in around.taps.T:  # channels of one tap differ, but for padding
        spread[:, places] += shared
    found: Array = spread[:, :-1] * read
    found[:, around.taps[:, NEIGHBOURS // 2]] += error * divisor**-BETA
    return found


def _middle(read: Array, around: Reading) -> Array:
    return read[:, around.taps[:, NEIGHBOURS // 2]]


def _divisor(read: Array, around: Reading) -> Array:
    batch, _, *image = read.shape
    squares = np.concatenate((read**2, np.zeros((batch, 1, *image))), axis=1)
    divisor: Array = K + ALPHA / NEIGHBOURS * squares[:, around.taps].sum(axis=2)
    return divisor
