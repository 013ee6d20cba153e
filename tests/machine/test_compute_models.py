"""The mapping of row stationary, derived a second time, and a roofline by hand."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypar import load_machine
from hypar.files.validation import Sourced
from hypar.machine.compute_models.base import LocalShape
from hypar.machine.compute_models.roofline import Roofline
from hypar.machine.compute_models.row_stationary import RowStationary
from hypar.machine.setting import COMPONENTS, phase_energy
from hypar.ops.dims import CUTTABLE
from hypar.ops.families.contract import Linear
from hypar.ops.nest import PHASES
from hypar.ops.windows import Window
from tests.contracts.test_compute_models import FIELDS, sourced
from tests.transformers import mixtral

ARRAYS = [(12, 14), (1, 1), (3, 2), (16, 16), (5, 30), (32, 4)]
"""Rows and columns."""


def array(rows: int, columns: int) -> RowStationary:
    return RowStationary.model_validate({**FIELDS["row_stationary"], **sourced(rows=rows, columns=columns)})


def fewest_cycles(rows: int, columns: int, kernel: int, height: int) -> float:
    """Cycles for each set, of the best of all widths that a piece may have, each laid out anew.

    Bands of R rows, one below the other, are strips of the array; a piece takes some whole strips, or sets
    stand side by side in one.
    """
    folds_of_kernel = next(parts for parts in range(1, kernel + 1) if math.ceil(kernel / parts) <= rows)
    strips = rows // math.ceil(kernel / folds_of_kernel)
    widths = range(1, height + 1)
    allowed = [width for width in widths if height // math.ceil(height / width) >= 2]
    # One row of output, or an array too narrow for two: then as wide as the array allows.
    room = strips * columns
    found = []
    for width in [width for width in allowed if width <= room] or [min(room, height)]:
        pieces = math.ceil(height / width)
        beside = columns // width * strips if width <= columns else strips // math.ceil(width / columns)
        found.append(folds_of_kernel * pieces / beside)
    return min(found)


@pytest.mark.parametrize(("rows", "columns"), ARRAYS)
@given(kernel=st.integers(1, 40), height=st.integers(1, 250))
def test_the_mapping_is_the_best_of_all_widths(rows: int, columns: int, kernel: int, height: int) -> None:
    laid = array(rows, columns).mapping(kernel, height)
    ours = laid.kernel_folds * laid.folds / laid.sets
    assert ours == pytest.approx(fewest_cycles(rows, columns, kernel, height))


@pytest.mark.parametrize(
    ("kernel", "height", "expected"),
    [
        # Eyeriss (JSSC 2017), AlexNet: rows, folds of them, columns, folds, sets.
        (11, 55, (11, 1, 14, 4, 1)),
        (5, 27, (5, 1, 27, 1, 1)),
        (3, 13, (3, 1, 13, 1, 4)),
        # A linear layer: a set is one element.
        (1, 1, (1, 1, 1, 1, 168)),
        # 3 x 7 fits twice into 14 columns and four times into 12 rows.
        (3, 7, (3, 1, 7, 1, 8)),
        # A kernel taller than the array is done in two parts.
        (13, 14, (7, 2, 14, 1, 1)),
    ],
)
def test_mappings_by_hand(kernel: int, height: int, expected: tuple[int, ...]) -> None:
    assert tuple(array(12, 14).mapping(kernel, height)) == expected


ONCE = (1,) * len(CUTTABLE)


def test_accesses_of_a_convolution_by_hand() -> None:
    """One sample, 3 x 3 on 9 x 9: R=3, E=7, in one piece; one channel, so q = p = 1."""
    accesses = one_channel(7)
    for phase in PHASES:
        # Two operands read, the sum read and written.
        assert accesses[phase]["registers"] == 4 * 9 * 49
        assert accesses[phase]["memory"] == 81 + 9 + 49
    # A sum of F_out passes two elements along its column, one of E_in two along its diagonal, one of dW six.
    assert accesses["forward"]["array"] == 2 * 49
    assert accesses["backward"]["array"] == 2 * 49
    assert accesses["gradient"]["array"] == 6 * 9
    # W once, nine rows of F_in of nine, F_out once; the result is read besides.
    assert accesses["forward"]["buffer"] == 9 + 81 + 2 * 49
    assert accesses["backward"]["buffer"] == 9 + 2 * 81 + 49
    assert accesses["gradient"]["buffer"] == 2 * 9 + 81 + 49


def test_a_folded_set_is_read_again_for_each_piece() -> None:
    """E=6 lies best in three pieces of 2: W three times, and each time four rows of F_in of eight."""
    assert array(12, 14).mapping(3, 6) == (3, 1, 2, 3, 28)
    assert one_channel(6)["forward"]["buffer"] == 3 * 9 + 3 * 4 * 8 + 2 * 36


def one_channel(side: int) -> dict[str, Any]:
    """Accesses in each phase of a 3 x 3 convolution of one sample that gives a square image."""
    sizes = {"batch": 1, "in_channels": 1, "out_channels": 1, "height": side, "width": side}
    shape = LocalShape(
        sizes={**sizes, "kernel_height": 3, "kernel_width": 3},
        windows={},
        words={"input": (side + 2.0) ** 2, "weight": 9.0, "output": side**2.0},
        macs=9.0 * side**2,
    )
    return {phase: array(12, 14).work(shape, phase, 1).accesses for phase in PHASES}


@pytest.mark.parametrize("units", [1, 4])
def test_a_roofline_by_hand(units: int) -> None:
    """1 GFLOP where half of the peak is reached at 1 GFLOP: twice as long as at the peak."""
    model = Roofline.model_validate(sourced(peak="1 TFLOP/s", half_efficiency_flop=1e9))
    sizes = {"batch": 500, "in_channels": 1000, "out_channels": 1000}
    shape = LocalShape(
        sizes=sizes, windows={}, words=dict.fromkeys(("input", "weight", "output"), 1.0), macs=5e8
    )
    work = model.work(shape, "forward", units)
    assert work.seconds == pytest.approx(2e-3 / units)
    assert work.mapping == {"efficiency": 0.5}


def test_memory_bounds_a_small_layer() -> None:
    """The machine takes the slower of arithmetic and memory, after efficiency."""
    machine = load_machine("tpu-v2")
    nest = Linear(out_features=4096).nest(1, ({"channels": 4096},))
    time = machine.layer_time(nest, ONCE, 2)
    num_bytes = 2 * (4096 + 4096 + 4096**2)
    assert time.seconds["forward"] == pytest.approx(num_bytes / 2800e9)
    assert time.seconds["forward"] > time.work["forward"].seconds / 0.7
    large = Linear(out_features=4096).nest(8192, ({"channels": 4096},))
    bound = machine.layer_time(large, ONCE, 2)
    assert bound.seconds["forward"] == pytest.approx(bound.work["forward"].seconds / 0.7)


def test_units_of_hmc_have_84_gops() -> None:
    """HyPar, section 6.1: 168 elements, two operations a cycle at 250 MHz."""
    compute = load_machine("hmc").compute
    assert isinstance(compute, RowStationary)
    assert compute.rows.value * compute.columns.value * 2 * compute.frequency.value == pytest.approx(84e9)


def test_a_stride_and_registers_for_outputs_by_hand() -> None:
    """Five rows of output read eleven of input at stride 2; two words for outputs leave p at 2."""
    sizes = {"batch": 2, "in_channels": 4, "out_channels": 6, "height": 5, "width": 5}
    shape = LocalShape(
        sizes={**sizes, "kernel_height": 3, "kernel_width": 3},
        windows={"height": Window(kernel=3, stride=2), "width": Window(kernel=3, stride=2)},
        words={"input": 1.0, "weight": 1.0, "output": 1.0},
        macs=math.prod(sizes.values()) * 9.0,
    )
    model = array(12, 14).model_copy(update={"output_words": Sourced(value=2, source="a test")})
    planes, p, q = 2 * 4 * 6, 2, 4
    fetched = {"weight": 9 / 2, "input": 11 * 11 / p, "output": 25 / q}
    for phase, result in (("forward", "output"), ("backward", "input"), ("gradient", "weight")):
        expected = planes * (sum(fetched.values()) + fetched[result])
        assert model.work(shape, phase, 1).accesses["buffer"] == pytest.approx(expected)


# Energy


WHOLE = (1,) * len(CUTTABLE)
FC = Linear(out_features=300).nest(8, ({"channels": 200},))


def energy(phase: str, changes: dict[str, Any] | None = None) -> dict[str, float]:
    machine = load_machine("tetris", changes)
    return phase_energy(machine, machine.layer_time(FC, WHOLE, 2), phase)


@pytest.mark.parametrize("phase", PHASES)
def test_components_are_counts_times_energies(phase: str) -> None:
    machine = load_machine("tetris")
    time = machine.layer_time(FC, WHOLE, 2)
    found, counts = energy(phase), time.work[phase].accesses
    assert tuple(found) == COMPONENTS
    assert found["arithmetic"] == pytest.approx(8 * 200 * 300 * 2e-12)
    assert found["registers"] == pytest.approx(4 * 8 * 200 * 300 * 0.6e-12)
    assert found["memory"] == pytest.approx(counts["memory"] * 80e-12)
    assert found["buffer"] == pytest.approx(counts["buffer"] * 14e-12)
    assert found["array"] == pytest.approx(counts["array"] * 4e-12)
    assert found["static"] == pytest.approx(16 * 0.1 * time.seconds[phase])


# Layers that only move words


@pytest.mark.parametrize(
    ("name", "words"), [("h.0.dispatch", 4 * (8 * 16 + 4 * 4 * 16)), ("wte", 4 * (8 + 8 * 16) + 24 * 16)]
)
def test_a_layer_that_multiplies_nothing_moves_its_words(name: str, words: int) -> None:
    machine = load_machine("p100-4x4")
    nest = next(layer.nest for layer in mixtral().contracted.layers if layer.name == name)
    time = machine.layer_time(nest, (1,) * len(nest.counted), 4)
    assert time.seconds["forward"] == pytest.approx(machine.memory_seconds(4 * words))
    assert (time.seconds["gradient"] > 0) is bool(nest.weight)
