"""HyPar (HPCA 2019), section 6: Figures 5 to 13 on one machine, with nothing fitted to a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hypar import explore_model, load_machine, load_model, plan_model, sweep_model
from hypar.registry import data_folder, plugin_names
from hypar.studies.evaluation import Evaluation, savings, speedups
from hypar.studies.page import Page, geometric_mean
from hypar.studies.papers.base import load_reproduction
from hypar.studies.papers.hypar import HyPar
from hypar.studies.sections.hypar.networks import EIGHT, NETWORKS, TORUS
from hypar.studies.sections.hypar.plans import differing
from hypar.studies.sections.hypar.trick import alone

if TYPE_CHECKING:
    from hypar.studies.exploration import Exploration, Point

DOCS = Path(__file__).parents[2] / "docs" / "reproductions"

SLOW = {"accpar", "deepa", "hypar"}
"""Pages that take the most seconds; the sections of hypar's on the published machine are also compared alone."""


@pytest.fixture(scope="module")
def ran() -> Evaluation:
    return Evaluation(networks=NETWORKS, hardware="hmc", levels=4, inter_weight=0.5)


@pytest.fixture(scope="module")
def published() -> Page:
    return HyPar(physical=False).run(lambda _done, _of: None)


def code(point: Point) -> str:
    return "".join("01"["in_channels" in choice.divided] for choice in point.choices)


def test_figure_6_performance(ran: Evaluation) -> None:
    faster, mp = speedups(ran.base), speedups(ran.base, "mp")
    assert geometric_mean(faster.values()) == pytest.approx(3.39, rel=0.1)
    assert faster["vgg-a"] == pytest.approx(4.97, rel=0.1)
    assert faster["lenet-c"] == pytest.approx(3.05, rel=0.1)
    assert faster["sconv"] == 1
    assert min(faster[name] for name in EIGHT) == pytest.approx(1.23, rel=0.1)
    assert all(ratio >= 1 for ratio in faster.values())
    assert {name for name, ratio in mp.items() if ratio >= 1} == {"sfc"}


@pytest.mark.xfail(
    strict=True, reason="the bytes over the levels' bandwidths give 20.9; with fused sums 23.6"
)
def test_figure_6_sfc(ran: Evaluation) -> None:
    assert speedups(ran.base)["sfc"] == pytest.approx(23.48, rel=0.1)


@pytest.mark.xfail(strict=True, reason="dp sends its linear layers' gradients for 96 % of the step: 6.7")
def test_figure_6_alexnet(ran: Evaluation) -> None:
    assert speedups(ran.base)["alexnet"] <= 4.97 * 1.1


def test_figure_7_energy(ran: Evaluation) -> None:
    saved = savings(ran.base)
    assert geometric_mean(saved.values()) == pytest.approx(1.51, rel=0.1)
    assert saved["sfc"] == pytest.approx(10.27, rel=0.1)
    assert savings(ran.base, "mp")["sfc"] == pytest.approx(9.96, rel=0.1)
    assert saved["sconv"] == 1
    assert min(saved[name] for name in EIGHT) == pytest.approx(1.03, rel=0.1)


def test_figure_8_communication_is_the_volume(ran: Evaluation) -> None:
    for (name, strategy), totals in ran.base.items():
        plan = ran.plans[name, strategy]
        pins = [
            f"{layer}@H{level + 1}={dim}"
            for layer in plan.layers
            for level, dim in enumerate(plan.dims(layer))
        ]
        assert (
            totals.communication_bytes == plan_model(name, levels=4, pins=pins, convention="paper").cost.value
        )


@pytest.fixture(scope="module")
def lenet() -> Exploration:
    return explore_model(
        "lenet-c", vary=["*@H1", "*@H4"], hardware="hmc", levels=4, inter_weight=0.5, convention="paper"
    )


@pytest.fixture(scope="module")
def vgg() -> Exploration:
    return explore_model(
        "vgg-a", vary=["conv5_2", "fc1"], hardware="hmc", levels=4, inter_weight=0.5, convention="paper"
    )


def test_figure_9_peaks_at_hypar_s_own_plan(lenet: Exploration) -> None:
    best, second = lenet.ranked()[:2]
    assert code(best) == "00110011"
    assert best.own
    assert best.totals.time_s < second.totals.time_s
    assert lenet.speedup(best) == pytest.approx(3.05, rel=0.1)


def test_figure_10_has_256_points_and_its_best_is_near_hypar_s_own(vgg: Exploration) -> None:
    assert len(vgg.points) == 256
    best = vgg.ranked()[0]
    (own,) = (point for point in vgg.points if point.own)
    assert code(own) == "00011111"
    assert code(best)[4:] == "1111"
    assert vgg.speedup(best) == pytest.approx(5.05, rel=0.1)
    assert vgg.speedup(own) == pytest.approx(4.97, rel=0.1)
    assert vgg.speedup(own) > vgg.speedup(best) * 0.999


@pytest.mark.parametrize(("strategy", "published", "ours"), [("dp", 8, 4), ("hypar", 32, 16)])
def test_figure_11_turns_down_one_doubling_early(strategy: str, published: int, ours: int) -> None:
    runs = sweep_model(
        "vgg-a",
        hardware="hmc",
        levels=range(7),
        strategy=strategy,
        inter_weight=0.5,
        scale=True,
        convention="paper",
    )
    times = [run.totals.time_s for run in runs if run.totals]
    fastest = times.index(min(times))
    assert 2**fastest == ours == published // 2
    assert times[:fastest] == sorted(times[:fastest], reverse=True)
    assert times[fastest:] == sorted(times[fastest:])


def test_figure_12_torus(ran: Evaluation) -> None:
    torus = ran.scores(TORUS)
    over = {name: ran.base[name, "dp"].time_s / torus[name, "hypar"].time_s for name in NETWORKS}
    assert geometric_mean(over.values()) == pytest.approx(2.23, rel=0.15)


def test_figure_13_over_one_weird_trick() -> None:
    faster, saved = [], []
    for layer, batch in (("conv5_4", 32), ("fc3", 4096)):
        graph = alone(load_model("vgg-e"), layer, batch)
        for levels in (2, 3, 4):
            machine = load_machine("hmc", {"devices": 2**levels})
            trick, ours = (
                plan_model(graph, levels=levels, strategy=name, hardware=machine, convention="paper").score
                for name in ("owt", "hypar")
            )
            assert trick is not None
            assert ours is not None
            assert trick.energy_j is not None
            assert ours.energy_j is not None
            faster.append(trick.time_s / ours.time_s)
            saved.append(trick.energy_j / ours.energy_j)
    assert sum(faster) / 6 == pytest.approx(1.62, rel=0.02)
    assert max(faster) == pytest.approx(2.40, rel=0.02)
    assert sum(saved) / 6 == pytest.approx(1.22, rel=0.05)


@pytest.mark.parametrize("name", NETWORKS)
def test_least_time_is_at_least_as_fast_as_hypar(name: str, ran: Evaluation, vgg: Exploration) -> None:
    score = plan_model(name, levels=4, cost="time", search="joint", hardware="hmc", convention="paper").score
    assert score is not None
    assert score.time_s <= ran.base[name, "hypar"].time_s * (1 + 1e-12)
    if name == "vgg-a":
        assert score.time_s <= vgg.ranked()[0].totals.time_s * (1 + 1e-12)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in plugin_names("reproductions")
    ],
)
def test_the_page_is_current(name: str, update_golden: bool) -> None:
    page = load_reproduction(name).run(lambda _done, _of: None)
    file = DOCS / f"{name}.md"
    if update_golden:
        page.write(DOCS)
    assert file.read_text(encoding="utf-8") == page.markdown(pictures=True), (
        "pytest --update-golden rewrites it"
    )
    for section in page.sections:
        if section.figure is not None:
            assert (DOCS / name / f"{section.picture}.png").is_file()


@pytest.mark.slow
def test_the_sections_on_the_published_machine_are_current(published: Page) -> None:
    """The other sections of the page follow behind them."""
    text = (DOCS / "hypar.md").read_text(encoding="utf-8")
    ours = published.markdown(pictures=True)
    assert text.startswith(ours), "pytest -m slow --update-golden rewrites it"
    assert text[len(ours) :].startswith("\n## The machine hmc-physical\n")


@pytest.mark.slow
@pytest.mark.long
def test_no_published_number_is_read_by_a_computation(published: Page, tmp_path: Path) -> None:
    """On a machine of half the bandwidth and half the DRAM energy every number of ours in the summary is another."""
    text = (data_folder("hardware") / "hmc.yaml").read_text(encoding="utf-8")
    other = tmp_path / "hmc.yaml"
    other.write_text(
        text.replace("25.6 Gb/s, source", "12.8 Gb/s, source").replace("640 pJ", "320 pJ"), encoding="utf-8"
    )
    changed = HyPar(hardware=str(other), physical=False).run(lambda _done, _of: None)
    for before, after in zip(published.sections[0].rows, changed.sections[0].rows, strict=True):
        assert before[:2] == after[:2]
        assert (before[2] == after[2]) == (before[0] == "performance, SCONV"), before[0]


def test_what_the_page_says_in_words(ran: Evaluation) -> None:
    assert differing(ran) == ["lenet-c", "cifar-c", "alexnet", "vgg-a", "vgg-b", "vgg-d", "vgg-e"]
    plan = ran.plans["vgg-a", "hypar"]
    assert (plan.layers[7], plan.layers[8]) == ("conv5_2", "fc1")
    assert plan.dims("fc1") == ("in_channels",) * 4
    assert plan.dims("conv5_2") == ("batch", "batch", "batch", "in_channels")
    slower = [ran.scores({"units_per_device": units}) for units in (8, 1)]
    for found in slower:
        assert speedups(found)["alexnet"] < speedups(ran.base)["alexnet"]
        assert speedups(found)["vgg-a"] < 4.97 * 0.9
    for strategy in ("dp", "hypar"):
        runs = sweep_model(
            "vgg-a", hardware="hmc", levels=range(7), strategy=strategy, changes={"bandwidth": "link"},
            inter_weight=0.5, scale=True, convention="paper")  # fmt: skip
        times = [run.totals.time_s for run in runs if run.totals]
        assert times == sorted(times, reverse=True)
    for layer, batch in (("conv5_4", 4096), ("fc3", 32)):
        graph = alone(load_model("vgg-e"), layer, batch)
        for levels in (2, 3, 4):
            trick, ours = (
                plan_model(graph, levels=levels, strategy=name, convention="paper")
                for name in ("owt", "hypar")
            )
            assert trick.splits == ours.splits


def test_one_mp_of_conv5_2_takes_as_long_at_every_level(vgg: Exploration) -> None:
    times = [
        point.totals.time_s
        for point in vgg.points
        if code(point) in {"00011111", "00101111", "01001111", "10001111"}
    ]
    assert len(times) == 4
    assert max(times) == pytest.approx(min(times), rel=1e-12)
