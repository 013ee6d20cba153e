"""Machines: the file format, and what a machine is asked; the files themselves lie beside this one."""

from hypar.hardware.load import as_machine, load_machine
from hypar.hardware.machine import LayerTime, Machine, fullest_share
from hypar.hardware.routing import LevelLink

__all__ = ["LayerTime", "LevelLink", "Machine", "as_machine", "fullest_share", "load_machine"]
