"""Energies read from a table of Accelergy."""

from pathlib import Path

import pytest

from hypar import load_machine
from hypar.machine.accelergy import read_energies
from tests.kit import known

TABLE = """\
ERT:
  version: '0.4'
  tables:
    - name: chip.DRAM[1..1]
      actions: [{name: read, arguments: {cycle: 1e-09}, energy: 512.0}, {name: leak, arguments: {}, energy: 0.0}]
    - name: chip.shared_glb[1..1]
      actions: [{name: write, arguments: {}, energy: 14}, {name: read, arguments: {}, energy: 18.183829}]
    - name: chip.pe[0..167].spad
      actions:
        - {name: read, arguments: {address_delta: 0}, energy: 1e-1}
        - {name: read, arguments: {address_delta: 1}, energy: 0.25}
    - name: chip.mac[1..168]
      actions: [{name: compute, arguments: {}, energy: 0.207692}]
    - name: other.mac
      actions: [{name: compute, arguments: {}, energy: 3}]
"""


@pytest.mark.usefixtures("folder")
def test_energies_become_those_of_the_machine() -> None:
    Path("ERT.yaml").write_text(TABLE, encoding="utf-8")
    mapping = {"mac": "chip.mac.compute", "register": "spad.read", "memory": "DRAM.read/4"}
    mapping["buffer"] = "chip.shared_glb[1..1].read/4"
    energies = read_energies("ERT.yaml", mapping)
    energy = load_machine("eyeriss", energies).content.device.energy
    before = load_machine("eyeriss").content.device.energy
    assert energy is not None
    assert energy.register_access is not None
    assert energy.multiply.value == pytest.approx(0.207692e-12)
    assert energy.add.value == 0
    assert energy.register_access.value == pytest.approx(0.25e-12)
    assert energy.buffer.value == pytest.approx(18.183829e-12 / 4)
    assert energy.memory.value == pytest.approx(128e-12)
    assert energy.array == known(before).array
    assert (
        energy.buffer.source == "ERT.yaml of Accelergy: chip.shared_glb[1..1] read, 18.183829 pJ for 4 words"
    )
    assert energy.register_access.source.endswith("read, 0.25 pJ, the largest of 2")
