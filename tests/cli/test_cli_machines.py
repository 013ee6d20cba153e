"""What commands on machines print and write, beside what pages show and tests/reports has."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hypar import load_machine, load_model, plan_model, read_plan, score_plan
from hypar.cli.main import main
from hypar.machine.setting import whole_layers
from hypar.plan.records import GroupScore
from hypar.planning.replay import run_plan
from hypar.registry import data_file, data_names
from hypar.reports.words import fit
from tests.kit import data, known, output, run
from tests.prose import unbroken
from tests.reports.test_trace import check_step_trace

pytestmark = pytest.mark.usefixtures("folder")


def test_check_names_the_plan_whose_machine_is_wrong() -> None:
    text = data_file("hardware", "hmc").read_text(encoding="utf-8")
    Path("board.yaml").write_text(text, encoding="utf-8")
    output("plan", "lenet-c", "--hardware", "board.yaml", "-o", "p.json")
    Path("board.yaml").write_text(text.replace("GB/s", "GB/h"), encoding="utf-8")
    result = run("check", "p.json")
    assert result.exit_code == 3
    assert all(line.startswith("error: p.json: board.yaml") for line in result.stderr.splitlines())


@pytest.mark.parametrize(
    ("command", "begins"),
    [
        ("plan lenet-c --levels 2 --plot f.svg", b"<svg "),
        ("score p.json --plot f.svg", b"<svg "),
        ("score p.json --plot f.csv", b"task,"),
        ("explore lenet-c --hardware hmc --vary fc1 --top 2 --plot f.png", b"\x89PNG"),
        ("sweep lenet-c --hardware hmc,tpu-v2 --levels 0..2 --batch 64,256 --plot f.pdf", b"%PDF"),
        # No combination has a score.
        ("sweep lenet-c --hardware h100-8x --levels 7 --plot f.svg", b"<svg "),
    ],
)
def test_a_plot_is_what_its_ending_says(command: str, begins: bytes) -> None:
    plan_model("lenet-c", levels=2, hardware="hmc").write("p.json")
    result = run(*command.split())
    file = command.rsplit(maxsplit=1)[-1]
    assert (result.exit_code, result.stderr) == (0, f"wrote {file}\n")
    assert Path(file).read_bytes().startswith(begins)


def test_score_writes_a_trace() -> None:
    plan_model("alexnet", levels=4).write("p.json")
    output("score", "p.json", "--hardware", "hmc", "--set", "overlap=full", "--trace", "t.json")
    ran = run_plan("p.json", hardware=load_machine("hmc", {"overlap": "full"}))
    check_step_trace(Path("t.json").read_text(encoding="utf-8"), ran)


def test_hardware_is_listed_shown_and_validated() -> None:
    assert {row["hardware"] for row in data("hardware")} == {*data_names("hardware")}
    assert all(row["source"] for row in data("hardware", "hmc"))
    assert output("hardware", "hmc", "--validate") == "hmc: ok\n"
    assert "torus" in output("hardware", "hmc", "--set", "topology=torus")
    units = {row["what"]: row["unit"] for row in data("hardware", "h100-8x")}
    places = ("device.memory.bandwidth", "interconnect[0].latency", "assumptions.bandwidth")
    assert [units[place] for place in places] == ["B/s", "s", ""]


def test_hardware_shows_how_layers_lie_on_a_device_of_each_group() -> None:
    rows = data("hardware", "eyeriss", "--model", "alexnet-2012", "--batch", "4")
    forward = [row for row in rows if row["phase"] == "forward" and row["layer"].startswith("conv")]
    assert [row["mapping"]["active"] for row in forward] == [154, 135, 156, 156, 156]
    rows = data("hardware", "tpu-v2-v3", "--model", "lenet-c", "--batch", "64")
    leaves = [*load_machine("tpu-v2-v3").leaves()]
    assert [*dict.fromkeys(row["group"] for row in rows)] == [name for name, *_ in leaves]
    for name, own, _ in leaves:
        mine = [{key: row[key] for key in row if key != "group"} for row in rows if row["group"] == name]
        assert mine == whole_layers(own, load_model("lenet-c", batch=64))


def test_a_combination_that_does_not_fit_does_not_end_a_sweep() -> None:
    rows = data("sweep", "lenet-c", "--hardware", "hmc,eyeriss", "--levels", "0,2,5", "--strategy", "dp")
    assert [row["time_s"] is not None for row in rows] == [True, True, False, True, False, False]
    assert "at most 16" in rows[2]["note"]


def test_values_of_a_sweep_add_up_count_once_and_may_be_mappings() -> None:
    asked = ("sweep", "lenet-c", "--hardware", "hmc", "--strategy", "dp,dp", "--levels", "2,2")
    rows = data(*asked, "--vary", "duplex=full", "--vary", "duplex=half,full")
    assert [row["duplex"] for row in rows] == ["full", "half"]
    torus = {"name": "torus", "routing": "dimension_ordered"}
    rows = data(*asked, "--vary", "topology=h_tree,{name: torus, routing: dimension_ordered}")
    assert [row["topology"] for row in rows] == ["h_tree", torus]


def test_explore_tells_grids_apart() -> None:
    """One dim over all devices and over some of them are two choices."""
    asked = ("lenet-c", "--hardware", "p100-4x4", "--array", "4", "--strategy", "deepa")
    points = data("explore", *asked, "--convention", "paper", "--vary", "fc1")
    texts = ("batch", "batch2", "batch1", "out_channels", "out_channels2", "batch2 out_channels2")
    assert {point["fc1 H1"] for point in points} == {*texts}
    own = next(point for point in points if point["own"])
    assert data("plan", *asked, "--pin", f"fc1={own['fc1 H1']}")["score"]["time_s"] == own["time_s"]


def test_score_shows_how_each_piece_lies_on_a_device() -> None:
    """Of grids, pools and idle devices too."""
    plan_model("lenet-c", levels=2, hardware="hmc").write("p.json")
    rows, score = data("score", "p.json", "--layers"), data("score", "p.json")
    assert score == score_plan("p.json", hardware="hmc").to_data()
    keys = "layer phase time_s communication_s macs accesses mapping energy transfers"
    assert {*rows[0]} == {*keys.split()}
    forward = [row["time_s"] for row in rows if row["phase"] == "forward"]
    assert sum(forward) == pytest.approx(score["time"]["forward"])
    assert sum(row["communication_s"] for row in rows) == pytest.approx(score["time"]["communication"])
    pins = ["fc1=n2 c4", "conv2=c1", "conv1=n4h2w2", "pool1=rep"]
    plan_model("lenet-c", array=[16], strategy="deepa", hardware="p100-4x4", pins=pins).write("p.json")
    macs = {row["layer"]: row["macs"] for row in data("score", "p.json", "--layers")}
    whole = {row["layer"]: row["macs"] for row in data("hardware", "p100-4x4", "--model", "lenet-c")}
    pieces = {layer: whole[layer] / own for layer, own in macs.items()}
    assert pieces == {"conv1": 16, "conv2": 1, "fc1": 8, "fc2": read_plan("p.json").devices("fc2")}


def test_a_score_keeps_the_plan_s_optimizer_and_takes_changes_of_its_machine() -> None:
    own = data("plan", "lenet-c", "--hardware", "hmc", "--optimizer", "adam", "-o", "p.json")
    assert data("score", "p.json") == own["score"]
    assert data("score", "p.json", "--optimizer", "sgd")["memory"]["optimizer"] == 0
    changed = data("score", "p.json", "--set", "overlap=full")
    assert changed["hardware_changes"] == {"overlap": "full"}
    assert changed["time_s"] < own["score"]["time_s"]


UNFIT = ("--batch", "8192", "--levels", "2", "--hardware", "h100-8x")
NEEDS = "does not fit (152 GB of 80.0 GB)"
ANSWER = f"vgg16 on h100-8x: 783 ms a step, {NEEDS}"


@pytest.mark.parametrize("fits", [(), ("--fit",)], ids=["told", "a no"])
def test_a_plan_that_does_not_fit_says_so_first(fits: tuple[str, ...]) -> None:
    """With ``--fit`` it is a no; what is read by programs has it aside."""
    for asked in (["plan", "vgg16", *UNFIT, "-o", "p.json"], ["score", "p.json"]):
        result = run(*asked, *fits)
        assert (result.exit_code, result.stdout.startswith(ANSWER)) == (len(fits), True)
        result = run(*asked, "--json", *fits)
        score = json.loads(result.stdout)
        assert (result.exit_code, score.get("score", score)["fits"]) == (len(fits), False)
        assert NEEDS in result.stderr.splitlines()
    result = run("plan", "vgg16", *UNFIT, "--explain", "fc1", *fits)
    assert (result.exit_code, result.stdout.startswith("vgg16: ")) == (len(fits), True)
    assert (
        f"\n\n{ANSWER}, as fast as dp, which does not fit either "
        in f"\n\n{unbroken(result.stdout[result.stdout.index(ANSWER) :])}"
    )
    layers = run("score", "p.json", "--layers", *fits)
    assert (layers.exit_code, layers.stderr) == (len(fits), f"{NEEDS}\n")
    assert output("show", "p.json", "--format", "markdown").startswith(f"**{ANSWER}**\n")


@pytest.mark.parametrize("fits", [(), ("--fit",)], ids=["told", "a no"])
def test_compare_names_those_that_do_not_fit(fits: tuple[str, ...]) -> None:
    asked = shlex.split("compare vgg16 --batch 4096 --levels 2 --hardware h100-8x --strategy mp")
    result = run(*asked, *fits)
    assert (result.exit_code, result.stdout.count("  does not fit\n")) == (len(fits), 1)
    assert result.stdout.startswith("vgg16 on h100-8x: dp is fastest of those that fit\n")
    result = run(*asked, "--json", *fits)
    assert result.exit_code == len(fits)
    assert result.stderr.startswith("mp does not fit (")
    assert [row["plan"]["score"]["fits"] for row in json.loads(result.stdout)] == [True, False]


@pytest.mark.parametrize(
    ("colour", "start"),
    [({"FORCE_COLOR": "1"}, "\x1b[31m\x1b[1m"), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "\x1b[1m"), ({}, "")],
)
def test_the_line_is_red_where_there_is_colour(colour: dict[str, str], start: str) -> None:
    env = {"TERM": "xterm", "NO_COLOR": None, **colour}
    result = CliRunner().invoke(main, ["plan", "vgg16", *UNFIT], env=env, color=True)
    assert result.stdout.startswith(f"{start}{ANSWER}")


def test_amounts_that_look_alike_are_told_apart() -> None:
    score = plan_model("lenet-c", levels=1, hardware="hmc").score
    group: dict[str, Any] = {"group": "a", "devices": 1, "computing_s": 0, "communicating_s": 0, "idle_s": 0}
    full = GroupScore(**group, memory_bytes=80_000_000_001, capacity_bytes=80e9, fits=False)
    fine = GroupScore(**{**group, "group": "b"}, memory_bytes=1, capacity_bytes=80e9, fits=True)
    told = fit(known(score).model_copy(update={"fits": False, "groups": [fine, full]}))
    assert told == "does not fit (80,000,000,001 B of 80,000,000,000 B on a)"
