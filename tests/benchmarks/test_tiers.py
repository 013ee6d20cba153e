"""The least time by counts on tiers of levels, in a fresh process. Run by hand: ``pytest tests/benchmarks/test_tiers.py -m slow -n 0 -s``.

Every line has the optimum, the gap that is left, the processor's seconds from the start of Python to the plan, and the process's
largest memory. Aims: 1 s for two tiers of five levels, 2 s for three tiers of three, 350 MB.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.planning.test_tiers import MACHINE, NETWORK

if TYPE_CHECKING:
    from pathlib import Path

THREE = "batch,in_channels,out_channels"
MODELS = ("alexnet", "vgg16", "resnet18", "resnet50", "googlenet", "inception-v3")

ONE = """
import json, resource, sys, hypar
plan = hypar.plan_model(sys.argv[1], levels=int(sys.argv[2]), strategy="optimal", cost="time",
    hardware=sys.argv[3], space=sys.argv[4], batch=int(sys.argv[5]))
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"ms": plan.cost.value * 1e3, "gap": 1 - (plan.bounds or [plan.cost.value])[0] / plan.cost.value,
    "solver": plan.solver, "seconds": used.ru_utime + used.ru_stime, "MB": used.ru_maxrss * 1024 / 1e6}))
"""


def measured(name: str, *asked: object) -> dict[str, float]:
    """Plan in a fresh process, and print a line."""
    command = [sys.executable, "-c", ONE, *map(str, asked)]
    found: dict[str, float] = json.loads(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )
    sys.stdout.write(
        f"{asked[0]} {name} {asked[3]}: {found['ms']:.6g} ms by {found['solver']}, gap {found['gap']:.1e}, "
        f"{found['seconds']:.2f} s, {found['MB']:.0f} MB\n"
    )
    return found


@pytest.mark.slow
@pytest.mark.parametrize("space", [THREE, "all"])
@pytest.mark.parametrize(("machine", "levels"), [("hmc", 4), ("p100-4x4", 4), ("tpu-v2", 6), ("tpu-v3", 8)])
@pytest.mark.parametrize("model", MODELS)
def test_shipped_machines(model: str, machine: str, levels: int, space: str) -> None:
    found = measured(f"{machine} {levels}", model, levels, machine, space, 256)
    assert 0 <= found["gap"] < 1


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
    found = measured(name, model, sum(tiers), file, space, 4096)
    assert 0 <= found["gap"] < 1
