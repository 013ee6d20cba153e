"""Every compute model faces the same jury: register a file and it is tested."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypar.machine.compute_models.base import ComputeModel, LocalShape, memory_words
from hypar.machine.work import local_shape
from hypar.ops.dims import CUTTABLE
from hypar.ops.families.contract import Conv, ConvTranspose, Linear
from hypar.ops.nest import PHASES
from hypar.ops.windows import Window
from hypar.registry import load_plugin, plugin_names

NAMES = plugin_names("compute_models")


def sourced(**values: Any) -> dict[str, Any]:
    return {key: {"value": value, "source": "a test"} for key, value in values.items()}


FIELDS = {
    "roofline": sourced(peak="1 TFLOP/s", half_efficiency_flop=1e6),
    "row_stationary": sourced(
        rows=12, columns=14, frequency="200 MHz", weight_words=224, input_words=12, output_words=24
    ),
    "blocked_row_stationary": sourced(
        rows=12, columns=14, frequency="200 MHz", weight_words=224, input_words=12, output_words=24
    ),
}
"""What a hardware file gives each."""

ONCE = [name for name in NAMES if name != "blocked_row_stationary"]
"""Models that count each word of memory once; the other one's tiles are read as often as its mapping says."""

PLACES = {"registers", "array", "buffer", "memory"}
SIZES = st.integers(1, 40)


def test_a_transposed_convolution_takes_what_the_gradient_of_its_convolution_does() -> None:
    """One maps 8 channels of 14x14 to 5 of 28x28, the other back: the same products of the same tensors."""
    small, large = (
        {"channels": channels, "height": side, "width": side} for channels, side in ((8, 14), (5, 28))
    )
    fields: dict[str, Any] = {"kernel": (4, 4), "stride": (2, 2), "padding": (1, 1)}
    up, down = ConvTranspose(out_channels=5, **fields), Conv(out_channels=8, **fields)
    shapes = [
        local_shape(op.nest(16, (read,)), (1,) * len(CUTTABLE))
        for op, read, made in ((up, small, large), (down, large, small))
    ]
    for name in NAMES:
        for phase, other in (("forward", "backward"), ("backward", "forward"), ("gradient", "gradient")):
            assert model(name).work(shapes[0], phase, 2) == model(name).work(shapes[1], other, 2)


@st.composite
def shapes(draw: st.DrawFn) -> LocalShape:
    if draw(st.booleans()):
        linear = Linear(out_features=draw(SIZES))
        inputs: tuple[dict[str, int], ...] = ({"channels": draw(SIZES)},)
        nest = linear.nest(draw(SIZES), inputs)
    else:
        kernel, padding = draw(st.integers(1, 11)), draw(st.integers(0, 2))
        groups = draw(st.sampled_from([1, 2]))
        conv = draw(st.sampled_from([Conv, ConvTranspose]))(
            out_channels=groups * draw(SIZES),
            kernel=(kernel, draw(st.integers(1, 5))),
            stride=(draw(st.integers(1, 4)),) * 2,
            padding=(padding, padding),
            groups=groups,
        )
        side = draw(st.integers(11, 60))
        inputs = ({"channels": groups * draw(SIZES), "height": side, "width": side},)
        nest = conv.nest(draw(SIZES), inputs)
    return local_shape(nest, (1,) * len(CUTTABLE))


def model(name: str) -> ComputeModel:
    found: ComputeModel = load_plugin("compute_models", name).model_validate(FIELDS[name])
    return found


def twice_the_batch(shape: LocalShape) -> LocalShape:
    words = {tensor: count * (1 if tensor == "weight" else 2) for tensor, count in shape.words.items()}
    sizes = {**shape.sizes, "batch": 2 * shape.sizes["batch"]}
    return replace(shape, sizes=sizes, words=words, macs=2 * shape.macs)


def test_every_compute_model_has_fields_to_try() -> None:
    assert set(FIELDS) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("phase", PHASES)
@given(shape=shapes(), units=st.integers(1, 20))
def test_work_is_positive_and_repeats_itself(name: str, phase: str, shape: LocalShape, units: int) -> None:
    work = model(name).work(shape, phase, units)
    assert 0 < work.seconds < math.inf
    assert set(work.accesses) == PLACES
    assert all(0 <= count < math.inf for count in work.accesses.values())
    assert work == model(name).work(shape, phase, units)


@pytest.mark.parametrize("name", ONCE)
@pytest.mark.parametrize("phase", PHASES)
@given(shape=shapes(), units=st.integers(1, 20))
def test_memory_is_accessed_once_for_each_operand_and_the_result(
    name: str, phase: str, shape: LocalShape, units: int
) -> None:
    """Each phase has two of the three tensors as operands and the third as its result."""
    words = model(name).work(shape, phase, units).accesses["memory"]
    assert words == memory_words(shape)
    assert words == pytest.approx(math.fsum(shape.words.values()))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("phase", PHASES)
@given(shape=shapes(), units=st.integers(1, 20))
def test_more_work_is_never_faster_and_more_units_never_slower(
    name: str, phase: str, shape: LocalShape, units: int
) -> None:
    once = model(name).work(shape, phase, units)
    twice = model(name).work(twice_the_batch(shape), phase, units)
    assert twice.seconds >= once.seconds
    assert model(name).work(shape, phase, 2 * units).seconds <= once.seconds
    # The fewest cycles of twice the samples may need another mapping, with fewer words.
    places = once.accesses if name in ONCE else ("registers",)
    assert all(twice.accesses[place] >= once.accesses[place] for place in places)


@pytest.mark.parametrize("name", NAMES)
def test_an_even_share_of_the_work_has_as_many_accesses(name: str) -> None:
    """A piece rounded up takes the time of the fullest device, but the accesses of an even share."""
    sizes = {"batch": 3, "in_channels": 4, "out_channels": 5, "height": 6, "width": 6}
    taps = {"kernel_height": 3, "kernel_width": 3}
    whole = LocalShape(
        sizes={**sizes, **taps},
        windows={"height": Window(kernel=3), "width": Window(kernel=3)},
        words={"input": 768.0, "weight": 180.0, "output": 540.0},
        macs=math.prod(sizes.values()) * 9.0,
    )
    part = replace(whole, macs=whole.macs / 2)
    for phase in PHASES:
        full, half = (model(name).work(shape, phase, 1) for shape in (whole, part))
        assert full.seconds == half.seconds
        for place in ("registers", "array"):
            assert half.accesses[place] == pytest.approx(full.accesses[place] / 2)
