"""Stages over device groups that consist of groups, and stages inside the groups of an uneven split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hypar import check_plan, load_model, plan_model, read_plan, score_plan, verify_plan
from hypar.errors import InputError, OptionError, PlanError
from hypar.machine.load_heterogeneous import load_heterogeneous
from tests.heterogeneous import group, groups_of, kind, write_machine

if TYPE_CHECKING:
    from pathlib import Path

    from hypar import Plan

SMALL = load_model("lenet-c").with_batch(8)


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight devices beside two groups of four, which are one group."""
    kinds = {
        "a": kind(devices=8),
        "b": kind(devices=4, peak="3 TFLOP/s", overlap="full"),
        "c": kind(devices=4, peak="0.5 TFLOP/s"),
    }
    pair = groups_of("pair", group("b.yaml"), group("c.yaml"))
    return write_machine(tmp_path_factory.mktemp("nested"), kinds, [group("a.yaml"), pair])


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight slow devices and four fast ones."""
    kinds = {"a": kind(devices=8), "b": kind(devices=4, peak="3 TFLOP/s")}
    return write_machine(tmp_path_factory.mktemp("flat"), kinds, [group("a.yaml"), group("b.yaml")])


def planned(file: Path, **asked: Any) -> Plan:
    return plan_model(SMALL, hardware=load_heterogeneous(file), microbatches=2, **asked)


# Where the stages are


def test_a_group_of_groups_holds_stages_with_shares_of_their_own(nested: Path) -> None:
    plan = planned(nested, strategy="accpar", stages=4)
    assert plan.stages is not None
    assert plan.score is not None
    assert {stage.group for stage in plan.stages.stages} == {"a", "pair"}
    assert plan.num_devices == 16
    assert plan.arrays == {"a": [2, 2], "b": [2], "c": [2]}
    (uneven,) = [split for split in plan.splits if split.sides is not None]
    assert (uneven.group, uneven.level) == ("pair", 0)
    on_pair = {layer for stage in plan.stages.stages if stage.group == "pair" for layer in stage.layers}
    assert {*uneven.choices} == on_pair
    names = [own.group for own in plan.score.groups or ()]
    assert len(names) == 6
    assert sum(name.endswith((" b", " c")) for name in names) == 4


def test_groups_run_their_shares_as_pipelines_of_their_own(flat: Path) -> None:
    """By samples the groups exchange all weights' gradients, and nothing else crosses between them."""
    plan = planned(flat, strategy="dp", array=(2, "s2"))
    assert plan.stages is not None
    assert plan.score is not None
    assert (plan.stages.outside, plan.num_devices) == (1, 4)
    assert [stage.group for stage in plan.stages.stages] == [None, None]
    weights = sum(layer.einsum.elements("weight") for layer in SMALL.contracted.layers)
    assert plan.score.communication["H1"] == 2 * 4 * weights
    # Of the activations between the two stages each group sends its samples, over its own links.
    alone = plan_model(SMALL, strategy="dp", hardware="h100-8x", stages=2, levels=0, microbatches=2)
    if [stage.layers for stage in plan.stages.stages] == [
        stage.layers
        for stage in alone.stages.stages  # type: ignore[union-attr]
    ]:
        assert alone.score is not None
        assert plan.score.communication["stages"] == alone.score.communication["stages"]


# Stored plans


@pytest.mark.parametrize(
    ("machine", "asked"),
    [
        ("flat", {"array": (2, "s2"), "strategy": "accpar"}),
        pytest.param(
            "flat",
            {"array": (2, 2, "s2"), "strategy": "hypar", "convention": "fused"},
            marks=pytest.mark.slow,
        ),
        ("flat", {"array": (2, "s2", 2), "strategy": "accpar", "convention": "paper", "integral": True}),
        pytest.param(
            "nested", {"stages": 2, "strategy": "accpar", "shares": "layers"}, marks=pytest.mark.slow
        ),
        pytest.param("nested", {"stages": 4, "strategy": "mp", "chunks": "best"}, marks=pytest.mark.slow),
        ("nested", {"array": (2, "s2", 2), "strategy": "accpar", "convention": "moved"}),
        pytest.param(
            "nested",
            {"array": (2, 2, "s2"), "strategy": "accpar", "pins": ("conv1@H1=batch",)},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_plan_is_found_again_and_runs_as_planned(
    machine: str, asked: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    hardware = request.getfixturevalue(machine)
    plan = planned(hardware, **asked)
    file = tmp_path / "plan.json"
    plan.write(file)
    assert check_plan(file, hardware=hardware).changes == ()
    assert score_plan(file, hardware=hardware) == plan.score
    assert read_plan(file).to_json() == plan.to_json()
    found = verify_plan(read_plan(file), hardware=hardware, shrink=True)
    assert found.ok
    assert not [one for one in found.differences if one.case == "?"]
    assert "stage 1" in plan.render("markdown")


def test_whole_samples_are_counted_as_they_are_moved(flat: Path) -> None:
    """Three quarters and one quarter of eight samples are whole, so that every byte agrees."""
    plan = planned(flat, strategy="mp", array=(2, "s2", 2))
    found = verify_plan(plan, hardware=flat, count=True)
    assert [level.level for level in found.levels] == ["H1", "stages", "H2"]
    assert [level.planned for level in found.levels] == [float(level.counted) for level in found.levels]


# Bad input


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ((2, "s8"), "array: found 1 levels and splits of a stage of 'b'; allowed: at least 2"),
        (
            (2, 2, "s3", 2),
            "array: found 4 devices in each of 3 stages of 'a'; allowed: at most its 8 devices",
        ),
        ((3, "s2", 2), "array: found 3 ways where 'mixed' has 2 groups; allowed: 2"),
    ],
)
def test_a_stage_needs_a_part_of_each_group(nested: Path, array: tuple[int | str, ...], message: str) -> None:
    with pytest.raises(InputError) as caught:
        planned(nested, array=array)
    assert str(caught.value) == message


def test_stages_are_inside_nodes_that_every_group_has(flat: Path) -> None:
    with pytest.raises(OptionError, match="stages: found 3 where"):
        planned(flat, stages=3)
    plan = planned(flat, strategy="dp", array=(2, "s2"))
    text = plan.to_json().replace('"outside": 1', '"outside": 4')
    file = flat.parent / "plan.json"
    file.write_text(text)
    with pytest.raises(PlanError, match=r"stages.outside: found 4; allowed: fewer nodes than a group has"):
        read_plan(file)
