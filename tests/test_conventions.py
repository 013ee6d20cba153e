"""The table of all models on the page of the algebra, which an example prints."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hypar
from hypar.planning.counting import bytes_received
from tests.test_docs import compare

if TYPE_CHECKING:
    from hypar import LayerGraph

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "algebra.md"
TABLE = re.compile(r"(?<=<!-- python examples/conventions.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
LEVELS = 4
SMALL = ("lenet-c", "sfc", "cifar-c", "alexnet")


def rows() -> dict[str, list[str]]:
    """Return the cells of each model on the page."""
    (found,) = TABLE.findall(PAGE.read_text(encoding="utf-8"))
    lines = [line.strip("| ").split(" | ") for line in found.splitlines()[2:]]
    return {name: cells for name, *cells in lines}


def test_the_table_has_every_model() -> None:
    assert list(rows()) == list(hypar.models())


@pytest.mark.slow
def test_the_table_is_what_the_example_prints(update_golden: bool) -> None:
    command = [sys.executable, str(ROOT / "examples" / "conventions.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = PAGE.read_text(encoding="utf-8")
    compare(PAGE, TABLE.sub(lambda _: printed, text), update=update_golden)


@pytest.mark.parametrize("name", SMALL)
def test_a_row_of_the_table_is_what_the_example_prints(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "conventions.py"))["main"]([name])
    printed = capsys.readouterr().out
    assert printed.splitlines()[2] == f"| {' | '.join([name, *rows()[name]])} |"


@cache
def graph(name: str) -> LayerGraph:
    return hypar.load_model(name)


def moved(name: str, strategy: str, convention: str) -> float:
    plan = hypar.plan_model(graph(name), levels=LEVELS, strategy=strategy, convention=convention)
    return bytes_received(plan, graph(name), "moved")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SMALL else pytest.mark.slow) for name in hypar.models()]
)
def test_no_strategy_moves_less_than_the_optimum(name: str) -> None:
    others = [
        moved(name, strategy, convention)
        for strategy in ("dp", "mp", "owt", "hypar", "accpar", "optimal")
        for convention in ("paper", "fused")
    ]
    assert moved(name, "optimal", "moved") <= min(others) * (1 + 1e-12)
