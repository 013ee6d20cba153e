"""Stored plans are run on simulated devices: their numbers are those of one device, their bytes those of the count."""

from __future__ import annotations

import pytest

from hypar import LayerGraph, plan_model, verify_plan
from hypar.activity import listening
from hypar.errors import PlanError
from hypar.execution.verify import TOLERANCE, verify_program
from hypar.program.of_plan import program_of
from hypar.studies.verification import run as module
from tests.goldens import NAMES, golden
from tests.studies.verification.nets import chain, mlp, planned, residual

QUICK = ("sfc-hypar", "vgg16-accpar-joint", "resnet18-accpar-pinned")
LONG = [pytest.mark.slow, pytest.mark.long]
SLICES = [pytest.param(name, marks=[] if name in QUICK else LONG) for name in NAMES]

TWO = {"l1": ("in_channels", "in_channels"), "l2": ("in_channels", "in_channels")}


@pytest.mark.parametrize("name", SLICES)
def test_every_golden_plan_shrunk_gives_the_numbers_and_bytes_of_one_device_and_of_the_count(
    name: str,
) -> None:
    found = verify_plan(golden(name), shrink=True)
    assert found.ok
    assert found.numbers is not None
    assert found.numbers.worst <= TOLERANCE
    assert not found.numbers.zero
    assert [each.counted for each in found.levels] == [each.moved for each in found.levels]
    assert "?" not in {each.case for each in found.differences}


@pytest.mark.parametrize("name", SLICES)
def test_differences_add_up_to_the_difference_of_every_level(name: str) -> None:
    found = verify_plan(golden(name), count=True, shrink=True)
    for level in found.levels:
        own = [each for each in found.differences if each.level == level.level]
        assert sum(each.counted - each.planned for each in own) == pytest.approx(
            level.counted - level.planned
        )


@pytest.mark.parametrize(
    ("convention", "run_by", "counted"),
    [(None, "moved", 7680), ("moved", "moved", 7680), ("paper", "moved", 7680), ("fused", "fused", 6144)],
)
def test_two_layers_cut_in_their_inputs_count_as_published(
    convention: str | None, run_by: str, counted: int
) -> None:
    """The smallest plan whose bytes HyPar's tables undercount: 7,168 planned."""
    graph = mlp()
    found = verify_plan(planned(graph, (2, 2), TWO), model=graph, convention=convention)
    assert found.ok
    assert found.convention == run_by
    assert sum(level.planned for level in found.levels) == 7168
    assert sum(level.counted for level in found.levels) == counted
    assert [level.moved for level in found.levels] == [level.counted for level in found.levels]


def test_a_plan_whose_cost_counts_directly_is_run_directly() -> None:
    plan = plan_model("lenet-c", array=[4], strategy="deepa", hardware="p100-4x4", batch=8)
    found = verify_plan(plan)
    assert found.ok
    assert (found.convention, found.planned_by) == ("direct", "direct")


def test_uneven_shares_are_rounded_and_a_note_says_so() -> None:
    plan = plan_model("sfc", batch=32, hardware="tpu-v2-v3", levels=5)
    found = verify_plan(plan, count=True)
    assert found.ok
    assert found.notes == ("shares that are not of whole elements are rounded by the largest remainder",)
    assert len(found.levels) == max(len(group.above) + len(group.splits) for group in plan.groups)


def test_stages_run_their_microbatches() -> None:
    plan = plan_model("sfc", levels=1, hardware="hmc", stages=2, batch=32, schedule="gpipe")
    found = verify_plan(plan, shrink=True)
    assert found.ok
    assert [level.level for level in found.levels] == ["stages", "H1"]
    assert found.notes[-1] == "2 microbatches of 4 samples"


MUTATED: dict[str, tuple[LayerGraph, dict[str, tuple[str, ...]]]] = {
    "linear": (mlp(), {"l1": ("in_channels", "batch"), "l2": ("out_channels", "in_channels")}),
    "chain": (chain(), {"c1": ("batch", "height"), "c2": ("in_channels", "out_channels"), "l": ("in_channels",)}),
    "residual": (residual(), {"c2": ("height", "in_channels"), "a": ("batch", "out_channels"), "add": ("channels",)}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "convention"),
    [
        pytest.param(name, convention, marks=[pytest.mark.slow] if also and name == "residual" else [])
        for name in MUTATED
        for convention, also in (("moved", False), ("fused", True), ("direct", True))
    ],
)
def test_leaving_out_any_transfer_shows_in_the_numbers(name: str, convention: str) -> None:
    graph, choices = MUTATED[name]
    program = program_of(planned(graph, (2, 2), choices), graph, convention)
    assert verify_program(program).agrees
    assert len(program.transfers) >= 3
    for number, step in program.transfers.items():
        assert verify_program(program, without=number).worst > TOLERANCE, step.item


def test_a_run_that_would_be_too_large_is_refused_before_it_allocates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = golden("vgg16-hypar")
    with pytest.raises(
        PlanError, match=r"at most 268,435,456; try --shrink or a smaller --batch, or --count"
    ):
        verify_plan(plan)
    monkeypatch.setattr(module, "MOST_ENTRIES", 10)
    with pytest.raises(
        PlanError, match=r"to count a step of 'vgg16' on 16 devices takes .* entries; allowed: at most 10"
    ):
        verify_plan(plan, count=True)


def test_a_verification_says_what_it_does() -> None:
    graph = mlp()
    told: list[str] = []
    with listening(told.append):
        verify_plan(planned(graph, (2, 2), TWO), model=graph, batch=16)
    assert told[-3:] == [
        "lowering net by hypar over 4 devices",
        "running net on 4 simulated devices, and on one",
        "comparing the counts of net",
    ]
