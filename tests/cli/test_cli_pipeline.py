"""``hypar pipeline``: what it prints and writes, and what it refuses in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hypar import pipeline_model
from hypar.cli.main import main
from hypar.reports.listings.pipelines import pipeline_data, pipeline_notes
from tests.prose import unbroken
from tests.test_timeline import check_trace

HUGE = "1" + "0" * 400


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["pipeline", *arguments])


def output(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def data(*arguments: str) -> Any:
    return json.loads(output(*arguments, "--json"))


def test_the_table_has_a_row_a_stage() -> None:
    text = output("vgg-f", "--batch", "32", "--starts", "conv1,conv2,conv3,pool5")
    assert text.startswith("vgg-f, batch 32, 4 stages\n")
    for layers in ("input to pool1", "conv2 to pool2", "conv3 to relu5", "pool5 to softmax1"):
        assert layers in text
    assert "starts as given" in text
    assert "busy" not in text
    assert "data parallelism on 4 devices, a mini-batch each: 3.78 GB held in all" in unbroken(text)


def test_a_machine_adds_times() -> None:
    text = output(
        "lenet-c", "--stages", "2", "--hardware", "hmc", "--set", "overlap=full", "--optimizer", "adam"
    )
    assert text.startswith("lenet-c, batch 256, 2 stages on hmc overlap=full\n")
    for word in ("busy", "idle", "samples/s; stages busy ", "in the fullest stage (adam)"):
        assert word in unbroken(text)
    least = "in the costliest stage, the least of all partitions of 9 layers into 2 stages that fit"
    assert least in unbroken(text)


def test_microbatches_are_said() -> None:
    text = output("lenet-c", "--stages", "2", "--schedule", "1f1b", "--microbatches", "8")
    assert text.startswith("lenet-c, batch 256, 8 microbatches, 2 stages\n")
    assert "1f1b: microbatches forward and backward in turn, flush" in unbroken(text)
    assert output("lenet-c", "--stages", "1").startswith("lenet-c, batch 256, 1 stage\n")


def test_json_is_what_python_has() -> None:
    found = data(
        "lenet-c", "--stages", "3", "--balance", "memory", "--hardware", "hmc", "--set", "overlap=full"
    )
    assert found["hardware_changes"] == {"overlap": "full"}
    assert found["capacity_bytes"] == 8_000_000_000
    assert found["bottleneck"] == {
        "value": max(stage["memory_bytes"] for stage in found["stages"]),
        "unit": "bytes",
    }
    assert [stage["stage"] for stage in found["stages"]] == [1, 2, 3]
    for stage in found["stages"]:
        assert stage["memory_bytes"] == sum(stage["memory"].values())
        assert stage["busy_s"] + stage["idle_s"] == pytest.approx(found["time_s"])
    assert found["samples_per_s"] == pytest.approx(256 / found["time_s"])
    own = pipeline_model("lenet-c", stages=3, balance="traffic")
    assert data("lenet-c", "--stages", "3", "--balance", "traffic") == json.loads(
        json.dumps(pipeline_data(own))
    )
    given = data("lenet-c", "--starts", "conv1")
    assert (given["balance"], given["bottleneck"], given["hardware"]) == (None, None, None)
    assert data("lenet-c", "--stages", "1", "--balance", "traffic")["bottleneck"] == {
        "value": 0,
        "unit": "bytes",
    }


def test_a_trace_and_a_plot_are_written() -> None:
    arguments = ("lenet-c", "--stages", "3", "--hardware", "hmc", "--trace", "t.json", "--plot", "p.png")
    result = run(*arguments)
    assert result.stderr == "wrote t.json\nwrote p.png\n"
    timeline = pipeline_model("lenet-c", stages=3, hardware="hmc").timeline
    check_trace(Path("t.json").read_text(encoding="utf-8"), timeline)
    first = Path("p.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    assert run(*arguments).stdout == result.stdout
    assert Path("p.png").read_bytes() == first


def test_a_machine_without_memory_holds_anything() -> None:
    text = output("alexnet-2012", "--stages", "1", "--hardware", "eyeriss", "--batch", "4")
    assert "into 1 stage memory " in unbroken(text)
    assert "that fit" not in unbroken(text)


def test_notes_leave_out_a_rate_that_is_not_known() -> None:
    notes = pipeline_notes(pipeline_model("lenet-c", stages=3, hardware="hmc"))
    assert notes[-2].text.endswith(" of communication a step")


VGG16 = ["vgg16", "--trace", "t.json", "--plot", "p.png", "--hardware", "hmc"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lenet-c", "--stages", "0"], "stages: found 0; allowed: a whole number from 1 to 9, one for each layer of 'lenet-c' but its input"),
        (["lenet-c", "--stages", "-3"], "stages: found -3; allowed: a whole number from 1 to 9, one for each layer of 'lenet-c' but its input"),
        (["lenet-c", "--stages", "10"], "stages: found 10; allowed: a whole number from 1 to 9, one for each layer of 'lenet-c' but its input"),
        (["resnet152", "--stages", "257"], "stages: found 257; allowed: a whole number from 1 to 256"),
        ([*VGG16, "--stages", "17"], "hardware 'hmc': found 17 stages; allowed: at most 16, one a device"),
        ([*VGG16, "--batch", "4096"], "hardware 'hmc': found 802 GB in the fullest of 4 stages at best; allowed: 8.00 GB, the memory of a device; try more stages or a smaller batch"),
        ([*VGG16, "--batch", "32", "--starts", "conv1_1,fc1"], "hardware 'hmc': found 18.5 GB in stage 1, from 'input' on; allowed: 8.00 GB, the memory of a device; try more stages or a smaller batch"),
        (["vgg16", "--starts", "conv1_1,conv9"], "starts: no layer is named 'conv9'; did you mean 'conv5_3'?"),
        (["vgg16", "--starts", "conv1_1,fc1,fc01"], "starts: no layer is named 'fc01'; did you mean 'fc1'?"),
        (["vgg16", "--starts", ""], "starts: no layer is named ''"),
        (["vgg16", "--starts", "conv1_1,fc2,fc1"], "starts: found 'fc1' behind 'fc2'; allowed: first layers of stages, in the network's order"),
        (["vgg16", "--starts", "conv1_1,fc1,fc1"], "starts: found 'fc1' behind 'fc1'; allowed: first layers of stages, in the network's order"),
        (["vgg16", "--starts", "input,conv1_1"], "starts: found 'conv1_1' behind 'input'; allowed: first layers of stages, in the network's order"),
        (["vgg16", "--starts", "fc1,fc2"], "starts: found 'fc1' first; allowed: 'conv1_1' first, as the network begins with it"),
        (["vgg16", "--starts", "conv1_1,fc1", "--stages", "3"], "stages: found 3 and starts of 2; allowed: one of the two"),
        (["vgg16", "--starts", "conv1_1,fc1", "--balance", "macs"], "balance: given together with starts; allowed: one of the two"),
        (["vgg16", "--balance", "time"], "balance 'time': no machine is named; allowed: one, as --hardware hmc"),
        (["vgg16", "--balance", "speed"], "no balance 'speed'; allowed: time, memory, traffic, macs"),
        (["vgg16", "--schedule", "1f2b"], "no schedule '1f2b'; allowed: layer-block, gpipe, 1f1b; did you mean '1f1b'?"),
        (["vgg16", "--microbatches", "4"], "microbatches: found 4; allowed: 1, as 'layer-block' takes whole mini-batches"),
        (["vgg16", "--schedule", "gpipe", "--microbatches", "3"], "microbatches: found 3; allowed: a divisor of the batch 256"),
        (["vgg16", "--schedule", "gpipe", "--microbatches", "0"], "microbatches: found 0; allowed: a divisor of the batch 256"),
        (["vgg16", "--schedule", "gpipe", "--batch", "65536", "--microbatches", "65536"], "microbatches: found 65,536; allowed: at most 26,214 in 4 stages"),
        (["vgg16", "--plot", "p.png"], "hardware: no machine is named; allowed: one, as --hardware hmc"),
        (["vgg16", "--trace", "t.json"], "hardware: no machine is named; allowed: one, as --hardware hmc"),
        ([*VGG16, "--plot", "p.gif"], "plot: found the file 'p.gif'; allowed: a name that ends in .png, .svg, .pdf"),
        ([*VGG16, "--trace", "no/t.json"], "no/t.json: cannot be written: No such file or directory"),
        (["vgg16", "--set", "duplex=half"], "--set: no machine is named; allowed: one, as --hardware hmc"),
        (["vgg16", "--hardware", "tpu-v2-v3"], None),
        (["vgg16", "--optimizer", "lamb"], "no optimizer 'lamb'; allowed: sgd, momentum, adam; did you mean 'adam'?"),
        (["vgg61"], None),
    ],
    ids=lambda value: " ".join(value)[:80] if isinstance(value, list) else "",
)  # fmt: skip
def test_what_cannot_be_is_one_line_and_leaves_no_file(arguments: list[str], message: str | None) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, SystemExit)
    memory = "the memory of a device" in (message or "")
    assert (result.exit_code, result.stdout) == (1 if memory else 3, "")
    assert result.stderr.count("\n") == 1
    assert message is None or result.stderr == f"error: {message}\n"
    assert list(Path().iterdir()) == []


def test_a_huge_number_of_stages_is_one_line() -> None:
    result = run("lenet-c", "--stages", HUGE)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (3, "", 1)
    assert len(result.stderr) < 300


def test_one_file_for_both_is_a_usage_error() -> None:
    result = run("lenet-c", "--hardware", "hmc", "--plot", "a.png", "--trace", "a.png")
    assert result.exit_code == 2
    assert "--plot and --trace name one file" in result.stderr
    assert list(Path().iterdir()) == []
