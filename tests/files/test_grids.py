"""A grid's picture: a word in each coloured cell, as wide as its halvings, and equal neighbours as one row."""

from __future__ import annotations

from matplotlib.colors import to_hex

from hypar.files.grids import MOST_ROWS, Cell, Grid, Row

DP, MP = Cell("dp", 1.0, "#bddaf3", "#1b1f24"), Cell("mp", 1.0, "#f0a02e", "#1b1f24")
GRID = (Cell("n8", 3.0, "#bddaf3", "#1b1f24"), Cell("c2", 1.0, "#8a3577", "#ffffff"))


def grid(rows: list[Row], heads: list[str], widths: list[float]) -> Grid:
    legend = {"batch": DP, "in channels": MP}
    return Grid(
        title="t", heads=heads, widths=widths, cost="volume", shown=lambda cost: f"{cost:.0f} B", rows=rows, legend=legend
    )  # fmt: skip


def test_each_cell_has_its_word_and_its_colour() -> None:
    made = grid([Row("conv", ((DP,), (MP,)), 5.0), Row("fc", ((MP,), (MP,)), 7.0)], ["H1", "H2"], [1.0, 1.0])
    (axes,) = made.picture().axes
    shown = [text.get_text() for text in axes.texts]
    assert shown == ["dp", "mp", "5 B", "mp", "mp", "7 B", "H1", "H2", "volume"]
    assert [to_hex(bar.get_facecolor()) for bar in axes.patches] == [DP.ground, *[MP.ground] * 3]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["conv", "fc"]
    assert [text.get_text() for text in axes.get_legend().texts] == ["dp  batch", "mp  in channels"]


def test_a_degree_is_as_wide_as_its_halvings() -> None:
    (axes,) = grid([Row("fc", (GRID,), 1.0)], ["H1"], [4.0]).picture().axes
    first, second = axes.patches
    assert first.get_width() > 2.9 * second.get_width()
    assert second.get_x() > first.get_x() + first.get_width()


def test_many_equal_neighbours_become_one_row_with_their_sum() -> None:
    rows = [Row(f"conv{number}", ((DP,),), 1.0) for number in range(MOST_ROWS)]
    few = grid(rows, ["H1"], [1.0]).picture().axes[0]
    assert len(few.patches) == MOST_ROWS
    many = grid([*rows, Row("fc", ((MP,),), 2.0)], ["H1"], [1.0]).picture().axes[0]
    assert [label.get_text() for label in many.get_yticklabels()] == [
        f"conv0 to conv{MOST_ROWS - 1} ×{MOST_ROWS}",
        "fc",
    ]
    assert [text.get_text() for text in many.texts[:4]] == ["dp", f"{MOST_ROWS} B", "mp", "2 B"]
