"""Explorations of any plan: over the levels of device groups, inside stages, with chunks; each point is that plan's score."""

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hypar import Exploration, Plan, explore_model, load_machine, plan_model, score_plan
from hypar.cli.main import main
from hypar.errors import HyparError
from tests.effort import crossed, late
from tests.heterogeneous import group, kind, write_machine
from tests.kit import known


def pins_of(plan: Plan, changed: dict[tuple[str, int], str]) -> list[str]:
    found = []
    for layer in plan.layers:
        for level, dim in enumerate(plan.dims(layer, plan.groups[0].name)):
            found.append(f"{layer}@H{level + 1}={changed.get((layer, level), dim)}")
    return found


def texts_of(found: Exploration) -> list[dict[tuple[str, int], str]]:
    return [
        {place: str(choice.text(found.ways[place])) for place, choice in point.axes.items()}
        for point in found
    ]


@pytest.mark.parametrize("vary", ["fc1", "conv2@H1", ("fc1@H2", "conv1@H1"), "*@H2"], ids=str)
def test_points_of_device_groups_are_the_plans_of_pinned_choices(vary: Any) -> None:
    asked: dict[str, Any] = {"hardware": "tpu-v2-v3", "levels": 2}
    found = explore_model("lenet-c", vary=vary, **asked)
    assert sum(point.own for point in found) == 1
    assert {layer for layer, _ in found.ways} <= {*found.plan.layers}
    for point, changed in zip(found, texts_of(found), strict=True):
        plan = plan_model("lenet-c", pins=pins_of(found.plan, changed), strategy="hypar", **asked)
        assert point.totals == plan.score
        assert point.fits == known(plan.score).fits


def test_points_that_are_all_slower_than_dp_say_so() -> None:
    asked = ["explore", "lenet-c", "--hardware", "tpu-v3", "--levels", "1", "--stages", "2", "--vary", "fc1"]
    text = CliRunner().invoke(main, asked).stdout
    assert re.match(r"lenet-c on tpu-v3, 2 points: .* is fastest, 1\.\d\dx slower than dp\n", text)


@crossed({"stages": late([2, 4], 4), "convention": ["paper", "moved", "fused"]})
def test_points_inside_stages_are_the_scores_of_these_plans(stages: int, convention: str) -> None:
    asked: dict[str, Any] = {"hardware": "hmc", "levels": 2, "stages": stages, "convention": convention}
    found = explore_model("lenet-c", vary=["fc1", "conv2@H1"], space="all", **asked)
    assert found.plan.staged
    assert found.convention == convention
    own = next(point for point in found if point.own)
    assert own.totals == found.plan.score
    times = set()
    for point in found:
        splits = [split.model_copy(update={"choices": dict(split.choices)}) for split in found.plan.splits]
        for (layer, level), choice in point.axes.items():
            splits[level].choices[layer] = dict(choice.degrees)
        plan = found.plan.model_copy(update={"splits": splits})
        assert point.totals == score_plan(plan, hardware="hmc", model="lenet-c", convention=convention)
        times.add(point.totals.time_s)
    assert len(times) > 1


@pytest.mark.parametrize("asked", [
    {"levels": 1, "stages": 2},
    {"array": (2, "s2", 2)},
    {"levels": 1, "stages": 2, "schedule": "interleaved"},
], ids=str)  # fmt: skip
def test_points_in_stages_differ(asked: dict[str, Any]) -> None:
    """Each point is the plan of pins that has its stages; what a plan has found of its own choices is no point's."""
    found = explore_model("lenet-c", vary="fc1@H1", hardware="tpu-v3", **asked)
    assert len({point.totals.time_s for point in found if point.totals}) == 2
    starts = [layers[0] for _, layers in known(found.plan.stages).spans]
    for point, changed in zip(found, texts_of(found), strict=True):
        pinned = plan_model(
            "lenet-c", pins=pins_of(found.plan, changed), hardware="tpu-v3", starts=starts, **asked
        )
        assert point.totals == pinned.score


@crossed({"hardware": ["hmc", "tpu-v2-v3"], "chunks": ["one", "best", 2]})
def test_chunks_are_found_anew_for_each_point(hardware: str, chunks: str | int) -> None:
    asked: dict[str, Any] = {"hardware": hardware, "levels": 2, "chunks": chunks, "convention": "paper"}
    found = explore_model("lenet-c", vary=["fc1", "fc2@H1"], **asked)
    for point, changed in zip(found, texts_of(found), strict=True):
        plan = plan_model("lenet-c", strategy="hypar", pins=pins_of(found.plan, changed), **asked)
        assert point.totals == plan.score


def test_a_plan_in_stages_with_chunks_is_one_of_its_points() -> None:
    asked: dict[str, Any] = {"array": [4], "stages": 2, "chunks": "best", "batch": 32}
    found = explore_model("resnet18", vary="fc@H1", hardware="p100-4x4", **asked)
    (own,) = (point for point in found if point.own)
    assert own.totals == found.plan.score
    assert own.time_s < known(found.plan.chunks).alone_s


def test_the_space_and_the_pins_are_those_of_a_plan() -> None:
    asked: dict[str, Any] = {"hardware": "hmc", "levels": 2, "space": "all", "pins": ["conv*=dp"]}
    found = explore_model("lenet-c", vary="fc1", **asked)
    assert found.plan.dims("conv1") == ("batch", "batch")
    assert len(found) == 3 * 3
    dp = plan_model("lenet-c", hardware="hmc", levels=2, strategy="dp", pins=["conv*=dp"])
    assert found.baseline.totals == dp.score
    wide = explore_model("lenet-c", vary="fc1", strategy="dp", **asked)
    assert len(wide) == 3 * 3
    assert wide.baseline == found.baseline


def test_what_no_exploration_can_have_is_one_line(tmp_path: Path) -> None:
    def refused(**asked: Any) -> str:
        with pytest.raises(HyparError) as error:
            explore_model("lenet-c", **{"hardware": "tpu-v2-v3", "levels": 2, "vary": "fc1", **asked})
        return str(error.value)

    assert refused(vary="fc9").startswith("vary 'fc9': no layer that is cut is named 'fc9'")
    assert refused(vary="fc1@H3") == "vary 'fc1@H3': found level 'H3'; allowed: H1 to H2, or 0 to 1"
    assert refused(layers="fc1").startswith("explore_model: no argument 'layers'; allowed: array,")
    for vary in ("fc1", "fc1@H1"):
        assert refused(hardware="hmc", stages=2, levels=0, vary=vary).startswith("vary: found nothing")
    many = refused(hardware="hmc", levels=4, space="all", vary=("conv2", "fc1", "fc*@H1"))
    assert many == (
        "vary: found 151,875 points: 'conv2' alone 625, 'fc1' alone 81, 'fc*@H1' alone 9; "
        "allowed: LAYER, LAYER@LEVEL or patterns, at most 10,000 points; "
        "try fewer layers, or one level, as LAYER@H1"
    )
    kinds = {"a": kind(devices=4, topology="fully_connected"), "b": kind(devices=3)}
    machine = load_machine(write_machine(tmp_path, kinds, [group("a.yaml"), group("b.yaml")]))
    assert {len(split.choices) for split in plan_model("lenet-c", hardware=machine).splits} == {4}
    found = explore_model("lenet-c", vary="fc1@H2", hardware=machine)
    assert sorted(str(text) for each in texts_of(found) for text in each.values()) == ["batch", "in_channels"]
