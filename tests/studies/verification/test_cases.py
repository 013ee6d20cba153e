"""Each case in which a plan's count and a correct execution differ is found where it is, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypar.reports.listings.verifications import tensor_of, transfer_of
from hypar.studies.verification.cases import REASONS

from hypar import plan_model, verify_plan
from tests.studies.verification.nets import chain, layer, mlp, network, planned, residual
from tests.transformers import gpt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar import LayerGraph

B, IN, OUT, H = "batch", "in_channels", "out_channels", "height"
RIGID = network(
    layer("c1", "conv", "in", out_channels=8, kernel=3, padding=1, bias=False),
    layer("c2", "conv", "c1", out_channels=6, kernel=3, stride=2, padding=1, bias=False),
    image=12,
    channels=4,
)

CASES: dict[str, tuple[LayerGraph, Sequence[int], Mapping[str, Sequence[str]], tuple[str, str, str], tuple[float, int]]] = {
    "a": (mlp(), (2, 2), {"l1": (IN, IN), "l2": (IN, IN)}, ("l2", "backward", "H2"), (512, 1024)),
    "b": (chain(), (2,), {"c1": (IN,), "c2": (H,)}, ("c1", "forward", "H1"), (8192, 32768)),
    "c": (mlp(), (2, 2), {"l1": (B, B), "l2": (IN, IN)}, ("l2", "forward", "H2"), (256, 128)),
    "d": (mlp(), (2, 2), {"l1": (B, B), "l2": (OUT, IN)}, ("l2", "backward", "H2"), (512, 256)),
    "e": (RIGID, (4,), {"c1": (H,), "c2": (H,)}, ("c2", "forward", "H1"), (9216, 15360)),
    "f": (residual(), (2,), {"c1": (B,), "c2": (IN,)}, ("c2", "forward", "H1"), (8192, 2048)),
    "g": (chain(), (2, 2), {"c2": (H, H), "l": (IN, IN)}, ("l", "forward", "H1"), (2048, 0)),
    "h": (chain(), (2, 2), {"c1": (B, B), "c2": (H, H)}, ("c2", "forward", "H2"), (4096, 4608)),
    "i": (
        residual(),
        (2, 2),
        {"c1": (IN, IN), "c2": (OUT, OUT), "a": (B, OUT), "add": ("channels", "channels")},
        ("add", "forward", "H2"),
        (0, 1024),
    ),
    "j": (chain(), (2,), {"c1": (B,)}, ("c1", "gradient", "H1"), (0, 64)),
    "l": (mlp(), (2,), {"l1": (OUT,)}, ("l1", "backward", "H1"), (1024, 0)),
    "o": (gpt(), (2, 2), {"wte": ("out_hidden", "out_hidden"), "head": (B, "in_hidden")}, ("wte", "gradient", "H2"), (0, 24 * 16 * 4)),
}  # fmt: skip


@pytest.mark.parametrize("letter", CASES)
def test_a_case_is_named_with_its_bytes(letter: str) -> None:
    graph, array, choices, (name, phase, level), (before, after) = CASES[letter]
    found = verify_plan(planned(graph, array, choices), model=graph)
    assert found.ok
    own = [
        each for each in found.differences
        if (each.item.layer, each.item.phase, each.level, each.case) == (name, phase, level, letter)
    ]  # fmt: skip
    assert [(each.planned, each.counted) for each in own] == [(before, after)]


def test_a_direct_owner() -> None:
    graph = mlp()
    found = verify_plan(
        planned(graph, (2, 2), {"l1": (IN, IN), "l2": (IN, IN)}), model=graph, convention="direct"
    )
    assert found.ok
    assert {each.case for each in found.differences} == {"k"}


def test_sums_straight_to_their_readers() -> None:
    graph = mlp()
    found = verify_plan(
        planned(graph, (2, 2), {"l1": (IN, IN), "l2": (IN, IN)}), model=graph, convention="fused"
    )
    assert {each.case for each in found.differences} == {"m"}


@pytest.mark.parametrize(
    ("array", "first", "second"), [((4, 2), (IN, OUT), (IN, B)), ((4, 2), (IN, B), (B, OUT))], ids=str
)
def test_sums_straight_to_their_readers_in_whole_elements(
    array: tuple[int, ...], first: tuple[str, str], second: tuple[str, str]
) -> None:
    """Both layers together divide 4 channels, or 6 samples, by 8."""
    graph = network(
        layer("l1", "linear", "in", out_features=4, bias=False),
        layer("l2", "linear", "l1", out_features=8, bias=False),
        batch=6 if B in first else 8,
    )
    plan = planned(graph, array, {"l1": first, "l2": second}, convention="fused")
    found = verify_plan(plan, model=graph)
    assert found.ok
    sums = [each for each in found.differences if each.item[:2] == ("l1", None)]
    assert sums
    assert {each.case for each in sums} == {"e"}


def test_sums_before_a_pool_cost_what_they_move_where_errors_go_straight() -> None:
    graph = chain()
    pins = ["c1=in_channels", "c2=batch", "l=batch"]
    plan = plan_model(
        graph, array=[4], strategy="deepa", graph="contracted", space="all", pins=pins, hardware="hmc"
    )
    found = verify_plan(plan, model=graph)
    assert found.ok
    assert {each.case for each in found.differences} == {"j"}
    assert plan.score is not None
    assert plan.cost.value == pytest.approx(plan.score.time_s)


def test_inputs_of_a_join_are_divided_in_one_order() -> None:
    """All devices have all samples of what the second one reads, so that it takes those of the first one."""
    graph = network(
        layer("c0", "conv", "in", out_channels=8, kernel=3, padding=1, bias=False),
        layer("a1", "conv", "c0", out_channels=4, kernel=3, padding=1, bias=False),
        layer("a2", "conv", "a1", out_channels=4, kernel=3, padding=1, bias=False),
        layer("sc", "conv", "c0", out_channels=4, kernel=1, bias=False),
        layer("add", "add", ["a2", "sc"]),
        layer("l", "conv", "add", out_channels=4, kernel=1, bias=False),
        channels=8,
        image=8,
    )
    choices = {"c0": (OUT, OUT), "a1": (B, OUT), "a2": (IN, B), "sc": (OUT, B), "add": (B, B), "l": (B, B)}
    found = verify_plan(planned(graph, (2, 2), choices), model=graph)
    assert found.ok
    assert "i" not in {each.case for each in found.differences}


def test_what_enters_a_stage_is_one_item() -> None:
    plan = plan_model(
        "lenet-c", levels=1, hardware="hmc", stages=2, batch=32, pins=["conv2@H1=mp", "fc1@H1=mp"]
    )
    found = verify_plan(plan, count=True)
    seams = [each for each in found.differences if each.level == "stages"]
    assert {each.case for each in seams} <= {"n"}
    assert all(each.item.layer.startswith("stage ") for each in seams)
    assert {transfer_of(each.item) for each in seams} == {"E from other stages to stage 1"}


def test_papers_have_no_gradient_of_a_tied_weight_between_stages() -> None:
    graph = gpt()
    plan = plan_model(graph, levels=1, hardware="tpu-v3", stages=2, strategy="dp")
    assert "o" not in {each.case for each in verify_plan(plan, model=graph, count=True).differences}
    found = verify_plan(plan, model=graph, count=True, convention="paper")
    own = [each for each in found.differences if each.level == "stages" and each.case == "o"]
    assert [transfer_of(each.item) for each in own] == ["dW from other stages to stage 1"]
    assert {tensor_of(each.item) for each in own} == {"dW between layers"}
    assert [each.planned for each in own] == [0]
    assert sum(each.counted for each in own) == 2 * 24 * 16 * 4


def test_inside_a_stage_cases_are_those_without_stages() -> None:
    plan = plan_model("lenet-c", levels=2, hardware="hmc", stages=2, batch=32, pins=["fc1=mp", "fc2=mp"])
    assert plan.stages is not None
    assert plan.stages.stages[1].layers[-2:] == ["fc1", "fc2"]
    found = verify_plan(plan, count=True)
    own = {each.case for each in found.differences if each.item[:3] == ("fc2", "fc1", "backward")}
    assert own == {"a"}


def test_every_letter_has_a_test() -> None:
    assert {*REASONS} - {*CASES} == {"k", "m", "n", "?"}


@pytest.mark.slow
@pytest.mark.parametrize("second", [(a, b) for a in (B, IN, OUT, H) for b in (B, IN, OUT, H)], ids=str)
def test_no_difference_is_unexplained(second: tuple[str, str]) -> None:
    graph = residual()
    for first in ((B, IN), (OUT, B), (H, IN), (IN, H)):
        for add in (("batch", "channels"), ("channels", "height")):
            plan = planned(graph, (2, 2), {"c2": first, "a": second, "add": add, "c3": second})
            assert "?" not in {each.case for each in verify_plan(plan, model=graph, count=True).differences}
