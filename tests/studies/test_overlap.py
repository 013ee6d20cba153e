"""``hypar overlap``: times of a machine, chunks with their parameters, and the command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hypar import check_plan, load_machine, overlap_model, plan_model, verify_plan
from hypar.cli.main import main
from hypar.errors import ProfileError
from hypar.machine.load_heterogeneous import load_hardware
from hypar.machine.measured import read_overlap_table, with_times
from hypar.network.gradients import gradients_of
from hypar.planning.replay import run_plan
from hypar.registry import data_names
from hypar.reports.listings.overlaps import overlap_data
from hypar.schedule.chunks.best import best_sizes
from hypar.schedule.chunks.exchanges import EXCHANGES
from hypar.studies.overlap.run import whole_array
from tests.effort import crossed, late
from tests.prose import unbroken
from tests.test_timeline import check_trace

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


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["overlap", *arguments])


def output(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def refusal(*arguments: str) -> str:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (3, "")
    (line,) = result.stderr.splitlines()
    return line.removeprefix("error: ")


FIRST = {"collectives": ["ring"], "overlap": "full"}
"""Exchanges slow enough for a search to find chunks of several layers."""


MACHINES = [name for name in data_names("hardware") if load_hardware(name).num_devices > 1]
QUICK = {("alexnet", "h100-8x"), ("resnet18", "p100-4x4"), ("lenet-c", "tpu-v2-v3"), ("sfc", "hmc")}
CASES = [
    pytest.param(model, hardware, marks=[] if (model, hardware) in QUICK else pytest.mark.slow)
    for model in data_names("models")
    for hardware in MACHINES
]


# The plan


@crossed({"model,hardware": CASES, "chunks": ["best", "one", "layers", 2]})
def test_the_plan_is_that_of_dp_with_chunks(model: str, hardware: str, chunks: str | int) -> None:
    """By the two commands: the same chunks, the same seconds, the same plan to the byte."""
    found = overlap_model(model, hardware=hardware, chunks=chunks)
    machine = load_hardware(hardware)
    plan = plan_model(model, hardware=machine, array=whole_array(machine), strategy="dp", chunks=chunks)
    assert plan.score is not None
    assert plan.chunks is not None
    assert found.plan.to_json() == plan.to_json()
    assert found.step_s == pytest.approx(plan.score.time_s, rel=1e-12)
    assert [list(chunk.layers) for chunk in found.chunks] == plan.chunks.layers
    assert all(chunk.ready_s <= chunk.end_s <= found.step_s for chunk in found.chunks)
    assert all(chunk.start_s <= chunk.end_s for chunk in found.chunks)
    held = sum(each.num_bytes for each in gradients_of(found.graph))
    assert sum(chunk.num_bytes for chunk in found.chunks) == held


def test_a_heterogeneous_machine_exchanges_chunks_across_its_groups() -> None:
    """Refused before there was one mechanism."""
    changes = {"overlap": "full", "collectives": ["ring"]}
    best, one = (
        overlap_model("vgg11", hardware="tpu-v2-v3", changes=changes, chunks=chunks)
        for chunks in ("best", "one")
    )
    assert best.step_s < one.step_s == best.typical_s
    assert best.array == ()
    names = [task.name for task in one.timeline.tasks]
    assert "tpu-v2: conv5_2 to conv1 gradient all_reduce H1" not in names
    assert "tpu-v3: fc3 to conv1 gradient all_reduce H1" in names
    text = output("vgg11", "--hardware", "tpu-v2-v3")
    assert "256 devices (128 tpu-v2 + 128 tpu-v3) on tpu-v2-v3, exchange serial" in unbroken(text)
    best.plan.write("plan.json")
    assert check_plan("plan.json").ok
    small = overlap_model("lenet-c", hardware="tpu-v2-v3", changes=changes, array=[2, 2], batch=16, chunks=3)
    assert verify_plan(small.plan).ok


def test_a_machine_that_overlaps_nothing_says_so() -> None:
    text = unbroken(output("lenet-c", "--hardware", "hmc"))
    assert "hmc: its assumption overlap is none, so nothing is sent beside the backward phase" in text
    assert "assumption" not in output("lenet-c", "--hardware", "h100-8x")


# Times of a machine


def test_every_network_of_a_machine_is_a_level_unless_an_array_is_named() -> None:
    assert overlap_model("lenet-c", hardware="p100-4x4").array == (4, 4)
    assert overlap_model("lenet-c", hardware="hmc").array == (16,)
    assert overlap_model("lenet-c", hardware="hmc", array=[2, 2]).array == (2, 2)


# Chunks and their parameters


def test_a_table_by_hand() -> None:
    """Serial: fc2's 1 + 3 ms from 1 ms on, then fc1's 1 + 7 and 1 + 3 of each other, or 1 + 6 of both together."""
    found = overlap_model("lenet-c", table="times.yaml", chunks="layers")
    assert [chunk.end_s * 1e3 for chunk in found.chunks] == pytest.approx([5, 13, 17, 21])
    assert found.typical_s * 1e3 == pytest.approx(11 + 1 + 16)
    assert (found.critical_layer, found.table, found.machine) == ("fc2", "times", None)
    best = overlap_model("lenet-c", table="times.yaml")
    assert [chunk.layers for chunk in best.chunks] == [("fc2",), ("fc1",), ("conv2", "conv1")]
    assert best.step_s * 1e3 == pytest.approx(20)
    alone = overlap_model("lenet-c", table="times.yaml", exchange="independent", chunks="none")
    assert alone.step_s * 1e3 == pytest.approx(28)
    assert repr(best) == "<Overlap of lenet-c: 3 chunks, 0.02 s a step, 1.400 times typical>"


@pytest.mark.parametrize("chunks", ["best", "layers", "none", 2, "3"])
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_the_step_is_the_closed_form_whatever_the_chunks(exchange: str, chunks: str | int) -> None:
    found = overlap_model("lenet-c", table="times.yaml", exchange=exchange, chunks=chunks)
    times = read_overlap_table("times.yaml").of(["conv1", "conv2", "fc1", "fc2"], "lenet-c")
    sizes = tuple(len(chunk.layers) for chunk in found.chunks)
    spans = EXCHANGES[exchange].spans(times, sizes)
    assert found.step_s == pytest.approx(times.forward_s + max(spans), rel=1e-12)
    assert found.critical == spans.index(max(spans))
    if chunks == "best":
        assert max(spans) == max(EXCHANGES[exchange].spans(times, best_sizes(times, EXCHANGES[exchange])))


# Measured times


PLAIN = "".join(
    line.partition(", copy_out")[0] + ("}\n" if "copy_out" in line else "\n")
    for line in TABLE.splitlines()[1:]
)
"""The table without the exchange."""


def test_measured_layers_with_the_links_of_a_machine() -> None:
    """The backward phase is the table's, the exchange that of the machine's own step."""
    Path("layers.yaml").write_text(PLAIN, encoding="utf-8")
    asked: dict[str, Any] = {"hardware": "p100-4x4", "changes": {"overlap": "full"}, "chunks": 2}
    own = overlap_model("lenet-c", **asked)
    found = overlap_model("lenet-c", **asked, table="layers.yaml")
    time = found.ran.score.time
    assert (time["forward"], time["backward"], time["gradient"]) == pytest.approx((0, 11e-3, 0))
    assert time["communication"] == own.ran.score.time["communication"]
    assert [chunk.ready_s * 1e3 for chunk in found.chunks] == pytest.approx([3, 7, 11])
    assert "4x4) on p100-4x4 overlap=full, measured times 'layers', exchange" in unbroken(
        output("lenet-c", "--table", "layers.yaml", "--hardware", "p100-4x4", "--set", "overlap=full")
    )


@pytest.mark.parametrize("array", [[16], [4, 4], [2, 2, 2, 2]])
def test_a_measured_exchange_is_as_long_on_any_array(array: list[int]) -> None:
    """Its bytes and updates are the machine's, its seconds the table's."""
    changes = {"overlap": "full"}
    found = overlap_model("lenet-c", table="times.yaml", hardware="p100-4x4", array=array, changes=changes)
    alone = overlap_model("lenet-c", table="times.yaml")
    assert found.timeline.makespan > alone.timeline.makespan == pytest.approx(20e-3)
    assert [chunk.layers for chunk in found.chunks] == [chunk.layers for chunk in alone.chunks]
    assert [chunk.end_s for chunk in found.chunks] == pytest.approx([chunk.end_s for chunk in alone.chunks])
    own = overlap_model("lenet-c", hardware="p100-4x4", array=array, changes=changes)
    assert found.ran.score.communication_bytes == pytest.approx(own.ran.score.communication_bytes)
    assert found.ran.score.memory == own.ran.score.memory or found.chunks != own.chunks


def test_a_step_measured_in_data_parallelism_is_no_other() -> None:
    times = read_overlap_table("times.yaml").of(["conv1", "conv2", "fc1", "fc2"], "lenet-c")
    machine = with_times(load_machine("p100-4x4"), times)
    assert machine.digest != load_machine("p100-4x4").digest
    with pytest.raises(ProfileError) as caught:
        plan_model("lenet-c", levels=1, strategy="mp", hardware=machine)
    message = "measured times: 'conv1' is cut in in_channels; allowed: data parallelism, in which they were measured"
    assert str(caught.value) == message
    with pytest.raises(ProfileError, match=r"no layer '\w+'; allowed: the layers of the network"):
        plan_model("alexnet", levels=1, strategy="dp", hardware=machine)


def test_an_exchange_is_measured_whole_or_not_at_all() -> None:
    Path("times.yaml").write_text(TABLE.replace("synchronisation: 1 ms\n", ""), encoding="utf-8")
    Path("layers.yaml").write_text(PLAIN, encoding="utf-8")
    assert refusal("lenet-c", "--table", "layers.yaml") == (
        "hardware: no machine is named, and layers.yaml has no times of an exchange; allowed: one, as --hardware hmc"
    )
    message = "times.yaml:1: synchronisation: 'synchronisation' is missing; allowed: the whole exchange, or nothing of it"
    assert refusal("lenet-c", "--table", "times.yaml") == message


# The exchange of a machine


@pytest.mark.parametrize("chunks", [None, "layers", 2])
def test_independent_exchanges_are_an_assumption_of_a_machine(chunks: str | int | None) -> None:
    """Chunks wait for no other chunk, and each one's latency stalls the devices."""
    changes = {"overlap": "full", "latency": "50 us", "exchange": "independent"}
    machine = load_machine("hmc", changes)
    plan = plan_model("alexnet", array=[16], strategy="dp", hardware=machine, chunks=chunks)
    ran = run_plan(plan, hardware=machine)
    sent = [task for task, move in zip(ran.step.tasks, ran.step.moves, strict=True) if move]
    assert len({task.resource for task in sent}) == len(sent) == (5 if chunks == 2 else 8)
    stalls = [task for task in ran.step.tasks if task.name.endswith("synchronisation")]
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


# The command


def test_the_command_prints_chunks_and_what_they_gain() -> None:
    text = output("lenet-c", "--table", "times.yaml")
    assert "lenet-c, measured times 'times', exchange serial, chunks best" in text
    assert re.search(r" conv2\.weight +conv1\.bias ", text)
    assert text.startswith("lenet-c: 20.0 ms a step with 3 chunks, 1.400x faster than without chunks\n")
    assert "step 20.0 ms; exchanged after the backward phase 28.0 ms, 1.400x that" in unbroken(text)
    assert "critical  layer fc2, the last of chunk 1" in text
    assert "the fastest chunks found, and no slower than every layer by itself" in unbroken(text)
    machine = output("lenet-c", "--hardware", "p100-4x4", "--set", "latency=1 us", "--batch", "32")
    assert "lenet-c, batch 32, 16 devices (4x4) on p100-4x4 latency=1 us, exchange serial" in unbroken(
        machine
    )


def test_the_command_says_where_no_chunks_gain() -> None:
    Path("times.yaml").write_text(TABLE.replace("synchronisation: 1 ms", "synchronisation: 1 s"))
    text = output("lenet-c", "--table", "times.yaml", "--exchange", "independent")
    assert text.startswith("lenet-c: 1.03 s a step with 1 chunk, 1.000x faster than without chunks\n")
    idle = TABLE.replace("1 ms", "0 s").replace("4 ms", "0 s").replace("2 ms", "0 s").replace("3 ms", "0 s")
    Path("times.yaml").write_text(idle)
    text = output("lenet-c", "--table", "times.yaml")
    assert "step 0 s; exchanged after the backward phase 0 s, 1.000x that" in unbroken(text)


def test_json_has_every_parameter() -> None:
    arguments = [
        "vgg11", "--hardware", "tpu-v2", "--set", "collectives=[ring]", "--set", "overlap=full",
        "--exchange", "independent",
        "--chunks", "2", "--json",
    ]  # fmt: skip
    text = output(*arguments)
    found = json.loads(text)
    same = overlap_model("vgg11", hardware="tpu-v2", changes=FIRST, exchange="independent", chunks=2)
    assert found == overlap_data(same)
    assert text == output(*arguments)
    assert found["chunks"][0]["parameters"] == ["fc3.weight", "fc3.bias", "fc2.weight", "fc2.bias"]
    assert found["chunks"][0]["bytes"] == 4 * (4096 * 1000 + 1000 + 4096 * 4096 + 4096)
    measured = json.loads(output("lenet-c", "--table", "times.yaml", "--json"))
    assert (measured["hardware"], measured["array"], measured["model"]["batch"]) == (None, [], None)
    assert measured["table"] == "times"


@pytest.mark.parametrize("exchange", late(EXCHANGES, "serial"))
def test_a_trace_and_a_plot_are_written(exchange: str) -> None:
    arguments = ("lenet-c", "--table", "times.yaml", "--exchange", exchange)
    result = run(*arguments, "--trace", "t.json", "--plot", "t.png")
    assert result.stderr.splitlines() == ["wrote t.json", "wrote t.png"]
    check_trace(
        Path("t.json").read_text(encoding="utf-8"),
        overlap_model("lenet-c", table="times.yaml", exchange=exchange).timeline,
    )
    first = Path("t.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    output(*arguments, "--plot", "t.png")
    assert Path("t.png").read_bytes() == first


def test_a_timeline_of_very_many_rows_grows_no_higher(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 110 dots an inch a picture of 1,200 rows would be higher than matplotlib draws."""
    monkeypatch.setattr("hypar.files.timelines.MOST_ROWS", 4)
    heights = []
    for size in (2, 1):
        output(
            "alexnet",
            "--hardware",
            "hmc",
            "--exchange",
            "independent",
            "--chunks",
            str(size),
            "--plot",
            "t.svg",
        )
        heights.append(re.findall(r'height="([\d.]+)pt"', Path("t.svg").read_text())[0])
    assert heights[0] == heights[1]


def test_two_files_of_one_name_are_wrong_usage() -> None:
    result = run("lenet-c", "--hardware", "hmc", "--plot", "t.png", "--trace", "t.png")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--plot and --trace name one file" in result.stderr
