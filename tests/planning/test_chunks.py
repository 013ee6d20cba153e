"""Chunks as a part of a plan: which are the best, and what a plan file says of them."""

from __future__ import annotations

import json
import math
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cgdp_2018 import groupings
from click.testing import CliRunner, Result

from hypar import Plan, check_plan, diff_plans, load_machine, plan_model, read_plan, score_plan
from hypar.cli.main import main
from hypar.errors import OptionError, PlanError
from hypar.machine.load_heterogeneous import load_hardware
from hypar.planning.chunks.candidates import neighbours
from hypar.planning.replay import run_plan
from hypar.planning.searches.greedy import Greedy
from hypar.registry import data_folder, plugin_names
from hypar.schedule.stages import StepWork
from hypar.schedule.step import exchanging, lower_lanes
from hypar.timeline import run
from tests.effort import crossed
from tests.held import held_by
from tests.prose import unbroken
from tests.schedule.test_chunked import graph_of, lane_of
from tests.schedule.test_step import wired
from tests.transformers import gpt

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _pytest.mark import ParameterSet

    from hypar import Machine, Score
    from hypar.schedule.chunked import Chunks
    from hypar.schedule.chunks.exchanges import Sizes
    from hypar.schedule.lanes import Lane
    from hypar.schedule.stages import Ran

FIRST = {"collectives": ["direct", "ring"]}
"""Exchanges slow enough for chunks of several layers to be worth their while."""

OVERLAPPING: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "hmc": ((2, 2, 2, 2), {"overlap": "full"}),
    "hmc late": ((16,), {"overlap": "full", "latency": "20 us", "topology": "ring"}),
    "h100-8x": ((8, 8), FIRST),
    "h100-8x by twos": ((2, 2, 2, 2), {}),
    "p100-4x4": ((4, 4), {"overlap": "full"}),
    "tpu-v2": ((64,), {"overlap": "full", "collectives": ["ring"]}),
}
"""Machines that overlap, with an array."""


@cache
def machine_of(name: str) -> Machine:
    return load_machine(name.split(maxsplit=1)[0], OVERLAPPING[name][1])


BRANCHED = {"p100-4x4", "h100-8x by twos"}
"""Machines on which the quick run plans a network with branches too."""


def cases(models: Iterable[str], large: str, machines: set[str]) -> list[ParameterSet]:
    """Every network on every machine, the large network slow except on some machines."""
    return [
        pytest.param(model, name, marks=[pytest.mark.slow] if model == large and name not in machines else [])
        for model in models
        for name in OVERLAPPING
    ]


def planned(model: str, name: str, **asked: Any) -> Plan:
    return plan_model(graph_of(model), array=OVERLAPPING[name][0], hardware=machine_of(name), **asked)


def scored(plan: Plan) -> Score:
    assert plan.score is not None
    return plan.score


def chunks_of(plan: Plan) -> list[list[str]]:
    assert plan.chunks is not None
    return plan.chunks.layers


# Which chunks


def test_levels_are_summed_from_the_innermost_outward_chunk_by_chunk() -> None:
    plan = planned("lenet-c", "p100-4x4", strategy="dp", chunks="one")
    names = [task.name for task in run_plan(plan, hardware=machine_of("p100-4x4")).timeline.tasks]
    assert [name for name in names if "all_reduce" in name] == [
        "fc2 to conv1 gradient all_reduce H2", "fc2 to conv1 gradient all_reduce H1",
    ]  # fmt: skip
    assert names[-4:] == [f"{layer} update" for layer in ("fc2", "fc1", "conv2", "conv1")]


def test_chunks_beside_a_device_group_that_is_idle() -> None:
    """The levels of the group at work are counted behind the uneven split above it."""
    machine = load_hardware("tpu-v2-v3")
    asked: dict[str, Any] = {"array": (2, 2), "batch": 32, "strategy": "accpar", "hardware": machine}
    plan, single = (plan_model("lenet-c", chunks=chunks, **asked) for chunks in ("best", None))
    assert 0 in plan.splits[0].shares
    assert scored(plan).time_s <= scored(single).time_s
    assert scored(plan) == score_plan(plan, hardware=machine)


def test_layers_that_exchange_nothing_are_in_no_chunk() -> None:
    plan = planned("alexnet", "hmc", pins=["fc*=mp", "conv*=dp"], chunks="one")
    assert chunks_of(plan) == [["conv5", "conv4", "conv3", "conv2", "conv1"]]
    step = run_plan(plan, hardware=machine_of("hmc")).step
    names = [task.name for task in step.tasks]
    update = step.tasks[names.index("fc1 update")]
    assert update.after == (names.index("fc1 gradient"),)
    nothing = planned("alexnet", "hmc", strategy="mp", chunks="best")
    assert chunks_of(nothing) == []
    assert "gradients in no chunks (best), as no layer exchanges gradients\n" in str(nothing)
    assert nothing.score == planned("alexnet", "hmc", strategy="mp").score


@crossed(
    {
        "strategy": ["dp", "hypar"],
        "model,name": cases(["lenet-c", "alexnet", "vgg11", "resnet18", "googlenet"], "googlenet", BRANCHED),
    }
)
def test_the_best_is_never_slower_than_any_that_can_be_asked_for(
    model: str, name: str, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whatever the chunks, the search before them is the same.
    monkeypatch.setattr(Greedy, "run", cache(Greedy.run))
    plain = planned(model, name, strategy=strategy)
    best = planned(model, name, strategy=strategy, chunks="best")
    assert best.chunks is not None
    assert best.chunks.alone_s == scored(plain).time_s
    for other in ("layers", "one", 2, 4):
        asked = planned(model, name, strategy=strategy, chunks=other)
        assert scored(best).time_s <= scored(asked).time_s * (1 + 1e-12)
        assert scored(asked).communication_bytes == pytest.approx(
            scored(plain).communication_bytes, rel=1e-12
        )
        # But for the power at rest, which is drawn for as long as the step takes.
        energies = [{**(scored(each).energy or {}), "static": 0.0} for each in (asked, plain)]
        assert energies[0] == pytest.approx(energies[1], rel=1e-12)
    assert scored(best).time_s <= scored(plain).time_s


@pytest.mark.parametrize(("model", "name"), cases(["lenet-c", "alexnet", "vgg11", "sfc"], "vgg11", set()))
def test_the_best_is_near_the_best_of_all_groupings(model: str, name: str) -> None:
    for strategy in ("dp", "hypar"):
        plan = planned(model, name, strategy=strategy, chunks="best")
        lane = lane_of(plan, graph_of(model), machine_of(name))
        layers = exchanging(lower_lanes([lane]))

        def seconds(sizes: Sizes, lane: Lane = lane, layers: tuple[int, ...] = layers) -> float:
            left = iter(layers)
            chunks = tuple(tuple(next(left) for _ in range(size)) for size in sizes)
            return run(lower_lanes([lane], chunks=chunks).tasks).makespan

        least = min(map(seconds, groupings(len(layers)) if layers else [()]))
        assert least * (1 - 1e-12) <= scored(plan).time_s <= least * 1.001


@cache
def timed(hardware: str, chunks: str | int | None = None) -> Plan:
    return plan_model("resnet18", levels=4, hardware=hardware, cost="time", chunks=chunks)


@pytest.mark.parametrize("hardware", ["hmc", "h100-8x"])
@pytest.mark.parametrize("size", ["layers", 1, "1"], ids=repr)
def test_every_layer_by_itself_is_the_plan_without_chunks(hardware: str, size: str | int) -> None:
    plain, alone = timed(hardware), timed(hardware, size)
    assert alone.score == plain.score
    assert all(len(chunk) == 1 for chunk in chunks_of(alone))
    assert {**alone.to_data(), "chunks": None} == {**plain.to_data(), "chunks": None}
    tasks = [run_plan(plan).timeline.tasks for plan in (plain, alone)]
    assert tasks[0] == tasks[1]


@crossed(
    {
        "strategy": ["dp", "mp", "owt", "hypar", "accpar", "optimal"],
        "model,stages": [
            ("small", None),
            ("smaller", 2),
            pytest.param("gpt2", None, marks=pytest.mark.slow),
            pytest.param("bert-large", None, marks=pytest.mark.slow),
        ],
        "hardware": ["h100-8x", "hmc"],
        "chunks": ["layers", "best", 2],
    }
)
def test_the_score_of_a_tied_weight_is_that_of_the_stored_plan(
    strategy: str, model: str, stages: int | None, hardware: str, chunks: str | int
) -> None:
    small = {"small": 432, "smaller": 48}
    graph = gpt(batch=2, vocab=small[model], hidden=12) if model in small else graph_of(model).with_batch(16)
    asked: dict[str, Any] = {"levels": 2, "hardware": hardware, "chunks": chunks, "stages": stages}
    plan = plan_model(graph, strategy=strategy, **asked)
    assert score_plan(plan, model=graph) == plan.score


def test_the_gradient_of_a_tied_weight_is_one_transfer_a_level_as_a_run_exchanges_it() -> None:
    """Sums that go to users which divide the weight unlike its owner have their room beside the owner's."""
    graph = gpt(batch=1, vocab=432, hidden=12, sequence=2)
    plan = plan_model(graph, levels=2, strategy="hypar", hardware="h100-8x", chunks="layers")
    (memory,) = held_by(plan, graph)
    assert memory.within
    names = [task.name for task in run_plan(plan, model=graph).timeline.tasks if "wte gradient " in task.name]
    assert len(names) == len(set(names))


def test_chunks_are_cut_by_the_rule_and_by_what_exchanges() -> None:
    sizes = {chunks: [len(chunk) for chunk in chunks_of(planned("vgg11", "hmc", strategy="dp", chunks=chunks))]
             for chunks in ("one", 3, 4, 11)}  # fmt: skip
    assert sizes == {"one": [11], 3: [3, 3, 3, 1, 1], 4: [4, 4, 1, 1, 1], 11: [1] * 11}
    held = planned("vgg11", "hmc", pins=["fc*=mp", "conv*=dp"], chunks=3)
    assert chunks_of(held) == [
        ["conv5_2", "conv5_1", "conv4_2"], ["conv4_1", "conv3_2", "conv3_1"], ["conv2"], ["conv1"],
    ]  # fmt: skip


def test_neighbours_are_cuts_of_the_same_layers() -> None:
    for sizes in groupings(7):
        near = list(neighbours(sizes))
        assert all(sum(other) == 7 and min(other) > 0 and other != sizes for other in near)
        assert len(near) <= 6 * len(sizes)


def test_buffers_hold_the_larger_transfer_and_nothing_else_does() -> None:
    """A dp weight has a buffer of its own size; with all together of the size of all."""
    plain, joined = (planned("lenet-c", "hmc", strategy="dp", chunks=chunks) for chunks in ("layers", "one"))
    weights = {
        layer.name: 4 * layer.einsum.elements("weight") for layer in graph_of("lenet-c").contracted.layers
    }
    memory = [dict(scored(plan).memory) for plan in (plain, joined)]
    assert [held.pop("buffers") for held in memory] == [max(weights.values()), sum(weights.values())]
    assert memory[0] == memory[1]


def test_the_best_is_of_those_that_memory_holds() -> None:
    plain = planned("cifar-c", "hmc late", strategy="dp")
    free = planned("cifar-c", "hmc late", strategy="dp", chunks="best")
    held = scored(plain).memory_bytes
    assert scored(free).memory_bytes > held
    between = (held + scored(free).memory_bytes) / 2

    def within(num_bytes: float) -> Plan:
        text = (data_folder("hardware") / "hmc.yaml").read_text(encoding="utf-8")
        Path("small.yaml").write_text(text.replace("8 GB", f"{int(num_bytes)} B"), encoding="utf-8")
        machine = load_machine("small.yaml", OVERLAPPING["hmc late"][1])
        return plan_model(graph_of("cifar-c"), array=[16], strategy="dp", hardware=machine, chunks="best")

    tight, full = within(between), within(held / 2)
    assert scored(tight).fits
    assert scored(free).time_s < scored(tight).time_s <= scored(plain).time_s
    assert not scored(full).fits
    assert scored(full).time_s == scored(free).time_s


def test_nothing_else_is_tried_where_devices_always_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    """No chunks take less time than the computation."""
    tried: list[Chunks | None] = []

    def counted(work: StepWork, chunks: Chunks | None = None) -> Ran:
        tried.append(chunks)
        return ran(work, chunks)

    ran = StepWork.run
    monkeypatch.setattr(StepWork, "run", counted)
    machine = load_machine("h100-8x")
    plan = plan_model(graph_of("resnet50"), array=[8, 8], strategy="dp", hardware=machine, chunks="best")
    assert [len(chunks) for chunks in tried[1:] if chunks] == [54]
    assert {len(chunk) for chunk in chunks_of(plan)} == {1}
    assert scored(plan).time_s == pytest.approx(scored(plan).busy["devices"], rel=1e-12)
    late = load_machine("h100-8x", {"latency": "1 ms"})
    plan_model(graph_of("resnet50"), array=[8, 8], strategy="dp", hardware=late, chunks="best")
    assert len(tried) > 10


def test_of_equals_it_is_the_first() -> None:
    """Without overlap and latency all chunks take equally long; with latency alone all together are the fastest."""
    for latency, sizes in (("0 s", [1, 1, 1, 1]), ("7 us", [4])):
        plan = plan_model(
            "lenet-c", array=[4], strategy="dp", hardware=wired("ring", 4, latency), chunks="best"
        )
        assert [len(chunk) for chunk in chunks_of(plan)] == sizes


def test_the_same_question_gives_the_same_bytes() -> None:
    first, second = (planned("resnet50", "h100-8x", chunks="best").to_json() for _ in range(2))
    assert first == second


def test_grids_of_dims_have_chunks_too() -> None:
    plain, best = (
        plan_model("alexnet", array=[4, 4], strategy="deepa", hardware="p100-4x4", chunks=chunks)
        for chunks in (None, "best")
    )
    assert best.splits == plain.splits
    assert scored(best).time_s <= scored(plain).time_s
    assert scored(best).communication_bytes == pytest.approx(scored(plain).communication_bytes)
    assert score_plan(best) == best.score


def test_refinement_comes_first_with_every_layer_by_itself() -> None:
    refined = planned("lenet-c", "h100-8x by twos", cost="time", refine=True)
    both = planned("lenet-c", "h100-8x by twos", cost="time", refine=True, chunks="best")
    assert (both.splits, both.refined) == (refined.splits, refined.refined)
    assert both.chunks is not None
    assert refined.refined is not None
    assert both.chunks.alone_s == refined.refined.after_s


# Machines of unlike devices


@pytest.fixture(scope="module")
def uneven() -> dict[str | None, Plan]:
    machine = load_hardware("tpu-v2-v3")
    asked: dict[str, Any] = {"strategy": "accpar", "hardware": machine}
    return {chunks: plan_model("vgg11", chunks=chunks, **asked) for chunks in (None, "layers", "one", "best")}


def test_different_groups_exchange_together_over_their_splits(uneven: dict[str | None, Plan]) -> None:
    steps = {chunks: run_plan(plan, hardware="tpu-v2-v3") for chunks, plan in uneven.items()}
    assert steps["layers"].timeline.tasks == steps[None].timeline.tasks
    assert uneven["layers"].score == uneven[None].score
    sums: dict[str | None, dict[tuple[int, tuple[int, ...]], list[float]]] = {"layers": {}, "one": {}}
    for chunks, found in sums.items():
        step = steps[chunks].step
        for move, lanes in zip(step.moves, step.lanes, strict=True):
            if move and move.phase == "gradient":
                found.setdefault((move.level, lanes), []).append(move.total_bytes)
    assert all(len(amounts) == 1 for amounts in sums["one"].values())
    totals = [{place: math.fsum(amounts) for place, amounts in found.items()} for found in sums.values()]
    assert totals[1] == pytest.approx(totals[0], rel=1e-12)
    names = [task.name for task in steps["one"].timeline.tasks]
    assert "tpu-v2: conv5_2 to conv1 gradient all_reduce H1" in names
    assert "tpu-v3: conv5_2 to conv1 gradient all_reduce H2" in names
    times = {chunks: scored(plan).time_s for chunks, plan in uneven.items()}
    assert times["best"] <= min(times["one"], times["layers"])


def test_a_plan_of_unlike_groups_is_stored_and_checked(uneven: dict[str | None, Plan]) -> None:
    for chunks, plan in uneven.items():
        file = Path(f"{chunks}.json")
        plan.write(file)
        assert read_plan(file) == plan
        assert check_plan(file).ok
        assert score_plan(file) == plan.score


# The plan file


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def stored() -> Plan:
    """Three chunks on one level: fc2; fc1; conv2 and conv1."""
    return plan_model(
        graph_of("lenet-c"), array=[64], hardware=machine_of("h100-8x"), strategy="dp", chunks="best"
    )


def written(plan: Plan, **changes: Any) -> Path:
    """The file of a plan whose chunks were changed by hand."""
    data = plan.to_data()
    data["chunks"] = {**data["chunks"], **changes}
    file = Path("plan.json")
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


def test_a_plan_without_chunks_has_none() -> None:
    assert "chunks" not in plan_model("lenet-c", hardware="hmc").to_data()
    assert "chunks" not in plan_model("lenet-c").to_data()


@pytest.mark.parametrize("chunks", ["best", "layers", "one", 2])
def test_a_plan_reads_back_as_itself_and_holds(chunks: str | int) -> None:
    plan = planned("alexnet", "h100-8x", chunks=chunks, optimizer="adam")
    plan.write("plan.json")
    again = read_plan("plan.json")
    assert again == plan
    assert again.to_json() == plan.to_json()
    assert json.loads(plan.to_json())["chunks"]["asked"] == chunks
    assert check_plan("plan.json").ok
    assert score_plan("plan.json") == plan.score


def test_a_score_on_another_machine_has_the_plan_s_chunks(stored: Plan) -> None:
    names = [task.name for task in run_plan(stored, hardware=load_machine("tpu-v2")).timeline.tasks]
    assert "conv2 to conv1 gradient all_reduce H1" in names
    assert chunks_of(stored) == [["fc2"], ["fc1"], ["conv2", "conv1"]]


def test_chunks_edited_by_hand_are_found_out(stored: Plan) -> None:
    file = written(stored, layers=[["fc2"], ["fc1"], ["conv2"], ["conv1"]])
    changes = [str(change) for change in check_plan(file).changes]
    assert changes == [
        "plan chunks: 4 chunks (best): fc2, fc1, conv2, conv1 -> 3 chunks (best): fc2, fc1, conv2 to conv1"
    ]
    assert score_plan(file).time_s >= scored(stored).time_s
    (change,) = check_plan(written(stored, alone_s=1.0)).changes
    assert (change.what, change.before) == ("alone_s", 1.0)
    late = load_machine("h100-8x", {"latency": "40 us"})
    two = plan_model(graph_of("lenet-c"), array=[8, 8], hardware=late, strategy="dp", chunks="best")
    left_out = written(two, layers=[["fc2"], ["fc1", "conv1"]])
    assert [str(change) for change in check_plan(left_out).changes] == [
        "plan chunk 2: fc1, conv1 -> fc1, conv2, conv1",
    ]  # fmt: skip
    asked = [str(change) for change in check_plan(written(stored, asked="one")).changes]
    assert asked[0] == "plan chunks: 3 chunks (one): fc2, fc1, conv2 to conv1 -> 1 chunk (one): fc2 to conv1"


def test_a_machine_that_changed_is_found_out(stored: Plan) -> None:
    stored.write("plan.json")
    text = (data_folder("hardware") / "h100-8x.yaml").read_text(encoding="utf-8")
    Path("h100-8x.yaml").write_text(
        text.replace("latency: {value: 1 us", "latency: {value: 50 us"), encoding="utf-8"
    )
    changes = {change.what for change in check_plan("plan.json").changes}
    assert {"hardware", "chunks", "alone_s", "time_s"} <= changes


def test_a_difference_of_chunks_is_named(stored: Plan) -> None:
    plain = plan_model(graph_of("lenet-c"), array=[64], hardware=machine_of("h100-8x"), strategy="dp")
    changes = [str(change) for change in diff_plans(plain, stored)]
    assert changes[0] == "plan chunks: none -> 3 chunks (best): fc2, fc1, conv2 to conv1"
    assert any(change.startswith("plan time_s: ") for change in changes)
    assert not diff_plans(stored, stored)


def test_every_report_has_a_line() -> None:
    plan = planned("alexnet", "tpu-v2", strategy="dp", chunks="one")
    line = "gradients in 1 chunk (one): fc3 to conv1; 5.31 ms against 8.20 ms with each layer by itself, 35.21% less"
    assert all(line in unbroken(plan.render(report)) for report in plugin_names("reports"))
    slower = planned("alexnet", "h100-8x", strategy="dp", chunks="one")
    assert "% more\n" in str(slower)
    assert "gradients in 8 chunks (layers): 8 of 1 layer\n" in str(
        planned("alexnet", "h100-8x", strategy="dp", chunks="layers")
    )
    many = planned("resnet50", "tpu-v2", strategy="dp", chunks=4)
    assert "gradients in 15 chunks (4): 13 of 4 layers, 2 of 1 layer; " in unbroken(str(many))


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"layers": [["fc2", "fc9"], ["conv2"], ["conv1"]]}, "chunks.layers[0][1]: found 'fc9'; allowed: a layer that is cut"),
        ({"layers": [["fc2"], ["fc1", "fc2"]]}, "chunks.layers[1][1]: found 'fc2' again; allowed: each layer once"),
        ({"layers": [["fc2", "conv2"], ["fc1"], ["conv1"]]}, "chunks.layers[1][0]: found 'fc1' after 'conv2'; allowed: the order of the backward phase"),
        ({"layers": [["conv1"], ["conv2"]]}, "chunks.layers[1][0]: found 'conv2' after 'conv1'; allowed: the order"),
        ({"layers": [["fc2", "fc1", "conv2", "conv1"], []]}, "chunks.layers[1]: found []; allowed: at least 1"),
        ({"layers": [["fc2", 3]]}, "chunks.layers[0][1]: found 3; allowed: a text"),
        ({"layers": "fc2"}, "chunks.layers: found 'fc2'; allowed: a list"),
        ({"layers": None}, "chunks.layers: found nothing; allowed: a list"),
        ({"asked": "bset"}, "chunks.asked: found 'bset'; allowed: 'best', 'layers' or 'one' or a whole number; did you mean 'best'?"),
        ({"asked": 0}, "chunks.asked: found 0; allowed: 'best', 'layers' or 'one' or at least 1"),
        ({"asked": 5}, "chunks.asked: found 5; allowed: best, layers, one, or 1 to 4"),
        ({"asked": 10**30}, "chunks.asked: found 1000"),
        ({"asked": 2.0}, "chunks.asked: found 2.0; allowed: "),
        ({"asked": True}, "chunks.asked: found true; allowed: "),
        ({"asked": None}, "chunks.asked: found nothing; allowed: "),
        ({"alone_s": -1}, "chunks.alone_s: found -1; allowed: at least 0"),
        ({"alone_s": "fast"}, "chunks.alone_s: found 'fast'; allowed: a"),
        ({"sizes": [3, 1]}, "chunks.sizes: unknown key 'sizes'; allowed: asked, layers, alone_s"),
    ],
)  # fmt: skip
def test_a_plan_file_that_is_damaged_is_refused(stored: Plan, changes: dict[str, Any], found: str) -> None:
    file = written(stored, **changes)
    for judge in (read_plan, check_plan, score_plan):
        with pytest.raises(PlanError) as caught:
            judge(file)
        assert str(caught.value).startswith(f"{file}: {found}")


@pytest.mark.parametrize("value", [[], [["fc2"]], "best", 3])
def test_chunks_that_are_no_mapping_are_refused(stored: Plan, value: Any) -> None:
    Path("plan.json").write_text(json.dumps({**stored.to_data(), "chunks": value}), encoding="utf-8")
    with pytest.raises(PlanError, match=r"plan\.json: chunks: found .*; allowed: a mapping"):
        read_plan("plan.json")


@pytest.mark.parametrize("asked", ["best", "one", "2"])
def test_chunks_in_stages_are_stored_and_checked(asked: str) -> None:
    """A chunk is of one stage; the best chunks are no slower than single layers."""
    options: dict[str, Any] = {"levels": 1, "stages": 2, "microbatches": 4, "hardware": "h100-8x"}
    plan = plan_model("lenet-c", strategy="dp", chunks=asked, **options)
    plan.write("plan.json")
    assert check_plan("plan.json").ok
    assert plan.chunks is not None
    assert plan.stages is not None
    assert plan.score is not None
    of = {name: number for number, stage in enumerate(plan.stages.stages) for name in stage.layers}
    assert all(len({of[name] for name in chunk}) == 1 for chunk in plan.chunks.layers)
    assert {name for chunk in plan.chunks.layers for name in chunk} == {*plan.layers}
    alone = plan_model("lenet-c", strategy="dp", **options).score
    assert alone is not None
    assert plan.chunks.alone_s == alone.time_s
    assert asked != "best" or plan.score.time_s <= alone.time_s
    assert score_plan(plan) == plan.score


def test_chunks_without_a_machine_are_refused(stored: Plan) -> None:
    data = stored.to_data()
    del data["score"]
    Path("plan.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(
        PlanError, match=r"plan\.json: score: found none; allowed: one, as gradients are exchanged"
    ):
        read_plan("plan.json")


def test_chunks_of_other_layers_than_exchange_are_not_scored(stored: Plan) -> None:
    allowed = "; allowed: every layer that does, in one chunk, and no other"
    file = written(stored, layers=[["fc2", "conv2"], ["conv1"]])
    with pytest.raises(PlanError) as caught:
        score_plan(file)
    assert (
        str(caught.value) == f"{file}: chunks.layers: 'fc1' exchanges gradients and is in no chunk{allowed}"
    )
    data = json.loads(written(stored).read_text(encoding="utf-8"))
    for split in data["splits"]:
        split["choices"]["fc1"] = {"in_channels": 8}
    file.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(PlanError) as caught:
        score_plan(file)
    assert str(caught.value) == f"{file}: chunks.layers: 'fc1' exchanges no gradients{allowed}"
    assert any(change.layer == "fc1" for change in check_plan(file).changes)


# The command


def command(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_the_command_plans_shows_scores_and_checks() -> None:
    made = command(
        "plan", "alexnet", "--strategy", "dp", "--hardware", "h100-8x", "--chunks", "best", "-o", "p.json"
    )
    (line,) = re.findall("chunks (gradients in .*?) claim ", unbroken(made.stdout))
    assert f"chunks {line} " in unbroken(command("show", "p.json").stdout)
    assert unbroken(command("score", "p.json").stdout).endswith(f"chunks {line.partition(';')[0]}")
    assert command("check", "p.json").stdout == "ok       p.json\n"
    asked = ["plan", "alexnet", "--strategy", "dp", "--hardware", "h100-8x", "--chunks"]
    found = json.loads(command(*asked, "3", "--json").stdout)
    assert found["chunks"]["asked"] == 3
    assert [len(chunk) for chunk in found["chunks"]["layers"]] == [3, 3, 1, 1]
    command(*asked, "3", "-o", "q.json")
    assert "chunks" in command("diff", "p.json", "q.json").stdout
    assert (
        json.loads(command(*asked, "best", "--explain", "--json").stdout)["plan"]["chunks"]["asked"] == "best"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hardware", "hmc", "--chunks", "0"], "chunks: found '0'; allowed: best, layers, one, or 1 to 4"),
        (["--hardware", "hmc", "--chunks", "-1"], "chunks: found '-1'; allowed: best, layers, one, or 1 to 4"),
        (["--hardware", "hmc", "--chunks", "5"], "chunks: found '5'; allowed: best, layers, one, or 1 to 4"),
        (["--hardware", "hmc", "--chunks", "2.5"], "chunks: found '2.5'; allowed: best, layers, one, or 1 to 4"),
        (["--hardware", "hmc", "--chunks", "nonsense"], "chunks: found 'nonsense'; allowed: best, layers, one, or 1 to 4"),
        (["--hardware", "hmc", "--chunks", ""], "chunks: found ''; allowed: best, layers, one, or 1 to 4"),
        (["--hardware", "hmc", "--chunks", "9" * 5000], "chunks: found '999999999999999999999999999...9999999999999999999999999999'; allowed: best, layers, one, or 1 to 4"),
        (["--chunks", "best"], "chunks: no machine is named; allowed: one, as --hardware hmc"),
        (["--chunks", "nonsense"], "chunks: no machine is named; allowed: one, as --hardware hmc"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)  # fmt: skip
def test_what_cannot_be_is_one_line(arguments: list[str], message: str) -> None:
    result = command("plan", "lenet-c", *arguments, "-o", "p.json")
    assert (result.exit_code, result.stdout, result.stderr) == (3, "", f"error: {message}\n")
    assert not list(Path().iterdir())


@pytest.mark.parametrize("chunks", [True, 2.0, 0, -3, ["best"], b"best"])
def test_what_python_may_not_ask(chunks: Any) -> None:
    with pytest.raises(OptionError, match=r"^chunks: found .*; allowed: best, layers, one, or 1 to 4$"):
        plan_model("lenet-c", hardware="hmc", chunks=chunks)
