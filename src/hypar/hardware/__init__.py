"""Machines: the file format, and what a machine is asked; the files themselves lie beside this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.hardware.machine import LayerTime, Machine, fullest_share
from hypar.hardware.routing import LevelLink

if TYPE_CHECKING:
    from hypar.hardware.load import as_machine, load_machine

__all__ = ["LayerTime", "LevelLink", "Machine", "as_machine", "fullest_share", "load_machine"]


def __getattr__(name: str) -> Any:
    """Import what reads files when it is first used: most plans name no machine."""
    if name not in {"as_machine", "load_machine"}:
        raise AttributeError(f"module 'hypar.hardware' has no attribute {name!r}")
    from hypar.hardware import load  # noqa: PLC0415 (the point of it)

    return getattr(load, name)
