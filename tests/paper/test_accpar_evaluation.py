"""AccPar (HPCA 2020), its evaluation: boards of TPU v2 beside boards of TPU v3, and boards all alike."""

import math
from functools import cache, partial
from statistics import fmean, geometric_mean

import accpar_2020 as accpar
import pytest
from accpar_2020 import LEVELS, NETWORKS, PUBLISHED

from hypar import load_model, plan_model
from hypar.machine.load import load_machine
from hypar.machine.machine import Machine
from hypar.network.graph import LayerGraph
from hypar.plan.plan import Plan
from hypar.plan.records import Score
from tests.effort import late


@cache
def graph(name: str) -> LayerGraph:
    return load_model(name).with_batch(BATCH)


@cache
def machine(name: str) -> Machine:
    machine: Machine = load_machine(name)
    return machine


@cache
def on_unlike_boards(name: str, strategy: str = "accpar", shares: str | None = None) -> Plan:
    return plan_model(
        graph(name), strategy=strategy, shares=shares, hardware=machine("tpu-v2-v3"), convention="paper"
    )


def ends(plan: Plan) -> dict[str, float]:
    return {
        record.group: record.received
        + sum(split.cost for split in plan.splits if split.group == record.group)
        for record in plan.splits[0].sides or ()
    }


BATCH = 512

LONGER = ("vgg13", "vgg19", "resnet34", "resnet50")
"""Networks of the kind of a shorter one."""


@pytest.mark.parametrize("name", late(NETWORKS, "resnet18", *LONGER))
def test_both_sides_end_together_by_the_cost(name: str) -> None:
    plan = on_unlike_boards(name)
    found = ends(plan)
    assert max(found.values()) == pytest.approx(plan.cost.value)
    if all(plan.splits[0].shares):
        # Choices below change at some shares, and costs with them by a jump: more than rounding may be left.
        assert min(found.values()) >= max(found.values()) * 0.995


def scored(plan: Plan) -> Score:
    assert plan.score is not None
    return plan.score


@pytest.mark.parametrize("name", late(NETWORKS, "resnet18", *LONGER))
def test_accpar_is_the_fastest_on_unlike_boards_by_the_engine(name: str) -> None:
    own = scored(on_unlike_boards(name)).time_s
    others = [
        on_unlike_boards(name, "accpar", "equal"),
        *map(partial(on_unlike_boards, name), ("dp", "owt", "hypar")),
    ]
    assert [own <= scored(other).time_s * (1 + 1e-9) for other in others] == [True] * 4


@pytest.mark.xfail(
    strict=True, reason="published without the links' bandwidths, latency and the kind of mean"
)
@pytest.mark.slow
@pytest.mark.parametrize("strategy", PUBLISHED)
def test_average_over_dp_on_unlike_boards(strategy: str) -> None:
    """Within a twentieth; the page of the reproduction has both kinds of mean, and what other links give."""
    faster = [
        scored(on_unlike_boards(name, "dp")).time_s / scored(on_unlike_boards(name, strategy)).time_s
        for name in NETWORKS
    ]
    means = (fmean(faster), geometric_mean(faster))
    assert any(mean == pytest.approx(PUBLISHED[strategy], rel=0.05) for mean in means)


@pytest.mark.parametrize("name", late(NETWORKS, *LONGER))
def test_boards_of_tpu_v3_wait_less_than_with_equal_shares(name: str) -> None:
    exact, equal = (
        {group.group: group.idle_s for group in scored(plan).groups or ()}
        for plan in (on_unlike_boards(name), on_unlike_boards(name, "accpar", "equal"))
    )
    assert exact["tpu-v3"] < equal["tpu-v3"] * 0.6


@pytest.mark.parametrize("name", NETWORKS)
def test_accpar_shares_equally_on_like_boards(name: str) -> None:
    plan = plan_model(
        graph(name), levels=LEVELS, strategy="accpar", hardware=machine("tpu-v3"), convention="paper"
    )
    assert [split.shares for split in plan.splits] == [[0.5, 0.5]] * LEVELS


@pytest.mark.slow
def test_averages_as_the_summary_words_them_make_hypar_slower_than_owt() -> None:
    """2.98, 3.78 and 6.30 over OWT, HyPar and dp; ours has HyPar at least as fast as OWT on every network."""
    found = {row[0]: row[1:] for row in accpar.averages()["rows"]}
    assert [found[f"accpar over {slow}"][0] for slow in ("owt", "hypar", "dp")] == pytest.approx(
        [2.98, 3.78, 6.30]
    )
    literal, taken, *ours = found["hypar over owt"]
    assert literal < 1 < min(taken, *ours)
    assert found["owt over dp"][2] == pytest.approx(found["owt over dp"][0], rel=0.05)
    for name in ("hypar over dp", "accpar over owt", "accpar over hypar"):
        literal, taken, *ours = found[name]
        assert all(abs(math.log(own / taken)) < abs(math.log(own / literal)) for own in ours), name


def test_amounts_are_the_published_ones() -> None:
    """All nine cells, and A(W), A(F_out), A(E_in) of which each device receives the whole."""
    assert all(row[1:3] == row[3:5] for row in accpar.between()["rows"])
    assert [row[2:] for row in accpar.inside()["rows"]] == [
        (word, 1, 1) for word in ("A(W)", "A(F_out)", "A(E_in)")
    ]
