"""The row-stationary model whose mapping is searched: cycles, the second roof, phases, and the buffer's size."""

import json
from typing import Any

import pytest

from hypar import load_model
from hypar.files.yaml_file import read_yaml
from hypar.machine.compute_models.base import LocalShape
from hypar.machine.compute_models.blocked_row_stationary import BlockedRowStationary, run_length_words
from hypar.machine.load import machine_of
from hypar.machine.machine import Machine
from hypar.machine.schema import Device
from hypar.machine.work import local_shape
from hypar.ops.base import Shape
from hypar.ops.dims import CUTTABLE
from hypar.ops.families.contract import Conv, ConvTranspose
from hypar.ops.families.contract import Conv as Convolution
from hypar.ops.nest import PHASES
from hypar.registry import data_file
from tests.contracts.test_compute_models import FIELDS, sourced

WHOLE = (1,) * len(CUTTABLE)


def model(**fields: Any) -> BlockedRowStationary:
    return BlockedRowStationary.model_validate({**FIELDS["blocked_row_stationary"], **sourced(**fields)})


def buffered(words: int) -> Device:
    given = {"compute": "blocked_row_stationary", **sourced(word="2 B", buffer=f"{2 * words} B")}
    return Device.model_validate(given)


def layer(name: str, network: str, batch: int) -> LocalShape:
    found = next(layer for layer in load_model(network).layers if layer.name == name)
    return local_shape(found.nest(batch), WHOLE)


def convolution(batch: int, channels: int, filters: int, side: int, **fields: Any) -> LocalShape:
    op, read = Conv(out_channels=filters, **fields), ({"channels": channels, "height": side, "width": side},)
    return local_shape(op.nest(batch, read), WHOLE)


def test_the_buffer_bounds_the_time() -> None:
    """Words over words a cycle, beside the arithmetic, which the efficiency alone concerns."""
    shape = layer("conv1_2", "vgg16", 3)
    work = model(buffer_words_per_cycle=0.5).beside(buffered(51200)).work(shape, "forward", 1)
    assert work.buffer_seconds == pytest.approx(work.accesses["buffer"] / 0.5 / 200e6)
    assert model().beside(buffered(51200)).work(shape, "forward", 1).buffer_seconds == 0
    chip = edited({"buffer_words_per_cycle": 0.5})
    nest = next(layer for layer in load_model("vgg16").layers if layer.name == "conv1_2").nest(3)
    time = chip.layer_time(nest, WHOLE, 2)
    assert (
        time.seconds["forward"] == time.work["forward"].buffer_seconds > time.work["forward"].seconds / 0.88
    )


def edited(compute: dict[str, Any], **device: Any) -> Machine:
    document = read_yaml(data_file("hardware", "eyeriss"))
    for part, changes in ((document.data["device"]["compute"], compute), (document.data["device"], device)):
        part.update({name: {"value": value, "source": "a test"} for name, value in changes.items()})
    machine: Machine = machine_of(document.file, json.dumps(document.data))
    return machine


def test_the_backward_phase_of_a_stride_is_folded() -> None:
    """Stride 2, 3 x 3: convolutions of 2 x 2, 2 x 1, 1 x 2 and 1 x 1 taps, and not 3 x 3 on four times the places."""
    shape = convolution(4, 16, 16, 28, kernel=(3, 3), stride=(2, 2), padding=(1, 1))
    work = model().work(shape, "backward", 1)
    assert work.mapping["cycles"] * 168 >= shape.macs
    dense = 4 * shape.macs
    assert work.mapping["cycles"] < dense / 168 / 2
    assert work.mapping["kernel_rows"] == 2


def test_places_that_no_tap_meets_are_written_as_zeros() -> None:
    """1 x 1 taps at stride 2 meet a quarter of F_in: its whole gradient is written."""
    shape = convolution(2, 4, 8, 12, kernel=(1, 1), stride=(2, 2))
    read = shape.words["output"] + shape.words["weight"]
    assert model().work(shape, "backward", 1).accesses["memory"] == read + 2 * 4 * 12 * 12


def test_the_gradient_adds_up_over_samples_and_rows() -> None:
    """With room for all of dW it is written once; otherwise it is written and read again for each tile of samples."""
    shape = convolution(8, 6, 8, 13, kernel=(3, 3), padding=(1, 1))
    read = 8 * 6 * 15 * 15
    work = model().work(shape, "gradient", 1)
    assert work.accesses["memory"] == read + shape.words["output"] + shape.words["weight"]
    small = model().beside(buffered(300)).work(shape, "gradient", 1)
    assert small.accesses["memory"] > work.accesses["memory"]


IN, OUT = 0.4, 0.8
"""Zeros of a layer's input and output."""

WIDE = {"channels": 12, "height": 13, "width": 13}


def sparse(kind: type[Convolution] = Conv, **zeros: Any) -> LocalShape:
    op = kind(out_channels=12, kernel=(3, 3), padding=(1, 1), **zeros)
    read: tuple[Shape, ...] = ({"channels": 6, "height": 13, "width": 13},)
    return local_shape(op.nest(4, read), WHOLE)


def test_zeros_are_stored_and_multiplied_unless_the_machine_saves_them() -> None:
    known, unknown = sparse(input_zeros=IN, output_zeros=OUT), sparse()
    for phase in PHASES:
        kept = model().work(unknown, phase, 1)
        assert model().work(known, phase, 1) == model(zeros="saved").work(unknown, phase, 1) == kept
        assert kept.skipped == 0


def test_saved_zeros_take_no_arithmetic_and_less_memory() -> None:
    """Without a limit of the buffer each tensor moves once, each channel as a code; rows of padding are words as well."""
    shape = sparse(input_zeros=IN, output_zeros=OUT)
    read, made, weights = 4 * 6 * 15 * 15, 4 * 12 * 13 * 13, 12 * 6 * 9
    coded = {zeros: run_length_words(zeros, 13 * 13) for zeros in (IN, OUT)}
    back = 4 * 12 * 15 * 15 * coded[OUT] + 4 * 6 * 13 * 13 * coded[IN]
    memory = {
        "forward": read * coded[IN] + made * coded[OUT] + weights,
        "backward": back + weights,
        "gradient": read * coded[IN] + made * coded[OUT] + weights,
    }
    for phase, skipped in (("forward", IN), ("backward", OUT), ("gradient", IN)):
        kept, saved = (model(zeros=zeros).work(shape, phase, 1) for zeros in ("kept", "saved"))
        assert saved.accesses["memory"] == pytest.approx(memory[phase])
        assert saved.skipped == skipped
        # Of the reads of F_in and W, and the read and write of a partial sum, the first is left.
        assert saved.accesses["registers"] == pytest.approx(shape.macs * (4 - 3 * skipped))
        assert saved.accesses["buffer"] == kept.accesses["buffer"]
        assert saved.seconds == kept.seconds


def test_a_transposed_convolution_has_the_zeros_of_its_ends() -> None:
    """It maps 6 channels to 12, its convolution 12 to 6."""
    up = sparse(ConvTranspose, input_zeros=IN, output_zeros=OUT)
    op = Conv(out_channels=6, kernel=(3, 3), padding=(1, 1), input_zeros=OUT, output_zeros=IN)
    down = local_shape(op.nest(4, (WIDE,)), WHOLE)
    own = model(zeros="saved")
    for phase, other in (("forward", "backward"), ("backward", "forward"), ("gradient", "gradient")):
        assert own.work(up, phase, 1) == own.work(down, other, 1)
    assert own.work(up, "forward", 1).skipped == IN
