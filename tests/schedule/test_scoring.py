"""Scores by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypar import Plan, Score, load_machine, plan_model

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
