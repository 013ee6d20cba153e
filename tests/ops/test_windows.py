"""Windows against PyTorch: which inputs influence an output, and how many outputs there are."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.ops.families.contract import ConvTranspose
from hypar.ops.families.layout import Upsample
from hypar.ops.windows import ShapeError, Window
from tests.effort import examples
from tests.windows import read_by

SIZES = st.integers(1, 4)
ROUNDING = 1e-9


@st.composite
def windows(draw: st.DrawFn) -> Window:
    fields: dict[str, Any] = {
        "kernel": draw(SIZES),
        "stride": draw(SIZES),
        "padding": draw(st.integers(0, 3)),
        "dilation": draw(st.integers(1, 3)),
    }
    if draw(st.booleans()):
        return Window(**fields)
    added = draw(st.integers(0, max(fields["stride"], fields["dilation"]) - 1))
    return Window(**fields, output_padding=added, transposed=True)


@st.composite
def transposed(draw: st.DrawFn) -> ConvTranspose:
    window = draw(windows().filter(lambda found: found.transposed))
    names = ("kernel", "stride", "padding", "dilation", "output_padding")
    fields = {
        name: [getattr(window, name), default] for name, default in zip(names, (1, 1, 0, 1, 0), strict=True)
    }
    return ConvTranspose.model_validate({"out_channels": 1, "bias": False, **fields})


def influences(torch: Any, made: Callable[[Any], Any], size: int) -> list[set[int]]:
    """For each output the inputs on which it depends, by differentiation."""
    read = torch.ones((1, 1, size, 1), dtype=torch.float64, requires_grad=True)
    outputs = made(read)[0, 0, :, 0]
    found = []
    for output in outputs:
        (slope,) = torch.autograd.grad(output, read, retain_graph=True)
        found.append({place for place, one in enumerate(slope[0, 0, :, 0]) if abs(one) > ROUNDING})
    return found


@given(op=transposed(), size=st.integers(1, 9))
@settings(max_examples=examples(150), deadline=None)
def test_a_transposed_convolution_makes_and_reads_what_pytorch_s_does(
    torch: Any, op: ConvTranspose, size: int
) -> None:
    image = {"channels": 1, "height": size, "width": 1}
    weight = torch.ones((1, 1, *op.kernel), dtype=torch.float64)
    slide = {"stride": op.stride, "padding": op.padding, "dilation": op.dilation}

    def made(read: Any) -> Any:
        return torch.nn.functional.conv_transpose2d(read, weight, **slide, output_padding=op.output_padding)

    try:
        shape = op.output_shape((image,))
    except ShapeError:
        with pytest.raises(RuntimeError, match="Output size is too small"):
            made(torch.ones((1, 1, size, 1), dtype=torch.float64))
        return
    found, window = influences(torch, made, size), op.nest(1, (image,)).windows["height"]
    assert shape == {"channels": 1, "height": len(found), "width": 1}
    for place, inputs in enumerate(found):
        if window.dilation == 1:
            assert inputs == read_by(window, place, size)
        assert inputs <= read_by(window, place, size)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("scale", range(1, 8))
def test_an_interpolation_reads_what_pytorch_s_does(torch: Any, mode: str, scale: int) -> None:
    op, size = Upsample.model_validate({"mode": mode, "scale": [scale, 1]}), 6

    def made(read: Any) -> Any:
        return torch.nn.functional.interpolate(read, scale_factor=(scale, 1), mode=mode)

    found = influences(torch, made, size)
    image = {"channels": 1, "height": size, "width": 1}
    assert op.output_shape((image,)) == {"channels": 1, "height": len(found), "width": 1}
    window = op.nest(1, (image,)).windows["height"]
    assert found == [read_by(window, place, size) for place in range(size * scale)]


@given(window=windows(), size=st.integers(1, 12), data=st.data())
@settings(max_examples=examples(300))
def test_a_range_of_outputs_reads_from_the_first_input_of_any_to_the_last(
    window: Window, size: int, data: st.DataObject
) -> None:
    try:
        places = window.output_size(size)
    except ShapeError:
        return
    low = data.draw(st.integers(0, places - 1))
    high = data.draw(st.integers(low + 1, places))
    far = 40
    every = {one for place in range(low, high) for one in shifted(window, place, size, far)}
    first, end = window.reads(low, high)
    assert (first, end) == (min(every), max(every) + 1) if every else first == end


def shifted(window: Window, place: int, size: int, far: int) -> set[int]:
    """What an output reads of an image that goes on before its first element and after its last."""
    if window.transposed:
        return {one - far for one in read_by(window, place + far * window.stride, size + 2 * far)}
    moved = Window(
        kernel=window.kernel, stride=window.stride, padding=window.padding - far, dilation=window.dilation
    )
    return {one - far for one in read_by(moved, place, size + 2 * far)}


@given(window=windows())
@settings(max_examples=examples(300))
def test_the_halo_is_what_is_read_on_both_sides_of_a_border(window: Window) -> None:
    border, size = 30 * (window.stride if window.transposed else 1), 400
    before = {one for place in range(border) for one in read_by(window, place, size)}
    after = {one for place in range(border, border + 40) for one in read_by(window, place, size)}
    assert window.halo == len(before & after)


@given(window=windows(), places=st.integers(1, 20))
@settings(max_examples=examples(300))
def test_the_least_input_makes_so_many_outputs_and_one_fewer_does_not(window: Window, places: int) -> None:
    least = window.least_input(places)
    if least < 1:
        return
    assert window.output_size(least) >= places
    if least > 1:
        with contextlib.suppress(ShapeError):
            assert window.output_size(least - 1) < places
