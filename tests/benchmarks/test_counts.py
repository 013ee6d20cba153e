"""The joint optimum by counts in a fresh process. Run by hand: ``pytest tests/benchmarks/test_counts.py -m slow -n 0 -s``.

Every line has the optimum, the processor's seconds from the start of Python to the plan, and the process's largest
memory. Aims: 0.3, 0.8 and 2 s at 8, 12 and 20 levels of five dims, 300 MB.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.effort import NETWORKS, TWINS

OPEN = {"unet": "its branches nest", "mobilenet-v2": "groups by fused", "alexnet-2012": "groups by fused"}
"""Networks that are not proven at every depth, and why."""

ONE = """
import json, resource, sys, hypar
plan = hypar.plan_model(sys.argv[1], levels=int(sys.argv[2]), strategy="optimal", convention=sys.argv[3])
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"GB": plan.cost.value / 1e9, "proven": plan.bounds in (None, [plan.cost.value]),
    "solver": plan.solver, "seconds": used.ru_utime + used.ru_stime, "MB": used.ru_maxrss * 1024 / 1e6}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("convention", ["moved", "fused"])
@pytest.mark.parametrize("levels", [4, 8, 12, 16, 20])
@pytest.mark.parametrize("model", [model for model in NETWORKS if model not in TWINS])
def test_all_shipped_networks_are_proven_optimal(model: str, levels: int, convention: str) -> None:
    asked = [sys.executable, "-c", ONE, model, str(levels), convention]
    found = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    sys.stdout.write(
        f"{model} {levels} {convention}: {found['GB']:.6g} GB by {found['solver']}, "
        f"proven {found['proven']}, {found['seconds']:.2f} s, {found['MB']:.0f} MB\n"
    )
    assert found["proven"] or model in OPEN
    assert found["MB"] < 300
