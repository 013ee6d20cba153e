"""Scores by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypar import Plan, Score, load_machine, plan_model
from hypar.registry import data_folder

TINY = """
source: a test
batch: 8
layers:
  - {op: input, channels: 16}
  - {name: fc1, op: linear, out_features: 32}
  - {op: relu}
  - {name: fc2, op: linear, out_features: 4}
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.yaml"
    file.write_text(TINY, encoding="utf-8")
    return file


def scored(plan: Plan) -> Score:
    assert plan.score is not None
    return plan.score


def test_memory_by_hand(tiny: Path) -> None:
    """Two devices, dp: weights whole, samples halved; momentum keeps a word for each weight."""
    score = scored(
        plan_model(tiny, levels=1, strategy="dp", hardware="hmc", optimizer="momentum", convention="paper")
    )
    weights = 4 * (16 * 32 + 32 * 4)
    assert score.memory == {
        "weights": weights,
        "gradients": weights,
        "optimizer": weights,
        # The input, what fc2 reads, and the output of the last layer, of four samples.
        "activations": 4 * 4 * (16 + 32 + 4),
        # The fullest moment is the backward phase of relu: the output is gone, relu's two errors are there.
        "errors": 4 * 4 * (2 * 32 - 4),
        "buffers": 4 * 16 * 32,
    }


def test_a_pool_keeps_its_input_and_its_indices() -> None:
    """Of lenet-c a convolution's output and the pool's, the index of each maximum, and what linear layers read."""
    kept = scored(plan_model("lenet-c", levels=1, strategy="dp", hardware="hmc", convention="paper")).memory[
        "activations"
    ]
    elements = 28 * 28 + 20 * 24 * 24 + 20 * 12 * 12 + 50 * 8 * 8 + 50 * 4 * 4 + 500 + 10
    assert kept == 128 * (4 * elements + 8 * (20 * 12 * 12 + 50 * 4 * 4))


FORK = """
source: a test
batch: 8
layers:
  - {op: input, channels: 16}
  - {name: a, op: linear, out_features: 32}
  - {name: b, op: linear, inputs: a, out_features: 4}
  - {name: c, op: linear, inputs: a, out_features: 4}
  - {name: d, op: add, inputs: [b, c]}
"""


@pytest.mark.parametrize(("c", "kept"), [("dp", 1), ("in_channels", 2)])
def test_a_tensor_that_is_read_in_two_ways_is_kept_in_both(c: str, kept: int, tmp_path: Path) -> None:
    file = tmp_path / "fork.yaml"
    file.write_text(FORK, encoding="utf-8")
    plan = plan_model(
        file, levels=1, hardware="hmc", pins=["a=dp", "b=dp", f"c={c}", "d=dp"], convention="paper"
    )
    own = 4 * (4 * 16 + 4 * 4)
    assert scored(plan).memory["activations"] == own + kept * 4 * 8 * 32 / 2


def test_energy_by_hand(tiny: Path) -> None:
    """Operations at 4.6 pJ, memory at 640 pJ a word, and two accesses for each word that moves."""
    energy = scored(plan_model(tiny, levels=1, strategy="dp", hardware="hmc", convention="paper")).energy
    assert energy is not None
    macs, weights = 8 * (16 * 32 + 32 * 4), 16 * 32 + 32 * 4
    assert energy["arithmetic"] == pytest.approx((3 * macs + 2 * weights) * 4.6e-12)
    read = sum(4 * fan_in + fan_in * fan_out + 4 * fan_out for fan_in, fan_out in ((16, 32), (32, 4)))
    assert energy["memory"] == pytest.approx(2 * (3 * read + 3 * weights) * 640e-12)
    assert energy["communication"] == pytest.approx(2 * weights * 2 * 640e-12)


def test_time_by_hand(tiny: Path) -> None:
    """One all-reduce of each gradient over links of the tree's leaves; computation is bound by DRAM."""
    score = scored(
        plan_model(
            tiny, levels=1, strategy="dp", hardware=load_machine("hmc", {"devices": 2}), convention="paper"
        )
    )
    weights = 4 * (16 * 32 + 32 * 4)
    assert score.time["communication"] == pytest.approx(weights / (25.6e9 / 8 / 2))
    assert score.time["update"] == pytest.approx(3 * weights / 320e9)


def test_what_does_not_fit_says_so(tiny: Path, tmp_path: Path) -> None:
    text = Path(load_machine_file("hmc")).read_text(encoding="utf-8").replace("8 GB", "4 KB")
    small = tmp_path / "small.yaml"
    small.write_text(text, encoding="utf-8")
    plan = plan_model(tiny, levels=1, strategy="dp", hardware=small, convention="paper")
    assert not scored(plan).fits
    assert "does not fit (8.96 kB of 4.00 kB)" in str(plan)


def load_machine_file(name: str) -> str:
    return str(data_folder("hardware") / f"{name}.yaml")


def test_a_machine_without_energies_has_none(tiny: Path, tmp_path: Path) -> None:
    text = Path(load_machine_file("hmc")).read_text(encoding="utf-8")
    start, end = text.index("  energy:"), text.index("interconnect:")
    file = tmp_path / "cold.yaml"
    file.write_text(text[:start] + text[end:], encoding="utf-8")
    score = scored(plan_model(tiny, levels=1, hardware=file, convention="paper"))
    assert score.energy is None
    assert score.energy_j is None


def test_refinement_gains_where_the_sum_is_inexact() -> None:
    machine = load_machine("hmc", {"overlap": "full"})
    plan = plan_model(
        "alexnet",
        levels=3,
        strategy="dp",
        space="batch,in_channels",
        pins=["conv*=dp"],
        hardware=machine,
        convention="paper",
    )
    refined = plan_model("alexnet", levels=3, space="all", hardware=machine, refine=True, convention="paper")
    assert refined.refined is not None
    assert refined.refined.after_s < refined.refined.before_s
    assert scored(refined).time_s <= scored(plan).time_s
