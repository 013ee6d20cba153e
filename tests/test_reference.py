"""Plans answer as they did: the quick rows of ``reference.csv``, and all of them in the long run."""

import pytest

from tests import reference

ROWS = reference.read()
QUICK = [pytest.param(row, id=row["command"]) for row in ROWS if row["quick"] and not row["reason"]]


@pytest.mark.parametrize("row", QUICK)
def test_a_plan_answers_as_it_did(row: reference.Row) -> None:
    assert reference.changed(row, reference.answer(row["command"])) == {}


@pytest.mark.slow
@pytest.mark.long
def test_all_plans_answer_as_they_did() -> None:
    assert reference.compare(ROWS, (reference.answer(row["command"]) for row in ROWS))


def test_rows_are_compared_by_number_and_item() -> None:
    before = dict.fromkeys(reference.ANSWERS, "") | {"cost": "all=3 H1=1 H2=2", "seconds": "0.1"}
    assert reference.changed(before, before | {"cost": "all=3.0000000001 H1=1 H2=2"}) == {}
    after = before | {"cost": "all=4 H1=2 H3=2", "seconds": "", "refusal": "3 error: no"}
    assert reference.changed(before, after) == {
        "cost": ["all 3 -> 4", "H1 1 -> 2", "H2 2 -> None", "H3 None -> 2"],
        "seconds": ["0.1 -> "],
        "refusal": [" -> 3 error: no"],
    }
