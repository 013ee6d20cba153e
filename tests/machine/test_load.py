"""Hardware files: what comes with hypar, what may be changed, and what is refused in one clear line."""

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from hypar.cli.main import main
from hypar.errors import HardwareError
from hypar.machine.load import load_machine
from hypar.machine.machine import DeviceGroup, Machine
from hypar.machine.schema import CHANGEABLE
from hypar.registry import data_file, data_folder, data_names
from tests.effort import late

pytestmark = pytest.mark.usefixtures("folder")


MACHINES = data_names("hardware")
Where = tuple[str | int, ...]


def content(name: str) -> dict[str, Any]:
    return deepcopy(read(name))


@cache
def read(name: str) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(data_file("hardware", name).read_text(encoding="utf-8"))
    return data


@cache
def digest(name: str) -> str:
    digest: str = load_machine(name).digest
    return digest


def written(data: Any, name: str = "other") -> Machine:
    Path(f"{name}.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
    machine: Machine = load_machine(f"{name}.yaml")
    return machine


def numbers(data: Any, where: Where = ()) -> Iterator[Where]:
    if isinstance(data, dict) and "value" in data:
        yield where
    elif isinstance(data, dict | list):
        for key, inner in data.items() if isinstance(data, dict) else enumerate(data):
            yield from numbers(inner, (*where, key))


def at(data: Any, where: Where) -> Any:
    for part in where:
        data = data[part]
    return data


# What comes with hypar


@pytest.mark.parametrize("name", MACHINES)
def test_every_number_has_a_source(name: str) -> None:
    places = [*numbers(read(name))]
    assert places
    for where in places:
        number = at(read(name), where)
        assert set(number) == {"value", "source"}, where
        assert len(number["source"].split()) >= 2, where


@pytest.mark.parametrize("name", late(MACHINES, "hmc-physical"))
def test_the_digest_ignores_sources_but_no_value(name: str) -> None:
    """All sources at once, then one value after another."""
    data = content(name)
    for where in numbers(data):
        at(data, where)["source"] = "a better one"
    assert written(data).digest == digest(name)
    for where in numbers(read(name)):
        number = at(data, where)
        value, number["value"] = number["value"], another(number["value"], where)
        assert written(data).digest != digest(name), where
        number["value"] = value


def another(value: Any, where: Where) -> Any:
    """A value that may stand in the place of one."""
    options: dict[str, tuple[str, ...]]
    options = {"duplex": ("half", "full"), "bandwidth": ("link", "total"), "overlap": ("full", "none")}
    options |= {"resident": ("result", "any"), "fewest": ("cycles", "words", "product")}
    options |= {"sets": ("any", "line"), "pass_rows": ("any", "bank"), "sums": ("free", "counted")}
    options |= {"zeros": ("kept", "saved"), "unweighted": ("free", "counted")}
    if where[-1] in options and value in options[str(where[-1])]:
        return next(option for option in options[str(where[-1])] if option != value)
    if isinstance(value, list):
        return value[1:]
    if isinstance(value, str):
        number, unit = value.split()
        return f"{float(number) / 2} {unit}"
    return value // 2 or 2 if isinstance(value, int) else value / 2


def test_the_digest_is_of_the_machine_not_of_its_spelling() -> None:
    data = content("tpu-v2")
    data["interconnect"] = [data["interconnect"]]
    data["device"]["compute"]["peak"]["value"] = "0.18 PFLOP/s"
    data["device"]["memory"]["capacity"]["value"] = "64000 MB"
    data["assumptions"]["duplex"] = {"value": "full", "source": "the default"}
    assert written(data).digest == load_machine("tpu-v2").digest
    data["interconnect"][0]["topology"] = "torus"
    assert written(data).digest != load_machine("tpu-v2").digest
    data["interconnect"][0]["topology"] = {"name": "torus", "routing": "dimension_ordered"}
    assert written(data).digest == load_machine("tpu-v2").digest


# Changes


CHANGES: list[dict[str, Any]] = [
    {"duplex": "half"},
    {"overlap": "full"},
    {"bandwidth": "link"},
    {"efficiency": 0.5},
    {"attention_efficiency": 0.5},
    {"units_per_device": 4},
    {"accesses_per_word_moved": 4},
    {"topology": "torus"},
    {"topology": {"name": "torus", "routing": "dimension_ordered"}, "devices": 64},
    {"devices": 32},
    {"link_bandwidth": "10 GB/s", "bandwidth": "link"},
    {"total_bandwidth": "1 TB/s"},
    {"latency": "1 us"},
    {"word": "2 B"},
    {"memory.capacity": "4 GB", "memory.bandwidth": "160 GB/s"},
    {"compute.rows": 16, "compute.frequency": "500 MHz"},
    {"interconnect.0.latency": "2 us", "interconnect.0.total_bandwidth": "50 Gb/s"},
    {"ports": 1},
    {"reserve": "1 GB"},
    {"collectives": "all"},
    {"collectives": ["tree", "halving"], "latency": "1 us"},
    {"energy.multiply": "2 pJ", "energy.add": "1 pJ"},
    {"energy.register": "1 pJ", "energy.array": "2 pJ"},
    {"energy.buffer": "6 pJ", "energy.memory": "200 pJ"},
    {"energy.link": "40 pJ", "energy.static": "100 mW"},
    {"sums": "counted"},
    {"exchange": "independent"},
    {"unweighted": "counted"},
]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_a_change_is_as_if_the_file_said_so(changes: dict[str, Any]) -> None:
    changed = load_machine("hmc", changes)
    data = content("hmc")
    for key, value in changes.items():
        part, _, field = key.removeprefix("interconnect.0.").rpartition(".")
        if key == "topology":
            data["interconnect"][key] = value
        elif field in {"devices", "link_bandwidth", "total_bandwidth", "latency", "ports", "collectives"}:
            data["interconnect"][field] = {"value": value, "source": "as asked"}
        elif part:
            data["device"][part][field] = {"value": value, "source": "as asked"}
        elif key == "word":
            data["device"][key] = {"value": value, "source": "as asked"}
        else:
            data["assumptions"][key] = {"value": value, "source": "as asked"}
    edited = written(data)
    assert changed.digest == edited.digest != load_machine("hmc").digest
    assert (changed.tiers, changed.content, changed.compute) == (edited.tiers, edited.content, edited.compute)
    array = (2,) * (changed.num_devices.bit_length() - 1)
    assert changed.links(array) == edited.links(array)
    assert changed.name == "hmc"
    assert (changed.changes, edited.changes) == (changes, {})


def test_every_change_is_tried() -> None:
    tried = {key for changes in CHANGES for key in changes}
    elsewhere = {"buffer", "outward.bandwidth", "outward.latency"}
    assert (
        tried - {key for key in tried if key.startswith(("compute.", "interconnect."))}
        == {*CHANGEABLE} - elsewhere
    )


def test_each_of_several_networks_is_changed_by_its_number() -> None:
    changes = {"interconnect.0.link_bandwidth": "800 Gb/s", "interconnect.1.latency": "1 us", "devices": 4}
    outer, inner = load_machine("h100-8x", changes).tiers
    before = load_machine("h100-8x").tiers
    assert (outer.bytes_per_s, outer.latency_s, outer.devices) == (100e9, before[0].latency_s, 8)
    assert (inner.bytes_per_s, inner.latency_s, inner.devices) == (before[1].bytes_per_s, 1e-6, 4)
    ring = load_machine("h100-8x", {"interconnect.0.topology": "ring"})
    assert [tier.name for tier in ring.tiers] == ["ring", "switch"]


def test_groups_side_by_side_are_as_fast_as_all_of_them() -> None:
    machine = load_machine("tpu-v2-v3")
    both = DeviceGroup(name="both", machine=machine, num_devices=0, bytes_per_s=1e9, latency_s=0.0)
    each = [group.num_devices * group.machine.flop_per_s(4) for group in machine.groups]
    assert len(each) > 1
    assert both.flop_per_s(4) == sum(each) == sum(group.flop_per_s(4) for group in machine.groups)
    with pytest.raises(
        HardwareError, match="'tpu-v2-v3': tiers asked of 2 groups; allowed: a machine of identical devices"
    ):
        _ = machine.tiers


@pytest.mark.parametrize("name", data_names("hardware"))
def test_a_machine_as_yaml_is_equal_to_it(name: str) -> None:
    result = CliRunner().invoke(main, ["hardware", name, "--yaml"])
    assert (result.exit_code, result.stderr) == (0, "")
    Path("mine.yaml").write_text(result.stdout, encoding="utf-8")
    mine, own = load_machine("mine.yaml"), load_machine(name)
    assert (mine.digest, mine.num_devices) == (own.digest, own.num_devices)
    assert CliRunner().invoke(main, ["hardware", "mine.yaml", "--yaml"]).stdout == result.stdout


def test_a_total_is_shared_by_networks_side_by_side_too(tmp_path: Path) -> None:
    """Eight nodes of eight: every device has its own link outward, so eight networks share the outer total."""
    text = (data_folder("hardware") / "h100-8x.yaml").read_text(encoding="utf-8")
    file = tmp_path / "two.yaml"
    file.write_text(
        text.replace("link_bandwidth: {value: 400 Gb/s", "total_bandwidth: {value: 25600 Gb/s")
        .replace("link_bandwidth: {value: 450 GB/s", "total_bandwidth: {value: 3600 GB/s")
        .replace("assumptions:", "assumptions:\n  bandwidth: {value: total, source: a test}"),
        encoding="utf-8",
    )
    assert [tier.bytes_per_s for tier in load_machine(file).tiers] == [50e9, 450e9]
