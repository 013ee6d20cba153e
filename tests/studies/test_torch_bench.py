"""PyTorch runs what a piece says; without it one line says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hypar import load_model
from hypar.ops.windows import Window
from hypar.studies.profile import MOST_RUNS, LayerShard, TorchBench, least_seconds, shards_of
from tests.effort import late

ENLARGED = Path(__file__).with_name("enlarged.yaml")


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed: pip install torch")


def test_the_first_run_warms_up_and_the_fastest_counts() -> None:
    runs: list[str] = []
    times = iter([0.0, 0.9, 1.0, 1.2, 2.0, 2.7])
    assert least_seconds(lambda: runs.append("run"), lambda: next(times)) == 0.9
    assert len(runs) == 2


def test_short_pieces_run_often_but_not_for_ever() -> None:
    ticks = [0.0]

    def clock() -> float:
        ticks[0] += 0.0005
        return ticks[0]

    runs: list[str] = []
    assert least_seconds(lambda: runs.append("run"), clock) == pytest.approx(0.0005)
    assert len(runs) == pytest.approx(11, abs=1)
    runs.clear()
    assert least_seconds(lambda: runs.append("run"), lambda: 0.0) == 0.0
    assert len(runs) == MOST_RUNS + 1


def test_torch_is_loaded_by_a_measurement_only() -> None:
    code = "import sys, hypar.studies.profile, hypar.cli.commands; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    "model",
    late(
        ["lenet-c", "alexnet-2012", "googlenet", "resnet18", "unet", "mobilenet-v2", ENLARGED],
        "googlenet",
        "mobilenet-v2",
    ),
    ids=str,
)
def test_torch_makes_the_output_that_a_piece_says(torch: Any, model: str | Path) -> None:
    bench = TorchBench()
    by_layer = shards_of(load_model(model, batch=8), "all", 8).values()
    for shard in {shard for by_choice in by_layer for shard in by_choice.values()}:
        shapes = [*shard.inputs, *filter(None, [shard.weight])]
        read = [torch.empty(shape, device="meta") for shape in shapes]
        assert tuple(bench.forward(shard)(*read).shape) == shard.output, shard


WINDOW = Window(kernel=3, stride=2, padding=1)
IMAGE = {"inputs": ((2, 4, 8, 8),), "windows": (WINDOW, WINDOW)}
UP = Window(kernel=3, stride=2, padding=1, output_padding=1, transposed=True)
ENLARGING = {"inputs": ((2, 4, 8, 8),), "windows": (UP, UP)}
PIECES: list[dict[str, Any]] = [
    {"op": "conv", **IMAGE, "weight": (6, 2, 3, 3), "groups": 2, "output": (2, 6, 4, 4)},
    {"op": "linear", "inputs": ((2, 5),), "weight": (7, 5), "output": (2, 7)},
    {"op": "max", **IMAGE, "round_up": True, "output": (2, 4, 5, 5)},
    {"op": "average", **IMAGE, "output": (2, 4, 4, 4)},
    {"op": "conv_transpose", **ENLARGING, "weight": (4, 3, 3, 3), "groups": 2, "output": (2, 6, 16, 16)},
    {"op": "nearest", **ENLARGING, "output": (2, 4, 16, 16)},
    {"op": "bilinear", **ENLARGING, "output": (2, 4, 16, 15)},
    {"op": "crop", **IMAGE, "output": (2, 4, 6, 4)},
    {"op": "add", "inputs": ((2, 5), (2, 5), (2, 5)), "output": (2, 5)},
    {"op": "concat", "inputs": ((2, 5), (2, 3)), "output": (2, 8)},
]


@pytest.mark.parametrize("fields", PIECES, ids=lambda fields: str(fields["op"]))
def test_all_phases_of_every_op_run(torch: Any, fields: dict[str, Any]) -> None:
    shard = LayerShard(dtype="float64", **fields)
    gradients: Any = TorchBench().step(shard)()
    shapes = [*shard.inputs, *filter(None, [shard.weight])]
    assert [tuple(gradient.shape) for gradient in gradients] == shapes
    assert TorchBench().seconds(shard) > 0


def test_measuring_leaves_the_random_numbers_of_others_alone(torch: Any) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    TorchBench().seconds(LayerShard(dtype="float32", **PIECES[1]))
    assert torch.equal(before, torch.get_rng_state())


def test_the_device_says_what_it_is(torch: Any) -> None:
    bench = TorchBench()
    assert bench.device.startswith("cpu ")
    assert f"torch {torch.__version__}, {torch.get_num_threads()} threads" in bench.device
    assert bench.memory_bytes is None or bench.memory_bytes > 2**20
