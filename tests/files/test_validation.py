"""What is too large is refused before each of its entries is judged, in a short line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hypar import plan_model, read_plan
from hypar.errors import DocumentError, PlanError, UnknownNameError, suggestion
from hypar.files.text import read_json
from hypar.files.validation import MOST_CHARACTERS, MOST_ENTRIES
from hypar.sharding.space import LONGEST_TEXT, parse_space

if TYPE_CHECKING:
    from pathlib import Path

PLAN: dict[str, Any] = plan_model("lenet-c", levels=1).to_data()
MANY = {f"k{number}": number for number in range(MOST_ENTRIES + 1)}
LONG = "x" * (MOST_CHARACTERS + 1)
ENTRIES = f"found {MOST_ENTRIES + 1:,} entries; allowed: at most {MOST_ENTRIES:,}"
CHARACTERS = f"found {MOST_CHARACTERS + 1:,} characters; allowed: at most {MOST_CHARACTERS:,}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cost": PLAN["cost"] | {"parameters": MANY}}, f"cost.parameters: {ENTRIES}"),
        ({"pins": [*MANY]}, f"pins: {ENTRIES}"),
        ({"splits": [PLAN["splits"][0] | {"choices": {"fc1": MANY}}]}, f"splits[0].choices.fc1: {ENTRIES}"),
        ({"claim": LONG}, f"claim: {CHARACTERS}"),
        ({"model": PLAN["model"] | {"name": LONG}}, f"model.name: {CHARACTERS}"),
        ({"pins": ["fc1=mp", LONG]}, f"pins[1]: {CHARACTERS}"),
    ],
)
def test_what_is_too_large(
    changes: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(*_: object) -> None:
        pytest.fail("its entries were judged")

    monkeypatch.setattr("hypar.plan.plan.Plan.model_validate", judged)
    file = tmp_path / "p.json"
    file.write_text(json.dumps(PLAN | changes))
    with pytest.raises(PlanError) as caught:
        read_plan(file)
    assert str(caught.value) == f"{file}: {message}"


def test_a_long_name_is_quoted_short_and_compared_with_nothing() -> None:
    assert len(str(UnknownNameError("solver", LONG, ["chain"]))) < 200
    assert suggestion(LONG, [LONG, "x" * 101]) == suggestion("chian", ["chain" * 50]) == ""
    with pytest.raises(
        DocumentError.__mro__[1], match=rf"space 'x,x.*: found {LONGEST_TEXT + 1:,} characters"
    ):
        parse_space("x," * (LONGEST_TEXT // 2) + "x")


class Counted(str):
    """A key that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_keys_of_an_object_are_compared_a_few_times_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one of them is given twice, not each with each."""
    pairs = [(Counted(f"k{number % 199_999}"), number) for number in range(200_000)]
    monkeypatch.setattr("json.loads", lambda _text, *, object_pairs_hook, **_: object_pairs_hook(pairs))
    file = tmp_path / "a.json"
    file.write_text("{}")
    with pytest.raises(DocumentError, match="key 'k0' given twice"):
        read_json(file)
    assert Counted.compared < 5 * len(pairs)
