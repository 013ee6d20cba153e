"""Stages inside other levels: replicas of a pipeline, whose levels outside the stages take other links than those inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from hypar import Plan, check_plan, load_model, plan_model, read_plan, score_plan, verify_plan
from hypar.cli.main import main
from hypar.errors import OptionError, PlanError
from hypar.machine.load import load_machine
from hypar.machine.machine import Machine

if TYPE_CHECKING:
    from pathlib import Path

ALEXNET = load_model("alexnet")
SMALL = load_model("lenet-c")


def received(plan: Plan) -> dict[str, float]:
    assert plan.score is not None
    return plan.score.communication


# What is planned


def test_stages_inside_a_level_are_replicas_that_exchange_gradients_over_the_level_outside() -> None:
    """Each replica of the pipeline has half of the samples, and the whole of the weights of its stage."""
    plan = plan_model(SMALL, strategy="dp", hardware="h100-8x", array=(2, "s2"), microbatches=2)
    assert plan.array == [2]
    assert plan.stages is not None
    assert (plan.stages.outside, len(plan.stages.stages), plan.num_devices) == (1, 2, 4)
    weights = sum(layer.einsum.elements("weight") for layer in SMALL.contracted.layers)
    # Each of two replicas receives the other's gradients of all weights once.
    assert received(plan)["H1"] == 2 * 4 * weights
    # What crosses between the stages is that of one pipeline, whatever the number of replicas.
    alone = plan_model(SMALL, strategy="dp", hardware="h100-8x", stages=2, levels=0, microbatches=2)
    assert received(plan)["stages"] == received(alone)["stages"]


def test_the_order_of_nodes_decides_which_links_carry_what() -> None:
    """On nodes of eight devices a level of two that is outermost crosses nodes, as the innermost it does not."""
    asked: dict[str, Any] = {"strategy": "dp", "hardware": "h100-8x", "microbatches": 4}
    outside = plan_model(ALEXNET, array=(8, "s8"), **asked)
    inside = plan_model(ALEXNET, array=("s8", 8), **asked)
    assert outside.score is not None
    assert inside.score is not None
    machine = load_machine("h100-8x")
    whole = machine.links((8, 8))
    view = machine.of_stage(1, 8)
    assert view.links((8,)) == (whole[0],) != (whole[1],)
    assert view.stage_link((8,), 8) == whole[1]
    # The same bytes of gradients take longer between nodes than inside one.
    assert outside.score.communication["H1"] == inside.score.communication["H1"]
    assert (
        outside.score.busy["H1 links"] > inside.score.busy["H1 links"]
        if "H1 links" in outside.score.busy
        else True
    )


def test_an_entry_of_an_array_is_the_same_as_a_number_of_stages() -> None:
    asked: dict[str, Any] = {"hardware": "h100-8x", "strategy": "owt"}
    first = plan_model(ALEXNET, array=("s4", 2, 2), **asked)
    assert first.to_json() == plan_model(ALEXNET, array=(2, 2), stages=4, **asked).to_json()


def test_no_collective_is_over_levels_on_both_sides_of_the_stages() -> None:
    machine = load_machine("tpu-v2", {"collectives": "all"})
    links = machine.of_stage(1, 2).links((2, 2, 2))
    assert links[0].joins != links[1].joins
    assert links[1].joins == links[2].joins is not None
    assert machine.of_stage(1, 2).joined((2, 2, 2), 0, 1) is None
    assert machine.of_stage(1, 2).joined((2, 2, 2), 1, 2) == machine.joined((2, 2, 2, 2), 2, 3)
    assert machine.of_stage(2, 2).joined((2, 2, 2), 0, 1) == machine.joined((2, 2, 2, 2), 0, 1)
    assert isinstance(machine, Machine)


# Stored plans


@pytest.mark.parametrize(
    ("array", "strategy", "convention", "hardware"),
    [
        ((2, "s2"), "mp", "moved", "h100-8x"),
        pytest.param((2, "s2", 2), "hypar", "paper", "h100-8x", marks=pytest.mark.slow),
        ((2, "s2", 2), "accpar", "fused", "h100-8x"),
        ((2, 2, "s2"), "deepa", None, "tpu-v2-v3"),
    ],
)
def test_a_plan_is_found_again_and_runs_as_planned(
    tmp_path: Path, strategy: str, convention: str | None, array: tuple[int | str, ...], hardware: str
) -> None:
    plan = plan_model(
        SMALL,
        strategy=strategy,
        convention=convention,
        hardware=hardware,
        array=array,
        microbatches=2,
        batch=16,
    )
    file = tmp_path / "plan.json"
    plan.write(file)
    assert check_plan(file).ok
    assert score_plan(file) == plan.score
    found = verify_plan(read_plan(file), shrink=True)
    assert found.ok
    assert not [one for one in found.differences if one.case == "?"]


def test_a_plan_is_refined_explained_and_chunked(tmp_path: Path) -> None:
    plan = plan_model(
        SMALL,
        hardware="h100-8x",
        array=(2, "s2", 2),
        microbatches=2,
        refine=True,
        chunks="best",
        strategy="mp",
    )
    file = tmp_path / "plan.json"
    plan.write(file)
    assert check_plan(file).ok
    assert plan.refined is not None
    assert plan.refined.after_s <= plan.refined.before_s
    assert verify_plan(plan, shrink=True).ok
    assert {one.level for one in plan.explain("fc1").explained} == {0, 1}


@pytest.mark.parametrize("hardware", ["hmc", "tpu-v2-v3"])
@pytest.mark.parametrize("array", [(2, "s2"), (2, "s2", 2)])
def test_stages_inside_levels_may_have_parts(
    array: tuple[int | str, ...], hardware: str, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {
        "model": "lenet-c",
        "array": array,
        "hardware": hardware,
        "schedule": "interleaved",
    }
    plan = plan_model(**asked)
    assert plan == plan_model(**asked, parts=2)
    file = tmp_path / "plan.json"
    plan.write(file)
    assert check_plan(file).ok
    assert verify_plan(plan, shrink=True).ok


def test_an_array_of_stages_alone_has_no_levels() -> None:
    assert plan_model("lenet-c", hardware="hmc", array=("s4",)) == plan_model(
        "lenet-c", hardware="hmc", stages=4, levels=0
    )


# Bad input


@pytest.mark.parametrize(
    ("array", "stages", "message"),
    [
        (
            (2, "s2", "s2"),
            None,
            "array: found 's2, s2'; allowed: ways of levels, and one number of stages among them, as 2, s4, 2",
        ),
        (
            (2, "best"),
            None,
            "array: found 'best'; allowed: ways of levels, and one number of stages among them, as 2, s4, 2",
        ),
        ((2, "s2"), 2, "stages: found 2 and an array with s2; allowed: one of the two"),
        (("s9",), None, "stages: found 9; allowed: 1 to 4, one for each layer that is cut"),
        ((), None, "array: found none; allowed: ways of 2 or more, at most 1,048,576 devices"),
        ((2, "s0"), None, "stages: found 0; allowed: a whole number from 1 to 1,048,576, or best"),
    ],
)
def test_an_array_has_one_number_of_stages(
    array: tuple[int | str, ...], stages: int | None, message: str
) -> None:
    with pytest.raises(OptionError) as caught:
        plan_model(SMALL, hardware="h100-8x", array=array, stages=stages)
    assert str(caught.value) == message


def test_levels_outside_the_stages_are_levels_of_the_plan(tmp_path: Path) -> None:
    plan = plan_model(SMALL, hardware="h100-8x", array=(2, "s2"))
    file = tmp_path / "plan.json"
    file.write_text(plan.to_json().replace('"outside": 1', '"outside": 2'))
    with pytest.raises(PlanError, match=r"stages.outside: found 2; allowed: at most 1, as there are levels"):
        read_plan(file)


def test_the_command_reads_stages_among_the_ways() -> None:
    run = CliRunner().invoke(main, ["plan", "lenet-c", "--hardware", "h100-8x", "--array", "2xs2x2"])
    assert run.exit_code == 0
    assert "8 devices (2 times 2 stages of 2)" in run.stdout
    run = CliRunner().invoke(main, ["plan", "lenet-c", "--array", "2xsx2"])
    assert run.exit_code == 3
    assert (
        "array: found '2xsx2'; allowed: the ways of each level, with a number of stages as 2xs4x2"
        in run.stderr
    )
