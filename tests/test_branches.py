"""Mixed machines, planned fork by fork: what a plan says of itself, and that like devices are planned as ever."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from hypar import LayerGraph, MixedMachine, load_mixed, load_model, plan_model
from hypar.errors import HardwareError
from tests.mixed import group, groups_of, kind, write_machine, written

if TYPE_CHECKING:
    from pathlib import Path


def machine_of(folder: Path, kinds: dict[str, dict[str, Any]], groups: list[dict[str, Any]]) -> MixedMachine:
    return load_mixed(write_machine(folder, kinds, groups))


def two(
    folder: Path, first: dict[str, Any], second: dict[str, Any], bandwidth: str = "10 GB/s"
) -> MixedMachine:
    """Two groups beside each other."""
    groups = [group("a.yaml", bandwidth=bandwidth), group("b.yaml", bandwidth=bandwidth)]
    return machine_of(folder, {"a": first, "b": second}, groups)


def test_a_mixed_machine_is_loaded_again_and_again() -> None:
    """In a process of its own, where nothing was imported before."""
    code = "import hypar; print([hypar.load_mixed('tpu-v2-v3').num_devices for _ in range(2)])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[256, 256]"


VECTOR = """
  - {op: input, channels: 300}
  - {name: fc, op: linear, out_features: 300}
"""


@pytest.mark.parametrize("shares", ["linear", "exact", "layers"])
@pytest.mark.parametrize("batch", [1, 2, 4])
def test_less_than_a_sample_costs_no_less_than_nothing(tmp_path: Path, shares: str, batch: int) -> None:
    """Of a gradient that contracts a part of a sample there is nothing to add up, so a part is computed as before."""
    machine = two(tmp_path, kind(devices=2, peak="100 TFLOP/s"), kind(devices=2), "9000 TB/s")
    plan = plan_model(
        written(VECTOR, batch), hardware=machine, strategy="accpar", shares=shares, pins="fc@H1=batch"
    )
    assert min(plan.splits[0].shares) > 0
    assert all(split.cost > 0 for split in plan.splits)


IMAGE = """
  - {op: input, channels: 3, height: 8, width: 6}
  - {name: conv, op: conv, out_channels: 4, kernel: 3, padding: 1}
  - {name: beside, op: conv, out_channels: 4, kernel: 3, padding: 1}
  - {name: sum, op: add, inputs: [conv, beside]}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 5}
"""


@pytest.mark.parametrize("strategy", ["accpar", "optimal"])
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_less_than_an_element_is_left_whole_among_grids(tmp_path: Path, strategy: str, batch: int) -> None:
    machine = two(tmp_path, kind(devices=8), kind(devices=8))
    plan = plan_model(
        written(IMAGE, batch),
        hardware=machine,
        strategy=strategy,
        space="all",
        array=[2, 8],
        pins="*@H1=batch",
    )
    for side, found in enumerate(plan.groups):
        left = batch * plan.splits[0].shares[side]
        assert all(split.choice("conv").degree("batch") <= max(1, left) for split in found.splits)


def test_a_layer_that_a_group_has_nothing_of_may_be_cut_by_its_height(tmp_path: Path) -> None:
    """A layer alone on one side leaves the other an image without rows, and windows reach over none."""
    kinds = {
        name: kind(devices=devices, peak="0.1 TFLOP/s", link=link)
        for name, devices, link in (("a", 2, "1 GB/s"), ("b", 2, "300 GB/s"), ("c", 1, "1 GB/s"))
    }
    first, second, third = (group(f"{name}.yaml", bandwidth="0.5 GB/s") for name in kinds)
    pair = groups_of("pair", first, second, bandwidth="0.5 GB/s")
    network = written("""
  - {op: input, channels: 1, height: 8, width: 1}
  - {name: stem, op: conv, out_channels: 2, kernel: 3, padding: 1}
  - {name: beside, op: conv, out_channels: 2, kernel: 3, padding: 1}
  - {name: sum, op: add, inputs: [beside, stem]}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 3}
""", 2)  # fmt: skip
    plan = plan_model(
        network, hardware=machine_of(tmp_path, kinds, [pair, third]), strategy="accpar", shares="layers", space="batch,height"
    )  # fmt: skip
    assert plan.score is not None


def test_a_side_without_any_share_is_idle(tmp_path: Path) -> None:
    """Adding up takes the first side longer than the other all of the work, so what balances them leaves it nothing."""
    alike = kind(devices=2, link="1 MB/s")
    groups = [group("a.yaml", bandwidth="1 MB/s"), group("b.yaml", bandwidth="1 GB/s")]
    machine = machine_of(tmp_path, {"a": alike, "b": alike}, groups)
    network = written("""
  - {op: input, channels: 8}
  - {name: fc, op: linear, out_features: 1}
""", 2)  # fmt: skip
    plan = plan_model(network, hardware=machine, strategy="accpar")
    assert plan.splits[0].shares == [0, 1]
    assert [split.group for split in plan.splits] == ["all", "b"]
    assert plan.score is not None
    assert [found.group for found in plan.score.groups or ()] == ["b"]


HELD = ("linear", "exact", "layers")
WIDE = """
  - {op: input, channels: 8, height: 8, width: 6}
  - {name: conv, op: conv, out_channels: 16, kernel: 3, padding: 1}
  - {name: beside, op: conv, out_channels: 16, kernel: 3, padding: 1}
  - {name: sum, op: add, inputs: [conv, beside]}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 200}
"""


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("memories", "shares"),
    [
        (("16 GB", "1 kB", "1 kB"), "linear"),
        (("1 kB", "16 GB", "1 kB"), "exact"),
        (("2 MB", "200 kB", "200 kB"), "exact"),
        (("500 kB", "400 kB", "400 kB"), "layers"),
    ],
)
def test_shares_are_found_that_memory_holds(
    tmp_path: Path, memories: tuple[str, ...], nested: bool, shares: str
) -> None:
    """What fits only on some groups is planned on these, whichever fork they are below."""
    require_fit(written(WIDE, 64), held_by(tmp_path, memories, nested), shares)


def test_where_two_of_three_groups_do_not_hold_it_one_may(tmp_path: Path) -> None:
    require_fit(load_model("lenet-c"), held_by(tmp_path, ("30 MB", "3 MB", "3 MB"), nested=False), "linear")


def require_fit(network: LayerGraph, machine: MixedMachine, shares: str) -> None:
    """Plan without more on a device than its memory holds."""
    plan = plan_model(network, hardware=machine, strategy="accpar", shares=shares)
    assert plan.score is not None
    assert plan.score.fits
    for found in plan.score.groups or ():
        assert found.memory_bytes <= (found.capacity_bytes or 0)


def held_by(folder: Path, memories: tuple[str, ...], nested: bool) -> MixedMachine:
    """Groups that differ in their memory, the last two of them one group or not."""
    kinds = {name: kind(devices=2, memory=memory) for name, memory in zip("abc", memories, strict=True)}
    first, second, third = (group(f"{name}.yaml") for name in kinds)
    return machine_of(
        folder, kinds, [first, groups_of("pair", second, third)] if nested else [first, second, third]
    )


@pytest.mark.parametrize("shares", HELD)
@pytest.mark.parametrize(("nested", "sides"), [(False, "a, b, c"), (True, "a, pair")])
def test_where_memory_holds_no_shares_all_groups_are_named(
    tmp_path: Path, nested: bool, sides: str, shares: str
) -> None:
    machine = held_by(tmp_path, ("1 kB", "1 kB", "1 kB"), nested)
    message = (
        rf"^hardware 'mixed': no shares of {sides} fit their memory; take a smaller batch, or --shares equal"
    )
    with pytest.raises(HardwareError, match=message):
        plan_model(written(WIDE, 64), hardware=machine, strategy="accpar", shares=shares)
    plan = plan_model(written(WIDE, 64), hardware=machine, strategy="accpar", shares="equal")
    assert plan.score is not None
    assert not plan.score.fits
