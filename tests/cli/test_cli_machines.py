"""The commands that need a machine: plan and compare with one, score, hardware, explore, sweep."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hypar import (
    check_plan,
    load_heterogeneous,
    load_machine,
    load_model,
    plan_model,
    read_plan,
    score_plan,
    sweep_model,
)
from hypar.cli.main import main
from hypar.errors import OptionError
from hypar.plan.score import GroupScore, Totals
from hypar.planning.replay import run_plan
from hypar.registry import data_folder, data_names
from hypar.reports.formats.base import unfit_line
from hypar.reports.formats.tabular.notes import score_notes
from hypar.reports.listings.machines import whole_times_data
from hypar.studies.sweep import varied
from tests.prose import unbroken
from tests.reports.test_traces import check_step_trace


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def output(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def data(*arguments: str) -> Any:
    return json.loads(output(*arguments, "--json"))


def refusal(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 3
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    return result.stderr.removeprefix("error: ").rstrip()


def test_reproduce_names_the_script() -> None:
    result = run("reproduce", "hypar", "-o", "pages")
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.endswith("of the repository: python examples/papers/run.py hypar -o pages")


@pytest.fixture
def plan(tmp_path: Path) -> str:
    file = tmp_path / "plan.json"
    plan_model("alexnet", levels=4).write(file)
    return str(file)


def test_plan_with_a_machine_adds_the_score() -> None:
    text = output("plan", "lenet-c", "--hardware", "hmc")
    plan = plan_model("lenet-c", hardware="hmc")
    assert plan.score is not None
    for label, line in score_notes(plan, plan.score):
        assert f"{label} {line}" in unbroken(text)
    asked = ("--hardware", "hmc", "--optimizer", "adam", "--set", "duplex=half", "--convention", "paper")
    stored = data("plan", "lenet-c", *asked)
    assert stored["score"]["hardware"] == "hmc"
    assert stored["score"]["hardware_changes"] == {"duplex": "half"}
    assert stored["score"]["optimizer"] == "adam"
    assert stored["score"]["communication_bytes"] == stored["cost"]["value"]
    assert "score" not in data("plan", "lenet-c")


def test_plan_refined_says_what_it_gained() -> None:
    result = output(
        "plan", "alexnet", "--hardware", "hmc", "--set", "overlap=full", "--cost", "time", "--refine"
    )
    assert "; then refined" in unbroken(result)
    assert "refined 1 choice by the engine's time" in unbroken(result)


def test_words_and_elements_of_other_sizes_are_said() -> None:
    assert "elements are 4 B, words of h100-8x 2 B" in unbroken(
        output("plan", "lenet-c", "--hardware", "h100-8x")
    )


def test_score_prints_totals_and_items(plan: str) -> None:
    text = output("score", plan, "--hardware", "hmc")
    notes = score_notes(read_plan(plan), score_plan(plan, hardware="hmc"))
    head = "alexnet on hmc: 379 ms a step strategy hypar, batch 256, 16 devices (2x2x2x2)"
    moves = "bytes counted by paper: 803 MB; a correct execution moves 875 MB"
    untimed = "machine no weights, so not timed: relu, pointwise, pool, dropout, softmax"
    assert unbroken(text) == " ".join([head, *(part for note in notes for part in note), moves, untimed])
    for item in ("time 379 ms: forward", "energy 5.54 J: arithmetic", "on each device: weights"):
        assert item in unbroken(text)
    by_paper = unbroken(output("score", plan, "--hardware", "hmc", "--convention", "paper"))
    for item in (
        "time 357 ms: forward",
        "energy 5.52 J: arithmetic",
        "803 MB of communication, counted by paper",
    ):
        assert item in by_paper
    assert "bytes counted by" not in by_paper
    assert data("score", plan, "--hardware", "hmc") == score_plan(plan, hardware="hmc").to_data()


def test_a_plan_with_a_score_is_scored_on_its_own_machine_again(tmp_path: Path) -> None:
    file = str(tmp_path / "p.json")
    output("plan", "lenet-c", "--hardware", "hmc", "--set", "topology=torus", "-o", file)
    assert "on hmc topology=torus: " in output("score", file)
    assert output("check", file) == f"ok       {file}\n"


def test_check_tells_a_score_that_drifted(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    plan_model("lenet-c", levels=2, hardware="hmc").write(file)
    stored = json.loads(file.read_text(encoding="utf-8"))
    stored["score"]["time_s"] *= 2
    stored["score"]["hardware_digest"] = "sha256:0"
    file.write_text(json.dumps(stored), encoding="utf-8")
    result = run("check", str(file))
    assert result.exit_code == 1
    assert "  time  " in result.stdout
    assert "-50%\n" in result.stdout
    assert "hmc sha256:0 -> hmc sha256:" in result.stdout


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
    assert output("check", str(file)) == f"ok       {file}\n"
    moved = tmp_path / "elsewhere" / own.name
    moved.parent.mkdir()
    own.rename(moved)
    assert "no hardware 'mine'" in run("check", str(file)).stderr
    assert output("check", str(file), "--hardware", str(moved)) == f"ok       {file}\n"


def load_file(name: str) -> str:
    return str(data_folder("hardware") / f"{name}.yaml")


def test_score_writes_a_trace_and_a_timeline(plan: str, tmp_path: Path) -> None:
    trace, table, picture = tmp_path / "t.json", tmp_path / "t.csv", tmp_path / "t.svg"
    output("score", plan, "--hardware", "hmc", "--set", "overlap=full", "--trace", str(trace))
    ran = run_plan(plan, hardware=load_machine("hmc", {"overlap": "full"}))
    check_step_trace(trace.read_text(encoding="utf-8"), ran)
    output("score", plan, "--hardware", "hmc", "--timeline", str(table))
    rows = list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))
    assert [row["task"] for row in rows][:1] == ["conv1 forward"]
    output("score", plan, "--hardware", "hmc", "--timeline", str(picture))
    first = picture.read_bytes()
    output("score", plan, "--hardware", "hmc", "--timeline", str(picture))
    assert picture.read_bytes() == first


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
    assert re.search(r"^device\.memory\n  capacity .*\n  bandwidth +320 GB/s  HyPar", shown, re.MULTILINE)
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
    machine = load_heterogeneous("tpu-v2-v3")
    for name, own, _ in machine.identical():
        mine = [{key: row[key] for key in row if key != "group"} for row in rows if row["group"] == name]
        assert mine == whole_times_data(own, load_model("lenet-c", batch=64))
    assert output("hardware", "tpu-v2-v3", "--model", "lenet-c").split()[:3] == ["group", "layer", "phase"]


def test_explore_prints_the_fastest_points_first(tmp_path: Path) -> None:
    arguments = (
        "explore",
        "lenet-c",
        "--hardware",
        "hmc",
        "--inter-weight",
        "0.5",
        "--vary",
        "conv2",
        "--vary",
        "fc1",
    )
    picture = tmp_path / "p.png"
    text = output(*arguments, "--top", "2", "--plot", str(picture))
    assert "256 points; the plan of hypar is number 2" in text
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
    assert "gain  the time of the first row of the same batch over the row's" in text
    assert len(output(*arguments, "--csv").splitlines()) == 25


def test_sweep_and_plan_agree_unless_the_machine_is_scaled() -> None:
    (row,) = data("sweep", "vgg-a", "--hardware", "hmc", "--levels", "2", "--strategy", "hypar")
    (scaled,) = data("sweep", "vgg-a", "--hardware", "hmc", "--levels", "2", "--strategy", "hypar", "--scale")
    assert row["time_s"] == data("plan", "vgg-a", "--levels", "2", "--hardware", "hmc")["score"]["time_s"]
    assert scaled["time_s"] < row["time_s"]


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
    assert output(*arguments).count("too big\n") == 2
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


def test_a_plot_is_refused_before_the_work(tmp_path: Path) -> None:
    message = refusal(
        "explore", "vgg16", "--hardware", "hmc", "--vary", "*", "--plot", str(tmp_path / "p.gif")
    )
    assert message.startswith("plot: found the file")


def test_sweep_says_what_does_not_fit() -> None:
    assert "does not fit" in output(
        "sweep", "vgg-a", "--hardware", "hmc", "--levels", "0,1", "--strategy", "dp"
    )


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


def test_a_score_of_another_network_is_refused(tmp_path: Path) -> None:
    plan_model("lenet-c", levels=2).write(tmp_path / "p.json")
    text = (data_folder("models") / "lenet-c.yaml").read_text(encoding="utf-8").replace("500", "5000")
    (tmp_path / "lenet-c.yaml").write_text(text, encoding="utf-8")
    message = refusal("score", str(tmp_path / "p.json"), "--hardware", "hmc")
    assert "model 'lenet-c' is not what was planned" in message


def test_nothing_is_written_where_one_file_cannot_be(plan: str, tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    for timeline in ("t.x", "nodir/t.csv", "nodir/t.png"):
        message = refusal(
            "score", plan, "--hardware", "hmc", "--trace", str(trace), "--timeline", str(tmp_path / timeline)
        )
        assert "cannot be written" in message or "a name that ends in" in message
    assert not trace.exists()


def test_a_name_with_dollars_is_no_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (data_folder("models") / "lenet-c.yaml").read_text(encoding="utf-8")
    Path("l$\\q$.yaml").write_text(text, encoding="utf-8")
    output("sweep", "l$\\q$.yaml", "--hardware", "hmc", "--levels", "1,2", "--plot", "s.png")
    output("plan", "l$\\q$.yaml", "--levels", "2", "-o", "p.json")
    output("score", "p.json", "--model", "l$\\q$.yaml", "--hardware", "hmc", "--timeline", "t.png")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("score", "optimizer"), "zz"), (("score", "time_s"), -1), (("score", "memory", "weights"), "x"),
        (("score", "fits"), "no"), (("score", "energy"), 3), (("refined", "changed"), -1),
    ],
)  # fmt: skip
def test_a_score_that_is_none_is_refused(place: tuple[str, ...], value: object, tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    plan_model("lenet-c", levels=2, hardware="hmc", refine=True).write(file)
    stored = json.loads(file.read_text(encoding="utf-8"))
    inner = stored
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    file.write_text(json.dumps(stored), encoding="utf-8")
    assert f": {'.'.join(place)}: found" in refusal("show", str(file))


@pytest.mark.parametrize(
    "place", [("score", "memory", "weights"), ("score", "busy", "devices"), ("refined", "before_s")]
)
def test_check_tells_every_number_of_a_score_that_differs(place: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    plan_model("lenet-c", levels=2, hardware="hmc", refine=True).write(file)
    stored = json.loads(file.read_text(encoding="utf-8"))
    inner = stored
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = 77
    file.write_text(json.dumps(stored), encoding="utf-8")
    result = run("check", str(file))
    assert result.exit_code == 1
    (change,) = check_plan(file).changes
    assert str(change).startswith(f"plan {' '.join(place[1:])}: 77 -> ")
    assert f"\n           {' '.join(place[1:])}  77.0 s -> " in result.stdout.replace("77 B", "77.0 s")


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
    assert "  fits  no -> yes\n" in run("check", str(file)).stdout


def test_explore_and_plan_agree_to_the_last_digit() -> None:
    arguments = (
        "lenet-c",
        "--array",
        "6",
        "--batch",
        "7",
        "--hardware",
        "hmc",
        "--set",
        "devices=6",
        "--set",
        "topology=torus",
    )
    own = next(point for point in data("explore", *arguments, "--vary", "fc1") if point["own"])
    score = data("plan", *arguments)["score"]
    assert {name: own[name] for name in Totals._fields} == {name: score[name] for name in Totals._fields}


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


def test_sweep_of_python_takes_machines_and_single_values() -> None:
    machine = load_machine("hmc")
    (run_,) = sweep_model("lenet-c", hardware=machine, levels=2, strategy="dp")
    assert run_.totals is not None
    with pytest.raises(OptionError, match="found a loaded machine, to be changed in duplex"):
        sweep_model("lenet-c", hardware=machine, changes={"duplex": "half"})
    (changed,) = sweep_model("lenet-c", hardware="hmc", levels=2, strategy="dp", changes={"duplex": "half"})
    assert changed.totals is not None
    assert changed.totals.time_s > run_.totals.time_s


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
    assert list(varied(runs)) == ["hardware"]
    fast, slow = (run.totals.time_s for run in runs if run.totals)
    assert fast < slow


def test_a_plan_is_drawn_as_a_grid(tmp_path: Path) -> None:
    picture = tmp_path / "p.svg"
    result = run("plan", "lenet-c", "--levels", "2", "--plot", str(picture))
    assert (result.exit_code, result.stderr) == (0, f"wrote {picture}\n")
    assert picture.read_text(encoding="utf-8").startswith("<?xml")
    assert refusal("plan", "lenet-c", "--plot", "p.gif").startswith("plot: found the file 'p.gif'; allowed: ")


@pytest.mark.parametrize("ending", ["gif", "txt", ""])
def test_a_plot_has_a_picture_s_ending(ending: str, plan: str, tmp_path: Path) -> None:
    file = tmp_path / f"p.{ending}"
    message = refusal("score", plan, "--hardware", "hmc", "--timeline", str(file))
    assert message.endswith("allowed: a name that ends in .png, .svg, .pdf, .csv")
    assert not file.exists()


def test_without_matplotlib_only_plots_are_refused(
    plan: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = refusal("score", plan, "--hardware", "hmc", "--timeline", str(tmp_path / "t.png"))
    assert message == "plot: matplotlib is not installed; pip install matplotlib"
    assert "on hmc" in output("score", plan, "--hardware", "hmc")


def test_a_damaged_score_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    plan_model("lenet-c", levels=2, hardware="hmc").write(file)
    stored = json.loads(file.read_text(encoding="utf-8"))
    stored["score"]["time_s"] = "fast"
    file.write_text(json.dumps(stored), encoding="utf-8")
    assert (
        refusal("show", str(file))
        == f"{file}: score.time_s: found 'fast'; allowed: a whole number or a number"
    )


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

    def test_score_draws_and_traces(self, grids: str, tmp_path: Path) -> None:
        trace, table = tmp_path / "t.json", tmp_path / "t.csv"
        output("score", grids, "--trace", str(trace), "--timeline", str(table))
        ran = run_plan(grids)
        timeline = ran.timeline
        check_step_trace(trace.read_text(encoding="utf-8"), ran)
        rows = list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))
        assert [row["task"] for row in rows] == [task.name for task in timeline.tasks]
        assert {"pool1 forward all_gather H1", "pool2 backward reduce_scatter H1"} <= {
            row["task"] for row in rows
        }
        assert float(rows[-1]["end_s"]) == timeline.makespan == pytest.approx(read_plan(grids).cost.value)

    def test_score_on_another_machine(self, grids: str) -> None:
        own, other = data("score", grids), data("score", grids, "--hardware", "hmc")
        assert other["communication_bytes"] == own["communication_bytes"]
        assert other["memory_bytes"] == own["memory_bytes"]
        assert (own["energy_j"], other["energy_j"] > 0) == (None, True)

    @pytest.mark.parametrize("mode", ["exact", "serial"])
    def test_check_and_show(self, mode: str, tmp_path: Path) -> None:
        file = str(tmp_path / "plan.json")
        output("plan", "lenet-c", *self.ASKED, "--mode", mode, "-o", file)
        assert output("check", file) == f"ok       {file}\n"
        assert output("show", file) == str(read_plan(file))
        assert output("diff", file, file) == "the plans are equal\n"

    def test_refine(self) -> None:
        asked = {"array": [4], "strategy": "deepa", "hardware": load_machine("p100-4x4", {"overlap": "full"})}
        plan = plan_model("lenet-c", refine=True, pins="conv1=n2 h2", **asked)  # type: ignore[arg-type]
        assert plan.refined is not None
        assert plan.score is not None
        assert plan.refined.after_s == plan.score.time_s <= plan.refined.before_s
        assert plan.choices("conv1")[0].text(4) == "batch2 height2"
        free = plan_model("lenet-c", refine=True, pins="*=n1", space="all", **asked)  # type: ignore[arg-type]
        assert free.refined is not None
        assert free.refined.changed == 0

    def test_explore(self) -> None:
        asked = ("explore", "lenet-c", *self.ASKED, "--convention", "paper", "--vary", "conv1")
        points = data(*asked)
        assert len(points) == 70
        (own,) = [point for point in points if point["own"]]
        assert (
            own["time_s"]
            == points[0]["time_s"]
            == pytest.approx(data("plan", "lenet-c", *self.ASKED)["cost"]["value"], rel=1e-9)
        )
        assert len({point["conv1 H1"] for point in points}) == 70
        assert "70 points" in output(*asked)
        assert len(data("explore", "lenet-c", *self.ASKED, "--vary", "pool1")) == 68

    def test_compare_and_sweep(self) -> None:
        rows = data("compare", "lenet-c", "--array", "4", "--strategy", "deepa", "--hardware", "p100-4x4")
        assert [row["strategy"] for row in rows] == ["dp", "deepa"]
        assert rows[1]["plan"]["graph"] == "operators"
        assert rows[1]["score_gains"]["time_s"] >= 1
        runs = data(
            "sweep", "lenet-c", "--hardware", "p100-4x4", "--levels", "0..2", "--strategy", "dp,deepa"
        )
        times = {(row["strategy"], row["levels"]): row["time_s"] for row in runs}
        assert times["deepa", 0] == times["dp", 0]
        assert times["deepa", 1] <= times["dp", 1]


UNFIT = ("--batch", "8192", "--levels", "2", "--hardware", "h100-8x")
NEEDS = "does not fit h100-8x: a device needs 152 GB and has 80.0 GB"


@pytest.mark.parametrize("fit", [(), ("--fit",)])
class TestAPlanThatDoesNotFit:
    """Says so first; with ``--fit`` it is a no."""

    def test_plan_score_and_show(self, fit: tuple[str, ...], tmp_path: Path) -> None:
        file = str(tmp_path / "p.json")
        asked = [
            ("plan", "vgg16", *UNFIT, "-o", file, *fit),
            ("score", file, *fit),
            ("score", file, "--layers", *fit),
        ]
        for arguments in [*asked, ("plan", "vgg16", *UNFIT, "--explain", "fc1", *fit)]:
            result = run(*arguments)
            assert (result.exit_code, result.stdout.splitlines()[0]) == (len(fit), NEEDS)
        assert output("show", file).splitlines()[0] == NEEDS
        assert output("show", file, "--format", "markdown").startswith(f"**{NEEDS}**\n\n**vgg16")
        assert f"<strong>{NEEDS}</strong>" in output("show", file, "--format", "html")

    def test_json_has_it_aside(self, fit: tuple[str, ...], tmp_path: Path) -> None:
        file = str(tmp_path / "p.json")
        result = run("plan", "vgg16", *UNFIT, "-o", file, "--json", *fit)
        assert (result.exit_code, json.loads(result.stdout)["score"]["fits"]) == (len(fit), False)
        assert NEEDS in result.stderr.splitlines()
        result = run("score", file, "--json", *fit)
        assert (result.exit_code, json.loads(result.stdout)["fits"]) == (len(fit), False)
        assert result.stderr == f"{NEEDS}\n"

    def test_compare_names_those_that_do_not(self, fit: tuple[str, ...]) -> None:
        asked = [
            "compare",
            "vgg16",
            "--batch",
            "4096",
            "--levels",
            "2",
            "--hardware",
            "h100-8x",
            "--strategy",
            "mp",
        ]
        result = run(*asked, *fit)
        first, second, *_ = result.stdout.splitlines()
        assert result.exit_code == len(fit)
        assert first.startswith("mp does not fit h100-8x: a device needs ")
        assert second == "vgg16 on h100-8x: dp is fastest"
        assert "mp" in result.stdout.split("too big")[0].splitlines()[-1]
        result = run(*asked, "--json", *fit)
        assert (result.exit_code, result.stderr) == (len(fit), f"{first}\n")
        assert [row["plan"]["score"]["fits"] for row in json.loads(result.stdout)] == [True, False]


def test_a_plan_that_fits_says_nothing_of_it(tmp_path: Path) -> None:
    file = str(tmp_path / "p.json")
    asked = ["lenet-c", "--levels", "2", "--hardware", "hmc", "--fit"]
    for arguments in (["plan", *asked, "-o", file], ["compare", *asked], ["score", file, "--fit"]):
        assert "does not fit" not in output(*arguments)


@pytest.mark.parametrize("command", ["plan", "compare"])
def test_fit_without_a_machine_is_a_usage_error(command: str) -> None:
    result = run(command, "lenet-c", "--fit")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1] == "Error: --fit needs --hardware"


def test_the_line_is_red_where_there_is_colour(tmp_path: Path) -> None:
    file = str(tmp_path / "p.json")
    run("plan", "vgg16", *UNFIT, "-o", file)
    for colour, start in (
        ({"FORCE_COLOR": "1"}, "\x1b[1;31m"),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "\x1b[1m"),
        ({}, ""),
    ):
        result = CliRunner().invoke(
            main, ["score", file], env={"TERM": "xterm", "NO_COLOR": None, **colour}, color=True
        )
        assert result.stdout.startswith(f"{start}{NEEDS}")


def test_unlike_groups_and_amounts_that_look_alike() -> None:
    score = plan_model("lenet-c", levels=1, hardware="hmc").score
    assert score is not None
    group: dict[str, Any] = {"group": "a", "devices": 1, "computing_s": 0, "communicating_s": 0, "idle_s": 0}
    full = GroupScore(**group, memory_bytes=80_000_000_001, capacity_bytes=80e9, fits=False)
    fine = GroupScore(**{**group, "group": "b"}, memory_bytes=1, capacity_bytes=80e9, fits=True)
    told = unfit_line(score.model_copy(update={"fits": False, "groups": [full, fine]}))
    assert told == "does not fit hmc: a device of a needs 80,000,000,001 B and has 80,000,000,000 B"
    told = unfit_line(score.model_copy(update={"fits": False, "groups": [full] * 5}))
    assert (told.count("a device of a"), told.endswith("; and 2 more")) == (3, True)
    assert unfit_line(None) == unfit_line(score) == ""
