"""``--convention`` of every command that has it."""

from __future__ import annotations

import json

import pytest
from click.shell_completion import ShellComplete

from hypar.cli.main import main
from hypar.sharding.conventions import BY_LEVELS
from tests.goldens import FOLDER
from tests.kit import output
from tests.prose import unbroken

VGG = str(FOLDER / "vgg16-hypar.json")
ON_HMC = ("--hardware", "hmc")

ASKED = {
    "plan": ("lenet-c", "--levels", "2"),
    "score": (VGG, *ON_HMC),
    "compare": ("lenet-c", "--levels", "2"),
    "sweep": ("lenet-c", "--levels", "2", *ON_HMC),
    "explore": ("lenet-c", "--levels", "2", "--vary", "fc1", *ON_HMC),
    "report": (VGG, *ON_HMC),
}
"""A call of each command that takes the option."""


@pytest.mark.parametrize("name", ASKED)
def test_it_stands_under_search_with_its_names_and_completes(name: str) -> None:
    search = output(name, "--help").partition("\nSearch:\n")[2].partition("\n\n")[0]
    assert "--convention NAME" in search
    assert "How bytes are counted: paper, moved, fused." in unbroken(search)
    found = ShellComplete(main, {}, "hypar", "_HYPAR_COMPLETE").get_completions(
        [name, *ASKED[name], "--convention"], ""
    )
    assert [item.value for item in found] == [*BY_LEVELS]


@pytest.mark.parametrize("name", ["compare", "sweep", "explore"])
def test_a_table_of_rows_names_a_convention_that_is_not_the_usual(name: str) -> None:
    assert "counted by" not in unbroken(output(name, *ASKED[name]).partition("\n\n")[0])
    assert "counted by fused" in unbroken(output(name, *ASKED[name], "--convention", "fused"))
    rows = json.loads(output(name, *ASKED[name], "--convention", "paper", "--json"))
    assert {row.get("convention") or row["counted"]["convention"] for row in rows} == {"paper"}


def test_a_plan_and_a_score_name_theirs() -> None:
    text = unbroken(output("plan", "vgg16", "--levels", "4", *ON_HMC, "--full"))
    assert "volume 2.18 GB a step, by the convention 'paper': H1 171 MB" in text
    assert "2.22 GB received: H1 " in text
    for asked in BY_LEVELS:
        alike = unbroken(output("plan", "vgg16", "--levels", "4", *ON_HMC, "--full", "--convention", asked))
        assert alike.count(f"by the convention '{asked}'") == 2 - (asked == "moved")
    by_paper = output("score", VGG, *ON_HMC, "--convention", "paper")
    assert "2.18 GB received by the convention 'paper': H1 " in unbroken(by_paper)


def test_the_exchange_of_gradients_is_the_same_by_every_convention() -> None:
    asked = (*ON_HMC, "--strategy", "dp", "--chunks", "best")
    by_paper, *others = (
        json.loads(output("plan", "lenet-c", *asked, "--json", "--convention", convention))["score"]["time"]
        for convention in ("paper", "moved", "fused")
    )
    assert others == [by_paper] * 2


@pytest.mark.parametrize(
    "asked",
    [(*ON_HMC, "--stages", "2", "--levels", "1"), ("--hardware", "tpu-v2-v3")],
    ids=["stages", "groups"],
)
def test_stages_and_groups_say_by_what_their_cost_counts(asked: tuple[str, ...]) -> None:
    assert "by the convention 'paper'" in unbroken(output("plan", "lenet-c", *asked, "--full"))
    fused = unbroken(output("plan", "lenet-c", *asked, "--full", "--convention", "fused"))
    assert "by the convention 'fused'" in fused
