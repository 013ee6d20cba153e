"""Every pair of features of a request is planned, and found again by ``hypar check``, or is refused by a row of ``REFUSALS``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from hypar import profile_model
from hypar.ops.dims import CUTTABLE
from hypar.plan.request import PARAMETERS
from hypar.planning.refusals import FEATURES, REFUSALS
from tests.benches import FakeBench
from tests.kit import run
from tests.test_refusals import cases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hypar.plan.request import PARAMETERS
from hypar.planning.refusals import Refusal

pytestmark = pytest.mark.usefixtures("folder")

Case = dict[str, str | None]
"""Options of ``hypar plan`` with their values; None for an option that is left out."""

MIXED: Case = {"--hardware": "tpu-v2-v3"}

CASES: dict[str, Case] = {
    "levels": {"--levels": "2"},
    "array": {"--array": "4"},
    "heterogeneous": MIXED,
    "no machine": {"--hardware": None},
    "optimizer": {"--optimizer": "adam"},
    "precision": {"--precision": "bf16"},
    "zero": {"--zero": "3"},
    "refine": {"--refine": ""},
    "chunks": {"--chunks": "best"},
    "stages": {"--stages": "2"},
    "stages on groups": {**MIXED, "--stages": "2"},
    "best stages": {"--stages": "best"},
    "stages without levels": {"--stages": "2", "--levels": "0"},
    "schedule": {"--schedule": "gpipe"},
    "schedule of stages": {"--stages": "2", "--schedule": "gpipe"},
    "microbatches": {"--microbatches": "4"},
    "microbatches of stages": {"--stages": "2", "--microbatches": "4"},
    "parts": {"--parts": "2"},
    "parts of stages": {"--stages": "2", "--parts": "2"},
    "interleaved stages": {"--stages": "2", "--schedule": "interleaved"},
    "parts of nested stages": {"--array": "2xs2", "--schedule": "interleaved", "--parts": "2"},
    "balance": {"--balance": "memory"},
    "balance of stages": {"--stages": "2", "--balance": "memory"},
    "starts": {"--starts": "conv1,fc1"},
    "one start": {"--starts": "conv1"},
    "one stage": {"--stages": "1"},
    "one stage without levels": {"--stages": "1", "--levels": "0"},
    "pin": {"--pin": "fc1=mp"},
    "pin at a level": {"--pin": "fc1@H1=mp"},
    "equal shares": {"--shares": "equal"},
    "exact shares": {"--shares": "exact"},
    "exact shares of groups": {**MIXED, "--shares": "exact", "--cost": "accpar"},
    "profile": {"--profile": "times.json"},
    "profile of deepa": {"--profile": "times.json", "--cost": "deepa"},
    "weight": {"--inter-weight": "0.5"},
    "mode": {"--mode": "serial"},
    "mode of deepa": {"--mode": "serial", "--cost": "deepa"},
    "moved": {"--convention": "moved"},
    "fused": {"--convention": "fused"},
    "time": {"--cost": "time"},
    "deepa": {"--cost": "deepa"},
    "accpar": {"--cost": "accpar"},
    "strategy deepa": {"--strategy": "deepa"},
    "strategy accpar": {"--strategy": "accpar"},
    "strategy optimal": {"--strategy": "optimal"},
    "space": {"--space": "all"},
    "grids": {"--space": "batch*in_channels"},
    "operators": {"--graph": "operators"},
    "joint": {"--search": "joint"},
    "solver": {"--solver": "elimination"},
    "time limit": {"--time-limit": "30"},
    "memory limit": {"--search-memory": "1e8"},
}


def pairs(first: str) -> Iterator[dict[str, str | None]]:
    """The options of one case with those of every later one, where they do not contradict each other."""
    names = [*CASES]
    for second in names[names.index(first) :]:
        one, other = CASES[first], CASES[second]
        asked = {"--hardware": "hmc", **one, **other}
        starts = str(asked.get("--starts")).count(",") + 1
        if asked.get("--schedule") == "interleaved" and "--starts" in asked:
            asked["--starts"], starts = "conv1,conv2,fc1,fc2", 2
        counted = "--starts" not in asked or asked.get("--stages") in {None, "best", str(starts)}
        # The groups of a machine hold equally many stages.
        counted = counted and not (
            asked["--hardware"] == "tpu-v2-v3"
            and {asked.get("--stages"), asked.get("--starts")} & {"1", "conv1"}
        )
        # An array with a number of stages says it alone.
        nested = "s" in str(asked.get("--array"))
        counted = counted and not (nested and {"--stages", "--starts"} & {*asked})
        if counted and all(one[key] == other[key] for key in one.keys() & other.keys()):
            # The level of a profile has four ways; a heterogeneous machine has its groups at the outermost one.
            array = "2x2" if asked["--hardware"] == "tpu-v2-v3" else "4"
            if not nested and ("--levels" not in asked or "--array" in asked):
                asked["--array"] = array
            yield asked


def pattern(row: Refusal) -> str:
    """The pattern of the line of a row."""
    line = "; allowed: ".join(filter(None, (f"{row.where}: {row.found}".removeprefix(": "), row.allowed)))
    return re.sub(r"\\\{\w+\\\}", ".+", re.escape(line))


OF_VALUES = (
    r"cost .+: has no parameter .+",
    r"profile .+: ways: found 4; .+",
    r"stages: found .+ and starts of .+",
)
"""Lines of values that do not fit: a parameter of another cost, times of another array, other stages than those that start."""

PARTS = range(4)
QUICK = {"heterogeneous": 0, "stages on groups": 1, "best stages": 2, "chunks": 3}
"""The cases of whose pairs the quick run tries a fourth, and which; the slow one tries the other pairs of all."""


@pytest.mark.parametrize(
    ("first", "part"),
    [
        pytest.param(first, part, marks=[] if QUICK.get(first) == part else pytest.mark.slow)
        for first in CASES
        for part in PARTS
        if [*pairs(first)][part :: len(PARTS)]
    ],
)
def test_every_pair_is_planned_or_refused_by_a_row(first: str, part: int) -> None:
    """Measured times are those of every choice at a level of four ways."""
    space = "*".join(CUTTABLE)
    profile_model("lenet-c", batch=32, ways=4, space=space, repeats=1, bench=FakeBench()).write("times.json")
    for each in [*pairs(first)][part :: len(PARTS)]:
        require_planned_or_refused(each)


def require_planned_or_refused(asked: Mapping[str, str | None]) -> None:
    """Check that a pair is planned and found again, or that the line of a row refuses it."""
    words = [word for key, value in asked.items() if value is not None for word in (key, value) if word]
    result = run("plan", "lenet-c", "--batch", "32", "-o", "plan.json", *words)
    if result.exit_code:
        line = result.stderr.removeprefix("error: ").rstrip("\n")
        lines = (*OF_VALUES, *map(pattern, REFUSALS))
        assert any(re.fullmatch(own, line) for own in lines), (words, line)
    else:
        assert run("check", "plan.json", "--profile", "times.json").exit_code == 0, words


def test_every_row_refuses_a_case_of_those_that_are_stated() -> None:
    said = [parameter.values[2] for parameter in cases()]
    lines = [line["says"] if isinstance(line, dict) else line for line in said]
    for row in REFUSALS:
        assert any(isinstance(line, str) and re.fullmatch(pattern(row), line) for line in lines), row


def test_every_row_names_features() -> None:
    names = {name for row in REFUSALS for name in (row.first, row.second)}
    assert names >= {*FEATURES}
    assert {name.rpartition(" ")[2] for name in names - {*FEATURES}} <= {*PARAMETERS}
