"""Machines: the file format, and what a machine is asked; the files themselves lie beside this one."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hypar.hardware.machine import LayerTime, Machine, fullest_share
from hypar.hardware.mixed import MixedMachine, Side
from hypar.hardware.routing import LevelLink

if TYPE_CHECKING:
    from hypar.hardware.load import as_machine, load_machine
    from hypar.hardware.load_groups import as_hardware, load_hardware, load_mixed

__all__ = [
    "LayerTime",
    "LevelLink",
    "Machine",
    "MixedMachine",
    "Side",
    "as_hardware",
    "as_machine",
    "fullest_share",
    "load_hardware",
    "load_machine",
    "load_mixed",
]

_READERS = {"as_machine": "load", "load_machine": "load"}


def __getattr__(name: str) -> Any:
    """Import what reads files when it is first used: most plans name no machine."""
    if name not in {*__all__}:
        raise AttributeError(f"module 'hypar.hardware' has no attribute {name!r}")
    return getattr(importlib.import_module(f"hypar.hardware.{_READERS.get(name, 'load_groups')}"), name)
