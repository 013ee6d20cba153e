"""``hypar pipeline``: what it prints and writes, and what it refuses in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hypar import load_machine, pipeline_model, plan_model, read_plan
from hypar.cli.main import main
from hypar.planning.replay import run_plan
from hypar.reports.listings.pipelines import pipeline_notes
from tests.prose import unbroken
from tests.reports.test_traces import check_step_trace

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


def test_the_table_has_a_row_a_stage() -> None:
    text = output("vgg-f", "--batch", "32", "--starts", "conv1,conv2,conv3,fc6", "--hardware", "p100-4x4")
    assert text.startswith("vgg-f, batch 32, 4 stages on p100-4x4\n")
    for layers in ("conv1", "conv2", "conv3 to conv5", "fc6 to fc8"):
        assert layers in text
    assert "starts as given" in text
    assert "data parallelism on 4 devices, a mini-batch each: 3.63 GB held in all" in unbroken(text)


def test_a_machine_and_its_changes_are_named() -> None:
    text = output(
        "lenet-c", "--stages", "2", "--hardware", "hmc", "--set", "overlap=full", "--optimizer", "adam"
    )
    assert text.startswith("lenet-c, batch 256, 2 stages on hmc overlap=full\n")
    for word in (
        "busy",
        "idle",
        "samples/s; stages busy ",
        "in the fullest stage (adam)",
        "counted by moved",
    ):
        assert word in unbroken(text)
    least = "in the costliest stage, the least of all partitions of 4 layers into 2 stages that fit"
    assert least in unbroken(text)


def test_stages_on_groups_of_devices() -> None:
    """The order of the groups is the one that ``plan --stages 4 --levels 0`` finds."""
    text = output("lenet-c", "--hardware", "tpu-v2-v3", "--schedule", "1f1b")
    plan = plan_model("lenet-c", stages=4, levels=0, hardware="tpu-v2-v3")
    assert plan.stages is not None
    first, second = plan.stages.groups
    head = "lenet-c, batch 256, 4 microbatches, 4 stages on tpu-v2-v3: "
    assert unbroken(text).startswith(f"{head}2 on {first}, 2 on {second} ")
    assert "of 4 layers into 4 stages in this order of the groups that fit" in unbroken(text)
    assert (
        json.loads(output("lenet-c", "--hardware", "tpu-v2-v3", "--schedule", "1f1b", "--json"))
        == plan.to_data()
    )


def test_microbatches_are_said() -> None:
    text = output(
        "lenet-c", "--stages", "2", "--schedule", "1f1b", "--microbatches", "8", "--hardware", "hmc"
    )
    assert text.startswith("lenet-c, batch 256, 8 microbatches, 2 stages on hmc\n")
    assert "1f1b: microbatches forward and backward in turn, flush" in unbroken(text)
    text = output("lenet-c", "--stages", "1", "--hardware", "hmc")
    assert text.startswith("lenet-c, batch 256, 1 stage on hmc\n")
    assert "against" not in text


@pytest.mark.parametrize(
    ("balance", "least"), [("memory", "129 MB"), ("traffic", " MB in"), ("macs", "410 M MACs")]
)
def test_the_table_says_what_is_balanced(balance: str, least: str) -> None:
    text = output("lenet-c", "--stages", "3", "--balance", balance, "--hardware", "hmc")
    assert f"balanced by {balance}: " in unbroken(text)
    assert least in text


def test_json_is_the_plan_in_stages(tmp_path: Path) -> None:
    asked = ("--stages", "3", "--balance", "memory", "--schedule", "1f1b", "--hardware", "hmc")
    text = output("lenet-c", *asked, "--set", "overlap=full", "--json")
    (tmp_path / "plan.json").write_text(text)
    machine = load_machine("hmc", {"overlap": "full"})
    whole = plan_model("lenet-c", stages=3, levels=0, balance="memory", hardware=machine)
    assert read_plan("plan.json") == whole
    found = json.loads(text)
    held = [group["memory_bytes"] for group in found["score"]["groups"]]
    assert found["stages"]["bottleneck"] == max(held)
    assert CliRunner().invoke(main, ["check", "plan.json"]).exit_code == 0


def test_a_trace_and_a_plot_are_written() -> None:
    arguments = ("lenet-c", "--stages", "3", "--hardware", "hmc", "--trace", "t.json", "--plot", "p.png")
    result = run(*arguments)
    assert result.stderr == "wrote t.json\nwrote p.png\n"
    plan = pipeline_model("lenet-c", stages=3, hardware="hmc")
    check_step_trace(Path("t.json").read_text(encoding="utf-8"), run_plan(plan, hardware="hmc"))
    first = Path("p.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    assert run(*arguments).stdout == result.stdout
    assert Path("p.png").read_bytes() == first


def test_a_machine_without_memory_holds_anything() -> None:
    text = output("alexnet-2012", "--stages", "1", "--hardware", "eyeriss", "--batch", "4")
    assert "into 1 stage memory " in unbroken(text)
    assert "that fit" not in unbroken(text)


def test_data_parallelism_is_left_out_where_the_machine_has_no_such_array() -> None:
    assert "against" not in output("lenet-c", "--stages", "3", "--hardware", "hmc")
    notes = pipeline_notes(pipeline_model("lenet-c", stages=3, hardware="hmc"), None)
    assert [note.label for note in notes] == ["time", "order", "claim", "memory", "counted"]


VGG16 = ["vgg16", "--trace", "t.json", "--plot", "p.png", "--hardware", "hmc"]


HMC = ["--hardware", "hmc"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lenet-c", *HMC, "--stages", "0"], "stages: found 0; allowed: a whole number from 1 to 1,048,576, or best"),
        (["lenet-c", *HMC, "--stages", "-3"], "stages: found -3; allowed: a whole number from 1 to 1,048,576, or best"),
        (["lenet-c", *HMC, "--stages", "10"], "stages: found 10; allowed: 1 to 4, one for each layer that is cut"),
        (["resnet152", *VGG16[1:], "--stages", "17"], "hardware 'hmc': found an array of 17 devices (17); allowed: at most 16, all that it has"),
        ([*VGG16, "--batch", "4096"], "hardware 'hmc': no 4 stages fit 8.00 GB, the memory of a device; try more stages, or a smaller batch"),
        ([*VGG16, "--batch", "64", "--starts", "conv1_1,fc1"], "hardware 'hmc': found 18.9 GB in stage 1, from 'conv1_1' on; allowed: 8.00 GB, the memory of a device; try more stages, or a smaller batch"),
        ([*VGG16, "--starts", "conv1_1,conv9"], "starts: no layer is named 'conv9'; did you mean 'conv5_3'?"),
        ([*VGG16, "--starts", "conv1_1,fc1,fc01"], "starts: no layer is named 'fc01'; did you mean 'fc1'?"),
        ([*VGG16, "--starts", "conv1_1,pool1"], "starts: found 'pool1', which stays with the layer before it; allowed: layers that are cut, as 'conv2_1'"),
        ([*VGG16, "--starts", "conv1_1,prob"], None),
        ([*VGG16, "--starts", ""], "starts: no layer is named ''"),
        ([*VGG16, "--starts", "conv1_1,fc2,fc1"], "starts: found 'fc1' behind 'fc2'; allowed: first layers of stages, in the network's order"),
        ([*VGG16, "--starts", "conv1_1,fc1,fc1"], "starts: found 'fc1' behind 'fc1'; allowed: first layers of stages, in the network's order"),
        ([*VGG16, "--starts", "input,conv1_1"], "starts: found 'conv1_1' behind 'input'; allowed: first layers of stages, in the network's order"),
        ([*VGG16, "--starts", "fc1,fc2"], "starts: found 'fc1' first; allowed: 'conv1_1' first, as the network begins with it"),
        ([*VGG16, "--starts", "conv1_1,fc1", "--stages", "3"], "stages: found 3 and starts of 2; allowed: one of the two"),
        ([*VGG16, "--starts", "conv1_1,fc1", "--balance", "macs"], "starts: given together with a balance; allowed: one of the two"),
        ([*VGG16, "--balance", "speed"], "no balance 'speed'; allowed: time, memory, traffic, macs"),
        ([*VGG16, "--schedule", "1f2b"], "no schedule '1f2b'; allowed: layer-block, gpipe, 1f1b, interleaved; did you mean '1f1b'?"),
        ([*VGG16, "--microbatches", "4"], "microbatches: found 4; allowed: 1, as 'layer-block' takes whole mini-batches"),
        ([*VGG16, "--schedule", "gpipe", "--microbatches", "3"], "microbatches: found 3; allowed: a divisor of the batch 256"),
        ([*VGG16, "--schedule", "gpipe", "--microbatches", "0"], "microbatches: found 0; allowed: a whole number from 1 to 1,048,576"),
        ([*VGG16, "--schedule", "gpipe", "--batch", "65536", "--microbatches", "65536"], "microbatches: found 65,536; allowed: at most 6,553 in 4 stages"),
        (["vgg16"], "hardware: no machine is named; allowed: one, as --hardware hmc"),
        (["vgg16", "--balance", "macs"], "hardware: no machine is named; allowed: one, as --hardware hmc"),
        (["vgg16", "--plot", "p.png"], "hardware: no machine is named; allowed: one, as --hardware hmc"),
        (["vgg16", "--trace", "t.json"], "hardware: no machine is named; allowed: one, as --hardware hmc"),
        ([*VGG16, "--plot", "p.gif"], "plot: found the file 'p.gif'; allowed: a name that ends in .png, .svg, .pdf"),
        ([*VGG16, "--trace", "no/t.json"], "no/t.json: cannot be written: No such file or directory"),
        (["vgg16", "--set", "duplex=half"], "hardware: no machine is named; allowed: one, as --hardware hmc"),
        (["vgg16", "--hardware", "tpu-v2-v3", "--stages", "3"], "stages: found 3 where 'tpu-v2-v3' has 2 groups of identical devices; allowed: a multiple of 2"),
        ([*VGG16, "--optimizer", "lamb"], "no optimizer 'lamb'; allowed: sgd, momentum, adam; did you mean 'adam'?"),
        (["vgg61"], None),
    ],
    ids=lambda value: " ".join(value)[:120] if isinstance(value, list) else "",
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
    result = run("lenet-c", "--stages", HUGE, *HMC)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (3, "", 1)
    assert len(result.stderr) < 300


def test_one_file_for_both_is_a_usage_error() -> None:
    result = run("lenet-c", "--hardware", "hmc", "--plot", "a.png", "--trace", "a.png")
    assert result.exit_code == 2
    assert "--plot and --trace name one file" in result.stderr
    assert list(Path().iterdir()) == []
