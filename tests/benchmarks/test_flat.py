"""One flat level in a fresh process. Run by hand: ``pytest tests/benchmarks/test_flat.py -m slow -n 0 -s``.

Every line has the plan's bytes, how much lower the optimum may be, the processor's seconds, and the process's largest memory. Aims: 0.1 s for alexnet and vgg16, 1.5 s for the others.
"""

from __future__ import annotations

import sys

import pytest

from tests.benchmarks.fresh import fresh


@pytest.mark.slow
@pytest.mark.parametrize("ways", [16, 64, 256, 1024, 4096, 16384])
@pytest.mark.parametrize("model", ["alexnet", "vgg16", "resnet50", "resnet152", "inception-v3"])
def test_wide_flat_levels_are_planned(model: str, ways: int) -> None:
    found = fresh(model, strategy="optimal", array=[ways])
    sys.stdout.write(found.line(f"{model} {ways}", f"{found.cost / 1e9:.6g} GB"))
    assert found.gap == 0 or (ways > 256 and found.gap < 0.05)
    assert found.MB < 300
