"""Refine the cuts inside stages against the engine, the stages held."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from hypar.planning.refinement import refine
from hypar.planning.searches.base import costs_by_level
from hypar.planning.stages.running import run_stages
from hypar.planning.stages.spans import joined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.plan.plan import RefinementRecord
    from hypar.planning.stages.running import Staging
    from hypar.planning.stages.span import CutSpan
    from hypar.planning.stages.spans import CutSpans
    from hypar.sharding.placement import Options


def refine_stages(
    staging: Staging, spans: Sequence[CutSpans], progress: Callable[[int, int], None]
) -> tuple[Staging, RefinementRecord]:
    """Exchange choices inside stages one by one as long as the engine's time decreases.

    Args:
        staging: the stages.
        spans: for each stage the spans that it is of.
        progress: called with the number of layers done in a round, and their total.
    """
    bounds = [*accumulate((len(span.cuts.lane.graph.layers) for span in staging.stages), initial=0)]
    alone = replace(staging.request, chunks=None)

    def cut(choices: Sequence[Options]) -> list[CutSpan]:
        return joined(spans, [
            own.given(start, end, tuple(choices[start:end]))
            for own, (start, end) in zip(spans, pairwise(bounds), strict=True)
        ])  # fmt: skip

    def seconds(choices: Sequence[Options]) -> float:
        return run_stages(alone, staging.microbatches, cut(choices)).ran.timeline.makespan

    start = [options for span in staging.stages for options in span.cuts.lane.choices]
    questions = [own.question(*ends) for own, ends in zip(spans, pairwise(bounds), strict=True)]
    options = [own for question in questions for own in question.options]
    names = [layer.name for layer in spans[0].whole.layers]
    found = refine(names, seconds, start, options, progress)
    stages = [
        span._replace(cuts=span.cuts._replace(answer=replace(
            old.cuts.answer, choices=span.cuts.answer.choices, bounds=(),
            costs=costs_by_level(question, span.cuts.answer.choices),
        )))
        for span, old, question in zip(cut(found.choices), staging.stages, questions, strict=True)
    ]  # fmt: skip
    return run_stages(staging.request, staging.microbatches, stages), found.record(start)
