"""Several networks planned by several strategies, and every plan scored on any machine."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hypar.machine.load import load_machine
from hypar.machine.setting import Setting
from hypar.network.build import load_model
from hypar.plan.score import Score, Totals
from hypar.planning.planner import plan_model
from hypar.schedule.scoring import score_step, totals
from hypar.schedule.step import Step, lower
from hypar.sharding.conventions import PAPER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.machine.machine import Machine
    from hypar.network.contraction import ContractedGraph
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.sharding.placement import Options

Scores = dict[tuple[str, str], Totals]
"""Totals by network and strategy."""


class Evaluation:
    """The plans of an evaluation, made once, and their scores on changing machines.

    Attributes:
        networks: bare names or model files.
        hardware: the machine, unless it is changed.
        levels: two-way levels.
        inter_weight: weight of the communication between layers in every cost.
        strategies: their names; relative numbers are against dp.
        convention: the convention by which plans and scores are counted.
        dtype: number format of every tensor, if not the networks' own.
    """

    def __init__(
        self,
        *,
        networks: Sequence[str],
        hardware: str,
        levels: int,
        inter_weight: float = 1.0,
        strategies: Sequence[str] = ("dp", "mp", "hypar"),
        convention: str = PAPER,
        dtype: str | None = None,
    ) -> None:
        """Store the arguments; planning waits until a plan is needed."""
        self.networks, self.hardware, self.levels = networks, hardware, levels
        self.inter_weight, self.strategies = inter_weight, strategies
        self.convention, self.dtype = convention, dtype
        self._machines: dict[str, Machine] = {}
        self._weighted: dict[float, Evaluation] = {inter_weight: self}

    def weighing(self, inter_weight: float) -> Evaluation:
        """Return the same evaluation with plans for another weight of the communication between layers."""
        if inter_weight not in self._weighted:
            self._weighted[inter_weight] = Evaluation(
                networks=self.networks, hardware=self.hardware, levels=self.levels,
                inter_weight=inter_weight, strategies=self.strategies,
                convention=self.convention, dtype=self.dtype,
            )  # fmt: skip
        return self._weighted[inter_weight]

    @cached_property
    def graphs(self) -> dict[str, LayerGraph]:
        """Load the networks."""
        return {name: self.typed(load_model(name)) for name in self.networks}

    def typed(self, graph: LayerGraph) -> LayerGraph:
        """Return a network in the evaluation's number format."""
        return graph if self.dtype is None else replace(graph, dtype=self.dtype)

    @cached_property
    def plans(self) -> dict[tuple[str, str], Plan]:
        """Plan each network by each strategy."""
        return {
            (name, strategy): plan_model(
                self.graphs[name],
                levels=self.levels,
                strategy=strategy,
                inter_weight=self.inter_weight,
                convention=self.convention,
            )
            for name in self.networks
            for strategy in self.strategies
        }

    def splits(self, name: str, strategy: str) -> list[dict[str, str | None]]:
        """Return the choices of a plan, level by level."""
        plan = self.plans[name, strategy]
        return [{layer: split.dim(layer) for layer in plan.layers} for split in plan.splits]

    def scores(
        self, changes: Mapping[str, Any], optimizer: str = "sgd", convention: str | None = None
    ) -> Scores:
        """Score every plan on the machine with some changes, by another convention if one is given."""
        machine, counted = self._machine(changes), convention or self.convention
        return {
            (name, strategy): totals(*_step(plan, self.graphs[name], machine, counted, optimizer))
            for (name, strategy), plan in self.plans.items()
        }

    def score(self, name: str, strategy: str) -> Score:
        """Score one plan on the machine, item by item."""
        return score_step(*self.setting(name, strategy))

    def setting(self, name: str, strategy: str) -> tuple[ContractedGraph, list[Options], Setting]:
        """Return a plan's layers, their choices, and the setting of a step on the unchanged machine."""
        return _step(self.plans[name, strategy], self.graphs[name], self._machine({}), self.convention)

    def step(self, name: str, strategy: str) -> Step:
        """Lower a plan's step on the unchanged machine."""
        return lower(*self.setting(name, strategy))

    @cached_property
    def base(self) -> Scores:
        """Score every plan on the unchanged machine."""
        return self.scores({})

    def _machine(self, changes: Mapping[str, Any]) -> Machine:
        key = repr(sorted(changes.items()))
        if key not in self._machines:
            self._machines[key] = load_machine(self.hardware, changes)
        return self._machines[key]


def _step(
    plan: Plan, graph: LayerGraph, machine: Machine, convention: str, optimizer: str = "sgd"
) -> tuple[ContractedGraph, list[Options], Setting]:
    """Return a plan's layers, their choices, and the setting of its step."""
    setting = Setting(
        machine=machine, array=tuple(plan.array), element_bytes=graph.element_bytes,
        optimizer=optimizer, convention=convention,
    )  # fmt: skip
    return graph.contracted, [plan.choices(layer) for layer in plan.layers], setting


def speedups(scores: Scores, strategy: str = "hypar") -> dict[str, float]:
    """Return each network's speedup over dp."""
    return {
        name: scores[name, "dp"].time_s / own.time_s
        for (name, named), own in scores.items()
        if named == strategy
    }


def savings(scores: Scores, strategy: str = "hypar") -> dict[str, float]:
    """Return the ratio of dp's energy to each network's."""
    return {
        name: joules(scores[name, "dp"]) / joules(own)
        for (name, named), own in scores.items()
        if named == strategy
    }


def joules(found: Totals) -> float:
    """Return the energy, for a machine whose file gives energies."""
    assert found.energy_j is not None  # noqa: S101 (the reproductions' machines give them)
    return found.energy_j
