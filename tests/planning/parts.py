"""Parts of a plan that it may be without."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypar import Plan, Score
    from hypar.plan.records import StagesRecord


def scored(plan: Plan) -> Score:
    assert plan.score is not None
    return plan.score


def staged(plan: Plan) -> StagesRecord:
    assert plan.stages is not None
    return plan.stages
