"""Half and twice every number of every machine that comes with hypar, set as ``--set`` sets it, moves a step as expected."""

import math
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from hypar.errors import OptionError
from hypar.machine.load import load_machine, parse_change
from hypar.machine.machine import Machine
from hypar.machine.setting import phase_energy
from hypar.network.graph import LayerGraph, load_model
from hypar.ops.nest import PHASES
from hypar.plan.plan import Plan
from hypar.planning.planner import plan_model
from hypar.planning.replay import run_plan
from hypar.registry import data_names
from hypar.schedule.lanes import Lane
from hypar.sharding.placement import primes
from tests.effort import LONG
from tests.kit import known
from tests.machine.test_load import at, read
from tests.machine.test_load import numbers as found

TIME = {
    **dict.fromkeys(("peak", "fp32_peak", "fp8_peak", "attention_efficiency", "rows", "columns", "frequency", "buffer_words_per_cycle", "bandwidth", "link_bandwidth"), -1),
    **dict.fromkeys(("total_bandwidth", "units_per_device", "efficiency", "devices", "ports"), -1),
    **dict.fromkeys(("half_efficiency_flop", "latency"), +1),
}  # fmt: skip
"""Numbers that move time: -1 if more of them makes a step shorter."""

ENERGY = {
    "accesses_per_word_moved": +1,
    **dict.fromkeys(("word", "weight_words", "input_words", "output_words"), -1),
}
"""Numbers that move energy, besides those of ``energy`` itself: more of them takes more."""

ROOM = {"buffer": -1}
"""Numbers of words that fit the buffer: -1 if more of them makes a step no longer, and shorter or of less energy."""

BY_WORDS = ("eyeriss-isca",)
"""Machines whose mappings are chosen by words and not by time: more room makes a step take no more energy, but maybe longer."""

EITHER = {
    ("eyeriss", "compute.weight_buffer_words"): "it takes room from F_in and F_out",
    (
        "eyeriss",
        "compute.bank_words",
    ): "a tile takes whole banks, but a pass has as many channels as one bank holds rows of",
    (
        "hmc",
        "compute.input_words",
    ): "an element takes as many channels as it holds, and then filters while registers for W are left",
}
"""Numbers that give something and take something else, so that a step may get better or worse either way."""

REFUSED = {
    ("hmc", "buffer"): "changes nothing, as compute model row_stationary derives nothing from the buffer",
    **{
        (name, "interconnect.0.link_bandwidth"): "changes nothing, as assumption bandwidth is total"
        for name in ("hmc", "hmc-physical")
    },
}
"""Published numbers of which a machine derives nothing, so that no change of them is taken."""

BESIDE = {(name, "interconnect.0.link_bandwidth"): {"bandwidth": "link"} for name in ("hmc", "hmc-physical")}
"""Changes beside which a refused number has its effect."""

USED = {("tpu-v2-v3", "compute.peak"): 180 / 420, ("tetris-2d", "compute.weight_words"): 11 * 20 / 480}
"""Part of a number that is in use, below which less of it has an effect.

A change is one of all groups, of which the least has 180 of 420 TFLOP/s. An element with registers for 12 words of F_in, one of
which arrives, and 20 of F_out multiplies no more than 11 x 20 words of W.
"""

FORMATS = {"alexnet": "bfloat16"}
"""Number formats of the networks that are not in fp32: each has a peak of its own."""

LARGE_BATCH = 2**20
"""A mini-batch of which computation takes most of the time, on however many devices."""


OF_TRANSFORMERS = {"compute.fp8_peak": "fp8", "attention_efficiency": None}
"""Numbers that only a transformer's step depends on, with its precision."""

ALIKE = ("hmc-physical", "tetris-2d", "tpu-v3", "tpu-v5p", "b200-hgx", "gb200-nvl72")
"""Machines of the kind of another, all of whose numbers the slow run changes."""


class Case(NamedTuple):
    """A number of a machine by the key that ``--set`` knows it by, and its value as the file has it."""

    machine: str
    key: str
    value: Any

    def change(self, factor: float) -> dict[str, Any]:
        """Return the change of the number by a factor."""
        if factor < 1:
            factor *= USED.get((self.machine, self.key), 1)
        if isinstance(self.value, str):
            number, unit = re.fullmatch(r"([0-9.e+-]+)\s*(\S+)", self.value).groups()  # type: ignore[union-attr]
            written = f"{float(number) * factor!r} {unit}"
        else:
            most = 1.0 if self.key.endswith("efficiency") else math.inf
            least = 1 if isinstance(self.value, int) else 0.0
            written = f"{max(least, min(most, type(self.value)(self.value * factor)))!r}"
        return dict([parse_change(f"{self.key}={written}")])


def numbers(name: str) -> Iterator[Case]:
    """Yield the numbers of a hardware file; of a heterogeneous machine those of the groups' links."""
    for path in found(read(name)):
        value = at(read(name), path)["value"]
        if not re.match("[0-9]", str(value)):
            continue
        part, *rest = path
        if part == "interconnect":
            rest = [part, *(rest if len(rest) > 1 else (0, *rest))]
        elif part == "groups":
            rest = rest[2:] if rest[1] == "changes" else rest[1:]
        yield Case(name, ".".join(map(str, rest)), value)


CASES = [case for name in data_names("hardware") for case in dict.fromkeys(numbers(name))]


class Outcome(NamedTuple):
    """The seconds and the joules of a step, those at rest included."""

    time: float
    energy: float


@cache
def network(name: str, batch: int) -> LayerGraph:
    return load_model(name, batch=batch).with_fields({}, dtype=FORMATS.get(name, "float32"))


def scored(machine: Machine, name: str, batch: int, precision: str | None = None) -> Outcome:
    """Score a network, cut in the batch on all devices of a machine."""
    plan = plan_for(machine, name, batch, precision)
    ran = run_plan(plan, hardware=machine, model=network(name, batch))
    return Outcome(ran.score.time_s, (ran.score.energy_j or 0.0) + sum(map(at_rest, ran.lanes)))


def plan_for(machine: Machine, name: str, batch: int, precision: str | None) -> Plan:
    """Return a plan made for the machine as it is shipped if it has as many devices."""
    shipped = load_machine(machine.name)
    made_for = shipped if shipped.num_devices == machine.num_devices else machine
    key = made_for.digest, name, batch, precision
    if key not in PLANS:
        asked: dict[str, Any] = {"strategy": "dp", "array": primes(machine.num_devices)}
        asked = asked if asked["array"] else {"stages": 1, "levels": 0}
        asked = {"strategy": "accpar", "shares": "equal"} if machine.groups else asked
        asked |= {"convention": "paper", "precision": precision}
        PLANS[key] = plan_model(network(name, batch), hardware=made_for, **asked)
    return PLANS[key]


PLANS: dict[tuple[str, str, int, str | None], Plan] = {}


def at_rest(lane: Lane) -> float:
    """Return the joules at rest of a device's computation."""
    times = [time for time in lane.times if time is not None]
    each = (phase_energy(lane.setting.machine, time, phase) for time in times for phase in PHASES)
    return math.fsum(own["static"] for own in each)


def outcomes(machine: Machine, devices: int, kind: str) -> list[Outcome]:
    """Return the outcomes for a network of small layers and one of large layers, or for one of much computation, or a transformer."""
    if kind in OF_TRANSFORMERS:
        return [scored(machine, "gpt2", 8 * devices, OF_TRANSFORMERS[kind])]
    if kind == "devices":
        return [scored(machine, "sconv", LARGE_BATCH)]
    each = (8, 64) if devices > 1 else (8, 4)
    return [
        scored(machine, name, own * devices) for name, own in zip(("lenet-c", "alexnet"), each, strict=True)
    ]


@cache
def as_shipped(name: str, kind: str, beside: tuple[tuple[str, Any], ...]) -> list[Outcome]:
    machine = load_machine(name, dict(beside))
    return outcomes(machine, machine.num_devices, kind)


def moved(case: Case, factor: float) -> dict[str, list[int]]:
    """Return for time and energy whether it falls (-1), stays (0), or rises (1) with a change, for each network."""
    beside = BESIDE.get(case[:2], {})
    kind = "devices" if case.key.endswith("devices") else case.key if case.key in OF_TRANSFORMERS else ""
    machine = load_machine(case.machine, case.change(factor) | beside)
    changed = outcomes(machine, load_machine(case.machine).num_devices, kind)
    pairs = [*zip(changed, as_shipped(case.machine, kind, tuple(beside.items())), strict=True)]
    found: dict[str, list[int]] = {}
    for quantity in Outcome._fields:
        values = [(getattr(one, quantity), getattr(other, quantity)) for one, other in pairs]
        found[quantity] = [
            0 if math.isclose(one, other, rel_tol=1e-12) else 1 if one > other else -1
            for one, other in values
        ]
    return found


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, id=f"{case.machine} {case.key}", marks=[pytest.mark.slow] if case.machine in ALIKE else []
        )
        for case in CASES
        if case.key != "memory.capacity"
    ],
)
def test_half_and_twice_move_a_step_as_expected(case: Case) -> None:
    """Never the wrong way for any network, and one of both moves a step at all; the quick run stops at one that does."""
    if case[:2] in REFUSED:
        with pytest.raises(OptionError, match=f"^change {case.key}=.*: {REFUSED[case[:2]]}"):
            load_machine(case.machine, case.change(2))
        if case[:2] not in BESIDE:
            return
    last = case.key.rpartition(".")[2]
    any_move: list[int] = []
    for factor, sign in ((0.5, -1), (2, 1)):
        if any_move and settings().max_examples < LONG:
            break
        time, energy = ([sign * own for own in each] for each in moved(case, factor).values())
        if case[:2] in EITHER:
            any_move += [own for own in time + energy if own]
        elif case.key.startswith("energy.") or last in ENERGY:
            wanted = 1 if case.key.startswith("energy.") else ENERGY[last]
            assert -wanted not in energy
            any_move += [wanted] if wanted in energy else []
        elif last in TIME:
            assert -TIME[last] not in time
            any_move += [TIME[last]] if TIME[last] in time else []
        else:
            assert last in ROOM
            assert -ROOM[last] not in (energy if case.machine in BY_WORDS else time)
            any_move += [ROOM[last]] if ROOM[last] in time + energy else []
    assert any_move


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.key == "memory.capacity"], ids=lambda case: case.machine
)
def test_half_and_twice_the_capacity_move_what_fits(case: Case) -> None:
    """Of two mini-batches, one needs three quarters of the memory, the other one and a half times as much."""
    machine = load_machine(case.machine)
    assert isinstance(machine, Machine)
    sample = held(machine, 1024) / 1024
    for part, fits in ((0.75, (False, True, True)), (1.5, (False, False, True))):
        batch = round(part * (machine.memory_bytes or 0.0) / sample)
        found = [
            load_machine(case.machine, case.change(factor)).fits(held(machine, batch))
            for factor in (0.5, 1, 2)
        ]
        assert tuple(found) == fits


def held(machine: Machine, batch: int) -> float:
    """Return the memory of each of two devices that train a small network together."""
    plan = plan_model("lenet-c", batch=batch, strategy="dp", array=[2], hardware=machine)
    return known(plan.score).memory_bytes
