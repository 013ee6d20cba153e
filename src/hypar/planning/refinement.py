"""Local refinement against the engine, where overlap makes the sum of a cost inexact.

Each layer's choice at each level is exchanged for each other option by itself; of all exchanges of a layer
the one that the engine finds fastest is kept, and so on round the network until a whole round changes
nothing. Never worse than what it starts from; no claim of optimality.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.schedule.step import lower
from hypar.timeline import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.machine.setting import Setting
    from hypar.network.contraction import ContractedGraph
    from hypar.sharding.placement import Options

LEAST_GAIN = 1e-12
"""Relative gain below which an exchange is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refinement:
    """What refinement found.

    Attributes:
        choices: for each layer a choice at each level.
        before_s: the engine's time at the start.
        after_s: the engine's time of these choices.
    """

    choices: tuple[Options, ...]
    before_s: float
    after_s: float


def refine(
    graph: ContractedGraph,
    setting: Setting,
    start: Sequence[Options],
    options: Sequence[Sequence[Options]],
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Refinement:
    """Exchange choices one by one as long as the engine gains.

    Args:
        graph: the layers that are cut.
        setting: machine, array, optimizer.
        start: for each layer a choice at each level.
        options: for each layer, at each level, what it may do.
        progress: told how many of how many layers of a round are done.
    """
    chosen = list(start)
    before = best = step_seconds(graph, chosen, setting)
    unchanged = 0
    while unchanged < len(chosen):
        for layer in range(len(chosen)):
            held, found = chosen[layer], None
            for changed in _exchanges(held, options[layer]):
                chosen[layer] = changed
                seconds = step_seconds(graph, chosen, setting)
                if seconds < best * (1 - LEAST_GAIN):
                    best, found = seconds, changed
            chosen[layer] = held if found is None else found
            unchanged = unchanged + 1 if found is None else 0
            progress(layer + 1, len(chosen))
            if unchanged >= len(chosen):
                break
    return Refinement(choices=tuple(chosen), before_s=before, after_s=best)


def step_seconds(graph: ContractedGraph, choices: Sequence[Options], setting: Setting) -> float:
    """The engine's time of a step."""
    return run(lower(graph, choices, setting).tasks).makespan


def _exchanges(held: Options, options: Sequence[Options]) -> list[Options]:
    """The choices of a layer with that of one level exchanged."""
    return [
        (*held[:level], choice, *held[level + 1 :])
        for level, allowed in enumerate(options)
        for choice in allowed
        if choice != held[level]
    ]
