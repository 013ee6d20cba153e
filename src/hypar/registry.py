"""Data files, and plug-ins: files in their group's folder with a constant ``plugin``, or entry points of ``hypar.<group>``."""

from __future__ import annotations

import importlib
import re
from collections import ChainMap
from functools import cache
from pathlib import Path
from typing import Any

from hypar.errors import UnknownNameError

_PACKAGE = Path(__file__).parent

GROUPS = {
    "compute_models": "machine/compute_models", "topologies": "machine/topologies", "costs": "costs",
    "searches": "planning/searches", "solvers": "solve/solvers", "strategies": "planning/strategies",
    "ops": "ops/families", "documents": "reports/of", "exports": "reports/exports",
}  # fmt: skip
"""The folder of each group of plug-ins, inside the package."""

FAMILIES, DATA = (
    {"costs", "exports", "ops", "searches", "solvers", "strategies", "topologies"},
    {"hardware": "machine/catalog", "models": "models"},
)
"""Groups of which a file has several ``plugins`` by their names; the folder of each kind of data files, inside the package."""

ALIASES = {"vgg-a": "vgg11", "vgg-b": "vgg13", "vgg-d": "vgg16", "vgg-e": "vgg19"}
"""Models by their second names, the configurations of Simonyan and Zisserman, Table 1."""


def entry_points(group: str) -> Any:
    """Return the entry points of a group in all installed distributions."""
    from importlib import metadata  # noqa: PLC0415 (a tenth of the start; most plans name no foreign plug-in)

    return metadata.entry_points(group=f"hypar.{group}")


@cache
def own_plugins(group: str) -> dict[str, Any]:
    """Return the plug-ins in a group that come with hypar by name, each as its module, or itself if a file has several."""
    folder = GROUPS[group]
    stems = {file.stem for file in (_PACKAGE / folder).glob("[!_]*.py")} - {"base"}
    found = {stem: f"hypar.{folder.replace('/', '.')}.{stem}" for stem in sorted(stems)}
    if group not in FAMILIES:
        return found
    return dict(ChainMap(*(importlib.import_module(module).plugins for module in found.values())))


@cache
def plugin_names(group: str) -> tuple[str, ...]:
    """Return the names of all plug-ins in a group (``solvers``, ``costs``, ...), sorted; none of the files that have one is imported."""
    return tuple(sorted({*own_plugins(group), *(point.name for point in entry_points(group))}))


@cache
def load_plugin(group: str, name: str) -> Any:
    """Import one plug-in of a group; raises ``UnknownNameError``."""
    if own := own_plugins(group).get(name):
        return importlib.import_module(own).plugin if isinstance(own, str) else own
    for point in entry_points(group):
        if point.name == name:
            return point.load()
    raise UnknownNameError(_singular(group), name, plugin_names(group))


def data_folder(kind: str) -> Path:
    """Return the folder of a kind of data files: inside the installed package, or beside the source tree."""
    installed = _PACKAGE / DATA[kind]
    return installed if installed.is_dir() else _PACKAGE.parents[1] / kind


@cache
def data_names(kind: str) -> tuple[str, ...]:
    """Return the bare names of a kind of data files, for example ``models``, sorted."""
    names = {file.stem for file in data_folder(kind).glob("*.yaml")}
    return tuple(sorted(names | ALIASES.keys() if kind == "models" else names))


def data_file(kind: str, name: str) -> Path:
    """Return the data file with a bare name, or the path itself if one was given; raises ``UnknownNameError``."""
    if "/" in name or "\\" in name or name.endswith((".yaml", ".yml", ".json", ".onnx")):
        return Path(name)
    if name not in data_names(kind):
        raise UnknownNameError(_singular(kind), name, data_names(kind))
    return data_folder(kind) / f"{ALIASES.get(name, name)}.yaml"


def models() -> tuple[str, ...]:
    """Return the names of the networks that come with hypar, sorted."""
    return data_names("models")


def machines() -> tuple[str, ...]:
    """Return the names of the machines that come with hypar, sorted."""
    return data_names("hardware")


def strategies() -> tuple[str, ...]:
    """Return the names of the strategies, those of other packages included, sorted."""
    return plugin_names("strategies")


def _singular(group: str) -> str:
    return re.sub(r"(?<=ch)es$|s$", "", group.replace("ies", "y")).replace("_", " ")
