"""``hypar pipeline``: what it prints and writes, and what it refuses in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hypar import pipeline_model, plan_model
from hypar.cli.main import main
from hypar.planning.replay import run_plan
from hypar.reports.listings.pipelines import pipeline_notes
from tests.prose import unbroken
from tests.reports.test_traces import check_step_trace

pytestmark = pytest.mark.usefixtures("folder")


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


def test_one_file_for_both_is_a_usage_error() -> None:
    result = run("lenet-c", "--hardware", "hmc", "--plot", "a.png", "--trace", "a.png")
    assert result.exit_code == 2
    assert "--plot and --trace name one file" in result.stderr
    assert list(Path().iterdir()) == []
