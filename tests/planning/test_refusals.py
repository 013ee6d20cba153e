"""Every pair of features of a request is planned, and found again by ``hypar check``, or is refused as its row says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hypar import profile_model
from hypar.cli.main import main
from hypar.network.dims import CUTTABLE
from hypar.planning.refusals import FEATURES, REFUSALS
from tests.benches import FakeBench

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from hypar.planning.refusals import Refusal

Case = dict[str, str | None]
"""Options of ``hypar plan`` with their values; None for an option that is left out."""

MIXED: Case = {"--hardware": "tpu-v2-v3"}

CASES: dict[str, Case] = {
    "levels": {"--levels": "2"},
    "array": {"--array": "4"},
    "heterogeneous": MIXED,
    "no machine": {"--hardware": None},
    "optimizer": {"--optimizer": "adam"},
    "refine": {"--refine": ""},
    "chunks": {"--chunks": "best"},
    "explain": {"--explain": ""},
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
    "whole shares": {"--integral": ""},
    "whole shares of groups": {**MIXED, "--integral": "", "--cost": "accpar"},
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
    "memory limit": {"--memory-limit": "1e8"},
}

COSTS = {
    "volume": {"a cost without a slowest group", "a cost without measured times", "a cost without modes"},
    "time": {"a timed cost", "a cost of identical devices", "a cost without a slowest group",
             "a cost without measured times", "a cost without that weight", "a cost without modes"},
    "accpar": {"a timed cost", "a cost without measured times", "a cost without that weight", "a cost without modes"},
    "deepa": {"a timed cost", "a cost of identical devices", "a cost with its own count",
              "a cost without a slowest group", "a cost without that weight"},
}  # fmt: skip
"""The features of each cost."""


def features(asked: Mapping[str, str | None]) -> Iterator[str]:
    """The features of some options."""
    mixed, stages, starts = asked["--hardware"] == "tpu-v2-v3", asked.get("--stages"), asked.get("--starts")
    cut = asked.get("--levels") != "0" or "--array" in asked
    nested = "s" in str(asked.get("--array"))
    staged = nested or bool({stages, starts} - ({None, "1", "conv1"} if cut else {None}))
    cost = asked.get("--cost") or {"deepa": "deepa", "accpar": "accpar" if mixed else "volume"}.get(
        str(asked.get("--strategy")), "volume"
    )
    yield from COSTS[cost]
    given = {
        "a heterogeneous machine": mixed,
        "uneven splits": mixed and (nested or not staged or stages == "best"),
        "stages on identical devices of groups": mixed and staged and not nested and stages != "best",
        "identical devices": not mixed,
        "no machine": asked["--hardware"] is None,
        "several levels": asked.get("--levels") == "2" or asked.get("--array") == "2x2",
        "no stages": not staged,
        "the best stages": stages == "best",
        "stages without levels": staged and not cut,
        "unequal shares": asked.get("--shares") == "exact",
        "pins at a level": "@" in str(asked.get("--pin")),
        "levels": "--levels" in asked,
        "an array": "--array" in asked,
        "an optimizer": "--optimizer" in asked,
        "refinement": "--refine" in asked,
        "chunks": "--chunks" in asked,
        "an explanation": "--explain" in asked,
        "stages": staged,
        "a schedule": "--schedule" in asked,
        "microbatches": "--microbatches" in asked,
        "parts": "--parts" in asked,
        "stages in one part": staged and asked.get("--schedule") != "interleaved",
        "a balance": "--balance" in asked,
        "starts": starts is not None,
        "pins": "--pin" in asked,
        "shares": "--shares" in asked,
        "whole shares": "--integral" in asked,
        "a limit": bool({"--time-limit", "--memory-limit"} & {*asked}),
        "a profile": "--profile" in asked,
        "a weight between layers": "--inter-weight" in asked,
        "a mode": "--mode" in asked,
        "another count than the paper's": "--convention" in asked,
    }
    yield from (name for name, has in given.items() if has)


def refused(asked: Mapping[str, str | None]) -> Refusal | None:
    """The first row that refuses some options."""
    found = {*features(asked)}
    return next((row for row in REFUSALS if {row.first, row.second} <= found), None)


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


PARTS = range(4)
QUICK = {"heterogeneous": 0, "stages on groups": 1, "best stages": 2, "chunks": 3}
"""The cases of whose pairs the quick run tries a fourth, and which; the slow one tries the other pairs of all."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder to be in, with measured times of every choice."""
    monkeypatch.chdir(tmp_path)
    space = "*".join(CUTTABLE)
    profile_model("lenet-c", batch=32, ways=4, space=space, repeats=1, bench=FakeBench()).write("times.json")


def run(*arguments: str) -> tuple[int, str]:
    """The exit status of a command and what it writes; an exception that is no exit is raised."""
    result = CliRunner().invoke(main, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout if result.exit_code == 0 else result.stderr


@pytest.mark.parametrize(
    ("first", "part"),
    [
        pytest.param(first, part, marks=[] if QUICK.get(first) == part else pytest.mark.slow)
        for first in CASES
        for part in PARTS
    ],
)
def test_every_pair_is_planned_or_refused_as_its_row_says(first: str, part: int) -> None:
    for asked in [*pairs(first)][part :: len(PARTS)]:
        require_planned_or_refused(asked, refused(asked))


def require_planned_or_refused(asked: Mapping[str, str | None], row: Refusal | None) -> None:
    """Check that a pair is planned and found again, or that the line of a row refuses it."""
    words = [word for key, value in asked.items() if value is not None for word in (key, value) if word]
    status, text = run("plan", "lenet-c", "--batch", "32", "-o", "plan.json", *words)
    if row is None:
        assert (status, text if status else "") == (0, ""), words
        assert run("check", "plan.json", "--profile", "times.json")[0] == 0, words
    else:
        line = "; allowed: ".join(filter(None, (f"{row.where}: {row.found}".removeprefix(": "), row.allowed)))
        pattern = re.sub(r"\\\{\w+\\\}", ".+", re.escape(f"error: {line}\n"))
        assert status == 3, (row, words)
        assert re.fullmatch(pattern, text), (text, row, words)


def test_every_row_refuses_some_pair() -> None:
    found: dict[Refusal, Case] = {}
    for first in CASES:
        for asked in pairs(first):
            if row := refused(asked):
                found.setdefault(row, asked)
    assert {*found} == {*REFUSALS}
    for row, asked in found.items():
        require_planned_or_refused(asked, row)


def test_every_row_names_features() -> None:
    assert {name for row in REFUSALS for name in (row.first, row.second)} == {*FEATURES}
