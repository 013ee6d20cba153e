"""Hardware files: what comes with hypar, what may be changed, and what is refused in one clear line."""

from __future__ import annotations

import contextlib
import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from hypar.cli.main import main
from hypar.errors import HardwareError, InputError, OptionError, UnknownNameError
from hypar.files.text import read_text
from hypar.files.validation import MOST_FAULTS
from hypar.machine.changes import CHANGEABLE, PATTERNS
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.load import document_of, load_machine, parse_change
from hypar.machine.load_heterogeneous import load_hardware
from hypar.machine.loads import wires_of
from hypar.registry import data_file, data_folder, data_names, plugin_names
from tests.effort import late

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.machine.machine import Machine

MACHINES = data_names("hardware")
Where = tuple[str | int, ...]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def content(name: str) -> dict[str, Any]:
    """A machine's file as data, which may be changed."""
    return deepcopy(read(name))


@cache
def read(name: str) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(data_file("hardware", name).read_text(encoding="utf-8"))
    return data


@cache
def digest(name: str) -> str:
    return load_hardware(name).digest


def written(data: Any, name: str = "other") -> Machine:
    """The machine of a file with this content."""
    Path(f"{name}.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
    return load_machine(f"{name}.yaml")


def spelled(data: Any) -> Machine | HeterogeneousMachine:
    """As ``written``, of identical devices or heterogeneous."""
    Path("spelled.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
    return load_hardware("spelled.yaml")


def numbers(data: Any, where: Where = ()) -> Iterator[Where]:
    """The places of all numbers with a source."""
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


def test_machines_that_come_with_hypar() -> None:
    assert {"eyeriss", "h100-8x", "hmc", "tpu-v2", "tpu-v3"} <= set(MACHINES)


@pytest.mark.parametrize("name", MACHINES)
def test_machine_loads(name: str) -> None:
    found = load_hardware(name)
    assert found.name == name
    machines = (
        [machine for _, machine, _ in found.identical()]
        if isinstance(found, HeterogeneousMachine)
        else [found]
    )
    assert found.num_devices == sum(machine.num_devices for machine in machines) >= 1
    for machine in machines:
        assert machine.content.source.strip()
        if machine.num_devices > 1:
            assert machine.links((machine.num_devices,))[0].seconds_per_byte["all_reduce"] > 0


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
    assert spelled(data).digest == digest(name)
    for where in numbers(read(name)):
        number = at(data, where)
        value, number["value"] = number["value"], another(number["value"], where)
        assert spelled(data).digest != digest(name), where
        number["value"] = value


def another(value: Any, where: Where) -> Any:
    """A value that may stand in the place of one."""
    options: dict[str, tuple[str, ...]]
    options = {"duplex": ("half", "full"), "bandwidth": ("link", "total"), "overlap": ("full", "none")}
    options |= {"resident": ("result", "any"), "fewest": ("cycles", "words", "product")}
    options |= {"sets": ("any", "line"), "pass_rows": ("any", "bank"), "sums": ("free", "counted")}
    options |= {"zeros": ("kept", "saved")}
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


def test_sides_of_a_pod() -> None:
    """8 x 8 boards of TPU-v2: from one corner to the middle are four hops along each side."""
    assert load_machine("tpu-v2").links((64,))[0].hops == 8
    assert load_machine("tpu-v3").links((256,))[0].hops == 16


def test_without_a_memory_only_the_arithmetic_counts() -> None:
    chip = load_machine("eyeriss")
    assert chip.memory_bytes is None
    assert chip.memory_seconds(1e9) == 0
    assert chip.links(()) == ()
    assert load_machine("hmc").memory_seconds(320e9) == pytest.approx(1)


# Changes


CHANGES: list[dict[str, Any]] = [
    {"duplex": "half"},
    {"overlap": "full"},
    {"bandwidth": "link"},
    {"efficiency": 0.5},
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


def test_the_buffer_of_a_model_that_has_one_is_changed() -> None:
    changed = load_machine("eyeriss", {"buffer": "64 KiB"})
    assert changed.content.device.buffer is not None
    assert changed.content.device.buffer.value == 64 * 1024
    assert changed.compute != load_machine("eyeriss").compute


def test_each_of_several_networks_is_changed_by_its_number() -> None:
    changes = {"interconnect.0.link_bandwidth": "800 Gb/s", "interconnect.1.latency": "1 us", "devices": 4}
    outer, inner = load_machine("h100-8x", changes).tiers
    before = load_machine("h100-8x").tiers
    assert (outer.bytes_per_s, outer.latency_s, outer.devices) == (100e9, before[0].latency_s, 8)
    assert (inner.bytes_per_s, inner.latency_s, inner.devices) == (before[1].bytes_per_s, 1e-6, 4)
    ring = load_machine("h100-8x", {"interconnect.0.topology": "ring"})
    assert [tier.name for tier in ring.tiers] == ["ring", "switch"]


def test_the_links_between_groups_are_changed() -> None:
    before = load_hardware("tpu-v2-v3")
    machine = load_hardware("tpu-v2-v3", {"outward.latency": "3 us", "outward.bandwidth": "1 GB/s"})
    assert isinstance(machine, HeterogeneousMachine)
    assert {(group.latency_s, group.bytes_per_s) for group in machine.groups} == {(3e-6, 1e9)}
    assert machine.digest != before.digest
    with pytest.raises(
        HardwareError, match=r"^change outward\.latency=3: found 3; allowed: a number with a unit"
    ):
        load_hardware("tpu-v2-v3", {"outward.latency": 3})


def test_energies_of_a_machine_without_any_cannot_be_changed() -> None:
    with pytest.raises(
        OptionError, match=r"^change energy\.memory=1 pJ: the machine's file gives no energies$"
    ):
        load_machine("p100-4x4", {"energy.memory": "1 pJ"})


def test_an_energy_left_out_does_not_change_the_hash_that_stored_plans_have() -> None:
    """The hash of hmc in tests/golden, from before ``link``, ``static`` and ``sums`` could be given."""
    stored = json.loads((Path(__file__).parents[1] / "golden" / "lenet-c-best-stages.json").read_text())
    assert load_machine("hmc").digest in json.dumps(stored)


def test_a_wrong_energy_is_named_by_its_change() -> None:
    with pytest.raises(
        HardwareError, match=r"^change energy\.memory=-1 pJ: found '-1 pJ'; allowed: at least 0$"
    ):
        load_machine("hmc", {"energy.memory": "-1 pJ"})


def test_no_changes_are_the_file() -> None:
    assert load_machine("hmc", {}).digest == load_machine("hmc").digest
    assert load_machine("hmc", {"devices": 16}).digest == load_machine("hmc").digest


def test_of_several_networks_the_innermost_is_changed() -> None:
    machine = load_machine("h100-8x", {"devices": 4, "topology": "ring"})
    assert [(tier.name, tier.devices) for tier in machine.tiers] == [("switch", 8), ("ring", 4)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("duplex=half", ("duplex", "half")),
        ("devices=64", ("devices", 64)),
        ("efficiency=0.5", ("efficiency", 0.5)),
        ("topology={name: torus, routing: balanced}", ("topology", {"name": "torus", "routing": "balanced"})),
        ("total_bandwidth=1 TB/s", ("total_bandwidth", "1 TB/s")),
    ],
)
def test_a_change_is_read(text: str, expected: tuple[str, Any]) -> None:
    assert parse_change(text) == expected


@pytest.mark.parametrize("text", ["", "duplex", "duplx=half", "=half", "source=a", "name=b"])
def test_no_change(text: str) -> None:
    with pytest.raises(
        OptionError, match=r"not a change; allowed: NAME=VALUE with one of topology, devices, "
    ):
        parse_change(text)


# Bad files

RING = """\
  topology: ring
  devices: {value: 4, source: s}
  link_bandwidth: {value: 1600 Mb/s, source: s}
  total_bandwidth: {value: 6.4 Gb/s, source: s}
"""
GOOD = f"""\
source: a test
device:
  word: {{value: 4 B, source: s}}
  compute:
    name: roofline
    peak: {{value: 1 TFLOP/s, source: s}}
    half_efficiency_flop: {{value: 0, source: s}}
  memory:
    capacity: {{value: 8 GB, source: s}}
    bandwidth: {{value: 320 GB/s, source: s}}
  energy:
    multiply: {{value: 3.7 pJ, source: s}}
    add: {{value: 0.9 pJ, source: s}}
    buffer: {{value: 5 pJ, source: s}}
    memory: {{value: 640 pJ, source: s}}
interconnect:
{RING}assumptions:
  duplex: {{value: full, source: s}}
"""
NETWORK = """\
  - topology: ring
    devices: {value: 4, source: s}
    link_bandwidth: {value: 1600 Mb/s, source: s}
"""
RATE = "a number with a unit, as 320 GB/s or 1600 Mb/s"
TOPOLOGIES = ", ".join(plugin_names("topologies"))
GRAPH = "topology: {{name: graph, pairs: {}}}"


def message(text: str, changes: dict[str, Any] | None = None) -> str:
    """What is said about a file named bad.yaml, a line for each fault."""
    Path("bad.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        load_machine("bad.yaml", changes)
    assert str(error.value).count("\n") == len(error.value.others)
    assert len(str(error.value)) < 1000
    return str(error.value)


def test_a_good_file() -> None:
    Path("good.yaml").write_text(GOOD, encoding="utf-8")
    assert load_machine("good.yaml").num_devices == 4
    Path("good.yaml").write_text(GOOD.replace(RING, NETWORK * 2), encoding="utf-8")
    assert load_machine(Path("good.yaml")).num_devices == 16
    Path("good.yaml").write_text(GOOD[: GOOD.index("interconnect")], encoding="utf-8")
    assert load_machine("good.yaml").num_devices == 1


def test_a_file_with_energies_or_a_buffer_gives_the_word_that_they_are_for() -> None:
    without = GOOD.replace("  word: {value: 4 B, source: s}\n", "")
    assert message(without) == "bad.yaml:2: device: 'word' is missing; allowed: one, as the file gives energy"
    data = yaml.safe_load(without)
    del data["device"]["energy"]
    assert written(data).content.device.word.value == 4
    data["device"]["buffer"] = {"value": "108 KB", "source": "s"}
    with pytest.raises(HardwareError, match=r"'word' is missing; allowed: one, as the file gives buffer$"):
        written(data)


def test_every_fault_of_a_file_is_named_at_once() -> None:
    text = GOOD.replace("source: a test", "source: ''").replace("value: 4 B", "value: 4")
    text = (
        text.replace("1 TFLOP/s", "fast")
        .replace("capacity", "capasity")
        .replace("    bandwidth: {value: 320 GB/s, source: s}\n", "")
    )
    assert message(text).splitlines() == [
        "bad.yaml:9: device.memory.capasity: unknown key 'capasity'; allowed: capacity, bandwidth; did you mean 'capacity'?",
        "bad.yaml:8: device.memory.bandwidth: 'bandwidth' is missing",
        "bad.yaml:1: source: found ''; allowed: a text that is not empty",
        "bad.yaml:3: device.word.value: found 4; allowed: a number with a unit, as 108 KB, 8 GB or 64 MiB",
        "bad.yaml:6: device.compute.peak.value: found 'fast'; allowed: a number with a unit, as 989 TFLOP/s",
    ]
    result = CliRunner().invoke(main, ["hardware", "bad.yaml", "--validate"])
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == "".join(f"error: {line}\n" for line in message(text).splitlines())


def test_no_more_faults_than_a_screen_holds() -> None:
    text = GOOD.replace("topology: ring", GRAPH.format("[" + ", ".join(["[a, b]"] * 100) + "]"))
    Path("bad.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(HardwareError) as caught:
        load_machine("bad.yaml")
    assert len(str(caught.value).splitlines()) == MOST_FAULTS


@pytest.mark.parametrize("name", data_names("hardware"))
def test_a_machine_as_yaml_is_equal_to_it(name: str) -> None:
    result = CliRunner().invoke(main, ["hardware", name, "--yaml"])
    assert (result.exit_code, result.stderr) == (0, "")
    Path("mine.yaml").write_text(result.stdout, encoding="utf-8")
    mine, own = load_hardware("mine.yaml"), load_hardware(name)
    assert (mine.digest, mine.num_devices) == (own.digest, own.num_devices)
    assert CliRunner().invoke(main, ["hardware", "mine.yaml", "--yaml"]).stdout == result.stdout


@pytest.mark.parametrize(
    "changes", [{"duplex": "half"}, {"topology": "torus", "latency": "8 us"}, {"devices": 4}]
)
def test_a_changed_machine_as_yaml_is_equal_to_it(changes: dict[str, Any]) -> None:
    sets = [part for name, value in changes.items() for part in ("--set", f"{name}={value}")]
    result = CliRunner().invoke(main, ["hardware", "h100-8x", *sets, "--yaml"])
    Path("mine.yaml").write_text(result.stdout, encoding="utf-8")
    assert load_machine("mine.yaml").digest == load_machine("h100-8x", changes).digest
    assert "as asked" in result.stdout
    assert max(map(len, result.stdout.splitlines())) < 160


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["hmc", "--yaml", "--json"], 2, "--yaml excludes --json, --validate and --model"),
        (["hmc", "--yaml", "--validate"], 2, "--yaml excludes --json, --validate and --model"),
        (["--yaml"], 3, "error: hardware: no machine is named; allowed: dojo, eyeriss,"),
        (["tpu-v2-v3", "--set", "duplex=half", "--yaml"], 3, "'tpu-v2-v3' is a heterogeneous machine"),
        (["hcm", "--yaml"], 3, "no hardware 'hcm'"),
    ],
)
def test_what_is_not_printed_as_yaml(arguments: list[str], status: int, said: str) -> None:
    result = CliRunner().invoke(main, ["hardware", *arguments])
    assert (result.exit_code, result.stdout) == (status, "")
    assert said in result.stderr


def test_five_networks() -> None:
    text = message(GOOD.replace(RING, NETWORK * 5))
    assert text.startswith("bad.yaml:16: interconnect: found [{'devices':")
    assert text.endswith("; allowed: at most 4")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"duplex": "hlaf"},
            "change duplex=hlaf: found 'hlaf'; allowed: 'full' or 'half'; did you mean 'half'?",
        ),
        (
            {"duplx": "half"},
            f"change duplx=half: not a change; allowed: {', '.join((*CHANGEABLE, *PATTERNS))}; did you mean 'duplex'?",
        ),
        ({"devices": 50000}, "change devices=50000: found 50000; allowed: at most 16,384"),
        ({"devices": 0}, "change devices=0: found 0; allowed: at least 1"),
        ({"efficiency": 2}, "change efficiency=2: found 2; allowed: at most 1"),
        ({"link_bandwidth": 3}, f"change link_bandwidth=3: found 3; allowed: {RATE}"),
        (
            {"topology": "trous"},
            f"change topology=trous: no topology 'trous'; allowed: {TOPOLOGIES}; did you mean 'torus'?",
        ),
        (
            {"topology": "h_tree", "devices": 12},
            "change devices=12: h_tree: 12 devices; allowed: a power of two",
        ),
    ],
    ids=str,
)
def test_bad_change(changes: dict[str, Any], expected: str) -> None:
    assert message(GOOD, changes) == expected


def test_a_change_of_a_bad_file_is_not_blamed() -> None:
    text = GOOD.replace("value: full", "value: fulll")
    assert message(text, {"duplex": "half"}).startswith(
        "bad.yaml:22: assumptions.duplex.value: found 'fulll'"
    )


def test_no_network_to_change() -> None:
    with pytest.raises(
        OptionError, match=r"^change topology=ring: the machine is one device without a network$"
    ):
        load_machine("eyeriss", {"topology": "ring"})
    assert load_machine("eyeriss", {"efficiency": 1.0}).digest != load_machine("eyeriss").digest


def test_an_unknown_machine() -> None:
    with pytest.raises(UnknownNameError, match=r"^no hardware 'hcm'; allowed: .*; did you mean 'hmc'\?$"):
        load_machine("hcm")
    with pytest.raises(InputError, match=r"^nowhere.yaml: cannot be read"):
        load_machine("nowhere.yaml")


@pytest.mark.parametrize(
    ("name", "array", "expected"),
    [
        (
            "hmc",
            (2, 2, 2, 2, 2),
            "found an array of 32 devices (2x2x2x2x2); allowed: at most 16, all that it has",
        ),
        ("hmc", (3,), "found an array of 3 devices (3); allowed: a divisor of 16, all that it has"),
        ("hmc", (2, 6), "found an array of 12 devices (2x6); allowed: a divisor of 16, all that it has"),
        ("hmc", (4, 1), "found an array of 4 devices (4x1); allowed: two ways a level at least"),
        ("eyeriss", (2,), "found an array of 2 devices (2); allowed: at most 1, all that it has"),
    ],
)
def test_an_array_that_does_not_fit(name: str, array: tuple[int, ...], expected: str) -> None:
    with pytest.raises(HardwareError) as error:
        load_machine(name).links(array)
    assert str(error.value) == f"hardware {name!r}: {expected}"


@given(
    where=st.sampled_from(list(numbers(yaml.safe_load(GOOD)))),
    value=st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=20),
        st.lists(st.integers(), max_size=2),
    ),
    plain=st.booleans(),
)
def test_any_value_is_taken_or_refused_in_one_line(where: Where, value: Any, plain: bool) -> None:
    data = yaml.safe_load(GOOD)
    if plain:
        at(data, where[:-1])[where[-1]] = value
    else:
        at(data, where)["value"] = value
    Path("any.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
    with contextlib.suppress(InputError):
        assert load_machine("any.yaml").digest.startswith("sha256:")
        return
    assert message(Path("any.yaml").read_text(encoding="utf-8")).startswith("bad.yaml")


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


def test_names_of_several_algorithms() -> None:
    default = load_machine("tpu-v3")
    assert load_machine("tpu-v3", {"collectives": "all but levels"}).digest == default.digest
    every = load_machine("tpu-v3", {"collectives": "all"})
    assert every.digest != default.digest
    assert (every.joins, default.joins) == (True, False)
    assert [*every.tiers[0].collectives] == [*default.tiers[0].collectives, "levels"]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("hmc", {"topology": "torus", "compute.rows": 10}),
        ("p100-4x4", {"efficiency": 0.5, "interconnect.0.latency": "9 us"}),
        ("tpu-v2-v3", {"outward.latency": "3 us", "link_bandwidth": "1 GB/s"}),
    ],
)
def test_changes_leave_what_is_kept_of_a_file_as_it_was(name: str, changes: dict[str, Any]) -> None:
    file = data_file("hardware", name)
    kept = document_of(file, read_text(file))
    before = deepcopy(kept.data)
    load_hardware(name, changes)
    assert document_of(file, read_text(file)) is kept
    assert kept.data == before


def test_machines_share_the_paths_of_one_topology_of_as_many_devices() -> None:
    (wide,), (other,), (more,), (torus,) = (
        load_machine("hmc", changes).tiers
        for changes in ({}, {"latency": "9 us"}, {"devices": 32}, {"topology": "torus"})
    )
    assert wires_of(wide) is wires_of(other)
    assert len({id(wires_of(tier)) for tier in (wide, more, torus)}) == 3
