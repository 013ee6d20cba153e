"""Sweeps over arrays of any ways, over heterogeneous machines, and with any arguments of a plan held."""

import json
import math
from functools import partial
from typing import Any

import pytest

from hypar import load_machine, plan_model, score_plan, sweep_model
from hypar.errors import OptionError
from tests.kit import known, output

printed = partial(output, "sweep", "lenet-c")


def test_one_array_and_several_are_told_apart() -> None:
    (one,) = sweep_model("lenet-c", hardware="hmc", array=[4, 2])
    several = sweep_model("lenet-c", hardware="hmc", array=[[4, 2], (8,), [4, 2]])
    assert [run.axes["array"] for run in several] == [(4, 2), (8,)]
    assert one == several[0]


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
        assert run.totals == plan.score
        assert run.fits == known(plan.score).fits


@pytest.mark.parametrize("array", [(4,), (2, 2, 2), (4, 4)])
def test_a_scaled_machine_has_the_devices_of_all_stages(array: tuple[int, ...]) -> None:
    (run,) = sweep_model("vgg-a", hardware="hmc", array=array, stages=2, scale=True)
    devices = 2 * math.prod(array)
    machine = load_machine("hmc", {"devices": devices} if devices != 16 else {})
    plan = plan_model("vgg-a", hardware=machine, array=array, stages=2)
    assert run.totals == score_plan(plan, hardware=machine, convention="moved")


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("asked", [{"starts": "conv1,fc1"}, {"stages": 1}], ids=str)
def test_first_layers_and_one_device_are_stages(asked: dict[str, Any], scale: bool) -> None:
    """They are planned in stages also without levels, and counted where a machine is scaled."""
    (run,) = sweep_model("lenet-c", hardware="hmc", levels=0, scale=scale, **asked)
    machine = load_machine("hmc", {"devices": 2}) if scale and "starts" in asked else "hmc"
    plan = plan_model("lenet-c", hardware=machine, levels=0, convention="moved", **asked)
    assert run.totals == plan.score
    assert run.note == plan.claim


def test_the_head_and_the_data_name_what_is_held() -> None:
    asked = ("--hardware", "hmc", "--levels", "1..2", "--strategy", "hypar", "--pin", "fc1=mp", "--refine")
    head = " ".join(printed(*asked, "--inter-weight", "0").partition("\n\n")[0].split())
    assert head.endswith("strategy hypar, inter_weight 0.0, pins fc1=mp, refine")
    first, _ = json.loads(printed(*asked, "--inter-weight", "0", "--json"))
    assert (first["inter_weight"], first["pins"], first["refine"]) == ("0.0", "fc1=mp", "True")
    (bare, *_) = json.loads(printed("--hardware", "hmc", "--strategy", "hypar", "--json"))
    assert not {"inter_weight", "pins", "refine", "optimizer", "stages"} & {*bare}


def test_rows_that_cannot_be_planned_say_so() -> None:
    arrays: list[tuple[int | str, ...]] = [(8,), (2, "s4"), (2, "s8"), ("s4",)]
    runs = sweep_model("lenet-c", hardware="hmc", array=arrays, schedule="gpipe")
    assert [run.totals is not None for run in runs] == [True, True, False, True]
    assert [run.fits for run in runs] == [True, True, False, True]
    assert runs[0].totals == plan_model("lenet-c", hardware="hmc", array=(8,), convention="moved").score
    assert runs[2].note == "stages: found 8; allowed: 1 to 4, one for each layer that is cut"
    plan = plan_model("lenet-c", hardware="hmc", array=(2, "s4"), schedule="gpipe")
    assert runs[1].totals == plan.score
    asked = ("--hardware", "hmc", "--array", "8,2xs8,4xs8", "--strategy", "dp,hypar", "--schedule", "gpipe")
    said = " ".join(printed(*asked).split())
    assert said.count("not planned stages: found 8") == 1
    with pytest.raises(OptionError, match="schedule: given without stages; allowed: stages, as --stages 4"):
        sweep_model("lenet-c", hardware="hmc", array=[(8,), (4,)], schedule="gpipe")


def test_a_machine_that_is_too_small_names_the_option_that_scales_it() -> None:
    more = "allowed: at most 16, all that it has; --scale gives it as many as the array needs"
    *_, last = sweep_model("lenet-c", hardware="hmc", levels=[4, 5])
    assert last.note == f"hardware 'hmc': found an array of 32 devices (2x2x2x2x2); {more}"
    said = " ".join(printed("--hardware", "hmc", "--levels", "4..5").split())
    assert said.count("found an array of 32 devices") == 1
    assert "not planned hardware 'hmc'" in said
    assert all(run.totals for run in sweep_model("lenet-c", hardware="hmc", levels=[4, 5], scale=True))
