"""Layer-block-wise pipeline (Mori et al., MLSP 2017): Tables I and II, Figures 2 and 5 to 9, Algorithm 1, the abstract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hypar import LayerGraph, pipeline_model
from hypar.network.ops.base import elements_of
from hypar.schedule.pipeline_orders import SCHEDULES
from hypar.studies.papers.base import load_reproduction
from hypar.studies.sections.pipeline import memory, partitions, published, transfers
from hypar.studies.sections.pipeline.algorithm import DEPTHS, Rings, rings
from hypar.studies.sections.pipeline.blocks import Blocks, balanced, divided
from hypar.studies.sections.pipeline.counts import Counted, readings
from hypar.studies.sections.pipeline.published import (
    ACTIVATIONS,
    BATCHES,
    CONVERGENCE,
    ERRORS,
    EXTRA,
    MOVED,
    RECEIVED,
    SPEEDUPS,
    STARTS,
    THREADS,
    TOTALS,
    TWICE,
    UNIFIED,
    WEIGHTS,
    network,
)

if TYPE_CHECKING:
    from hypar.studies.page import Page, Section

STAGES = range(4)
LAYERS = [
    ("input", "pool1"),
    ("conv2", "pool2"),
    ("conv3", "relu5"),
    ("pool5", "softmax1"),
]
NUMBERS = [
    (0, 150528 + 3 * 186624 + 46656),
    (1, 3 * 186624 + 43264),
    pytest.param(
        2, 10 * 43264, marks=pytest.mark.xfail(strict=True, reason="nine layers; a tenth is not explained")
    ),
    (3, 9216 + 6 * 4096 + 2000),
]
"""Numbers kept of an image, stage by stage, as the printed MB have them."""


@pytest.fixture(scope="module")
def graph() -> LayerGraph:
    return network()


@pytest.fixture(scope="module")
def found(graph: LayerGraph) -> Blocks:
    return divided(graph.with_batch(1), STARTS)


def cut(num_bytes: int) -> float:
    """MB, cut to two digits, as the paper prints them."""
    return num_bytes // 10_000 / 100


def test_four_stages(found: Blocks) -> None:
    assert [(stage.layers[0], stage.layers[-1]) for stage in found.stages] == LAYERS
    assert [stage.in_flight for stage in found.stages] == [8, 6, 4, 2]
    plan = pipeline_model(found.graph, stages=4, hardware="p100-4x4")
    assert plan.stages is not None
    assert [stage.in_flight for stage in plan.stages.stages] == [8, 6, 4, 2]
    assert [stage.staleness for stage in plan.stages.stages] == [7, 5, 3, 1]


def test_table_2_all_weights(found: Blocks) -> None:
    assert round(sum(stage.memory["weights"] for stage in found.stages) / 1e6, 4) == 243.4455


@pytest.mark.parametrize("stage", STAGES)
def test_table_2_weights(stage: int, found: Blocks) -> None:
    assert cut(found.stages[stage].memory["weights"]) == WEIGHTS[stage]


@pytest.mark.parametrize(("stage", "numbers"), NUMBERS)
def test_table_2_numbers_of_an_image(stage: int, numbers: int, found: Blocks) -> None:
    kept = found.stages[stage].memory["activations"] // found.stages[stage].in_flight
    assert kept == 4 * numbers


@pytest.mark.parametrize("stage", STAGES)
def test_table_2_activations_with_the_tenth_tensor(stage: int, found: Blocks) -> None:
    counted = Counted(found=found, extra=True)
    assert cut(counted.activations(found.stages[stage])) == ACTIVATIONS[1][stage]


@pytest.mark.parametrize("place", range(len(BATCHES)))
@pytest.mark.parametrize("what", TOTALS)
def test_tables_1_and_2_totals_to_the_last_digit(what: str, place: int, found: Blocks) -> None:
    counted = readings(found)["in two digits"]
    size = (counted.pipeline if what == "pipeline" else counted.threads)(BATCHES[place])
    assert size == round(TOTALS[what][place] * 1e6)


def test_tables_1_and_2_totals_of_unrounded_numbers(found: Blocks) -> None:
    """2250.0 MB with the errors of stages 3 and 4 doubled as printed, 2190.1 without."""
    every = readings(found)
    assert every["and errors twice"].pipeline(32) / 1e6 == pytest.approx(2250.0, abs=0.05)
    assert every["with the tenth tensor"].pipeline(32) / 1e6 == pytest.approx(2190.1, abs=0.05)


@pytest.mark.parametrize("batch", BATCHES)
def test_table_2_scales_with_the_batch(batch: int, graph: LayerGraph, found: Blocks) -> None:
    """What is counted of batch 1 and multiplied is what hypar counts of the batch itself."""
    own = divided(graph.with_batch(batch), STARTS)
    for one, other in zip(found.stages, own.stages, strict=True):
        assert other.memory["activations"] == batch * one.memory["activations"]
        assert other.memory["errors"] == batch * one.memory["errors"]
        assert other.memory["weights"] == one.memory["weights"]


def test_table_2_received_of_an_image(found: Blocks) -> None:
    image = 4 * elements_of(found.graph.layers[0].shape)
    received = [image, *(stage.sent_bytes for stage in found.stages[:-1])]
    assert received == transfers.forward_bytes(found)
    assert [round(size / 1e6, 2) for size in received] == list(RECEIVED[1])
    assert [round(size / 1e6, 3) for size in received] == [0.602, 0.187, 0.173, 0.173]


def test_table_2_a_batch(graph: LayerGraph) -> None:
    own = divided(graph.with_batch(32), STARTS)
    image = 32 * 4 * elements_of(graph.layers[0].shape)
    between = sum(stage.sent_bytes for stage in own.stages)
    assert round(cut(image) + cut(between), 2) == MOVED["forward, received"][1]
    assert cut(sum(stage.returned_bytes for stage in own.stages)) == MOVED["backward, received"][1]


def test_abstract(found: Blocks) -> None:
    """2.25 and 3.82 GB at batch 32; 974 MB unify the weights of four threads."""
    counted = readings(found)["in two digits"]
    assert (round(counted.pipeline(32) / 1e9, 2), round(counted.threads(32) / 1e9, 2)) == (2.25, 3.82)
    assert round(4 * sum(stage.memory["weights"] for stage in found.stages) / 1e6) == UNIFIED


def test_the_published_stages_multiply_nearly_least(graph: LayerGraph) -> None:
    published = divided(graph, STARTS)
    best = balanced(graph, 4, "macs")
    most = [max(stage.macs for stage in one.stages) for one in (published, best)]
    assert most[1] < most[0] < 1.01 * most[1]


def cells(section: Section, name: str) -> dict[str, list[str]]:
    """The cells of a row, by head; heads may come twice."""
    (row,) = (row for row in section.rows if row[0] == name)
    found: dict[str, list[str]] = {}
    for head, cell in zip(section.heads, row, strict=True):
        found.setdefault(head, []).append(cell)
    return found


def test_table_1_threads(found: Blocks) -> None:
    """W within 0.01 MB as printed; Y, dY to the digit at batch 1 with the tenth tensor, within 0.1 % at batch 32."""
    rows = memory.threads(found).rows
    assert len(rows) == len(THREADS) + 4
    for what, printed, own, _, extra in rows:
        if "Y" in what:
            assert float(own) < float(extra) == pytest.approx(float(printed), rel=0.001)
        else:
            assert float(own) == pytest.approx(float(printed), abs=0.02)
    assert cut(round(1e6 * float(rows[2][4]))) == THREADS["Y, a thread"][0]


@pytest.mark.parametrize("stage", STAGES)
def test_table_2_errors_with_the_tenth_tensor_and_doubled(stage: int, found: Blocks) -> None:
    counted = Counted(found=found, extra=True, twice=True)
    assert cut(counted.errors(found.stages[stage])) == ERRORS[1][stage]


def test_table_2_errors_of_one_image(found: Blocks) -> None:
    """As hypar counts them stages 3 and 4 have 0.45 and 0.51 of what is printed, the others all of it."""
    rows = memory.stages(found).rows
    assert [row[-1] for row in rows] == ["1.00", "1.00", "0.45", "0.51", "0.78"]
    assert (EXTRA, TWICE) == (3, (3, 4))


def test_table_2_at_batch_32_in_two_digits(found: Blocks) -> None:
    """All ten to the last digit."""
    for row in memory.at_batch(found).rows:
        assert row[1] == row[4]
        assert row[5] == row[8]


def test_table_2_between_stages_at_batch_32(found: Blocks) -> None:
    """All to the last digit from three digits; at batch 1 within 0.01 MB, but for 0.36 MB sent back, ours 0.53."""
    missed = []
    for what, printed, own, _, digits in transfers.between(found).rows:
        if digits:
            assert digits == printed, what
        elif abs(float(printed) - float(own)) > 0.01:
            missed.append((what, printed, own))
    assert missed == [("backward, sent in all, batch 1", "0.36", "0.533")]


def test_figures_2_and_9_memory_against_degree(found: Blocks) -> None:
    """At degree 4, 41 % less with the misprints and 43 % without; one stage keeps more than one worker."""
    section = memory.degrees(found)
    assert "with them it is 41.1% less" in " ".join(section.text.split())
    assert cells(section, "4")["less published"] == ["41%"]
    less = [cells(section, degree)["less"][0] for degree in ("1", "2", "4", "8")]
    assert less == ["-24%", "19%", "43%", "49%"]
    for degree in (1, 2, 4, 8):
        threads = float(cells(section, str(degree))["threads"][0])
        assert threads == pytest.approx(degree * float(section.rows[0][5]), rel=0.01)


def test_figure_5_is_in_proportion_to_threads(found: Blocks) -> None:
    """243.4 n MB one way within 0.1 %; 974.0 at four."""
    section = transfers.figure_5(found)
    for row in section.rows:
        assert float(row[3]) == pytest.approx(float(row[2]), rel=0.001)
    assert float(cells(section, "4")["one way"][0]) == pytest.approx(UNIFIED, abs=0.5)
    added = [float(row[-1]) for row in section.rows]
    assert added == pytest.approx([added[1] * (count - 1) for count in DEPTHS], rel=0.001)


def test_figure_6_stays_under_100_mb_up_to_a_batch_of_59(found: Blocks) -> None:
    """36.3 and 17.0 MB at batch 32 within 0.1 %."""
    section = transfers.figure_6(found)
    row = cells(section, "32")
    for way in ("forward", "backward"):
        assert float(row[way][0]) == pytest.approx(float(row[f"{way} published"][0]), rel=0.001)
    assert "up to a batch of 59" in section.text
    assert float(row["both"][0]) / 32 * 59 < 100 < float(row["both"][0]) / 32 * 60


@pytest.mark.parametrize("depth", DEPTHS)
def test_algorithm_1_ring_indices(depth: int) -> None:
    """2P - 2S + 2 slots are enough and no fewer; line 2's mod 2P and the printed order of lines 6 to 8 are not right."""
    count = 3 * depth
    printed = Rings(depth, count)
    assert printed.slots[1:] == [2 * depth - 2 * stage + 2 for stage in range(1, depth + 1)]
    assert printed.wrong["forward"] == printed.wrong["activations"] == 0
    assert printed.wrong["inputs"] == count - 2 * depth
    assert printed.wrong["errors"] == depth * count - depth
    mended = Rings(depth, count, image=2, at_once=False)
    assert not mended.wrong.total()
    short = Rings(depth, count, fewer=1, image=2, at_once=False)
    assert short.wrong["activations"] == depth * (count - depth)
    assert rings().rows[DEPTHS.index(depth)][:2] == (str(depth), str(count))


def test_algorithm_1_is_the_schedule(found: Blocks) -> None:
    """The mini-batches that its indices name are those of the schedule ``layer-block``."""
    depth, count = 4, 12
    for stage in range(1, depth + 1):
        steps = SCHEDULES["layer-block"].steps(stage - 1, depth, 1, count)
        assert len(steps) == count + 2 * depth - 1
        for step, works in enumerate(steps):
            named = {"forward": step - stage + 1, "backward": step - 2 * depth + stage}
            own = {phase: item for phase, item in named.items() if 0 <= item < count}
            assert {work.phase: work.item for work in works if work.phase != "update"} == own


@pytest.mark.slow
def test_figure_7_speed_ups_are_not_those_of_time_on_like_workers(graph: LayerGraph) -> None:
    """Published 2.0, 3.5, 5.1; the arithmetic of one convolution allows 2.42, and stages of whole layers 1.98, 2.42, 2.42."""
    section = partitions.convergence(graph)
    assert [row[1] for row in section.rows] == [f"{number:.1f}" for number in SPEEDUPS.values()]
    assert [row[4] for row in section.rows] == ["1.98", "2.42", "2.42"]
    busiest = max(layer.macs() for layer in graph.layers)
    assert graph.macs() / busiest == pytest.approx(2.42, abs=0.005)
    assert SPEEDUPS[8] > SPEEDUPS[4] > graph.macs() / busiest
    assert str(CONVERGENCE) in section.text


def doubled(value: Any) -> Any:
    """Twice every number of published ones."""
    if isinstance(value, dict):
        return {key: doubled(own) for key, own in value.items()}
    return tuple(map(doubled, value)) if isinstance(value, tuple) else 2 * value


@pytest.mark.slow
def test_no_published_number_is_read_by_a_computation(monkeypatch: pytest.MonkeyPatch) -> None:
    """With other published numbers, those of ours stay."""

    def ours(page: Page) -> list[list[tuple[str, ...]]]:
        return [
            [
                tuple(
                    cell
                    for head, cell in zip(section.heads, row, strict=True)
                    if "published" not in head and head != "ratio"
                )
                for row in section.rows
            ]
            for section in page.sections
        ]

    before = load_reproduction("pipeline").run(lambda _done, _of: None)
    names = ("THREADS", "WEIGHTS", "ACTIVATIONS", "ERRORS", "TOTALS", "RECEIVED", "MOVED", "UNIFIED", "EACH", "LESS",
             "GIGABYTES", "SPEEDUPS", "CONVERGENCE")  # fmt: skip
    read = set()
    for module in (memory, transfers, partitions):
        for name in names:
            if hasattr(module, name):
                read.add(name)
                monkeypatch.setattr(module, name, doubled(getattr(published, name)))
    assert read == set(names)
    after = load_reproduction("pipeline").run(lambda _done, _of: None)
    assert ours(after) == ours(before)
    assert after != before
