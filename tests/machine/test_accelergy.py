"""Energies read from a table of Accelergy."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from hypar import load_machine
from hypar.cli.main import main
from hypar.errors import HyparError
from hypar.machine.accelergy import read_energies

TABLE = """\
ERT:
    version: '0.4'
    tables:
      - name: chip.DRAM[1..1]
        actions:
          - name: read
            arguments:
                global_cycle_seconds: 1e-09
            energy: 512.0
          - name: leak
            arguments: {}
            energy: 0.0
      - name: chip.shared_glb[1..1]
        actions:
          - name: write
            arguments: {}
            energy: 14
          - name: read
            arguments: {}
            energy: 18.183829
      - name: chip.pe[0..167].spad
        actions:
          - {name: read, arguments: {address_delta: 0}, energy: 1e-1}
          - {name: read, arguments: {address_delta: 1}, energy: 0.25}
      - name: chip.mac[1..168]
        actions:
          - {name: compute, arguments: {}, energy: 0.207692}
      - name: other.mac
        actions:
          - {name: compute, arguments: {}, energy: 3}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table."""
    monkeypatch.chdir(tmp_path)
    Path("ERT.yaml").write_text(TABLE, encoding="utf-8")
    return tmp_path


def test_energies_become_those_of_the_machine() -> None:
    mapping = {
        "mac": "chip.mac.compute",
        "register": "spad.read",
        "buffer": "chip.shared_glb[1..1].read/4",
        "memory": "DRAM.read/4",
    }
    energies = read_energies("ERT.yaml", mapping)
    energy = load_machine("eyeriss", energies).content.device.energy
    before = load_machine("eyeriss").content.device.energy
    assert energy is not None
    assert before is not None
    assert energy.register_access is not None
    assert energy.multiply.value == pytest.approx(0.207692e-12)
    assert energy.add.value == 0
    assert energy.register_access.value == pytest.approx(0.25e-12)
    assert energy.buffer.value == pytest.approx(18.183829e-12 / 4)
    assert energy.memory.value == pytest.approx(128e-12)
    assert energy.array == before.array
    assert (
        energy.buffer.source == "ERT.yaml of Accelergy: chip.shared_glb[1..1] read, 18.183829 pJ for 4 words"
    )
    assert energy.register_access.source.endswith("read, 0.25 pJ, the largest of 2")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["hardware", *arguments])


def test_the_command_prints_a_hardware_file_with_the_energies() -> None:
    asked = ("--energies", "ERT.yaml", "--map", "buffer=shared_glb.write", "--map", "memory=DRAM.read/4")
    result = run("eyeriss", *asked, "--yaml")
    assert (result.exit_code, result.stderr) == (0, "")
    Path("mine.yaml").write_text(result.stdout, encoding="utf-8")
    energy = load_machine("mine.yaml").content.device.energy
    assert energy is not None
    assert (energy.buffer.value, energy.memory.value) == pytest.approx((14e-12, 128e-12))
    assert load_machine("mine.yaml").digest == load_machine("eyeriss", read_energies("ERT.yaml", {
        "buffer": "shared_glb.write", "memory": "DRAM.read/4"})).digest  # fmt: skip
    assert yaml.safe_load(result.stdout)["device"]["energy"]["buffer"]["source"].startswith(
        "ERT.yaml of Accelergy"
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (TABLE.replace("energy: 14", "energy: -14"), "ERT.yaml:17: ERT.tables[1].actions[0].energy: found -14; allowed: at least 0"),
        (TABLE.replace("            energy: 14\n", ""), "ERT.yaml:15: ERT.tables[1].actions[0].energy: 'energy' is missing"),
        (TABLE[: TABLE.index("      - name: chip.DRAM")], "ERT.yaml:3: ERT.tables: found nothing; allowed: a list"),
        ("", "ERT.yaml: the file is empty"),
    ],
)  # fmt: skip
def test_a_bad_table_is_one_line(text: str, line: str) -> None:
    Path("ERT.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(HyparError) as refused:
        read_energies("ERT.yaml", {"buffer": "shared_glb.write"})
    assert str(refused.value) == line
