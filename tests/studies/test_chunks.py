"""Chunks of gradients in data parallelism: by a machine's times and by measured ones, and the rows of a step's chunks."""

from pathlib import Path
from typing import Any

import pytest

from hypar import check_plan, load_machine, plan_model
from hypar.machine.profiles import measured_devices, read_step_times, whole_array
from hypar.network.graph import gradients_of
from hypar.planning.chunks import best_sizes, spans
from hypar.planning.replay import ScoredStep, run_plan
from hypar.registry import data_names
from hypar.studies.step import StepRows
from tests.effort import crossed
from tests.kit import known, names_of, run

TABLE = """\
synchronisation: 1 ms
layers:
  - {name: conv1, backward: 4 ms, copy_out: 1 ms, accumulate: 1 ms, copy_back: 1 ms}
  - {name: conv2, backward: 4 ms, copy_out: 1 ms, accumulate: 1 ms, copy_back: 1 ms}
  - {name: fc1, backward: 2 ms, copy_out: 2 ms, accumulate: 3 ms, copy_back: 2 ms}
  - {name: fc2, backward: 1 ms, copy_out: 1 ms, accumulate: 1 ms, copy_back: 1 ms}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table of Lenet-c to be in."""
    monkeypatch.chdir(tmp_path)
    Path("times.yaml").write_text(TABLE, encoding="utf-8")
    return tmp_path


def ran(model: str, *, chunks: str | int = "best", **asked: Any) -> ScoredStep:
    return run_plan(plan_model(model, strategy="dp", chunks=chunks, **asked))


def measured(model: str = "lenet-c", *, exchange: str = "serial", chunks: str | int = "best") -> ScoredStep:
    machine = measured_devices(Path("times.yaml"), {"exchange": exchange})
    return ran(model, chunks=chunks, hardware=machine, array=[2], profile="times.yaml")


def layers(step: ScoredStep) -> list[list[str]]:
    return [row["layers"] for row in StepRows(step).chunks]


MACHINES = [name for name in data_names("hardware") if load_machine(name).num_devices > 1]
QUICK = {("alexnet", "h100-8x"), ("resnet18", "p100-4x4"), ("lenet-c", "tpu-v2-v3"), ("sfc", "hmc")}
CASES = [
    pytest.param(model, hardware, marks=[] if (model, hardware) in QUICK else pytest.mark.slow)
    for model in data_names("models")
    for hardware in MACHINES
]


# The plan


@crossed({"model,hardware": CASES, "chunks": ["best", "one", "layers", 2]})
def test_rows_are_the_chunks_of_the_plan(model: str, hardware: str, chunks: str | int) -> None:
    machine: Any = load_machine(hardware)
    array = None if machine.groups else whole_array(machine)
    step = ran(model, hardware=machine, array=array, chunks=chunks)
    rows, plan = StepRows(step).chunks, step.plan
    assert step.timeline.makespan == pytest.approx(known(plan.score).time_s, rel=1e-12)
    assert [row["layers"] for row in rows] == known(plan.chunks).layers
    assert all(row["ready_s"] <= row["end_s"] <= step.timeline.makespan for row in rows)
    assert all(row["start_s"] <= row["end_s"] for row in rows)
    assert sum(row["critical"] for row in rows) <= 1
    assert sum(row["bytes"] for row in rows) == sum(each.num_bytes for each in gradients_of(step.graph))


# Chunks and their parameters


def test_a_table_by_hand() -> None:
    """Serial: fc2's 1 + 3 ms from 1 ms on, then fc1's 1 + 7 and 1 + 3 of each other, or 1 + 6 of both together."""
    found = StepRows(measured(chunks="layers")).chunks
    assert [row["end_s"] * 1e3 for row in found] == pytest.approx([5, 13, 17, 21])
    assert [row["layers"] for row in found if row["critical"]] == [["fc2"]]
    assert measured(chunks="one").timeline.makespan * 1e3 == pytest.approx(11 + 1 + 16)
    best = measured()
    assert layers(best) == [["fc2"], ["fc1"], ["conv2", "conv1"]]
    assert best.timeline.makespan * 1e3 == pytest.approx(20)
    assert measured(exchange="independent", chunks="one").timeline.makespan * 1e3 == pytest.approx(28)


@pytest.mark.parametrize("chunks", ["best", "layers", "one", 2, "3"])
@pytest.mark.parametrize("exchange", ["independent", "serial"])
def test_the_step_is_the_closed_form_whatever_the_chunks(exchange: str, chunks: str | int) -> None:
    found = measured(exchange=exchange, chunks=chunks)
    times = read_step_times(Path("times.yaml"), ["conv1", "conv2", "fc1", "fc2"], "lenet-c")
    rows = StepRows(found).chunks
    serial = exchange == "serial"
    own = spans(times, tuple(len(row["layers"]) for row in rows), serial=serial)
    assert found.timeline.makespan == pytest.approx(
        sum(layer.forward_s for layer in times.layers) + max(own), rel=1e-12
    )
    assert [row["critical"] for row in rows].index(True) == own.index(max(own))
    if chunks == "best":
        assert max(own) == max(spans(times, best_sizes(times, serial=serial), serial=serial))


def test_all_that_is_trained_is_in_a_chunk() -> None:
    machine = load_machine("tpu-v2", {"collectives": ["ring"], "overlap": "full", "exchange": "independent"})
    row = StepRows(ran("vgg11", hardware=machine, array=[64], chunks=2)).chunks[0]
    assert row["layers"] == ["fc3", "fc2"]
    assert row["bytes"] == 4 * (4096 * 1000 + 1000 + 4096 * 4096 + 4096)


# Measured times


PLAIN = "".join(
    line.partition(", copy_out")[0] + ("}\n" if "copy_out" in line else "\n")
    for line in TABLE.splitlines()[1:]
)
"""The table without the exchange."""


def test_measured_layers_with_the_links_of_a_machine() -> None:
    """The backward phase is the table's, the exchange that of the machine's own step."""
    Path("layers.yaml").write_text(PLAIN, encoding="utf-8")
    asked: dict[str, Any] = {
        "hardware": load_machine("p100-4x4", {"overlap": "full"}),
        "array": [4, 4],
        "chunks": 2,
    }
    own, found = ran("lenet-c", **asked), ran("lenet-c", **asked, profile="layers.yaml")
    time = found.score.time
    assert (time["forward"], time["backward"], time["gradient"]) == pytest.approx((0, 11e-3, 0))
    assert time["communication"] == own.score.time["communication"]
    assert [row["ready_s"] * 1e3 for row in StepRows(found).chunks] == pytest.approx([3, 7, 11])
    assert plan_model("lenet-c", strategy="dp", hardware="hmc", profile="layers.yaml").array == [16]


@pytest.mark.parametrize("array", [[16], [4, 4], [2, 2, 2, 2]])
def test_a_measured_exchange_is_as_long_on_any_array(array: list[int]) -> None:
    """Its bytes and updates are the machine's, its seconds the table's."""
    asked: dict[str, Any] = {"hardware": load_machine("p100-4x4", {"overlap": "full"}), "array": array}
    found, alone, own = ran("lenet-c", **asked, profile="times.yaml"), measured(), ran("lenet-c", **asked)
    assert found.timeline.makespan > alone.timeline.makespan == pytest.approx(20e-3)
    assert layers(found) == layers(alone)
    assert [row["end_s"] for row in StepRows(found).chunks] == pytest.approx(
        [row["end_s"] for row in StepRows(alone).chunks]
    )
    assert found.score.communication_bytes == pytest.approx(own.score.communication_bytes)


@pytest.mark.parametrize("hardware", [None, "p100-4x4"])
def test_a_plan_by_measured_times_is_scored_and_checked_by_them(hardware: str | None) -> None:
    Path("plans").mkdir()
    machine = ["--hardware", hardware] if hardware else ["--set", "exchange=independent"]
    asked = ["lenet-c", "--strategy", "dp", "--chunks", "best", *machine]
    found = run("plan", *asked, "--profile", "times.yaml", "-o", "plans/plan.json")
    assert found.exit_code == 0, found.stderr
    assert "than dp" not in found.stdout
    assert run("check", "plans").stdout == "ok       plans/plan.json\n"
    scored = run("score", "plans/plan.json", "--json")
    assert scored.exit_code == 0, scored.stderr
    Path("times.yaml").write_text(TABLE.replace("2 ms", "3 ms"), encoding="utf-8")
    drifted = run("check", "plans")
    assert drifted.exit_code == 3
    assert "profile.digest: plans/../times.yaml is not what was planned with" in drifted.stderr


# The exchange of a machine


@pytest.mark.parametrize("chunks", [None, "layers", 2])
def test_independent_exchanges_are_an_assumption_of_a_machine(chunks: str | int | None) -> None:
    """Chunks wait for no other chunk, and each one's latency stalls the devices."""
    changes = {"overlap": "full", "latency": "50 us", "exchange": "independent"}
    machine = load_machine("hmc", changes)
    plan = plan_model("alexnet", array=[16], strategy="dp", hardware=machine, chunks=chunks)
    ran = run_plan(plan, hardware=machine)
    sent = [piece for piece in ran.step.pieces if piece.collective]
    assert len({piece.resource for piece in sent}) == len(sent) == (5 if chunks == 2 else 8)
    named = zip(ran.step.timeline.tasks, names_of(ran), strict=True)
    stalls = [task for task, name in named if name.endswith("synchronisation")]
    assert len(stalls) == len(sent)
    assert {task.resource for task in stalls} == {"devices"}
    serial = plan_model(
        "alexnet",
        array=[16],
        strategy="dp",
        hardware=load_machine("hmc", {**changes, "exchange": "serial"}),
        chunks=chunks,
    )
    assert plan.score is not None
    assert serial.score is not None
    assert plan.score.time["communication"] == pytest.approx(serial.score.time["communication"], rel=1e-12)
    assert plan.score.communication_bytes == serial.score.communication_bytes
    assert plan.score.time_s != serial.score.time_s
    plan.write("plan.json")
    assert check_plan("plan.json").ok
