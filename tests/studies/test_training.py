"""A step trains as its plan says: its run on simulated devices gives the numbers of one device, and moves and holds what is said."""

from typing import Any

import pytest

from hypar import LayerGraph, Plan, load_model, plan_model, read_plan, verify_plan
from hypar.network.training import PRECISIONS
from hypar.planning.replay import run_plan
from tests.kit import known
from tests.studies.nets import chain, mlp
from tests.transformers import gpt, llama, mixtral, vit

BLOCKS = {"gpt": gpt, "llama": llama, "mixtral": mixtral, "vit": vit}
ARRAYS: tuple[tuple[int | str, ...], ...] = ((2,), (4,), (2, 2), (2, 4), ("s2", 2))


def trained(graph: LayerGraph, array: tuple[int | str, ...], **more: Any) -> Plan:
    """Return a plan with Adam on a machine, of samples alone at one level and in stages, of any dims at two."""
    given = {"strategy": "dp"} if len(array) < 2 or "s2" in array else {"strategy": "optimal"}
    return plan_model(graph, array=array, hardware="h100-8x", **{"optimizer": "adam", **given, **more})


def holds_what_it_says(plan: Plan, graph: LayerGraph) -> None:
    found = verify_plan(plan, model=graph)
    assert not found.changes
    assert not found.mismatches
    assert known(found.numbers).error_below is not None
    assert found.ok
    for group in found.memory:
        # A position for each patch and one more leave room on some devices that the fullest one fills.
        assert group.held == pytest.approx(group.said, rel=6e-3 if graph.name == "vit" else 1e-9)


@pytest.mark.parametrize("array", ARRAYS, ids=str)
@pytest.mark.parametrize("name", BLOCKS)
def test_gradients_of_microbatches_are_added_up(name: str, array: tuple[int | str, ...]) -> None:
    graph = BLOCKS[name](batch=16)
    holds_what_it_says(trained(graph, array, microbatches=2), graph)


def test_a_step_of_microbatches_takes_their_phases_in_turn_and_updates_once() -> None:
    graph = chain().with_batch(32)
    one, four = (run_plan(trained(graph, (4,), microbatches=count)) for count in (1, 4))
    part = run_plan(trained(graph.with_batch(8), (4,)))
    computed = {name: part.score.time[name] for name in ("forward", "backward", "gradient")}
    assert {name: four.score.time[name] for name in computed} == {
        name: pytest.approx(4 * seconds) for name, seconds in computed.items()
    }
    for name in ("update", "communication"):
        assert four.score.time[name] == pytest.approx(one.score.time[name])
    assert four.score.communication == one.score.communication
    assert four.score.memory == part.score.memory


def test_a_plan_file_says_microbatches_where_there_are_several(folder: Any) -> None:
    plan, usual = (plan_model("lenet-c", hardware="hmc", microbatches=count) for count in (2, 1))
    assert "training" not in usual.to_data()
    assert plan.to_data()["training"] == {"microbatches": 2}
    plan.write("plan.json")
    assert read_plan("plan.json") == plan
    assert run_plan("plan.json").score == plan.score
    assert load_model("lenet-c").batch % plan.microbatches == 0


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("array", ARRAYS, ids=str)
def test_tensors_have_the_formats_of_a_precision(array: tuple[int | str, ...], precision: str) -> None:
    graph = llama(batch=16)
    holds_what_it_says(trained(graph, array, precision=precision), graph)


@pytest.mark.parametrize(
    ("precision", "model", "optimizer", "each"),
    [
        (None, "float32", "adam", (4, 4, 8)),
        (None, "bfloat16", "adam", (2, 2, 4)),
        ("fp32", "bfloat16", "adam", (4, 4, 8)),
        ("bf16", "float32", "adam", (2, 2, 12)),
        ("bf16", "bfloat16", "sgd", (2, 2, 4)),
        ("bf16-fp32-gradients", "bfloat16", "adam", (2, 4, 12)),
    ],
)
def test_a_parameter_has_as_many_bytes_as_frameworks_hold(
    precision: str | None, model: str, optimizer: str, each: tuple[int, int, int]
) -> None:
    graph = mlp(64).with_fields({}, dtype=model)
    plan = trained(graph, (2,), strategy="dp", precision=precision, optimizer=optimizer)
    score, numbers = known(plan.score), 2 * 16 * 16
    assert [score.memory[term] for term in ("weights", "gradients", "optimizer")] == [
        size * numbers for size in each
    ]
    assert score.communication_bytes == 2 * each[1] * numbers


def test_a_precision_is_that_of_the_machines_arithmetic() -> None:
    graph = mlp(2**16).with_fields({}, dtype="float32")
    own = {name: known(trained(graph, (2,), precision=name).score) for name in ("fp32", "bf16")}
    assert own["bf16"].time["forward"] < own["fp32"].time["forward"]
    assert known(trained(graph, (2,)).score) == own["fp32"]
