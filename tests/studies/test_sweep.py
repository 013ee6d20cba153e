"""Sweeps over arrays of any ways, over heterogeneous machines, and with any arguments of a plan held."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from typing import Any

import pytest
from click.testing import CliRunner

from hypar import load_machine, plan_model, score_plan, sweep_model
from hypar.cli.main import main
from hypar.errors import HyparError, OptionError
from hypar.plan.score import totals_of
from hypar.results import view_of


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["sweep", "lenet-c", *arguments])
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"space": "all", "pins": ("fc1=mp",)},
        {"stages": 2, "schedule": "gpipe", "microbatches": 4},
        {"cost": "time", "refine": True},
        {"chunks": "best", "optimizer": "adam"},
        {"graph": "operators", "search": "joint", "solver": "elimination"},
    ],
    ids=str,
)
@pytest.mark.parametrize("array", [(4,), (2, 2), (4, 2)])
def test_a_run_is_the_plan_of_the_same_arguments(asked: dict[str, Any], array: tuple[int, ...]) -> None:
    (run,) = sweep_model("lenet-c", hardware="hmc", array=array, **asked)
    plan = plan_model("lenet-c", hardware="hmc", array=array, strategy="hypar", **asked)
    assert run.totals == totals_of(score_plan(plan, hardware="hmc", convention="moved"))
    assert run.axes["array"] == array


def test_one_array_and_several_are_told_apart() -> None:
    (one,) = sweep_model("lenet-c", hardware="hmc", array=[4, 2])
    several = sweep_model("lenet-c", hardware="hmc", array=[[4, 2], (8,), [4, 2]])
    assert [run.axes["array"] for run in several] == [(4, 2), (8,)]
    assert one == several[0]


def test_arrays_are_written_as_they_are_asked_for() -> None:
    asked = ("--hardware", "hmc", "--array", "4,16,4x4", "--strategy", "hypar")
    head, _, table = printed(*asked).partition("\n\n")
    assert head.startswith("lenet-c: array 4x4 is fastest\n")
    assert [line.split()[0] for line in table.splitlines()[:4]] == ["array", "4", "16", "4x4"]
    assert [row["array"] for row in json.loads(printed(*asked, "--json"))] == ["4", "16", "4x4"]
    assert [row["array"] for row in csv.DictReader(io.StringIO(printed(*asked, "--csv")))] == [
        "4",
        "16",
        "4x4",
    ]
    runs = sweep_model("lenet-c", hardware="hmc", array=[(4,), (4, 4)])
    assert [row["array"] for row in view_of(runs).rows(runs)] == ["4", "4x4"]
    assert "4x4" in runs._repr_html_()


def test_a_heterogeneous_machine_is_swept_where_the_array_fits() -> None:
    runs = sweep_model(
        "lenet-c", hardware=["hmc", "tpu-v2-v3"], array=[(2,), (2, 4), (4,)], strategy="accpar", cost="volume"
    )
    found = {(run.axes["hardware"], run.axes["array"]): run for run in runs}
    assert runs.convention == "moved"
    for (hardware, array), run in found.items():
        if (hardware, array) == ("tpu-v2-v3", (4,)):
            assert (run.totals, run.fits) == (None, False)
            assert run.note == "array: found 4 ways where 'tpu-v2-v3' has 2 groups; allowed: 2"
            continue
        plan = plan_model("lenet-c", hardware=hardware, array=array, strategy="accpar", cost="volume",
                          convention="moved")  # fmt: skip
        assert run.totals == totals_of(plan.score)
        assert plan.score is not None
        assert run.fits == plan.score.fits


def test_levels_of_a_heterogeneous_machine_are_counted_with_its_uneven_splits() -> None:
    none, one, many = sweep_model("lenet-c", hardware="tpu-v2-v3", levels=[0, 1, 9])
    assert (
        none.note == "hardware 'tpu-v2-v3': found one device, of kinds that differ; allowed: 1 level or more"
    )
    assert one.totals == totals_of(plan_model("lenet-c", hardware="tpu-v2-v3", levels=1).score)
    assert many.note.startswith("levels: found 9 levels, 1 of them uneven splits above 'tpu-v2'")


def test_dp_keeps_its_own_space_and_equal_shares() -> None:
    asked: dict[str, Any] = {"hardware": "tpu-v2-v3", "levels": 2, "cost": "accpar"}
    dp, accpar = sweep_model("lenet-c", strategy=["dp", "accpar"], space="all", shares="exact", **asked)
    assert dp.totals == totals_of(plan_model("lenet-c", strategy="dp", **asked).score)
    own = plan_model("lenet-c", strategy="accpar", space="all", shares="exact", **asked)
    assert accpar.totals == totals_of(own.score)


@pytest.mark.parametrize("array", [(4,), (2, 2, 2), (4, 4)])
def test_a_scaled_machine_has_the_devices_of_all_stages(array: tuple[int, ...]) -> None:
    (run,) = sweep_model("vgg-a", hardware="hmc", array=array, stages=2, scale=True)
    machine = load_machine("hmc", {"devices": 2 * math.prod(array)})
    plan = plan_model("vgg-a", hardware=machine, array=array, stages=2)
    assert run.totals == totals_of(score_plan(plan, hardware=machine, convention="moved"))


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("asked", [{"starts": "conv1,fc1"}, {"stages": 1}], ids=str)
def test_first_layers_and_one_device_are_stages(asked: dict[str, Any], scale: bool) -> None:
    """They are planned in stages also without levels, and counted where a machine is scaled."""
    (run,) = sweep_model("lenet-c", hardware="hmc", levels=0, scale=scale, **asked)
    machine = load_machine("hmc", {"devices": 2}) if scale and "starts" in asked else "hmc"
    plan = plan_model("lenet-c", hardware=machine, levels=0, convention="moved", **asked)
    assert run.totals == totals_of(plan.score)
    assert run.note == plan.claim


def test_the_head_and_the_data_name_what_is_held() -> None:
    asked = ("--hardware", "hmc", "--levels", "1..2", "--strategy", "hypar", "--pin", "fc1=mp", "--refine")
    head = " ".join(printed(*asked, "--inter-weight", "0").partition("\n\n")[0].split())
    assert head.endswith("strategy hypar, inter_weight 0.0, pins fc1=mp, refine, counted by moved")
    first, _ = json.loads(printed(*asked, "--inter-weight", "0", "--json"))
    assert (first["inter_weight"], first["pins"], first["refine"]) == ("0.0", "fc1=mp", "True")
    (bare, *_) = json.loads(printed("--hardware", "hmc", "--strategy", "hypar", "--json"))
    assert not {"inter_weight", "pins", "refine", "optimizer", "stages"} & {*bare}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"levels": 2, "array": (4,)}, "levels: given together with an array; allowed: one of the two"),
        ({"array": (4, 1)}, "array: found 4x1; allowed: ways of 2 or more, at most 1,048,576 devices"),
        ({"array": ()}, "sweep: found nothing; allowed: 1 to 10,000 combinations"),
        (
            {"array": (4,), "schedule": "gpipe"},
            "schedule: given without stages; allowed: stages, as --stages 4",
        ),
        (
            {"pin": "fc1=mp"},
            "sweep_model: no argument 'pin'; allowed: balance, chunks, cost, graph, integral,",
        ),
    ],
    ids=str,
)
def test_what_no_sweep_can_have_is_one_line(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(HyparError, match=re.escape(message)):
        sweep_model("lenet-c", **{"hardware": "hmc", **asked})


def test_a_bad_list_of_arrays_is_one_line() -> None:
    result = CliRunner().invoke(main, ["sweep", "lenet-c", "--hardware", "hmc", "--array", "4,4y4"])
    line = "error: array: found '4y4'; allowed: the ways of each level, as 4x8 or 16\n"
    assert (result.exit_code, result.stdout, result.stderr) == (3, "", line)


def test_stages_inside_levels_are_swept() -> None:
    arrays: list[tuple[int | str, ...]] = [(2, 2), (2, "s2"), ("s2", 2)]
    runs = sweep_model("lenet-c", hardware="hmc", array=arrays, batch=32, scale=True)
    assert [run.axes["array"] for run in runs] == arrays
    for run in runs[1:]:
        machine = load_machine("hmc", {"devices": 4})
        plan = plan_model("lenet-c", hardware=machine, array=run.axes["array"], batch=32)
        assert run.totals == totals_of(plan.score)
    asked = ("--hardware", "hmc", "--array", "2,2xs2", "--strategy", "hypar", "--batch", "32", "--json")
    assert [row["array"] for row in json.loads(printed(*asked))] == ["2", "2xs2"]


def test_rows_that_cannot_be_planned_say_so() -> None:
    arrays: list[tuple[int | str, ...]] = [(8,), (2, "s4"), (2, "s8"), ("s4",)]
    runs = sweep_model("lenet-c", hardware="hmc", array=arrays, schedule="gpipe")
    assert [run.totals is not None for run in runs] == [False, True, False, True]
    assert [run.fits for run in runs] == [False, True, False, True]
    assert runs[0].note == "schedule: given without stages; allowed: stages, as --stages 4"
    assert runs[2].note == "stages: found 8; allowed: 1 to 4, one for each layer that is cut"
    plan = plan_model("lenet-c", hardware="hmc", array=(2, "s4"), schedule="gpipe")
    assert runs[1].totals == totals_of(plan.score)
    asked = ("--hardware", "hmc", "--array", "8,2xs4", "--strategy", "hypar", "--schedule", "gpipe")
    assert [row["time_s"] is None for row in json.loads(printed(*asked, "--json"))] == [True, False]
    assert "allowed: stages, as --stages 4" in " ".join(printed(*asked).split())


def test_an_array_has_stages_once() -> None:
    with pytest.raises(OptionError) as caught:
        sweep_model("lenet-c", hardware="hmc", array=(2, "s2"), stages=2)
    assert str(caught.value) == "stages: found 2 and an array with s2; allowed: one of the two"
