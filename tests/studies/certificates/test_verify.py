"""The checker of certificates: what it accepts, that it refuses any other number, and what it knows."""

from __future__ import annotations

import ast
import math
from copy import deepcopy
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

import hypar
from hypar import check_plan, load_model, plan_model
from hypar.errors import InputError, OptionError, PlanError
from hypar.studies.certificates.issue import issue_certificate
from hypar.studies.certificates.problem import orders_of, problem_of
from hypar.studies.certificates.record import Certificate, beside, read_certificate
from hypar.studies.certificates.verify import verify_certificate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan


def drawn(batch: int, *layers: dict[str, Any]) -> LayerGraph:
    """A network of an input, convolutions of one row and column, and sums."""
    first = {"op": "input", "channels": layers[0]["out_channels"], "height": 2, "width": 2}
    every = [first, *(layer if "op" in layer else {"op": "conv", "kernel": 1} | layer for layer in layers)]
    return load_model({"source": "drawn", "batch": batch, "layers": every}, name="drawn")


def residual() -> LayerGraph:
    """A network of which one block has entries that are raised at four levels."""
    own = [
        {"name": name, "out_channels": size}
        for name, size in (("stem", 32), ("one", 256), ("two", 256), ("three", 32))
    ]
    both = {"name": "both", "op": "add", "inputs": ["stem", "three"]}
    return drawn(16, *own, both, {"name": "last", "out_channels": 256})


def entangled() -> LayerGraph:
    """A network whose only block has no pivot."""
    own: list[dict[str, Any]] = [
        {"name": "stem", "out_channels": 256},
        {"name": "a", "out_channels": 256},
        {"name": "two", "op": "add", "inputs": ["stem", "a"]},
        {"name": "b", "out_channels": 256},
        {"name": "three", "op": "add", "inputs": ["stem", "a", "b"]},
        {"name": "c", "out_channels": 32},
        {"name": "d", "out_channels": 256},
        {"name": "four", "op": "add", "inputs": ["stem", "a", "b", "d"]},
        {"name": "last", "out_channels": 256},
    ]
    return drawn(32, *own)


def certified(model: str | LayerGraph, **asked: Any) -> tuple[Plan, LayerGraph, Certificate]:
    """A plan, its network and its certificate."""
    graph = load_model(model) if isinstance(model, str) else model
    plan = plan_model(graph, strategy="optimal", **asked)
    return plan, graph, issue_certificate(plan, graph)


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("sfc", {"levels": 12}),
        ("alexnet", {"levels": 6}),
        ("vgg16", {"array": [256]}),
        ("vgg-e", {"levels": 4, "space": "batch,in_channels"}),
        ("sconv", {"array": [16]}),
        ("resnet18", {"levels": 10}),
        pytest.param("resnet50", {"levels": 12}, marks=pytest.mark.slow),
        pytest.param("resnet152", {"levels": 8}, marks=pytest.mark.slow),
        pytest.param("googlenet", {"levels": 8}, marks=pytest.mark.slow),
        pytest.param("inception-v3", {"levels": 8}, marks=pytest.mark.slow),
        ("lenet-c", {"array": [3, 3], "space": "batch,in_channels,out_channels"}),
        ("alexnet", {"levels": 3, "inter_weight": 0.5}),
    ],
)
def test_the_checker_accepts_what_is_issued(model: str, asked: dict[str, Any], tmp_path: Path) -> None:
    plan, graph, certificate = certified(model, **asked)
    assert plan.claim.startswith("optimal")
    verify_certificate(certificate, plan, graph, "here")
    certificate.write(tmp_path / "a.json")
    verify_certificate(read_certificate(tmp_path / "a.json"), plan, graph, "here")


def numbers(data: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all numbers of a document."""
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from numbers(value, (*place, key))
    elif isinstance(data, int | float):
        yield place


def changed(data: dict[str, Any], place: tuple[Any, ...], by: float) -> dict[str, Any]:
    found = deepcopy(data)
    at: Any = found
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] += by
    return found


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        pytest.param("alexnet", {"levels": 3}, marks=pytest.mark.slow),
        ("lenet-c", {"array": [16]}),
        pytest.param("resnet18", {"levels": 3}, marks=pytest.mark.slow),
        pytest.param(residual(), {"levels": 4}, marks=pytest.mark.slow),
    ],
)
def test_a_certificate_with_any_number_changed_is_refused(
    model: str | LayerGraph, asked: dict[str, Any]
) -> None:
    require_refused(*certified(model, **asked))


def require_refused(plan: Plan, graph: LayerGraph, certificate: Certificate, inside: str = "") -> None:
    """Check that no number inside some part of a certificate may change."""
    data = certificate.model_dump(mode="json", by_alias=True)
    places = [place for place in numbers(data) if not inside or inside in place]
    assert len(places) > 20
    for place, by in product(places, (1, -1)):
        other = changed(data, place, by)
        # A number outside its range is refused when the file is read.
        with pytest.raises((InputError, ValidationError)):
            verify_certificate(Certificate.model_validate(other), plan, graph, "here")


def test_tables_of_blocks_are_raised_by_what_is_in_the_certificate_alone() -> None:
    plan, graph, certificate = certified(residual(), levels=4)
    require_refused(plan, graph, certificate, "raised")
    data = certificate.model_dump(mode="json", by_alias=True)
    at = next(at for at, own in enumerate(data["rounds"][-1]["messages"]) if own["block"])
    block = data["rounds"][-1]["messages"][at]["block"]
    others = [
        ("raised", block["raised"][:place] + block["raised"][place + 1 :])
        for place in range(len(block["raised"]))
    ]
    others += [
        ("inner", block["inner"][:place] + block["inner"][place + 1 :])
        for place in range(len(block["inner"]))
    ]
    others += [("inner", block["inner"] * 2), ("pivot", block["inner"][0][0]), ("pivot", "none")]
    for key, value in others:
        other = deepcopy(data)
        other["rounds"][-1]["messages"][at]["block"][key] = value
        with pytest.raises(PlanError):
            verify_certificate(Certificate.model_validate(other), plan, graph, "here")


def test_messages_and_floors_cannot_be_left_out() -> None:
    plan, graph, certificate = certified("resnet18", levels=3)
    data = certificate.model_dump(mode="json", by_alias=True)
    for kind in ("messages", "floors"):
        for at in range(len(data["rounds"][0][kind])):
            other = deepcopy(data)
            del other["rounds"][0][kind][at]
            with pytest.raises(InputError):
                verify_certificate(Certificate.model_validate(other), plan, graph, "here")


def test_a_dearer_plan_is_refused() -> None:
    plan, graph, certificate = certified("alexnet", levels=3)
    dearer = plan_model(
        "alexnet", levels=3, strategy="dp", space="all", pins="conv1=out_channels", search="greedy"
    )
    dearer = dearer.model_copy(update={"pins": [], "space": plan.space})
    claimed = certificate.model_copy(update={"cost": dearer.cost.value})
    with pytest.raises(PlanError, match=r"bound: found .*, the plan's cost"):
        verify_certificate(claimed, dearer, graph, "here")
    with pytest.raises(OptionError, match="below the cost of 'alexnet'"):
        issue_certificate(dearer, graph)


@pytest.mark.parametrize("model", ["alexnet", "resnet18", "googlenet"])
def test_its_formulas_give_the_cost_of_any_plan(model: str) -> None:
    graph = load_model(model)
    for space in ("batch,in_channels", "out_channels,batch", "batch,in_channels,out_channels"):
        plan = plan_model(graph, levels=3, strategy="dp", space=space, search="greedy")
        cost = problem_of(plan, graph).cost(orders_of(plan))
        assert math.isclose(cost, plan.cost.value, rel_tol=1e-12)


def test_cycles_whose_bound_is_too_low_are_refused_with_the_gap() -> None:
    with pytest.raises(OptionError, match=r"the bound is \d+\.\d+% below the cost of 'drawn'"):
        certified(entangled(), levels=3)


def test_a_plan_is_checked_by_the_certificate_beside_it(tmp_path: Path) -> None:
    plan, _, certificate = certified("alexnet", levels=3)
    file = tmp_path / "plan.json"
    plan.write(file)
    assert not check_plan(file).certified
    certificate.write(beside(file))
    assert beside(file).name == "plan.certificate.json"
    assert check_plan(file).certified
    assert read_certificate(beside(file)) == certificate
    data = plan.to_data()
    data["splits"][0]["costs"]["fc1"] += 4
    type(plan).model_validate(data).write(file)
    with pytest.raises(PlanError, match="fc1 H1 cost"):
        check_plan(file)
    other = tmp_path / "other.json"
    certificate.model_copy(update={"batch": 1}).write(other)
    plan.write(file)
    with pytest.raises(PlanError, match=r"other\.json: batch: found 1; allowed: 256"):
        check_plan(file, certificate=other)


@pytest.mark.parametrize("text", ["[]", '{"schema": "hypar.certificate/1"}', '{"schema": "hypar.plan/2"}'])
def test_a_damaged_certificate_is_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "plan.certificate.json"
    file.write_text(text)
    with pytest.raises(PlanError) as caught:
        read_certificate(file)
    assert str(file) in str(caught.value)


def test_it_imports_no_solver() -> None:
    folder = Path(hypar.__file__).parent / "studies" / "certificates"
    for file in folder.glob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not [
            name for name in names if name.startswith(("hypar.solve", "hypar.costs", "hypar.planning"))
        ]
