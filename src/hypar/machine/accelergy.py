"""Energies of a machine, read from an energy reference table of Accelergy.

The table gives picojoules for each action of each component. An action may move several words, which ``/N`` says.

Source: Accelergy-Project/accelergy, ``accelergy/ERT_generator.py``, versions 0.3 and 0.4 of the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hypar.errors import HardwareError, OptionError, UnknownNameError, shown
from hypar.files.validation import AsNumber, Record, validated
from hypar.files.yaml_file import read_yaml

MAC = "mac"
"""Stands for ``multiply`` and ``add`` together."""

ENERGIES = (MAC, "multiply", "add", "register", "array", "buffer", "memory")
"""The energies that a table may give."""

_RANGE = re.compile(r"\[[^\]]*\]")
"""The range of a component's copies, as ``[0..167]``."""


# Parts of the table, whose further keys are Accelergy's.


class _Action(Record, extra="ignore"):
    name: str
    energy: Annotated[float, AsNumber, Field(ge=0, le=1e15, allow_inf_nan=False)]


class _Component(Record, extra="ignore"):
    name: str
    actions: Annotated[list[_Action], Field(min_length=1)]


class _Table(Record, extra="ignore"):
    tables: Annotated[list[_Component], Field(min_length=1)]


class _TableFile(Record, extra="ignore"):
    table: Annotated[_Table, Field(alias="ERT")]


def read_mapping(texts: Sequence[str]) -> dict[str, str]:
    """Read ``buffer=glb.read`` as an energy and its action, for each text; raises ``OptionError``."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, target = text.partition("=")
        if not equals or name in found:
            problem = f"{name} given twice" if equals else f"found {shown(text)}"
            raise OptionError("map", problem, "NAME=COMPONENT.ACTION, each name once")
        found[name] = target
    return found


def read_energies(file: str | Path, mapping: Mapping[str, str]) -> dict[str, Any]:
    """Read energies from a table, as changes of a machine, each with its source.

    Args:
        file: the table, as Accelergy writes it: ``ERT.yaml``.
        mapping: for some of ``ENERGIES`` the component and its action, as ``system.glb.read``, with ``/4`` behind it for an
            action of four words. A component may be named by its end, without the range of its copies.

    Returns:
        What ``load_machine`` takes as changes.

    Raises:
        InputError: the file is no such table, or has no such component or action.
    """
    path = Path(file)
    document, found = read_yaml(path), dict[str, Any]()
    read = validated(_TableFile, document.data, place=document.at, error=HardwareError, every=True)
    energies: dict[tuple[str, str], list[float]] = {}
    for component in read.table.tables:
        for action in component.actions:
            energies.setdefault((component.name, action.name), []).append(action.energy)
    for name, target in mapping.items():
        if name not in ENERGIES:
            raise UnknownNameError("energy", name, ENERGIES)
        if name == MAC and {"multiply", "add"} & {*mapping}:
            raise OptionError("map", f"found {MAC} beside multiply or add", "mac alone, or the two")
        found[f"energy.{'multiply' if name == MAC else name}"] = _energy(path, energies, target)
        if name == MAC:
            found["energy.add"] = {"value": "0 pJ", "source": "in the energy of the multiplication"}
    return found


def _energy(file: Path, energies: Mapping[tuple[str, str], list[float]], target: str) -> dict[str, str]:
    """Return the energy of a word and its source; of several energies, by arguments, the largest."""
    match = re.fullmatch(r"(.+\.[\w-]+)(?:/([1-9][0-9]{0,5}))?", target)
    if match is None:
        allowed = "COMPONENT.ACTION, as glb.read, or glb.read/4 for 4 words"
        raise OptionError("map", f"found {shown(target)}", allowed)
    plain = {own: _RANGE.sub("", ".".join(own)) for own in energies}
    exact = [own for own, name in plain.items() if match[1] in {".".join(own), name}]
    end = _RANGE.sub("", match[1])
    found = exact or [own for own, name in plain.items() if name.endswith(f".{end}")]
    if not found:
        raise UnknownNameError("action", end, [*plain.values()], str(file))
    if len(found) > 1:
        names = ", ".join(map(".".join, found))
        raise HardwareError(str(file), f"{len(found)} actions end in {end!r}", f"one of {names}")
    words, each = int(match[2] or 1), energies[found[0]]
    several = f", the largest of {len(each)}" * (len({*each}) > 1)
    said = f"{max(each):.9g} pJ{f' for {words} words' * (words > 1)}{several}"
    source = f"{file.name} of Accelergy: {' '.join(found[0])}, {said}"
    return {"value": f"{max(each) / words:.9g} pJ", "source": source}
