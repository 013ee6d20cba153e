"""The files that a plan records: where its network, machine and measured times were read from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hypar.plan.records import FilesRecord
from hypar.registry import DATA, data_names

if TYPE_CHECKING:
    from hypar.plan.plan import Plan

ENDINGS = (".yaml", ".yml")
"""Endings of the files that are found by name."""


def recorded(plan: Plan, file: str | Path, **used: str | Path | None) -> Plan:
    """Return a plan that records the files it was planned with, relative to the folder of its own file.

    Bare names are not recorded, nor files that are found by their names beside the plan.

    Args:
        plan: the plan.
        file: the file that it will be written to.
        used: the ``model``, ``hardware`` and ``profile``, as they were named.
    """
    folder = Path(file).absolute().parent
    own = {name for kind in DATA for name in data_names(kind)}
    files = {kind: Path(named) for kind, named in used.items() if named is not None and str(named) not in own}
    places = {kind: _place(path, folder) for kind, path in files.items()}
    given = {kind: place for kind, place in places.items() if place is not None}
    return plan.model_copy(update={"files": FilesRecord(**given)}) if given else plan


def _place(used: Path, folder: Path) -> str | None:
    """Return the way from a folder to a file; None if the file is found by its name there, or on another drive."""
    endings = ENDINGS if used.suffix in ENDINGS else (used.suffix,)
    beside = next(
        (file for file in (folder / f"{used.stem}{end}" for end in endings) if file.is_file()), None
    )
    if beside is not None and beside.samefile(used):
        return None
    try:
        return Path(os.path.relpath(used.absolute(), folder)).as_posix()
    except ValueError:
        return None
