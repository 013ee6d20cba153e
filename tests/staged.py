"""Stages by brute force: every span planned as a network by itself, every partition tried."""

from dataclasses import replace
from typing import Any

from hypar import LayerGraph, Machine, Plan, plan_model
from hypar.planning.resolved import Resolved
from hypar.planning.stages.planner import stored_stages
from hypar.planning.stages.running import Staging
from hypar.sharding.conventions import PAPER


def pipeline(model: LayerGraph | str, **asked: Any) -> Plan:
    """A plan in stages of one device each, four unless said, by the schedule of layer-block pipelines unless said."""
    stages = {} if asked.get("stages") or asked.get("starts") else {"stages": 4}
    return plan_model(model, **{"levels": 0, "schedule": "layer-block", **asked, **stages})


def staging_of(plan: Plan, graph: LayerGraph, machine: Machine) -> Staging:
    """The stages of a plan of single devices, as they run on its machine."""
    assert plan.stages is not None
    assert plan.score is not None
    request = replace(
        Resolved.of(plan, machine), optimizer=plan.score.optimizer, counted=plan.score.convention or PAPER
    )
    return stored_stages(plan, request, graph.with_batch(plan.model.batch))
