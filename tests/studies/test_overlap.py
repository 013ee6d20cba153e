"""``hypar overlap``: times of a machine, chunks with their parameters, and the command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from hypar import load_machine, overlap_model, plan_model
from hypar.cli.main import main
from hypar.errors import HardwareError, OptionError
from hypar.machine.load_heterogeneous import load_hardware
from hypar.planning.replay import run_plan
from hypar.reports.listings.overlaps import overlap_data
from hypar.schedule.chunks.best import best_sizes
from hypar.schedule.chunks.exchanges import EXCHANGES
from hypar.schedule.chunks.sizes import rule_sizes
from hypar.studies.overlap.machine_times import machine_times
from hypar.studies.overlap.sizes import step_s
from tests.network.test_gradients import network
from tests.prose import unbroken
from tests.test_timeline import check_trace

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.schedule.chunks.exchanges import Exchange, Sizes
    from hypar.schedule.chunks.times import StepTimes

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


FIRST = {"collectives": ["direct", "ring"]}
"""Exchanges slow enough for a search to find chunks of several layers."""


def without_biases() -> LayerGraph:
    return network(
        "{op: input, channels: 256}",
        *(f"{{op: linear, out_features: {size}, bias: false}}" for size in (2048, 1024, 512)),
    )


# Times of a machine


@pytest.mark.parametrize("hardware", ["hmc", "p100-4x4"])
def test_a_step_takes_what_its_score_says_phase_by_phase(hardware: str) -> None:
    """With nothing but weights to train a score's gradients are those of a layer a chunk, one after another."""
    graph, machine = without_biases(), load_machine(hardware, {"overlap": "none"})
    array = (4, 4)
    ran = run_plan(
        plan_model(graph, array=array, strategy="dp", hardware=machine), hardware=machine, model=graph
    )
    times = machine_times(machine, graph, array)
    assert times.forward_s == pytest.approx(ran.score.time["forward"])
    assert times.ready[-1] == pytest.approx(ran.score.time["backward"] + ran.score.time["gradient"])
    assert times.sent[-1] + 3 * times.sync_s == pytest.approx(ran.score.time["communication"])


def test_every_network_of_a_machine_is_a_level_unless_an_array_is_named() -> None:
    assert overlap_model("lenet-c", hardware="p100-4x4").array == (4, 4)
    assert overlap_model("lenet-c", hardware="hmc").array == (16,)
    assert overlap_model("lenet-c", hardware="hmc", array=[2, 2]).array == (2, 2)


def test_changes_and_batch_are_those_of_the_step() -> None:
    fast = overlap_model("alexnet", hardware="p100-4x4", changes={"link_bandwidth": "1 TB/s"})
    slow = overlap_model("alexnet", hardware="p100-4x4", changes={"link_bandwidth": "1 GB/s"}, batch=64)
    assert fast.times.sent[-1] < slow.times.sent[-1]
    assert fast.times.ready[-1] > slow.times.ready[-1]
    assert slow.graph.batch == 64


@pytest.mark.parametrize("name", EXCHANGES)
@pytest.mark.parametrize("hardware", ["h100-8x", "p100-4x4", "tpu-v2", "hmc"])
def test_resnet_152_is_no_slower_than_by_the_rule_at_any_size(name: str, hardware: str) -> None:
    found = overlap_model("resnet152", hardware=hardware, exchange=name)
    times, exchange = found.times, EXCHANGES[name]
    least = max(exchange.spans(times, best_sizes(times, exchange)))
    assert least <= min(max(exchange.spans(times, rule_sizes(156, size))) for size in range(1, 157))
    assert found.step_s == pytest.approx(times.forward_s + least, rel=1e-12)
    assert found.speedup > 1


# Chunks and their parameters


def test_chunks_are_all_layers_from_the_last_to_the_first() -> None:
    found = overlap_model("resnet18", hardware="h100-8x", chunks=4)
    layers = [layer for chunk in found.chunks for layer in chunk.layers]
    assert layers == [layer.name for layer in reversed(found.times.layers)]
    assert [len(chunk.layers) for chunk in found.chunks] == [4] * 5 + [1]
    assert sum(chunk.num_bytes for chunk in found.chunks) == 4 * found.graph.num_parameters
    assert all(chunk.ready_s <= chunk.start_s <= chunk.end_s <= found.step_s for chunk in found.chunks)


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
    assert alone.step_s * 1e3 == pytest.approx(27)
    assert repr(best) == "<Overlap of lenet-c: 3 chunks, 0.02 s a step, 1.400 times typical>"


@pytest.mark.parametrize("chunks", ["best", "layers", "none", "search", 2, "3"])
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_the_step_is_the_closed_form_whatever_the_chunks(exchange: str, chunks: str | int) -> None:
    found = overlap_model("alexnet", hardware="p100-4x4", exchange=exchange, chunks=chunks)
    sizes = tuple(len(chunk.layers) for chunk in found.chunks)
    spans = EXCHANGES[exchange].spans(found.times, sizes)
    stalled = found.times.sync_s if (exchange, chunks) == ("independent", "none") else 0.0
    assert found.step_s == pytest.approx(found.times.forward_s + max(spans) - stalled, rel=1e-12)
    assert found.critical == spans.index(max(spans))


def test_a_search_is_told_its_step_range_and_interval() -> None:
    found = overlap_model(
        "vgg11", hardware="tpu-v2", exchange="independent", chunks="search", search_step=3, search_range=2,
        search_interval=7, changes=FIRST,
    )  # fmt: skip
    assert found.search is not None
    assert [(trial.iteration, trial.size) for trial in found.search.trials] == [
        (7, 1),
        (14, 2),
        (21, 3),
        (28, 6),
    ]
    assert (found.search.size, found.search.unmeasured, found.search.stopped_at) == (2, 9, 35)


def test_a_search_goes_on_beyond_all_layers_as_printed_and_times_no_chunks_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four layers: sizes 4, 10, 20 and so on leave every layer single, as size 1, and are never strictly faster."""
    timed: list[Sizes] = []

    def counted(times: StepTimes, sizes: Sizes, exchange: Exchange) -> float:
        timed.append(sizes)
        return step_s(times, sizes, exchange)

    monkeypatch.setattr("hypar.studies.overlap.sizes.step_s", counted)
    found = overlap_model("lenet-c", table="times.yaml", exchange="independent", chunks="search")
    assert found.search is not None
    assert [trial.size for trial in found.search.trials] == [*range(1, 11), 20, 30, 40, 50]
    assert (found.search.unmeasured, found.search.stopped_at) == (60, 150)
    assert {trial.seconds for trial in found.search.trials[3:]} == {found.search.trials[0].seconds}
    assert timed == [(1, 1, 1, 1), (2, 1, 1), (3, 1)]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"array": []}, "array: found no level; allowed: ways of 2 or more"),
        ({"array": [4, 1]}, "array: found 4x1; allowed: ways of 2 or more"),
        ({"array": [4.0]}, "array: found 4.0; allowed: ways of 2 or more"),
        ({"chunks": True}, "chunks: found true; allowed: best, layers, none, search, or 1 to 4"),
        ({"chunks": 2.0}, "chunks: found 2.0; allowed: best, layers, none, search, or 1 to 4"),
    ],
)
def test_what_python_may_not_ask(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        overlap_model("lenet-c", hardware="p100-4x4", **asked)
    assert str(caught.value) == message


def test_a_machine_of_unlike_devices_is_refused() -> None:
    with pytest.raises(
        HardwareError, match=r"^hardware 'tpu-v2-v3': has heterogeneous device groups; allowed: a "
    ):
        overlap_model("lenet-c", hardware=load_hardware("tpu-v2-v3"))  # type: ignore[arg-type]
    assert "groups: hardware 'tpu-v2-v3' is a heterogeneous machine" in refusal(
        "lenet-c", "--hardware", "tpu-v2-v3"
    )


# The command


def test_the_command_prints_chunks_and_what_they_gain() -> None:
    text = output("lenet-c", "--table", "times.yaml")
    assert "lenet-c, measured times 'times', exchange serial, chunks best" in text
    assert re.search(r" conv2\.weight +conv1\.bias ", text)
    assert text.startswith("lenet-c: 20.0 ms a step with 3 chunks, 1.400x faster than without chunks\n")
    assert "step 20.0 ms; exchanged after the backward phase 28.0 ms, 1.400x that" in unbroken(text)
    assert "critical  layer fc2, the last of chunk 1" in text
    assert "optimal over every way to cut 4 layers into chunks" in text
    assert "search" not in text
    machine = output("lenet-c", "--hardware", "p100-4x4", "--set", "latency=1 us", "--batch", "32")
    assert "lenet-c, batch 32, array 4x4 on p100-4x4 latency=1 us, exchange serial" in unbroken(machine)


def test_the_command_prints_the_trace_of_a_search() -> None:
    text = output("lenet-c", "--table", "times.yaml", "--chunks", "search", "--search-range", "1")
    assert " iteration 10: size 1, 21.0 ms; best 1\n" in text
    end = "iteration 110: size 20 ends the search; chunks of 1 are the fastest that it measured"
    assert unbroken(text).endswith(end)


def test_the_command_says_where_no_chunks_gain() -> None:
    Path("times.yaml").write_text(TABLE.replace("synchronisation: 1 ms", "synchronisation: 1 s"))
    text = output("lenet-c", "--table", "times.yaml", "--exchange", "independent")
    assert "no chunks are faster than exchanging after the backward phase" in text
    idle = TABLE.replace("1 ms", "0 s").replace("4 ms", "0 s").replace("2 ms", "0 s").replace("3 ms", "0 s")
    Path("times.yaml").write_text(idle)
    text = output("lenet-c", "--table", "times.yaml")
    assert "step 0 s; exchanged after the backward phase 0 s, 1.000x that" in unbroken(text)


def test_json_has_every_parameter_and_the_trace_of_a_search() -> None:
    arguments = [
        "vgg11", "--hardware", "tpu-v2", "--set", "collectives=[direct, ring]", "--exchange", "independent",
        "--chunks", "search", "--json",
    ]  # fmt: skip
    text = output(*arguments)
    found = json.loads(text)
    same = overlap_model("vgg11", hardware="tpu-v2", changes=FIRST, exchange="independent", chunks="search")
    assert found == overlap_data(same)
    assert text == output(*arguments)
    assert found["chunks"][0]["parameters"] == ["fc3.weight", "fc3.bias", "fc2.weight", "fc2.bias"]
    assert found["chunks"][0]["bytes"] == 4 * (4096 * 1000 + 1000 + 4096 * 4096 + 4096)
    assert found["search"]["trials"][1] == {
        "iteration": 20, "size": 2, "step_s": found["step_s"], "best": 2,
    }  # fmt: skip
    assert (found["search"]["size"], found["search"]["stopped_at"]) == (2, 150)
    assert found["search"]["unmeasured"] == 60
    measured = json.loads(output("lenet-c", "--table", "times.yaml", "--json"))
    assert (measured["hardware"], measured["array"], measured["model"]["batch"]) == (None, [], None)
    assert (measured["table"], measured["search"]) == ("times", None)


@pytest.mark.parametrize("exchange", EXCHANGES)
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lenet-c"], "hardware: no machine is named; allowed: one, as --hardware hmc, or measured times, as --table times.yaml"),
        (["lenet-c", "--table", "times.yaml", "--hardware", "hmc"], "hardware: given together with a table of measured times; allowed: with a machine, as --hardware hmc"),
        (["lenet-c", "--table", "times.yaml", "--array", "4"], "array: given together with a table of measured times; allowed: with a machine, as --hardware hmc"),
        (["lenet-c", "--table", "times.yaml", "--batch", "4"], "batch: given together with a table of measured times; allowed: with a machine, as --hardware hmc"),
        (["lenet-c", "--table", "times.yaml", "--set", "duplex=half"], "changes: given together with a table of measured times; allowed: with a machine, as --hardware hmc"),
        (["lenet-c", "--hardware", "hmc", "--chunks", "bset"], "chunks: found 'bset'; allowed: best, layers, none, search, or 1 to 4"),
        (["lenet-c", "--hardware", "hmc", "--chunks", "0"], "chunks: found '0'; allowed: best, layers, none, search, or 1 to 4"),
        (["lenet-c", "--hardware", "hmc", "--chunks", "5"], "chunks: found '5'; allowed: best, layers, none, search, or 1 to 4"),
        (["lenet-c", "--hardware", "hmc", "--chunks", "9" * 5000], "chunks: found '999999999999999999999999999...9999999999999999999999999999'; allowed: best, layers, none, search, or 1 to 4"),
        (["lenet-c", "--hardware", "hmc", "--exchange", "parallel"], "no exchange 'parallel'; allowed: independent, serial"),
        (["lenet-c", "--hardware", "hmc", "--search-step", "5"], "search-step: given with chunks 'best'; allowed: with chunks 'search'"),
        (["lenet-c", "--hardware", "hmc", "--chunks", "search", "--search-range", "0"], "search-range: found 0; allowed: a whole number from 1 to 20,000"),
        (["lenet-c", "--hardware", "hmc", "--chunks", "search", "--search-step", "20001"], "search-step: found 20001; allowed: a whole number from 1 to 20,000"),
        (["lenet-c", "--hardware", "hmc", "--chunks", "search", "--search-interval", "-1"], "search-interval: found -1; allowed: a whole number from 1 to 20,000"),
        (["lenet-c", "--hardware", "eyeriss"], "hardware 'eyeriss': found one device; allowed: two, to exchange gradients"),
        (["lenet-c", "--hardware", "hmc", "--array", "32"], "hardware 'hmc': found an array of 32 devices (32); allowed: at most 16, all that it has"),
        (["lenet-c", "--hardware", "hmc", "--array", "1"], "array: found 1; allowed: ways of 2 or more"),
        (["lenet-c", "--hardware", "hmc", "--plot", "t.gif"], "plot: found the file 't.gif'; allowed: a name that ends in .png, .svg, .pdf"),
        (["lenet-c", "--hardware", "hmc", "--trace", "no/t.json"], "no/t.json: cannot be written: No such file or directory"),
        (["lenet-c", "--table", "no.yaml"], "no.yaml: cannot be read: No such file or directory"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)  # fmt: skip
def test_what_cannot_be_is_one_line(arguments: list[str], message: str) -> None:
    assert refusal(*arguments, "--json") == message
    assert [file.name for file in Path().iterdir()] == ["times.yaml"]


def test_two_files_of_one_name_are_wrong_usage() -> None:
    result = run("lenet-c", "--hardware", "hmc", "--plot", "t.png", "--trace", "t.png")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--plot and --trace name one file" in result.stderr
