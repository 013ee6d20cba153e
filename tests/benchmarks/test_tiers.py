"""The least time by counts on tiers of levels, in a fresh process. Run by hand: ``pytest tests/benchmarks/test_tiers.py -m slow -n 0 -s``.

Every line has the optimum, the gap that is left, the processor's seconds, and the process's largest memory. Aims: 1 s for two tiers of five levels, 2 s for three tiers of three, 350 MB.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.fresh import fresh
from tests.planning.test_tiers import MACHINE, NETWORK

if TYPE_CHECKING:
    from pathlib import Path

THREE = "batch,in_channels,out_channels"
MODELS = ("alexnet", "vgg16", "resnet18", "resnet50", "googlenet", "inception-v3")


@pytest.mark.slow
@pytest.mark.parametrize("space", [THREE, "all"])
@pytest.mark.parametrize(("machine", "levels"), [("hmc", 4), ("p100-4x4", 4), ("tpu-v2", 6), ("tpu-v3", 8)])
@pytest.mark.parametrize("model", MODELS)
def test_shipped_machines(model: str, machine: str, levels: int, space: str) -> None:
    found = fresh(model, strategy="optimal", cost="time", levels=levels, hardware=machine, space=space)
    sys.stdout.write(found.line(f"{model} {machine} {levels} {space}", f"{found.cost * 1e3:.6g} ms"))
    assert 0 <= found.gap < 1


@pytest.mark.slow
@pytest.mark.parametrize("space", [THREE, "all"])
@pytest.mark.parametrize("tiers", [(5, 5), (3, 3, 3)])
@pytest.mark.parametrize("model", MODELS)
def test_large_machines(model: str, tiers: tuple[int, ...], space: str, tmp_path: Path) -> None:
    text = MACHINE.format(peak=100, half=1e9)
    for at, depth in enumerate(tiers):
        text += NETWORK.format(topology="switch", devices=2**depth, rate=10 * 9**at, latency=0)
    file = tmp_path / "drawn.yaml"
    file.write_text(text, encoding="utf-8")
    name = "+".join(map(str, tiers))
    asked = {"cost": "time", "levels": sum(tiers), "hardware": str(file), "space": space, "batch": 4096}
    found = fresh(model, strategy="optimal", **asked)
    sys.stdout.write(found.line(f"{model} {name} {space}", f"{found.cost * 1e3:.6g} ms"))
    assert 0 <= found.gap < 1
