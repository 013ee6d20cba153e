"""A model planned and scored under every combination of some levels, batches, strategies and machines."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypar.errors import HardwareError, OptionError, TableLimitError
from hypar.graph import LayerGraph, load_model
from hypar.hardware import load_machine
from hypar.plan import MOST_DEVICES
from hypar.planner import plan_model
from hypar.schedule.step import Setting
from hypar.score import Totals, totals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hypar.hardware import Machine

MOST_RUNS = 10_000
"""Combinations of one sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One combination.

    Attributes:
        axes: what was set, by name: hardware, changes of it, batch, strategy, levels.
        totals: what the machine makes of it; None where the search or the array would not fit.
        fits: whether the search's tables, the array on the machine and what a device must hold all fit.
        note: why there are none; else what the plan is optimal over.
    """

    axes: Mapping[str, Any]
    totals: Totals | None
    fits: bool
    note: str


def sweep_model(
    model: LayerGraph | str | Path,
    *,
    hardware: str | Path | Sequence[str | Path],
    levels: Sequence[int] = (4,),
    batch: Sequence[int] = (),
    strategy: str | Sequence[str] = "hypar",
    changes: Mapping[str, Sequence[Any]] | None = None,
    inter_weight: float | None = None,
    optimizer: str = "sgd",
    scale: bool = False,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> tuple[Run, ...]:
    """Plan and score a network under every combination of what is given.

    Zero levels are one device. An array smaller than its machine has a part of it; a combination that does not
    fit has no totals but a note that says why.

    Args:
        model: a network, the path of a model file, or a bare name.
        hardware: hardware files or bare names.
        levels: numbers of two-way levels.
        batch: samples in a mini-batch; the model's own number if none is given.
        strategy: names of strategies.
        changes: values for some things of the machine, as ``{"duplex": ["full", "half"]}``.
        inter_weight: weight of the amounts between layers in the cost, 1 if not given.
        optimizer: ``sgd``, ``momentum`` or ``adam``.
        scale: whether a machine of one network gets as many devices as the levels need, so that whatever its
            devices share is shared by these.
        progress: told how many of how many combinations are done.

    Returns:
        One run a combination, the last axis fastest: hardware, changes, batch, strategy, levels.

    Raises:
        InputError: something asked for is not possible.
    """
    graph = model if isinstance(model, LayerGraph) else load_model(model)
    axes: dict[str, Sequence[Any]] = {
        "hardware": (hardware,)
        if isinstance(hardware, str) or not hasattr(hardware, "__iter__")
        else tuple(hardware),
        **(changes or {}),
        "batch": tuple(batch) or (graph.batch,),
        "strategy": (strategy,) if isinstance(strategy, str) else tuple(strategy),
        "levels": tuple(levels),
    }
    most = MOST_DEVICES.bit_length() - 1
    for count in axes["levels"]:
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= most:
            raise OptionError("levels", f"found {count}", f"a whole number from 0 to {most}")
    combinations = list(itertools.islice(itertools.product(*axes.values()), MOST_RUNS + 1))
    if not 0 < len(combinations) <= MOST_RUNS:
        found = "nothing" if not combinations else f"more than {MOST_RUNS:,} combinations"
        raise OptionError("sweep", f"found {found}", f"1 to {MOST_RUNS:,} combinations")
    runs = []
    for values in combinations:
        chosen = dict(zip(axes, values, strict=True))
        machine = _machine(chosen, {name: chosen[name] for name in changes or ()}, scale=scale)
        runs.append(_run(graph, machine, chosen, inter_weight, optimizer))
        progress(len(runs), len(combinations))
    return tuple(runs)


def _run(
    graph: LayerGraph, machine: Machine, chosen: Mapping[str, Any], inter_weight: float | None, optimizer: str
) -> Run:
    """One combination, planned and scored."""
    graph = graph.with_batch(chosen["batch"])
    if chosen["levels"] == 0:
        setting = Setting(machine=machine, array=(), element_bytes=graph.element_bytes, optimizer=optimizer)
        alone = totals(graph.contracted, [()] * len(graph.contracted.layers), setting)
        return Run(axes=chosen, totals=alone, fits=machine.fits(alone.memory_bytes), note="one device")
    try:
        plan = plan_model(
            graph,
            levels=chosen["levels"],
            strategy=chosen["strategy"],
            inter_weight=inter_weight,
            hardware=machine,
            optimizer=optimizer,
        )
    except (HardwareError, TableLimitError) as error:
        return Run(axes=chosen, totals=None, fits=False, note=str(error))
    score = plan.score
    assert score is not None  # noqa: S101 (a machine was named)
    found = Totals(score.time_s, score.energy_j, score.communication_bytes, score.memory_bytes)
    return Run(axes=chosen, totals=found, fits=score.fits, note=plan.claim)


def _machine(chosen: Mapping[str, Any], changes: dict[str, Any], *, scale: bool) -> Machine:
    """The machine of a combination, scaled to the devices that it needs where that is asked for."""
    machine = load_machine(chosen["hardware"], changes)
    needed = 2 ** chosen["levels"]
    if not scale or len(machine.tiers) != 1 or "devices" in changes or needed in {1, machine.num_devices}:
        return machine
    return load_machine(chosen["hardware"], {**changes, "devices": needed})


def varied(runs: Sequence[Run]) -> Iterator[str]:
    """The axes that have more than one value."""
    for name in runs[0].axes:
        if len({str(run.axes[name]) for run in runs}) > 1:
            yield name
