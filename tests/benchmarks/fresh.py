"""A plan of ``--strategy optimal`` or another in a fresh process, with what it took."""

import json
import subprocess
import sys
from typing import Any, NamedTuple

ONE = """
import json, resource, sys, time
import hypar
from tests.memory import own_peak
model, asked = json.load(sys.stdin)
graph = hypar.load_model(model) if isinstance(model, str) else hypar.load_model(model, name="drawn")
hypar.plan_model("lenet-c", strategy="optimal", levels=10)
started = time.process_time()
plan = hypar.plan_model(graph, **asked)
seconds = time.process_time() - started
used = resource.getrusage(resource.RUSAGE_SELF)
cost, bound = plan.cost.value, (plan.bounds or [plan.cost.value])[0]
print(json.dumps({"cost": cost, "gap": 1 - bound / cost, "solver": plan.solver, "planned_s": seconds,
    "all_s": used.ru_utime + used.ru_stime, "MB": own_peak() * 2**20 / 1e6}))
"""


class Fresh(NamedTuple):
    """A plan and what it took.

    Attributes:
        cost: its cost.
        gap: by how much the optimum may be lower.
        solver: the solver.
        planned_s: the processor's seconds of planning, with hypar and the network loaded.
        all_s: the same from the start of Python, with a plan of LeNet before, which loads what planning needs.
        MB: the process's largest memory.
    """

    cost: float
    gap: float
    solver: str
    planned_s: float
    all_s: float
    MB: float

    def line(self, name: str, cost: str) -> str:
        proven = "proven" if self.gap == 0 else f"at most {self.gap:.2%} above the optimum"
        used = f"{self.planned_s:.2f} s planning, {self.all_s:.2f} s in all, {self.MB:.0f} MB"
        return f"{name}: {cost} by {self.solver}, {proven}, {used}\n"


def fresh(model: str | dict[str, Any], **asked: Any) -> Fresh:
    """Plan a network in a process of its own."""
    given = json.dumps([model, asked])
    found = subprocess.run(
        [sys.executable, "-c", ONE], check=True, capture_output=True, text=True, input=given
    )
    return Fresh(**json.loads(found.stdout))
