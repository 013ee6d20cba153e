"""Bars count from 0 and bear their numbers, lines join numbers alone, and equal data give equal bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from matplotlib.colors import to_hex

from hypar.errors import OptionError
from hypar.files.canvas import ENDINGS, INK, LINE, MUTED, RULE, draw
from hypar.files.figures import Figure
from hypar.reports.palette import PAGE
from hypar.units import format_seconds

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["dp", "owt", "hypar"]


def texts(axes: Any) -> list[str]:
    """The texts inside the axes."""
    return [text.get_text() for text in axes.texts]


def figure(**given: Any) -> Figure:
    return Figure(**{"title": "t", "x": NAMES, "x_label": "", "y_label": "seconds", **given})


def test_one_series_of_bars_lies_on_its_side_with_numbers_at_the_ends() -> None:
    made = figure(series={"": [0.5, None, 2.0]}, shown=format_seconds, marks={2: "the plan"})
    (axes,) = made.picture().axes
    assert not axes.lines
    assert [bar.get_x() for bar in axes.patches] == [0, 0, 0]
    assert texts(axes) == ["500 ms", "", "2.00 s  the plan"]
    assert [label.get_text() for label in axes.get_yticklabels()] == NAMES
    assert axes.get_xlim()[0] == 0
    assert axes.xaxis.get_major_formatter()(0.5) == "500 ms"


def test_several_series_stand_beside_each_other_with_their_numbers() -> None:
    (axes,) = figure(series={"ours": [1.0, 2.0, 3.5], "published": [1.5, None, 12345.0]}).picture().axes
    assert not axes.lines
    assert texts(axes) == ["1", "2", "3.5", "1.5", "12,345"]
    assert axes.get_ylim()[0] == 0
    assert [text.get_text() for text in axes.get_legend().texts] == ["ours", "published"]


def test_bars_too_narrow_for_numbers_have_none() -> None:
    many = [str(number) for number in range(40)]
    series = {name: [1.0] * 40 for name in NAMES}
    (axes,) = figure(x=many, series=series).picture().axes
    assert not axes.texts
    assert len(axes.patches) == 120


def test_points_over_categories_are_not_joined() -> None:
    series = {"ours": [1.0, 1e3, None], "published": [2.0, 1.0, 1e6]}
    (axes,) = figure(series=series, kind="points", log=True).picture().axes
    assert {line.get_linestyle() for line in axes.lines} == {"None"}
    assert axes.get_yscale() == "log"
    assert len(axes.texts) == 5


def test_lines_far_apart_are_named_at_their_ends_and_others_in_a_legend() -> None:
    (apart,) = (
        figure(x=[1, 2, 3], series={"a": [1.0, 2.0, 3.0], "b": [1.0, 5.0, 9.0]}, kind="lines").picture().axes
    )
    assert (texts(apart), apart.get_legend()) == (["a", "b"], None)
    assert apart.get_ylim()[0] == 0
    (near,) = (
        figure(x=[1, 2, 3], series={"a": [1.0, 2.0, 3.0], "b": [1.0, 5.0, 3.0]}, kind="lines").picture().axes
    )
    assert not near.texts
    assert [text.get_text() for text in near.get_legend().texts] == ["a", "b"]
    (empty,) = figure(x=[1, 2, 3], series={"a": [None] * 3, "b": [1.0] * 3}, kind="lines").picture().axes
    assert empty.get_legend() is not None


@pytest.mark.parametrize(("place", "side"), [(0, "left"), (99, "right")])
def test_a_mark_names_a_position_of_a_line(place: int, side: str) -> None:
    values = [float(number) for number in range(100)]
    made = figure(x=range(100), series={"": values}, kind="lines", marks={place: "fastest: $5"})
    (axes,) = made.picture().axes
    (text,) = axes.texts
    assert (text.get_text(), text.xy, text.get_ha()) == (r"fastest: \$5", (place, float(place)), side)
    assert len(axes.get_xticks()) <= 11


def test_the_style_is_that_of_pages() -> None:
    assert tuple(PAGE[name].light for name in ("ink", "muted", "line", "rule")) == (INK, MUTED, LINE, RULE)
    canvas = figure(series={"": [1.0, 2.0, 3.0]}).picture()
    (axes,) = canvas.axes
    assert to_hex(canvas.get_facecolor()) == PAGE["ground"].light
    assert [name for name, spine in axes.spines.items() if spine.get_visible()] == ["left"]
    assert canvas.get_suptitle() == "t"
    assert canvas._repr_png_().startswith(b"\x89PNG")


def test_a_number_stays_with_its_unit_in_a_title() -> None:
    title = f"{'word ' * 30}takes 1.94 s a step"
    assert "1.94\u00a0s" in figure(title=title, series={"": [1.0, 2.0, 3.0]}).picture().get_suptitle()


@pytest.mark.parametrize("ending", ENDINGS)
def test_equal_data_give_equal_bytes(ending: str, tmp_path: Path) -> None:
    files = [tmp_path / f"{name}{ending}" for name in "ab"]
    for file in files:
        draw(figure(series={"a": [1.0, 2.0, 3.0], "b": [3.0, 2.0, 1.0]}), file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_file_of_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match=r"plot: found the file '.*p\.gif'; allowed: a name that ends in \.png"
    ):
        draw(figure(series={"": [1.0]}), tmp_path / "p.gif")
