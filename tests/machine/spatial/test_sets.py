"""Layouts of sets on an array, beside all widths tried one by one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypar.machine.spatial.sets import by_rounds, grids, layouts, wider

ARRAYS = [(12, 14), (1, 1), (3, 2), (16, 16), (5, 30)]


def fewest_rounds(rows: int, columns: int, kernel: int, height: int, planes: int, units: int) -> int:
    """Pieces of sets one after another, of the best of all widths that a piece may have."""
    parts = next(parts for parts in range(1, kernel + 1) if math.ceil(kernel / parts) <= rows)
    strips = rows // math.ceil(kernel / parts)
    room = strips * columns
    widths = [
        width
        for width in range(1, min(height, room) + 1)
        if height // math.ceil(height / width) >= 2 and math.ceil(width / columns) <= strips
    ]
    found = []
    for width in widths or [min(room, height)]:
        beside = columns // width * strips if width <= columns else strips // math.ceil(width / columns)
        found.append(math.ceil(planes / (beside * units)) * math.ceil(height / width) * parts)
    return min(found)


@pytest.mark.parametrize(("rows", "columns"), ARRAYS)
@given(
    kernel=st.integers(1, 40),
    height=st.integers(1, 250),
    planes=st.integers(1, 500),
    units=st.integers(1, 5),
)
def test_the_first_layouts_have_the_fewest_rounds_of_all_widths(
    rows: int, columns: int, kernel: int, height: int, planes: int, units: int
) -> None:
    found = by_rounds(layouts(rows, columns, kernel, height), planes, units)
    rounds = [number for number, _ in found]
    assert rounds[0] == fewest_rounds(rows, columns, kernel, height, planes, units)
    assert rounds == sorted(rounds) == [layout.rounds(planes, units) for _, layout in found]


@given(kernel=st.integers(1, 40), height=st.integers(1, 250))
def test_a_layout_fits_the_array_and_covers_its_set(kernel: int, height: int) -> None:
    for layout in layouts(12, 14, kernel, height):
        assert 1 <= layout.active <= 168
        assert layout.kernel_rows * layout.kernel_folds >= kernel
        assert (layout.folds - 1) * layout.columns < height <= layout.folds * layout.columns


def test_planes_decide_how_wide_a_piece_is() -> None:
    """Twenty sets of 5 x 24, LeNet's first layer: one at a time takes 20 rounds, 14 in 12 pieces take 24."""
    (rounds, _), *_ = by_rounds(layouts(12, 14, 5, 24), 20, 1)
    assert rounds == 20
    many = by_rounds(layouts(12, 14, 5, 24), 14 * 100, 1)
    assert {(own.columns, own.sets) for rounds, own in many if rounds == many[0][0]} == {(2, 14)}


@given(height=st.integers(1, 250))
def test_every_number_of_even_pieces_has_a_layout(height: int) -> None:
    widths = {math.ceil(height / folds) for folds in range(1, height + 1)}
    found = [layout.columns for layout in layouts(12, 400, 3, height)]
    kept = {width for width in widths if height // math.ceil(height / width) >= 2}
    assert found == sorted(kept or {height}, reverse=True)


@given(kernel=st.integers(1, 12), height=st.integers(2, 250))
def test_sets_in_a_line_stand_below_or_beside_one_another(kernel: int, height: int) -> None:
    for layout, free in zip(
        layouts(12, 14, kernel, height, line=True), layouts(12, 14, kernel, height), strict=True
    ):
        below, beside = 12 // kernel // math.ceil(layout.columns / 14), max(1, 14 // layout.columns)
        assert (layout.sets, free.sets) == (max(below, beside), below * beside)
        assert layout._replace(sets=0) == free._replace(sets=0)


def test_sets_of_one_column_fill_the_array_in_a_line_too() -> None:
    """A linear layer has one row of kernel and of output: 168 sets of one element."""
    assert [layout.sets for layout in layouts(12, 14, 1, 1, line=True)] == [168]


@pytest.mark.parametrize("line", [False, True])
def test_pieces_of_56_rows_in_five_may_have_13_columns(line: bool) -> None:
    """Five pieces of 12 columns, the last of 8, or of 13 and 4."""
    even = next(layout for layout in layouts(12, 14, 3, 56, line=line) if layout.folds == 5)
    assert even.columns == 12
    assert list(wider(even, 12, 14, 56, line=line)) == [even._replace(columns=13)]


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_grids_leave_no_room(sets: int, channels: int, filters: int, samples: int) -> None:
    found = set(grids(sets, channels, filters, samples))
    every = [
        (r, t, b)
        for r in range(1, channels + 1)
        for t in range(1, filters + 1)
        for b in range(1, samples + 1)
        if r * t * b <= sets
    ]
    wider = [((1, 0, 0), channels), ((0, 1, 0), filters), ((0, 0, 1), samples)]

    def full(grid: tuple[int, int, int]) -> bool:
        larger = [tuple(a + b for a, b in zip(grid, step, strict=True)) for step, _ in wider]
        return all(
            math.prod(more) > sets
            or max(a - b for a, b in zip(more, (channels, filters, samples), strict=True)) > 0
            for more in larger
        )

    assert found == {grid for grid in every if full(grid)}
