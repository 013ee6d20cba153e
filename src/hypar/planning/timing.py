"""Time the answer of a search on a machine: hold it against baselines, refine it, and score it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.planning.baselines import take_fastest
from hypar.planning.chunks.search import run_chunked
from hypar.planning.claims import claim_of
from hypar.planning.question import setting_of
from hypar.planning.records import decided
from hypar.planning.refinement import refine, step_seconds
from hypar.planning.searches.base import costs_by_level, load_search
from hypar.schedule.lanes import Lane
from hypar.schedule.scoring import summarise
from hypar.schedule.stages import StepWork

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.plan.chunks import ChunksRecord
    from hypar.plan.plan import RefinementRecord
    from hypar.plan.score import Score
    from hypar.planning.chunks.search import Chunked
    from hypar.planning.records import Decided
    from hypar.planning.request import Request
    from hypar.planning.searches.base import Answer, Question
    from hypar.sharding.pins import Pin


def timed(
    request: Request,
    graph: LayerGraph,
    question: Question,
    pins: Sequence[Pin],
    found: Answer,
    progress: Callable[[int, int], None],
) -> Decided:
    """Return the fastest of the search's plan and the baselines, refined if that is asked for, with its score.

    Args:
        request: the request.
        graph: the network.
        question: the search problem built from both.
        pins: the choices that are held.
        found: the result of the search.
        progress: called with the numbers of layers done and of all layers in a round of refinement.

    Raises:
        OptionError: no machine is named.
        HardwareError: the array does not fit the machine.
    """
    taken = take_fastest(request, graph, question, found)
    answer, refined = _refined(request, question, taken.answer, progress)
    exact_claim = load_search(request.search).claim
    claim = taken.claim(claim_of(request, question, answer if taken.searched else found, exact_claim))
    if refined:
        claim += f"{'; ' if taken.record else ', '}then refined"
    chunks, score = _scored(request, question, answer, None if refined else taken.ran)
    plain = decided(request, question, pins, answer, claim)
    return replace(plain, baselines=taken.record, refined=refined, chunks=chunks, score=score)


def _refined(
    request: Request, question: Question, answer: Answer, progress: Callable[[int, int], None]
) -> tuple[Answer, RefinementRecord | None]:
    """The answer with choices exchanged against the engine, where that is asked for."""
    if not request.refine:
        return answer, None
    setting = setting_of(request, question)
    names = [layer.name for layer in question.graph.layers]
    found = refine(
        names,
        lambda choices: step_seconds(question.graph, choices, setting),
        answer.choices,
        question.options,
        progress,
    )
    costs = costs_by_level(question, found.choices)
    # A level's bound is given the choices above it, which may have been exchanged.
    bounds = answer.bounds if len(answer.bounds) == 1 else ()
    return replace(answer, choices=found.choices, costs=costs, bounds=bounds), found.record(answer.choices)


def _scored(
    request: Request, question: Question, answer: Answer, ran: Chunked | None
) -> tuple[ChunksRecord | None, Score | None]:
    """Return chunks and score of the answer if a machine is named; ``ran`` is the known result of the engine."""
    if request.machine is None:
        return None, None
    work = StepWork.of([Lane(question.graph, answer.choices, setting_of(request, question))])
    ran = run_chunked(work, request.chunks) if ran is None else ran
    return ran.chunks, summarise(work.lanes, ran.step, ran.timeline, request.machine)
