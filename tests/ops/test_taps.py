from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hypar.ops.run import reading
from hypar.ops.tape import Errors, Var, product
from hypar.ops.windows import ShapeError, Window
from tests.windows import read_by

fields = {
    "kernel": st.integers(1, 4),
    "stride": st.integers(1, 3),
    "padding": st.integers(0, 2),
    "dilation": st.integers(1, 2),
}
windows = st.one_of(st.builds(Window, **fields), st.builds(Window, **fields, transposed=st.just(True)))


@given(windows, st.integers(1, 9), st.data())
def test_taps_are_what_windows_read(window: Window, size: int, data: st.DataObject) -> None:
    try:
        places = window.output_size(size)
    except ShapeError:
        return
    outputs = np.array(sorted(data.draw(st.sets(st.integers(0, places - 1)))), dtype=np.intp)
    elements, taps = reading(window, outputs.tobytes(), size)
    assert taps.shape == (len(outputs), window.kernel)
    for place, row in zip(outputs.tolist(), taps, strict=True):
        read = elements[row[row >= 0]].tolist()
        low, high = window.reads(place, place + 1)
        between = read_by(window, place, size)
        assert set(read) <= between
        assert all(low <= element < high for element in read)
        if window.dilation == 1:
            assert set(read) == between
    assert set(elements.tolist()) == {element for row in taps for element in elements[row[row >= 0]].tolist()}


@given(windows, windows, st.integers(1, 6))
def test_errors_of_windows_go_back_to_what_they_read(down: Window, across: Window, size: int) -> None:
    try:
        sides = [
            reading(window, np.arange(window.output_size(size)).tobytes(), size) for window in (down, across)
        ]
    except ShapeError:
        return
    random = np.random.default_rng(0)
    image = Var(("height", "width"), random.normal(size=[len(elements) for elements, _ in sides]))
    rows = image.gather("height", sides[0][1].T, ("down", "height"))
    taps = rows.gather("width", sides[1][1].T, ("across", "width"))
    errors = random.normal(size=taps.value.shape)
    back = Errors(taps, errors).of(image)
    assert back is not None
    np.testing.assert_allclose((taps.value * errors).sum(), (image.value * back).sum())


def test_padding_has_the_value_of_the_border() -> None:
    side = reading(Window(kernel=3, padding=1), np.array([0]).tobytes(), 4)
    taps = Var(("width",), np.ones(2)).gather("width", side[1].T, ("taps", "width"), border=-np.inf)
    assert taps.value.tolist() == [[-np.inf], [1], [1]]


@given(st.permutations(range(4)), st.integers(0, 4))
def test_elements_are_gathered_in_any_order(order: list[int], count: int) -> None:
    numbers, errors = Var(("rows",), [1.0, 2.0, 3.0, 4.0]), np.arange(1.0, count + 1)
    found = numbers.gather("rows", np.array(order[:count], dtype=np.intp), ("places",))
    assert found.value.tolist() == [numbers.value[at] for at in order[:count]]
    back = Errors(found, errors).of(numbers)
    assert back is not None
    assert back.tolist() == [float(order.index(at) + 1) if at in order[:count] else 0.0 for at in range(4)]


def test_an_array_is_multiplied_by_itself() -> None:
    numbers = Var(("channels",), [1.0, 2.0, 3.0])
    square = product((numbers, numbers), ())
    assert square.value == 14
    back = Errors(square, np.array(1.0)).of(numbers)
    assert back is not None
    assert back.tolist() == [2, 4, 6]
