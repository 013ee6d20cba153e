"""The joint optimum by counts in fresh processes. Run by hand: ``pytest tests/benchmarks/test_counts.py -m slow -n 0 -s``.

Every line has the optimum, the processor's seconds, and the process's largest memory. Aims for the networks on images: 0.3, 0.8 and
2 s at 8, 12 and 20 levels of five dims, 300 MB; 1 s for 1,000 residual blocks at 8 levels; 5 s for 10,000 unlike layers, greedily.
"""

from __future__ import annotations

import sys

import pytest

from tests.benchmarks.fresh import fresh
from tests.benchmarks.test_unproven import CASES, PAGE
from tests.effort import NETWORKS, TRANSFORMERS

INPUT = {"op": "input", "channels": 8, "height": 32, "width": 32}
CONV = {"op": "conv", "kernel": 3, "padding": 1}


def residual(blocks: int) -> dict[str, object]:
    """A network of equal residual blocks of two convolutions."""
    layers: list[dict[str, object]] = [INPUT, {"name": "stem", **CONV, "out_channels": 64}]
    before = "stem"
    for at in range(blocks):
        one, two, both = (f"{name}{at}" for name in ("one", "two", "add"))
        layers += [
            {"name": one, **CONV, "out_channels": 64, "inputs": before},
            {"name": two, **CONV, "out_channels": 64},
            {"name": both, "op": "add", "inputs": [before, two]},
        ]
        before = both
    return {"source": "drawn", "batch": 256, "layers": layers}


def unlike(layers: int) -> dict[str, object]:
    """A chain of convolutions, of which no two have the same channels."""
    own = [{"name": f"conv{at}", **CONV, "out_channels": 64 + at} for at in range(layers)]
    return {"source": "drawn", "batch": 256, "layers": [INPUT, *own]}


@pytest.mark.slow
@pytest.mark.parametrize("convention", ["moved", "fused"])
@pytest.mark.parametrize("levels", [8, 12, 20])
@pytest.mark.parametrize("model", [*NETWORKS, *TRANSFORMERS])
def test_all_shipped_networks_are_proven_optimal_but_for_those_on_the_page(
    model: str, levels: int, convention: str
) -> None:
    found = fresh(model, strategy="optimal", levels=levels, convention=convention)
    sys.stdout.write(found.line(f"{model} {levels} {convention}", f"{found.cost / 1e9:.6g} GB"))
    assert (found.gap > 0) == (f" {levels}: " in PAGE.found.get(CASES[model, convention], ""))
    assert found.MB < 300 or model in TRANSFORMERS


@pytest.mark.slow
def test_a_thousand_residual_blocks() -> None:
    found = fresh(residual(1000), strategy="optimal", levels=8)
    sys.stdout.write(found.line("1,000 residual blocks, 8 levels", f"{found.cost / 1e9:.6g} GB"))
    assert found.gap == 0


@pytest.mark.slow
def test_ten_thousand_unlike_layers() -> None:
    found = fresh(unlike(10_000), strategy="hypar", levels=4)
    sys.stdout.write(found.line("10,000 unlike layers, greedy, 4 levels", f"{found.cost / 1e9:.6g} GB"))
    assert found.cost > 0
