"""Time and energy of a step by hand: layers, words moved and summed, links, and power at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hypar import Score, load_machine, load_model, plan_model
from hypar.registry import data_folder
from tests.kit import known

if TYPE_CHECKING:
    from pathlib import Path

TINY: dict[str, Any] = {
    "source": "a test",
    "batch": 16,
    "layers": [
        {"op": "input", "channels": 16},
        {"name": "fc1", "op": "linear", "out_features": 32},
        {"name": "fc2", "op": "linear", "out_features": 4},
    ],
}

WEIGHTS = 16 * 32 + 32 * 4


def scored(changes: dict[str, Any] | None = None, **options: Any) -> Score:
    asked = {"levels": 4, "strategy": "dp", "convention": "moved", **options}
    return known(plan_model(load_model(TINY), hardware=load_machine("hmc", changes), **asked).score)


def energy(changes: dict[str, Any] | None = None, **options: Any) -> dict[str, float]:
    return known(scored(changes, **options).energy)


def test_energy_by_hand() -> None:
    """Operations at 4.6 pJ, memory at 640 pJ a word, and two accesses for each word that moves."""
    found = energy(levels=1, convention="paper")
    macs = 16 * WEIGHTS
    assert found["arithmetic"] == pytest.approx((3 * macs + 2 * WEIGHTS) * 4.6e-12)
    read = sum(8 * fan_in + fan_in * fan_out + 8 * fan_out for fan_in, fan_out in ((16, 32), (32, 4)))
    assert found["memory"] == pytest.approx(2 * (3 * read + 3 * WEIGHTS) * 640e-12)
    assert found["communication"] == pytest.approx(2 * WEIGHTS * 2 * 640e-12)


def test_time_by_hand() -> None:
    """One all-reduce of each gradient over links of the tree's leaves; computation is bound by DRAM."""
    time = scored({"devices": 2}, levels=1, convention="paper").time
    assert time["communication"] == pytest.approx(4 * WEIGHTS / (25.6e9 / 8 / 2))
    assert time["update"] == pytest.approx(3 * 4 * WEIGHTS / 320e9)


@pytest.mark.parametrize("overlap", ["none", "full"])
@pytest.mark.parametrize("levels", [1, 2, 4])
def test_every_unit_of_every_device_draws_its_power_for_the_whole_step(levels: int, overlap: str) -> None:
    plain = scored({"overlap": overlap}, levels=levels)
    score = scored({"overlap": overlap, "energy.static": "100 mW"}, levels=levels)
    static = 2**levels * 16 * 0.1 * score.time_s
    assert score.energy == pytest.approx(known(plain.energy) | {"static": static}, rel=1e-12)


def test_a_word_takes_the_energy_of_each_link_on_its_way() -> None:
    """All-reduces of every gradient: at each level every device receives its share of the weights; 8, 6, 4 and 2 links."""
    words = {level: 2 ** (level + 1) * WEIGHTS for level in range(4)}
    passed = sum(words[level] * links for level, links in enumerate((8, 6, 4, 2)))
    assert energy({"energy.link": "40 pJ"})["link"] == pytest.approx(passed * 40e-12, rel=1e-12)
    assert energy({"energy.link": "40 pJ", "devices": 2}, levels=1)["link"] == pytest.approx(
        2 * WEIGHTS * 2 * 40e-12, rel=1e-12
    )


def test_half_of_an_all_reduce_is_terms_of_sums() -> None:
    """Of the 30 times the weights that are received, half are added: 0.9 pJ, and 640 pJ for the word that each is added to."""
    received_words = 30 * WEIGHTS
    moved = received_words * 2 * 640e-12
    assert energy()["communication"] == pytest.approx(moved, rel=1e-12)
    summed = received_words / 2 * (0.9e-12 + 640e-12)
    assert energy({"sums": "counted"})["communication"] == pytest.approx(moved + summed, rel=1e-12)


def test_what_is_only_gathered_is_not_added() -> None:
    """Between a layer that is cut in the batch and one that is cut in its input channels nothing is summed."""
    plain, counted = (
        energy(changes, levels=1, pins=["fc1=batch", "fc2=in_channels"], strategy=None)
        for changes in ({}, {"sums": "counted"})
    )
    # Terms: fc1's gradient on both devices, and the outputs of fc2 on both; each device receives half of either as terms.
    terms = 16 * 32 + 16 * 4
    assert counted["communication"] - plain["communication"] == pytest.approx(terms * 640.9e-12, rel=1e-9)


def test_groups_draw_their_power_until_the_slowest_has_ended(tmp_path: Path) -> None:
    """Two groups of two cubes, one at half speed; the links between them count as one link outward."""
    text = (data_folder("hardware") / "hmc.yaml").read_text(encoding="utf-8")
    text = text.replace("devices: {value: 16", "devices: {value: 2")
    rest = "memory: {value: 640 pJ, source: s}\n    link: {value: 40 pJ, source: s}\n    static: {value: 100 mW, source: s}"
    with_rest = "\n".join(
        f"    {rest}" if line.startswith("    memory: {value: 640 pJ") else line for line in text.splitlines()
    )
    (tmp_path / "cube.yaml").write_text(with_rest, encoding="utf-8")
    outward = "    outward: {bandwidth: {value: 200 MB/s, source: s}}"
    changes = "    changes: {efficiency: {value: 0.4, source: s}}"
    pair = f"source: s\ngroups:\n  - hardware: cube.yaml\n{outward}\n  - name: slow\n    hardware: cube.yaml\n{changes}\n{outward}\n"
    (tmp_path / "pair.yaml").write_text(pair, encoding="utf-8")
    plan = plan_model(load_model(TINY), hardware=str(tmp_path / "pair.yaml"), strategy="dp")
    score = known(plan.score)
    found = known(score.energy)
    assert [group.devices for group in known(score.groups)] == [2, 2]
    assert found["static"] == pytest.approx(4 * 16 * 0.1 * score.time_s, rel=1e-12)
    across, inside = score.communication["H1"], score.communication["H2"]
    assert min(across, inside) > 0
    assert found["link"] == pytest.approx((across + 2 * inside) / 4 * 40e-12, rel=1e-9)


@pytest.mark.parametrize("convention", ["paper", "moved"])
@pytest.mark.parametrize(("levels", "between"), [(0, 2), (1, 4), (2, 6)])
def test_stages_draw_power_for_the_whole_pipeline_and_send_over_links(
    levels: int, between: int, convention: str
) -> None:
    """Two stages of 1, 2 or 4 devices: counterparts in the two halves of the tree are 2, 4 or 6 links apart."""
    options = {"stages": 2, "levels": levels, "microbatches": 2, "convention": convention, "strategy": None}
    plain, score = (
        scored(changes, **options) for changes in (None, {"energy.link": "40 pJ", "energy.static": "100 mW"})
    )
    received = score.communication
    assert received["stages"]
    passed = received["stages"] * between
    for level in range(levels):
        passed += received[f"H{level + 1}"] * 2 * (levels - level)
    static = 2 * 2**levels * 16 * 0.1 * score.time_s
    added = {"link": passed / 4 * 40e-12, "static": static}
    assert score.energy == pytest.approx(known(plain.energy) | added, rel=1e-12)
