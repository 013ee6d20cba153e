"""The table of all models on the page of the algebra, which an example prints."""

import re
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import hypar
from hypar import LayerGraph, Plan
from hypar.studies.grid import costs_of
from tests.effort import NETWORKS
from tests.test_docs import compare

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "algebra.md"
TABLE = re.compile(r"(?<=<!-- python examples/conventions.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
LEVELS = 4
SMALL = ("lenet-c", "sfc", "cifar-c", "alexnet")


def table() -> list[str]:
    (found,) = TABLE.findall(PAGE.read_text(encoding="utf-8"))
    lines: list[str] = found.splitlines()
    return lines


@cache
def graph_of(name: str) -> LayerGraph:
    return hypar.load_model(name)


@cache
def plan_of(name: str, strategy: str, convention: str) -> Plan:
    return hypar.plan_model(graph_of(name), levels=LEVELS, strategy=strategy, convention=convention)


@cache
def example() -> Any:
    """Return the example's function, which plans nothing twice."""
    main = runpy.run_path(str(ROOT / "examples" / "conventions.py"))["main"]
    main.__globals__["planned"] = lambda graph, *asked: plan_of(graph.name, *asked)
    return main


def test_the_table_has_every_model(update_golden: bool, capsys: pytest.CaptureFixture[str]) -> None:
    if update_golden:
        example()([*hypar.models()])
        text = PAGE.read_text(encoding="utf-8")
        compare(PAGE, TABLE.sub(lambda _: capsys.readouterr().out, text), update=True)
    assert [line.split(" | ")[0].strip("| ") for line in table()[2:]] == [*hypar.models()]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SMALL else pytest.mark.slow) for name in NETWORKS]
)
def test_a_row_is_what_the_example_prints_and_no_strategy_moves_less_than_the_optimum(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    example()([name])
    assert capsys.readouterr().out.splitlines() == [
        *table()[:2], *(line for line in table()[2:] if line.startswith(f"| {name} |"))
    ]  # fmt: skip
    graph = graph_of(name)
    others = [
        sum(costs_of(plan_of(name, strategy, convention), graph, "moved", None))
        for strategy in ("dp", "mp", "owt", "hypar", "accpar", "optimal")
        for convention in ("paper", "fused")
    ]
    least = sum(costs_of(plan_of(name, "optimal", "moved"), graph, "moved", None))
    assert least <= min(others) * (1 + 1e-12)
