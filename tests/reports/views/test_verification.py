"""What the view of a verification holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hypar import verify_plan
from hypar.files.figures import Figure
from hypar.reports.views.verification import plugin
from tests.studies.verification.nets import mlp, planned

if TYPE_CHECKING:
    from hypar.studies.verification.result import Verified


@pytest.fixture
def found() -> Verified:
    graph = mlp()
    choices = {"l1": ("in_channels", "in_channels"), "l2": ("in_channels", "in_channels")}
    return verify_plan(planned(graph, (2, 2), choices), model=graph)


def test_rows_are_levels_then_what_differs(found: Verified) -> None:
    rows = plugin.rows(found)
    assert [(row["level"], row["layer"], row["planned_bytes"], row["counted_bytes"], row["case"]) for row in rows] == [
        ("H1", "all", 2560, 2560, None),
        ("H2", "all", 4608, 5120, None),
        ("H2", "l2", 512, 1024, "a"),
    ]  # fmt: skip
    assert list(found.to_frame()["moved_bytes"][:2]) == [2560, 5120]


def test_the_table_of_a_notebook_names_the_case(found: Verified) -> None:
    text = plugin.html(found)
    assert "E from l2 to l1" in text
    assert "a: a tensor is whole inside a group" in text
    assert text == found._repr_html_()


def test_bars_are_of_each_level_and_count(found: Verified) -> None:
    drawing = plugin.drawing(found)
    assert isinstance(drawing, Figure)
    assert drawing.x == ["H1", "H2"]
    assert drawing.series == {"planned": [2560, 4608], "counted": [2560, 5120], "moved": [2560, 5120]}
    graph = mlp()
    counted = verify_plan(found.plan, model=graph, count=True)
    assert [*plugin.drawing(counted).series] == ["planned", "counted"]  # type: ignore[attr-defined]
    assert {row["moved_bytes"] for row in plugin.rows(counted)} == {None}
