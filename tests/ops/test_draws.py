from __future__ import annotations

import numpy as np

from hypar.ops.run import uniform


def test_draws_are_spread_evenly_and_unlike() -> None:
    drawn = uniform([100], (np.arange(1000), np.arange(100)))
    assert len(np.unique(drawn)) == drawn.size
    counts, _ = np.histogram(drawn, bins=10, range=(0, 1))
    assert abs(counts / drawn.size - 0.1).max() < 0.005
    assert abs(np.corrcoef(drawn[:, :-1].ravel(), drawn[:, 1:].ravel())[0, 1]) < 0.01
