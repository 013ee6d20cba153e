"""The bytes that the simulated devices of a plan hold, beside those that its score says."""

from hypar import LayerGraph, Plan
from hypar.execution.simulator import run, start
from hypar.planning.replay import run_plan
from hypar.planning.resolved import cost_convention
from hypar.planning.sources import as_planned
from hypar.studies import verify
from hypar.studies.pieces import lowered
from hypar.studies.verify import Held


def held_by(plan: Plan, graph: LayerGraph) -> list[Held]:
    """Run one microbatch of a plan as it is verified, and return what each group or stage of its score holds."""
    assert plan.score is not None
    graph = as_planned(plan, graph)
    program = lowered(plan, graph, verify.runs_by(cost_convention(plan)))
    devices = run(program, [start(program.graph)])
    return verify.held_by(run_plan(plan, model=graph), program, devices.elements, devices.arrived)


def within(memory: Held) -> bool:
    """Return whether the score says what was held, or at most a tenth more."""
    return not memory.more and memory.said <= 1.1 * memory.held
