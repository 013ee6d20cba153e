"""A timeline's picture: a row for each layer, colours by kind, the critical path higher than the rest."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex

from hypar.files.timelines import TimelineFigure
from hypar.timeline import Task, Timeline, run

TASKS = [
    Task("a forward", "devices", 2.0, (), "forward"),
    Task("b forward", "devices", 1.0, (0,), "forward"),
    Task("a sum", "links", 0.5, (0,), "communication"),
    Task("a odd", "devices", 1.0, (1,), "odd"),
]
COLOURS = {"communication": "#c4472b", "forward": "#7a91a6"}


def made(timeline: Timeline, **given: object) -> TimelineFigure:
    return TimelineFigure(title="t", timeline=timeline, colours=COLOURS, **given)  # type: ignore[arg-type]


def test_rows_are_layers_and_colours_are_given() -> None:
    (axes,) = made(run(TASKS), rows=["a", "b", "a", "a"]).picture().axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert [text.get_text() for text in axes.get_legend().texts] == ["communication", "forward", "odd"]
    sent, *forward = axes.patches[:3]
    assert [to_hex(bar.get_facecolor()) for bar in (sent, *forward)] == ["#c4472b", "#7a91a6", "#7a91a6"]
    assert (sent.get_x(), sent.get_width()) == (2.0, 0.5)
    assert axes.get_xlim() == (0, 4.0)
    assert axes.xaxis.get_major_formatter()(0.25) == "250 ms"


def test_rows_are_in_the_order_that_is_given() -> None:
    (axes,) = made(run(TASKS), rows=["b", "a", "b", "a"], order=["a", "unused", "b"]).picture().axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert [round(bar.get_y() + bar.get_height() / 2) for bar in axes.patches] == [1, 1, 0, 0]


def test_tasks_off_the_critical_path_are_low() -> None:
    (axes,) = made(run(TASKS)).picture().axes
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == pytest.approx([0.32, 0.8, 0.8, 0.8])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["devices", "links"]


def test_groups_of_devices_share_a_row() -> None:
    tasks = [
        Task("x", "one", 1.0, (), "forward"),
        Task("x", "two", 1.0, (), "forward"),
        Task("x", "one", 1.0, (0, 1)),
    ]
    (axes,) = made(run(tasks), rows=["x"] * 3, strips=[(0, 1), (1, 2), (0, 2)]).picture().axes
    ends = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in axes.patches]
    assert ends[0] == pytest.approx((-0.4, 0.0))
    assert 0.0 < ends[1][0] < ends[1][1] < 0.4
    assert ends[2] == pytest.approx((-0.4, 0.4))


def test_a_timeline_without_tasks_is_drawn() -> None:
    (axes,) = made(run([])).picture().axes
    assert not axes.patches
