"""Scores: items sum to totals, and small cases by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from hypar import Plan, Score, explore_model, load_machine, load_model, plan_model, read_plan, score_plan
from hypar.errors import HardwareError, OptionError, PlanError, UnknownNameError
from hypar.planning.replay import run_plan
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


@pytest.mark.parametrize("hardware", ["hmc", "h100-8x", "tpu-v2", "tpu-v3"])
@pytest.mark.parametrize("model", ["lenet-c", "vgg16", "resnet50", "inception-v3"])
def test_items_sum_to_totals(model: str, hardware: str) -> None:
    plan = plan_model(model, levels=4, hardware=hardware, optimizer="adam", convention="paper")
    score = scored(plan)
    assert math.isclose(math.fsum(score.time.values()) - score.overlapped_s, score.time_s, rel_tol=1e-12)
    assert math.isclose(math.fsum(score.critical.values()), score.time_s, rel_tol=1e-12)
    assert score.energy is not None
    assert score.energy_j == math.fsum(score.energy.values())
    assert score.memory_bytes == math.fsum(score.memory.values())
    assert score.communication_bytes == math.fsum(score.communication.values()) == plan.cost.value
    assert list(score.communication.values()) == [split.cost for split in plan.splits]
    assert all(number >= 0 for items in (score.time, score.energy, score.memory) for number in items.values())


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


def test_memory_of_a_cut_layer_by_hand(tiny: Path) -> None:
    score = scored(plan_model(tiny, levels=1, strategy="mp", hardware="hmc", convention="paper"))
    assert score.memory["weights"] == 4 * (16 * 32 + 32 * 4) / 2
    # Relu keeps its whole output, of which fc2 reads a half.
    assert score.memory["activations"] == 4 * 8 * (16 / 2 + 32 + 4)


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


def test_the_fullest_device_decides_memory_and_time() -> None:
    """One sample on sixteen devices: one of them has it all."""
    graph = load_model("lenet-c", batch=1)
    one = scored(plan_model(graph, levels=1, strategy="dp", hardware="hmc", convention="paper"))
    all_ = scored(plan_model(graph, levels=4, strategy="dp", hardware="hmc", convention="paper"))
    assert all_.memory["activations"] == one.memory["activations"]
    assert all_.time["forward"] == one.time["forward"]


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
    assert "does not fit: 8.96 kB of 4.00 kB on each device" in str(plan)


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


def test_a_plan_keeps_its_score(tmp_path: Path) -> None:
    plan = plan_model(
        "lenet-c",
        levels=4,
        hardware=load_machine("hmc", {"duplex": "half"}),
        optimizer="adam",
        convention="paper",
    )
    plan.write(tmp_path / "p.json")
    stored = read_plan(tmp_path / "p.json")
    assert stored == plan
    assert stored.score is not None
    assert stored.score.hardware_changes == {"duplex": "half"}
    again = score_plan(tmp_path / "p.json", optimizer="adam", convention="paper")
    assert again == plan.score


def test_scoring_needs_a_machine_and_the_plan_s_own_network(tmp_path: Path) -> None:
    plan = plan_model("lenet-c", levels=2, convention="paper")
    with pytest.raises(OptionError, match="no machine is named"):
        score_plan(plan, convention="paper")
    with pytest.raises(
        PlanError, match="model 'vgg16' is not what was planned: it has changed, or is another"
    ):
        score_plan(plan, hardware="hmc", model=load_model("vgg16"), convention="paper")
    with pytest.raises(UnknownNameError, match="no optimizer 'adams'"):
        score_plan(plan, hardware="hmc", optimizer="adams", convention="paper")
    with pytest.raises(
        HardwareError, match=r"found an array of 32 devices \(2x2x2x2x2\); allowed: at most 16"
    ):
        score_plan(plan_model("lenet-c", levels=5, convention="paper"), hardware="hmc")
    with pytest.raises(HardwareError, match="found an array of 3 devices"):
        score_plan(plan_model("lenet-c", array=[3], convention="paper"), hardware="hmc")


def test_the_same_input_gives_the_same_score() -> None:
    first, second = (
        run_plan(plan_model("resnet18", levels=3, convention="paper"), hardware="h100-8x") for _ in range(2)
    )
    assert first == second


def test_a_refined_plan_is_never_slower_and_says_what_it_gained() -> None:
    for model, overlap in (("lenet-c", "full"), ("alexnet", "full"), ("resnet18", "none")):
        machine = load_machine("hmc", {"overlap": overlap})
        plain = plan_model(model, levels=3, cost="time", hardware=machine, convention="paper")
        refined = plan_model(model, levels=3, cost="time", hardware=machine, refine=True, convention="paper")
        assert refined.refined is not None
        assert refined.refined.before_s == scored(plain).time_s
        assert refined.refined.after_s == scored(refined).time_s <= scored(plain).time_s
        differing = sum(
            a != b
            for layer in plain.layers
            for a, b in zip(plain.dims(layer), refined.dims(layer), strict=True)
        )
        assert refined.refined.changed == differing
        assert refined.claim.endswith("then refined")


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


def test_refinement_starts_from_the_fastest_of_the_search_and_the_baselines() -> None:
    """Weighed a hundredfold, amounts between layers lead the search far astray."""
    machine = load_machine("hmc", {"overlap": "full"})
    asked = {"levels": 4, "inter_weight": 100, "hardware": machine}
    searched = plan_model("alexnet", **asked, convention="paper")  # type: ignore[arg-type]
    refined = plan_model("alexnet", refine=True, **asked, convention="paper")  # type: ignore[arg-type]
    assert refined.refined is not None
    assert refined.baselines is not None
    assert refined.baselines.step_s["search"] == scored(searched).time_s
    assert refined.refined.before_s == min(refined.baselines.step_s.values()) < scored(searched).time_s
    assert refined.claim.startswith(f"the plan of {refined.baselines.taken}, by the engine no slower than ")


def test_refinement_and_the_cost_time_need_a_machine() -> None:
    with pytest.raises(OptionError, match="no machine is named; allowed: one, as --hardware hmc"):
        plan_model("lenet-c", levels=2, refine=True, convention="paper")
    with pytest.raises(OptionError, match="no machine is named; allowed: one, as --hardware hmc"):
        plan_model("lenet-c", levels=2, cost="time", convention="paper")


def test_what_a_prompt_shows_is_short() -> None:
    machine = load_machine("hmc", {"duplex": "half"})
    assert repr(machine) == "<Machine hmc: 16 devices, h_tree, duplex=half>"
    found = explore_model("lenet-c", vary="fc1", hardware="hmc", levels=2)
    assert repr(found).startswith("<Exploration of lenet-c: 4 points, the fastest ")
    ran = run_plan(plan_model("lenet-c", levels=2, convention="paper"), hardware="hmc")
    assert repr(ran.timeline).startswith(f"<Timeline of {len(ran.timeline.tasks)} tasks, ")
