"""One flat level in a fresh process. Run by hand: ``pytest tests/benchmarks/test_flat.py -m slow -n 0 -s``.

Every line has the plan's bytes, how much lower the optimum may be, the processor's seconds of planning with the network and hypar
loaded, and the process's largest memory. Aims: 0.1 s for alexnet and vgg16, 1.5 s for the others.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

ONE = """
import json, resource, sys, time, hypar
graph = hypar.load_model(sys.argv[1])
hypar.plan_model("lenet-c", levels=10, strategy="optimal")
started = time.process_time()
plan = hypar.plan_model(graph, array=[int(sys.argv[2])], strategy="optimal")
seconds = time.process_time() - started
cost, bound = plan.cost.value, (plan.bounds or [plan.cost.value])[0]
print(json.dumps({"GB": cost / 1e9, "gap": 1 - bound / cost, "seconds": seconds,
    "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("ways", [16, 64, 256, 1024, 4096, 16384])
@pytest.mark.parametrize("model", ["alexnet", "vgg16", "resnet50", "resnet152", "inception-v3"])
def test_wide_flat_levels_are_planned(model: str, ways: int) -> None:
    asked = [sys.executable, "-c", ONE, model, str(ways)]
    found = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    sys.stdout.write(
        f"{model} {ways}: {found['GB']:.6g} GB, at most {found['gap']:.2%} above the optimum, "
        f"{found['seconds']:.2f} s, {found['MB']:.0f} MB\n"
    )
    assert found["gap"] == 0 or (ways > 256 and found["gap"] < 0.05)
    assert found["MB"] < 300
