"""The files of a stored plan: recorded where they are not found by name, and found again beside it, here, or in hypar's data.

A plan or a score that was made here knows what it was made from, which is taken where no other file is named.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypar.errors import HardwareError, OptionError, PlanError, shown
from hypar.machine.load import load_machine
from hypar.machine.machine import Machine
from hypar.machine.profiles import Profile, measured_devices, measured_machine, read_profile
from hypar.machine.work import STEP_TABLES, is_step_table
from hypar.network.graph import LayerGraph, load_model
from hypar.plan.plan import Plan
from hypar.plan.records import FilesRecord, Score, origin_of
from hypar.registry import DATA, data_names
from hypar.sharding.tree import WHOLE_ARRAY

File = str | Path | None

YAML = (".yaml", ".yml")

KINDS = {
    "model": ("model.name", "models", (*YAML, ".onnx")),
    "hardware": ("score.hardware", "hardware", YAML),
    "profile": ("profile.name", "", (".json", *STEP_TABLES)),
}
"""For each kind of file the entry of a plan that names it, hypar's folder of such files, if there is one, and their endings."""


def wrong_in(plan: Plan, entry: str, found: str, allowed: str = "", hint: str = "") -> PlanError:
    """Return the error of an entry of a plan's file."""
    return PlanError(f"{origin_of(plan).file}: {entry}", found, allowed, hint)


def network_of(result: Plan | Score, model: LayerGraph | str | Path | None = None) -> LayerGraph:
    """Return the network that a plan or a score was made from, or the one that is given, also by its file.

    Raises ``InputError`` if there is none, or it cannot be read.
    """
    plan, known = _plan(result), origin_of(result).network
    if model is None:
        return known or load_model(_found(plan, "model", plan.model.name))
    graph = load_model(model)
    if graph is not model and graph.name != plan.model.name:
        allowed = f"{graph.name!r}, as --model says"
        raise wrong_in(plan, "model.name", f"found {shown(plan.model.name)}", allowed)
    return graph


def as_planned(plan: Plan, graph: LayerGraph) -> LayerGraph:
    """Return a network with the mini-batch and the tensors at rest of its plan; raises ``PlanError`` if that is for another one."""
    graph = graph.with_batch(plan.model.batch)
    if graph.digest != plan.model.digest:
        found = f"model {graph.name!r} is not what was planned: it has changed, or is another"
        raise wrong_in(plan, "model.digest", found, hint="plan it again, or name its file with --model")
    known = {layer.name for layer in graph.layers}
    return graph if known.issuperset(plan.layers) else graph.at_rest


def machine_of(
    result: Plan | Score,
    hardware: File = None,
    changes: Mapping[str, Any] | None = None,
    profile: File = None,
) -> Machine | None:
    """Return the machine of a plan's score, with the measured times of its step; None for a plan without a score.

    The files may be given, as may changes besides those of the score; then it is loaded anew.
    Raises ``InputError`` if there is none, or it cannot be read.
    """
    plan, record, given = _plan(result), result.score if isinstance(result, Plan) else result, changes or {}
    known = origin_of(record).machine
    if record is None or (known is not None and not (hardware or given or profile)):
        return known  # type: ignore[no-any-return]
    name, every = record.hardware, {**record.hardware_changes, **given}
    times = None if plan.profile is None else _find(plan, "profile", plan.profile.name, profile)
    if plan.profile is not None and is_step_table(times):
        alone = name == plan.profile.name and hardware is None
        named = name if alone else _find(plan, "hardware", name, hardware) or name
        own = measured_devices(Path(str(times)), every) if alone else load_machine(named, every)
        machine = measured_machine(str(times), own, network_of(plan))
        if machine.measured is None or f"sha256:{machine.measured.digest}" != plan.profile.digest:
            raise _changed(plan, str(times))
        return machine
    try:
        machine = load_machine(_found(plan, "hardware", name, hardware), every)
    except (HardwareError, OptionError) as error:
        change = error.where.removeprefix("change ").partition("=")[0]
        if change in given or change not in record.hardware_changes:
            raise
        place = f"score.hardware_changes.{change}"
        raise wrong_in(plan, place, error.found, error.allowed, error.hint) from None
    require_groups(plan, machine)
    return machine


def require_groups(plan: Plan, machine: Machine) -> None:
    """Raise ``PlanError`` for a machine that has other device groups than a plan, or if only one of the two has any."""
    kinds = ("identical devices", "heterogeneous device groups")
    if plan.heterogeneous != bool(machine.groups):
        have = kinds[not plan.heterogeneous]
        found = f"a plan for {kinds[plan.heterogeneous]}, and hardware {machine.name!r} has {have}"
        raise wrong_in(plan, "splits", found)
    groups = {name: [group.name for group in own.groups] for name, own, _ in machine.nodes()}
    planned = {split.group: [side.group for side in split.sides] for split in plan.splits if split.sides}
    if plan.stages is not None and plan.stages.groups:
        # Stages take the groups in an order of their own.
        order, own = groups[WHOLE_ARRAY], {*plan.stages.groups}
        planned[WHOLE_ARRAY] = order if own == {*order} else [*own]
    names = [name for name, own in groups.items() if not own]
    if [*(plan.arrays or names)] != names or any(groups.get(name) != own for name, own in planned.items()):
        allowed = f"hardware {machine.name!r} has the groups {', '.join(names)}"
        raise wrong_in(plan, "arrays", f"found {', '.join(plan.arrays or {})}", allowed)


def times_of(plan: Plan, profile: str | Path | None = None) -> Profile | None:
    """Return the measured times that a plan's cost counted, of a given file or one that is found; None for a plan without them.

    Raises ``InputError`` if there is no such file, it cannot be read, or its digest differs.
    """
    known = origin_of(plan).profile
    if plan.profile is None or (known is not None and profile is None):
        return known  # type: ignore[no-any-return]
    found = _found(plan, "profile", plan.profile.name, profile)
    if is_step_table(found):
        return None
    read = read_profile(found)
    if read.digest != plan.profile.digest:
        raise _changed(plan, found)
    return read


def _changed(plan: Plan, file: str | Path) -> PlanError:
    return wrong_in(plan, "profile.digest", f"{file} is not what was planned with: it has changed")


def _plan(result: Plan | Score) -> Plan:
    return result if isinstance(result, Plan) else origin_of(result).plan


def _found(plan: Plan, kind: str, name: str, given: File = None) -> str | Path:
    """Return the file of a name in a plan as ``_find`` does; raises ``PlanError`` where there is none."""
    found = _find(plan, kind, name, given)
    if found is not None:
        return found
    entry, folder, _ = KINDS[kind]
    place = getattr(plan.files, kind, None)
    gone = "" if place is None else f"there is no {shown(place)} as it records; "
    looked = f", here, in {folder}/ and, if it records no file, among hypar's own" if folder else " and here"
    hint = f"{gone}looked beside the plan{looked}; name its file with --{kind}"
    raise wrong_in(plan, entry, f"no {kind} {shown(name)}", hint=hint)


def _find(plan: Plan, kind: str, name: str, given: File = None) -> str | Path | None:
    """Return the given file, or the one of a name: recorded, beside the plan, here, or, if it records none, hypar's own."""
    file, (_, folder, endings) = origin_of(plan).file, KINDS[kind]
    place: str | None = getattr(plan.files, kind, None)
    if given is not None or {*name} & {"/", "\\"}:
        return given
    recorded = [file.parent / place] if place is not None and Path(place).stem == name else []
    beside = (at / f"{name}{ending}" for at in (file.parent, Path(), Path(folder)) for ending in endings)
    for each in (*recorded, *beside):
        if os.path.isfile(each):  # noqa: PTH113 (too long is no file)
            return each
    return name if place is None and folder and name in data_names(folder) else None


def recorded(plan: Plan, file: str | Path, **used: str | Path | None) -> Plan:
    """Return a plan that records the files it was planned with, relative to the folder of its own ``file``.

    Of the ``model``, ``hardware`` and ``profile``, as they were named, bare names are not recorded, nor files that are found by
    their names beside the plan.
    """
    folder = Path(file).absolute().parent
    own = {name for kind in DATA for name in data_names(kind)}
    places = {kind: _way_to(Path(at), folder) for kind, at in used.items() if at and str(at) not in own}
    given = {kind: place for kind, place in places.items() if place is not None}
    return plan.model_copy(update={"files": FilesRecord(**given)}) if given else plan


def _way_to(used: Path, folder: Path) -> str | None:
    """Return the way from a folder to a file; None if the file is found by its name there, or on another drive."""
    endings = YAML if used.suffix in YAML else (used.suffix,)
    each = (folder / f"{used.stem}{ending}" for ending in endings)
    beside = next((file for file in each if file.is_file()), None)
    if beside is not None and beside.samefile(used):
        return None
    try:
        return Path(os.path.relpath(used.absolute(), folder)).as_posix()
    except ValueError:
        return None
