"""Partial sums that are added up before ReLU and pooling, in bytes, seconds, joules and cost, derived by hand.

VGG-A's last convolution, conv5_2: batch 256, 512 filters of 3 x 3 over 512 channels, an output of 14 x 14 that ReLU follows and
a pool of 2 x 2 halves. Three levels halve the batch, the fourth divides the layer between the two devices of each pair.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hypar import load_machine, load_model, plan_model
from hypar.planning.replay import run_plan
from hypar.schedule.scoring import joules_of
from hypar.schedule.tasks import Place

if TYPE_CHECKING:
    from hypar import Plan
    from hypar.planning.replay import ScoredStep

VGG_A = load_model("vgg-a")

PAIRS = 8

OUTPUT = 256 // PAIRS * 512 * 14 * 14
"""Elements of F before the pool that a pair of devices makes: each device has a term of every one."""

WEIGHTS = 512 * 512 * 3 * 3

SECONDS_A_BYTE = 1 / 200e6
"""A pair's devices are leaves of the tree, with links of 1600 Mb/s."""


def planned(last: str, convention: str, hardware: str = "hmc", cost: str = "volume") -> Plan:
    """The plan with conv5_2 pinned at H4, and all else as the paper has it."""
    layers = [layer.name for layer in VGG_A.contracted.layers if layer.name != "conv5_2"]
    pins = [f"{name}={'mp' if name.startswith('fc') else 'dp'}" for name in layers]
    pins += [*(f"conv5_2@H{level}=dp" for level in (1, 2, 3)), f"conv5_2@H4={last}"]
    return plan_model(
        VGG_A, levels=4, strategy="hypar", pins=pins, hardware=hardware, convention=convention, cost=cost
    )


def ran(last: str, convention: str, hardware: str = "hmc") -> ScoredStep:
    plan = planned(last, convention, hardware)
    return run_plan(plan, hardware=hardware, model=VGG_A, convention=convention)


def sums(step: ScoredStep, phase: str) -> tuple[float, float, float]:
    """Bytes, seconds and joules of the partial sums of conv5_2 that a phase adds up at H4."""
    (lane,) = step.lanes
    conv = [layer.name for layer in lane.graph.layers].index("conv5_2")
    every = zip(step.step.pieces, step.step.places, strict=True)
    here = [piece for piece, at in every if piece.collective and (at.layer, piece.level) == (conv, 3)]
    (found,) = (piece for piece in here if (piece.phase, piece.collective) == (phase, "all_reduce"))
    alone = replace(step.step, pieces=(found,), places=(Place(conv, conv, 0),))
    joules = [own for _, level, _, own in joules_of([lane], alone) if level is not None]
    return found.num_bytes, found.seconds, sum(joules)


@pytest.mark.parametrize(("convention", "pooled", "milliseconds"), [("moved", 1, 64.2), ("paper", 4, 16.1)])
def test_an_output_is_summed_at_its_full_size_before_the_pool(
    convention: str, pooled: int, milliseconds: float
) -> None:
    """By ``moved`` each device of a pair receives 12.8 MB, by the paper a quarter of it, as behind the pool."""
    num_bytes, seconds, joules = sums(ran("mp", convention), "forward")
    assert num_bytes == PAIRS * 2 * 4 * OUTPUT / pooled
    assert seconds == pytest.approx(4 * OUTPUT / pooled * SECONDS_A_BYTE, rel=1e-12)
    assert seconds == pytest.approx(milliseconds * 1e-3, rel=1e-2)
    assert joules == pytest.approx(PAIRS * 2 * OUTPUT / pooled * 2 * 640e-12, rel=1e-12)


@pytest.mark.parametrize("convention", ["moved", "paper"])
def test_a_gradient_is_summed_as_it_is(convention: str) -> None:
    num_bytes, seconds, joules = sums(ran("dp", convention), "gradient")
    assert num_bytes == PAIRS * 2 * 4 * WEIGHTS
    assert seconds == pytest.approx(47.19e-3, rel=1e-3)
    assert seconds == pytest.approx(4 * WEIGHTS * SECONDS_A_BYTE, rel=1e-12)
    assert joules == pytest.approx(PAIRS * 2 * WEIGHTS * 2 * 640e-12, rel=1e-12)


def test_a_machine_that_counts_sums_adds_each_term_to_a_word_that_it_reads() -> None:
    """Words of 2 bytes: accesses of 80 pJ at both ends, two links of 40 pJ; half of the words are terms, each an addition of 1 pJ and an access."""
    num_bytes, seconds, joules = sums(ran("mp", "moved", "hmc-physical"), "forward")
    words = num_bytes / 2
    assert num_bytes == PAIRS * 2 * 4 * OUTPUT
    assert joules == pytest.approx(words * (2 * 80 + 2 * 40 + (1 + 80) / 2) * 1e-12, rel=1e-12)
    # What the additions read and write besides passes the memory long before the link has brought the terms.
    machine = load_machine("hmc-physical")
    assert machine.memory_seconds(3 * 4 * OUTPUT) < seconds / 100
