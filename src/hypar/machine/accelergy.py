"""Energies of a machine, read from an energy reference table of Accelergy.

The table gives picojoules for each action of each component. An action may move several words, which ``/N`` says.

Source: Accelergy-Project/accelergy, ``accelergy/ERT_generator.py``, versions 0.3 and 0.4 of the table.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ConfigDict, Field

from hypar.errors import HardwareError, OptionError, UnknownNameError, shown
from hypar.files.quantities import AsNumber
from hypar.files.record import Record
from hypar.files.validation import validated
from hypar.files.yaml_file import read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAC = "mac"
"""Stands for ``multiply`` and ``add`` together."""

ENERGIES = (MAC, "multiply", "add", "register", "array", "buffer", "memory")
"""The energies that a table may give."""

TARGET = re.compile(r"(?P<component>.+)\.(?P<action>[\w-]+?)(?:/(?P<words>[1-9][0-9]{0,5}))?")


class _Part(Record):
    """A part of the table, whose further keys are Accelergy's."""

    model_config = ConfigDict(extra="ignore")


class _Action(_Part):
    name: str
    energy: Annotated[float, AsNumber, Field(ge=0, le=1e15, allow_inf_nan=False)]


class _Component(_Part):
    name: str
    actions: Annotated[list[_Action], Field(min_length=1)]


class _Table(_Part):
    tables: Annotated[list[_Component], Field(min_length=1)]


class _TableFile(_Part):
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

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> file = Path(mkdtemp()) / "ERT.yaml"
        >>> rows = "[{name: 'top.glb[1..1]', actions: [{name: read, arguments: {}, energy: 18.0}]}]"
        >>> _ = file.write_text(f"ERT: {{version: '0.4', tables: {rows}}}")
        >>> read_energies(file, {"buffer": "glb.read/4"})
        {'energy.buffer': {'value': '4.5 pJ', 'source': 'ERT.yaml of Accelergy: top.glb[1..1] read, 18 pJ for 4 words'}}
    """
    path = Path(file)
    document = read_yaml(path)
    components = validated(
        _TableFile, document.data, place=document.at, error=HardwareError, every=True
    ).table.tables
    found: dict[str, Any] = {}
    for name, target in mapping.items():
        if name not in ENERGIES:
            raise UnknownNameError("energy", name, ENERGIES)
        if name == MAC and {"multiply", "add"} & {*mapping}:
            raise OptionError("map", f"found {MAC} beside multiply or add", "mac alone, or the two")
        found[f"energy.{'multiply' if name == MAC else name}"] = _energy(path, components, target)
        if name == MAC:
            found["energy.add"] = {"value": "0 pJ", "source": "in the energy of the multiplication"}
    return found


def _energy(file: Path, components: Sequence[_Component], target: str) -> dict[str, str]:
    """Return the energy of a word and its source; of several energies, by arguments, the largest."""
    match = TARGET.fullmatch(target)
    if match is None:
        allowed = "COMPONENT.ACTION, as glb.read, or glb.read/4 for 4 words"
        raise OptionError("map", f"found {shown(target)}", allowed)
    component = _component(file, components, match["component"])
    energies = [action.energy for action in component.actions if action.name == match["action"]]
    if not energies:
        known = dict.fromkeys(action.name for action in component.actions)
        raise UnknownNameError("action", match["action"], known, f"{file}: {component.name}")
    words, most = int(match["words"] or 1), max(energies)
    several = f", the largest of {len(energies)}" * (len({*energies}) > 1)
    said = f"{most:.9g} pJ{f' for {words} words' * (words > 1)}{several}"
    source = f"{file.name} of Accelergy: {component.name} {match['action']}, {said}"
    return {"value": f"{most / words:.9g} pJ", "source": source}


def _component(file: Path, components: Sequence[_Component], name: str) -> _Component:
    """Return the component of a name, which may be the end of its whole name, without the range of its copies."""
    plain = {own.name: re.sub(r"\[[^\]]*\]$", "", own.name) for own in components}
    end = re.sub(r"\[[^\]]*\]$", "", name)
    found = [own for own in components if name in {own.name, plain[own.name]}]
    found = found or [own for own in components if plain[own.name].endswith(f".{end}")]
    if len(found) > 1:
        names = ", ".join(own.name for own in found)
        raise HardwareError(str(file), f"{len(found)} components end in {name!r}", f"one of {names}")
    if not found:
        raise UnknownNameError("component", name, [*plain.values()], str(file))
    return found[0]
