"""The commands that need a machine: plan and compare with one, score, hardware, explore, sweep."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hypar import (
    load_machine,
    load_model,
    plan_model,
    read_plan,
    score_plan,
    sweep_model,
)
from hypar.cli.main import main
from hypar.machine.energy import whole_layers
from hypar.plan.records import GroupScore
from hypar.planning.replay import run_plan
from hypar.registry import data_folder, data_names
from hypar.reports.steps import step_notes
from hypar.reports.words import fit
from tests.kit import output, run
from tests.prose import unbroken
from tests.reports.test_trace import check_step_trace


def data(*arguments: str) -> Any:
    return json.loads(output(*arguments, "--json"))


def refusal(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 3
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    return result.stderr.removeprefix("error: ").rstrip()


@pytest.fixture
def plan(tmp_path: Path) -> str:
    file = tmp_path / "plan.json"
    plan_model("alexnet", levels=4).write(file)
    return str(file)


def test_score_prints_totals_and_items(plan: str) -> None:
    text = output("score", plan, "--hardware", "hmc")
    head = "alexnet on hmc: 379 ms a step, fits strategy hypar, batch 256, 16 devices (2x2x2x2)"
    assert unbroken(text).startswith(f"{head} time ")
    full = unbroken(output("score", plan, "--hardware", "hmc", "--full"))
    score = score_plan(plan, hardware="hmc")
    assert all(note.text in full for note in step_notes(read_plan(plan), score) if note.label != "time")
    for item in ("time 379 ms: forward", "energy 5.54 J: arithmetic", "on each device: weights"):
        assert item in unbroken(text)
    by_paper = unbroken(output("score", plan, "--hardware", "hmc", "--convention", "paper"))
    for item in (
        "time 357 ms: forward",
        "energy 5.52 J: arithmetic",
        "803 MB received by the convention 'paper'",
    ):
        assert item in by_paper
    assert "bytes counted by" not in by_paper
    assert data("score", plan, "--hardware", "hmc") == score_plan(plan, hardware="hmc").to_data()


def test_check_names_the_plan_whose_machine_is_wrong(tmp_path: Path) -> None:
    board, plan = tmp_path / "board.yaml", tmp_path / "p.json"
    text = (data_folder("hardware") / "hmc.yaml").read_text(encoding="utf-8")
    board.write_text(text, encoding="utf-8")
    run("plan", "lenet-c", "--hardware", str(board), "-o", str(plan))
    board.write_text(text.replace("GB/s", "GB/h"), encoding="utf-8")
    result = CliRunner().invoke(main, ["check", str(plan)])
    assert result.exit_code == 3
    lines = result.stderr.splitlines()
    assert [line for line in lines if not line.startswith(f"error: {plan}: ")] == []
    assert "board.yaml" in lines[0]


def test_check_finds_a_hardware_file_beside_the_plan(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text((Path(load_file("hmc"))).read_text(encoding="utf-8"), encoding="utf-8")
    file = tmp_path / "p.json"
    plan_model("lenet-c", levels=2, cost="time", hardware=own).write(file)
    assert output("check", str(file)).split() == ["ok", str(file)]
    moved = tmp_path / "elsewhere" / own.name
    moved.parent.mkdir()
    own.rename(moved)
    assert "no hardware 'mine'" in run("check", str(file)).stderr
    assert output("check", str(file), "--hardware", str(moved)).split() == ["ok", str(file)]


def load_file(name: str) -> str:
    return str(data_folder("hardware") / f"{name}.yaml")


def test_score_writes_a_trace_and_a_timeline(plan: str, tmp_path: Path) -> None:
    trace, table, picture = tmp_path / "t.json", tmp_path / "t.csv", tmp_path / "t.svg"
    output("score", plan, "--hardware", "hmc", "--set", "overlap=full", "--trace", str(trace))
    ran = run_plan(plan, hardware=load_machine("hmc", {"overlap": "full"}))
    check_step_trace(trace.read_text(encoding="utf-8"), ran)
    output("score", plan, "--hardware", "hmc", "--plot", str(table))
    rows = list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))
    assert [row["task"] for row in rows][:1] == ["conv1 forward"]
    output("score", plan, "--hardware", "hmc", "--plot", str(picture))
    assert picture.read_bytes().startswith(b"<svg ")


def test_compare_with_a_machine() -> None:
    text = output("compare", "alexnet", "--hardware", "hmc", "--strategy", "hypar")
    assert "received" in text
    rows = data("compare", "alexnet", "--hardware", "hmc", "--strategy", "hypar")
    assert all(row["plan"]["score"]["time_s"] > 0 for row in rows)
    times = [row["plan"]["score"]["time_s"] for row in rows]
    assert rows[1]["score_gains"]["time_s"] == times[0] / times[1]
    assert f" {times[0] / times[1]:.2f}x " in text
    assert "score_gains" not in data("compare", "alexnet", "--strategy", "hypar")[1]


def test_hardware_is_listed_shown_and_validated() -> None:
    text = output("hardware")
    assert all(name in text for name in data_names("hardware"))
    assert {row["hardware"] for row in data("hardware")} == set(data_names("hardware"))
    shown = output("hardware", "hmc")
    assert re.search(r"^device\.memory\.bandwidth +320 GB/s  HyPar", shown, re.MULTILINE)
    assert all(row["source"] for row in data("hardware", "hmc"))
    assert output("hardware", "hmc", "--validate") == "hmc: ok\n"
    assert "8.00 GB" in output("hardware", "hmc")
    assert "torus" in output("hardware", "hmc", "--set", "topology=torus")
    units = {row["what"]: row["unit"] for row in data("hardware", "h100-8x")}
    assert units["device.memory.bandwidth"] == "B/s"
    assert units["interconnect[0].latency"] == "s"
    assert units["assumptions.bandwidth"] == ""


def test_hardware_shows_how_layers_lie_on_a_device() -> None:
    rows = data("hardware", "eyeriss", "--model", "alexnet-2012", "--batch", "4")
    forward = [row for row in rows if row["phase"] == "forward" and row["layer"].startswith("conv")]
    assert [row["mapping"]["active"] for row in forward] == [154, 135, 156, 156, 156]
    assert "active" in output("hardware", "eyeriss", "--model", "alexnet-2012")


def test_hardware_shows_a_layer_on_a_device_of_each_group() -> None:
    rows = data("hardware", "tpu-v2-v3", "--model", "lenet-c", "--batch", "64")
    groups = dict.fromkeys(row["group"] for row in rows)
    assert [*groups] == ["tpu-v2", "tpu-v3"]
    machine = load_machine("tpu-v2-v3")
    for name, own, _ in machine.leaves():
        mine = [{key: row[key] for key in row if key != "group"} for row in rows if row["group"] == name]
        assert mine == whole_layers(own, load_model("lenet-c", batch=64))
    lines = output("hardware", "tpu-v2-v3", "--model", "lenet-c").splitlines()
    assert lines[2].split()[:3] == ["group", "layer", "phase"]


def test_explore_prints_the_fastest_points_first(tmp_path: Path) -> None:
    arguments = shlex.split("explore lenet-c --hardware hmc --inter-weight 0.5 --vary conv2 --vary fc1")
    picture = tmp_path / "p.png"
    text = output(*arguments, "--top", "2", "--plot", str(picture))
    assert "256 points, 254 of them not shown; the plan of hypar is number 2" in text
    assert picture.read_bytes().startswith(b"\x89PNG")
    points = data(*arguments)
    assert len(points) == 256
    assert [point["time_s"] for point in points] == sorted(point["time_s"] for point in points)
    rows = list(csv.DictReader(io.StringIO(output(*arguments, "--csv"))))
    assert [float(row["time_s"]) for row in rows] == [point["time_s"] for point in points]
    assert rows[0]["conv2 H1"] == "batch"


def test_sweep_takes_levels_batches_strategies_machines_and_changes(tmp_path: Path) -> None:
    picture = tmp_path / "p.pdf"
    arguments = ("sweep", "lenet-c", "--hardware", "hmc,tpu-v2", "--levels", "0..2", "--batch", "64,256")
    rows = data(*arguments, "--plot", str(picture))
    assert len(rows) == 2 * 3 * 2 * 2
    assert picture.read_bytes().startswith(b"%PDF")
    assert {row["batch"] for row in rows} == {64, 256}
    text = output(
        "sweep",
        "lenet-c",
        "--hardware",
        "hmc",
        "--vary",
        "link_bandwidth=1 Gb/s,2 Gb/s",
        "--vary",
        "bandwidth=link",
    )
    assert "link_bandwidth" in text
    assert "how many times faster than the first row\n" in text
    assert len(output(*arguments, "--csv").splitlines()) == 25


def test_a_combination_that_does_not_fit_does_not_end_a_sweep() -> None:
    rows = data("sweep", "lenet-c", "--hardware", "hmc,eyeriss", "--levels", "0,2,5", "--strategy", "dp")
    assert [row["time_s"] is not None for row in rows] == [True, True, False, True, False, False]
    assert "at most 16" in rows[2]["note"]
    refused = output("sweep", "lenet-c", "--hardware", "eyeriss", "--levels", "2")
    assert "found an array of 4 devices" in unbroken(refused)


def test_values_of_a_sweep_may_be_mappings() -> None:
    vary = "topology=h_tree,{name: torus, routing: dimension_ordered}"
    rows = data("sweep", "lenet-c", "--hardware", "hmc", "--vary", vary, "--strategy", "dp")
    assert [row["topology"] for row in rows] == ["h_tree", {"name": "torus", "routing": "dimension_ordered"}]
    assert rows[0]["time_s"] < rows[1]["time_s"]


def test_explore_tells_grids_apart() -> None:
    """One dim over all devices and over some of them are two choices."""
    asked = [
        "explore",
        "lenet-c",
        "--hardware",
        "p100-4x4",
        "--array",
        "4",
        "--strategy",
        "deepa",
        "--convention",
        "paper",
        "--vary",
        "fc1",
    ]
    points = data(*asked)
    texts = {point["fc1 H1"] for point in points}
    assert texts == {
        "batch", "batch2", "batch1", "out_channels", "out_channels2", "batch2 out_channels2",
    }  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(output(*asked, "--csv"))))
    assert [row["fc1 H1"] for row in rows] == [point["fc1 H1"] for point in points]
    own = next(point for point in points if point["own"])
    again = data(
        "plan",
        "lenet-c",
        "--hardware",
        "p100-4x4",
        "--array",
        "4",
        "--strategy",
        "deepa",
        "--pin",
        f"fc1={own['fc1 H1']}",
    )
    assert again["score"]["time_s"] == own["time_s"]


def test_explore_marks_what_does_not_fit() -> None:
    arguments = ("explore", "vgg-a", "--hardware", "hmc", "--levels", "1", "--batch", "1024", "--vary", "fc1")
    assert output(*arguments).count("  does not fit\n") == 2
    assert [point["fits"] for point in data(*arguments)] == [False, False]


def test_score_shows_how_each_piece_lies_on_a_device(plan: str) -> None:
    rows = data("score", plan, "--hardware", "hmc", "--layers")
    assert len(rows) == 3 * 8
    assert rows[0].keys() == {
        "layer",
        "phase",
        "time_s",
        "communication_s",
        "macs",
        "accesses",
        "mapping",
        "energy",
        "transfers",
    }
    score = data("score", plan, "--hardware", "hmc")
    forward = [row["time_s"] for row in rows if row["phase"] == "forward"]
    assert sum(forward) == pytest.approx(score["time"]["forward"])
    assert sum(row["communication_s"] for row in rows) == pytest.approx(score["time"]["communication"])
    assert "utilisation" in output("score", plan, "--hardware", "hmc", "--layers")


def test_a_score_keeps_the_plan_s_optimizer_and_takes_changes_of_its_machine(tmp_path: Path) -> None:
    file = str(tmp_path / "p.json")
    own = json.loads(
        output("plan", "lenet-c", "--hardware", "hmc", "--optimizer", "adam", "--json", "-o", file)
    )
    assert data("score", file) == own["score"]
    assert data("score", file, "--optimizer", "sgd")["memory"]["optimizer"] == 0
    changed = data("score", file, "--set", "overlap=full")
    assert changed["hardware_changes"] == {"overlap": "full"}
    assert changed["time_s"] < own["score"]["time_s"]


def test_a_name_with_dollars_is_no_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (data_folder("models") / "lenet-c.yaml").read_text(encoding="utf-8")
    Path("l$\\q$.yaml").write_text(text, encoding="utf-8")
    output("sweep", "l$\\q$.yaml", "--hardware", "hmc", "--levels", "1,2", "--plot", "s.png")
    output("plan", "l$\\q$.yaml", "--levels", "2", "-o", "p.json")
    output("score", "p.json", "--model", "l$\\q$.yaml", "--hardware", "hmc", "--plot", "t.png")


def test_a_sweep_without_any_score_is_still_drawn(tmp_path: Path) -> None:
    file = tmp_path / "x.svg"
    output("sweep", "lenet-c", "--hardware", "h100-8x", "--levels", "7", "--plot", str(file))
    assert file.is_file()


def test_scores_on_unlike_machines_differ_in_words_where_one_has_no_number(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    for file, topology in zip(files, ("h_tree", "torus"), strict=True):
        output(
            "plan",
            "lenet-c",
            "--levels",
            "2",
            "--hardware",
            "hmc",
            "--set",
            f"topology={topology}",
            "-o",
            file,
        )
    changes = {change["what"]: change for change in data("diff", *files)}
    assert changes["busy h_tree links"]["after"] == "none"
    assert changes["busy torus links"]["before"] == "none"
    assert changes["time_s"]["before"] < changes["time_s"]["after"]
    text = output("diff", *files)
    assert text.startswith("the choices are equal; the second is ")
    assert "hardware_changes topology  h_tree -> torus\n" in text
    parts = [what for what in changes if " " in what and not what.startswith("hardware_changes")]
    assert text.endswith(f"\nand {len(parts)} parts of these costs, which --json lists\n")


def test_whether_a_plan_fits_is_told_in_words(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    plan_model("lenet-c", levels=2, hardware="hmc").write(file)
    stored = json.loads(file.read_text(encoding="utf-8"))
    stored["score"]["fits"] = False
    file.write_text(json.dumps(stored), encoding="utf-8")
    assert "\nfits  no -> yes\n" in run("check", str(file)).stdout


def test_csv_and_json_exclude_each_other() -> None:
    for order in (("--csv", "--json"), ("--json", "--csv")):
        result = run("sweep", "lenet-c", "--hardware", "hmc", *order)
        assert result.exit_code == 2
        assert "--csv and --json exclude each other" in result.stderr


def test_values_of_a_sweep_add_up_and_count_once() -> None:
    rows = data(
        "sweep", "lenet-c", "--hardware", "hmc", "--strategy", "dp,dp", "--levels", "2,2",
        "--vary", "duplex=full", "--vary", "duplex=half,full",
    )  # fmt: skip
    assert [row["duplex"] for row in rows] == ["full", "half"]


def test_machines_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Two files of one name in two folders, one with half the bandwidth, and the one of them twice."""
    text = (data_folder("hardware") / "hmc.yaml").read_text(encoding="utf-8")
    machines = []
    for folder, total in (("a", "25.6 Gb/s"), ("b", "12.8 Gb/s")):
        file = tmp_path / folder / "own.yaml"
        file.parent.mkdir()
        file.write_text(text.replace("25.6 Gb/s, source", f"{total}, source"), encoding="utf-8")
        machines.append(load_machine(file))
    runs = sweep_model("lenet-c", hardware=[*machines, machines[0]], levels=2, strategy="dp")
    assert runs.varied == ("hardware",)
    fast, slow = (run.totals.time_s for run in runs if run.totals)
    assert fast < slow


def test_a_plan_is_drawn_as_a_grid(tmp_path: Path) -> None:
    picture = tmp_path / "p.svg"
    result = run("plan", "lenet-c", "--levels", "2", "--plot", str(picture))
    assert (result.exit_code, result.stderr) == (0, f"wrote {picture}\n")
    assert picture.read_text(encoding="utf-8").startswith("<svg ")
    assert refusal("plan", "lenet-c", "--plot", "p.gif").startswith("plot: found the file 'p.gif'; allowed: ")


def test_without_matplotlib_only_plots_are_refused(
    plan: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = refusal("score", plan, "--hardware", "hmc", "--plot", str(tmp_path / "t.png"))
    assert message == (
        "plot: matplotlib is not installed; allowed: a name that ends in .svg; pip install matplotlib"
    )
    assert "on hmc" in output("score", plan, "--hardware", "hmc")


class TestGrids:
    """What takes a plan takes one of grids, pools and idle devices too."""

    ASKED = ("--array", "16", "--strategy", "deepa", "--hardware", "p100-4x4")

    @pytest.fixture
    def grids(self, tmp_path: Path) -> str:
        file = str(tmp_path / "deepa.json")
        pins = ["--pin", "fc1=n2 c4", "--pin", "conv2=c1", "--pin", "conv1=n4h2w2", "--pin", "pool1=rep"]
        output("plan", "lenet-c", *self.ASKED, *pins, "-o", file)
        return file

    def test_score_layer_by_layer(self, grids: str) -> None:
        rows = data("score", grids, "--layers")
        assert [row["layer"] for row in rows] == [
            layer for layer in ("conv1", "conv2", "fc1", "fc2") for _ in range(3)
        ]
        macs = {row["layer"]: row["macs"] for row in rows}
        whole = {row["layer"]: row["macs"] for row in data("hardware", "p100-4x4", "--model", "lenet-c")}
        assert {layer: whole[layer] / macs[layer] for layer in macs} == {
            "conv1": 16, "conv2": 1, "fc1": 8, "fc2": read_plan(grids).devices("fc2"),
        }  # fmt: skip
        assert "efficiency" in output("score", grids, "--layers")


UNFIT = ("--batch", "8192", "--levels", "2", "--hardware", "h100-8x")
ANSWER = "vgg16 on h100-8x: 783 ms a step, does not fit (152 GB of 80.0 GB)"
NEEDS = "does not fit (152 GB of 80.0 GB)"


@pytest.mark.parametrize("fit", [(), ("--fit",)])
class TestAPlanThatDoesNotFit:
    """Says so first; with ``--fit`` it is a no."""

    def test_plan_score_and_show(self, fit: tuple[str, ...], tmp_path: Path) -> None:
        file = str(tmp_path / "p.json")
        asked = [
            ("plan", "vgg16", *UNFIT, "-o", file, *fit),
            ("score", file, *fit),
        ]
        for arguments in asked:
            result = run(*arguments)
            assert (result.exit_code, result.stdout.startswith(ANSWER)) == (len(fit), True)
        result = run("plan", "vgg16", *UNFIT, "--explain", "fc1", *fit)
        assert (result.exit_code, result.stdout.startswith("vgg16: ")) == (len(fit), True)
        assert f"\n\n{ANSWER}" in result.stdout
        assert ", as fast as dp, which does not fit either " in unbroken(result.stdout)
        layers = run("score", file, "--layers", *fit)
        assert (layers.exit_code, layers.stderr) == (len(fit), f"{NEEDS}\n")
        assert output("show", file).startswith(f"{ANSWER}\n")
        assert output("show", file, "--format", "markdown").startswith(f"**{ANSWER}**\n")
        assert "152\u202fGB of 80.0\u202fGB" in output("show", file, "--format", "html")

    def test_json_has_it_aside(self, fit: tuple[str, ...], tmp_path: Path) -> None:
        file = str(tmp_path / "p.json")
        result = run("plan", "vgg16", *UNFIT, "-o", file, "--json", *fit)
        assert (result.exit_code, json.loads(result.stdout)["score"]["fits"]) == (len(fit), False)
        assert NEEDS in result.stderr.splitlines()
        result = run("score", file, "--json", *fit)
        assert (result.exit_code, json.loads(result.stdout)["fits"]) == (len(fit), False)
        assert result.stderr == f"{NEEDS}\n"

    def test_compare_names_those_that_do_not(self, fit: tuple[str, ...]) -> None:
        asked = shlex.split("compare vgg16 --batch 4096 --levels 2 --hardware h100-8x --strategy mp")
        result = run(*asked, *fit)
        assert result.exit_code == len(fit)
        assert result.stdout.startswith("vgg16 on h100-8x: dp is fastest of those that fit\n")
        assert re.search(r"\nmp .* \d+ GB  does not fit\n", result.stdout)
        result = run(*asked, "--json", *fit)
        assert result.exit_code == len(fit)
        assert result.stderr.startswith("mp does not fit (")
        assert [row["plan"]["score"]["fits"] for row in json.loads(result.stdout)] == [True, False]


@pytest.mark.parametrize(
    ("command", "option"),
    [("export tests/golden/vgg16-hypar.json", "'-o' / '--output'"), ("explore lenet-c", "'--vary'")],
)
def test_a_missing_option_is_a_usage_error(command: str, option: str) -> None:
    result = run(*shlex.split(command))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1] == f"Error: Missing option {option}."


@pytest.mark.parametrize("command", ["plan", "compare"])
def test_fit_without_a_machine_is_a_usage_error(command: str) -> None:
    result = run(command, "lenet-c", "--fit")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1] == "Error: --fit needs --hardware"


def test_the_line_is_red_where_there_is_colour(tmp_path: Path) -> None:
    file = str(tmp_path / "p.json")
    run("plan", "vgg16", *UNFIT, "-o", file)
    for colour, start in (
        ({"FORCE_COLOR": "1"}, "\x1b[31m\x1b[1m"),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "\x1b[1m"),
        ({}, ""),
    ):
        result = CliRunner().invoke(
            main, ["score", file], env={"TERM": "xterm", "NO_COLOR": None, **colour}, color=True
        )
        assert result.stdout.startswith(f"{start}{ANSWER}")


def test_unlike_groups_and_amounts_that_look_alike() -> None:
    score = plan_model("lenet-c", levels=1, hardware="hmc").score
    assert score is not None
    group: dict[str, Any] = {"group": "a", "devices": 1, "computing_s": 0, "communicating_s": 0, "idle_s": 0}
    full = GroupScore(**group, memory_bytes=80_000_000_001, capacity_bytes=80e9, fits=False)
    fine = GroupScore(**{**group, "group": "b"}, memory_bytes=1, capacity_bytes=80e9, fits=True)
    told = fit(score.model_copy(update={"fits": False, "groups": [fine, full]}))
    assert told == "does not fit (80,000,000,001 B of 80,000,000,000 B on a)"
    assert fit(score) == "fits"
