"""The files of a stored plan: recorded where they are not found by name, and found again beside it, here, or in hypar's data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.errors import HardwareError, OptionError, PlanError, shown
from hypar.machine.load import load_machine
from hypar.machine.profiles import Profile, read_profile
from hypar.machine.step_times import STEP_TABLES, is_step_table
from hypar.network.graph import FOREIGN, LayerGraph, load_model
from hypar.plan.plan import Plan
from hypar.plan.records import FilesRecord, origin_of
from hypar.registry import DATA, data_names
from hypar.sharding.tree import WHOLE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hypar.errors import InputError
    from hypar.machine.machine import Machine
    from hypar.plan.records import Score

ENDINGS = (".yaml", ".yml")
"""Endings of the files that are found by name."""

OWN = " and, if it records no file, among hypar's own"
"""Where the name of a model or of a machine is looked for last."""

LONGEST_NAME = 200
"""Largest number of characters in a name, so that with an ending it is a valid file name."""


def network_of(result: Plan | Score, model: LayerGraph | str | Path | None = None) -> LayerGraph:
    """Return the network that a plan or a score was made from; load it if it is not known, or another is named.

    Raises:
        InputError: there is none, or it cannot be read.
    """
    origin = origin_of(result)
    if isinstance(model, LayerGraph):
        return model
    if model is None and origin.network is not None:
        known: LayerGraph = origin.network
        return known
    return model_of(result if isinstance(result, Plan) else origin.plan, origin.file, model)


def as_planned(plan: Plan, graph: LayerGraph, file: Path) -> LayerGraph:
    """Return a network with the mini-batch of its plan, and the tensors at rest if it has any.

    Args:
        plan: the plan.
        graph: the network.
        file: the plan's file.

    Raises:
        PlanError: the plan is for another network.
    """
    graph = graph.with_batch(plan.model.batch)
    if graph.digest != plan.model.digest:
        found = f"model {graph.name!r} is not what was planned: it has changed, or is another"
        raise PlanError(f"{file}: model.digest", found, hint="plan it again, or name its file with --model")
    known = {layer.name for layer in graph.layers}
    return graph if known.issuperset(plan.layers) else graph.at_rest


def scored_on(result: Plan | Score) -> Machine | None:
    """Return the machine that a plan or a score was made for; load it if it is not known. None without a score.

    Raises:
        InputError: there is none, or it cannot be read.
    """
    origin = origin_of(result)
    if origin.machine is not None:
        known: Machine = origin.machine
        return known
    return machine_of(result if isinstance(result, Plan) else origin.plan, origin.file)


def times_of(plan: Plan) -> Profile | None:
    """Return the measured times that a plan's cost counted; load them if they are not known. None without any.

    Raises:
        InputError: they are not found, cannot be read, or their digest differs.
    """
    origin = origin_of(plan)
    if origin.profile is not None:
        known: Profile = origin.profile
        return known
    return profile_of(plan, origin.file)


def model_of(plan: Plan, file: Path, model: str | Path | None = None) -> LayerGraph:
    """Load the network of a plan.

    Args:
        plan: the plan.
        file: the plan's file.
        model: the model file, if it is not found by name.

    Raises:
        InputError: there is none, or it cannot be read.
    """
    name = plan.model.name
    if model is not None:
        graph = load_model(model)
        if graph.name != name:
            raise PlanError(f"{file}: model.name", f"found {shown(name)}", f"{graph.name!r}, as --model says")
        return graph
    found = _recorded(plan, "model", file, name) or _found(plan, name, file, "models")
    if found is None:
        hint = (
            f"{_gone(plan, 'model')}looked beside the plan, here, in models/{OWN}; name its file with --model"
        )
        raise PlanError(f"{file}: model.name", f"no model {shown(name)}", hint=hint)
    return load_model(found)


def machine_of(
    plan: Plan,
    file: Path,
    hardware: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    profile: str | Path | None = None,
) -> Machine | None:
    """Load the machine of a plan's score, with the measured times of its step; None for a plan without a score.

    Args:
        plan: the plan.
        file: the plan's file.
        hardware: the hardware file, if it is not found by name.
        changes: changes to the machine, besides those of the plan's score.
        profile: the file of the measured times, if it is not found by name.

    Raises:
        InputError: there is none, or it cannot be read.
    """
    if plan.score is None:
        return None
    record = plan.score
    name = record.hardware
    times = None if plan.profile is None else _times_file(plan, plan.profile.name, file, profile)
    if times is not None and is_step_table(times):
        return _measured(plan, file, times, {**record.hardware_changes, **(changes or {})}, hardware)
    found = hardware or _recorded(plan, "hardware", file, name) or _found(plan, name, file, "hardware")
    if found is None:
        looked = f"looked beside the plan, here, in hardware/{OWN}; name its file with --hardware"
        place = f"{file}: score.hardware"
        raise PlanError(place, f"no hardware {shown(name)}", hint=_gone(plan, "hardware") + looked)
    try:
        machine: Machine = load_machine(found, {**record.hardware_changes, **(changes or {})})
    except (HardwareError, OptionError) as error:
        raise _of_plan(error, file, record.hardware_changes, changes) from None
    require_groups(plan, machine, file)
    return machine


def _measured(
    plan: Plan, file: Path, times: Path, changes: Mapping[str, Any], hardware: str | Path | None
) -> Machine:
    """Load the machine whose step has measured times."""
    from hypar.machine.profiles import measured_devices, measured_machine  # noqa: PLC0415 (only where they are)

    assert plan.score is not None  # noqa: S101 (checked by the caller)
    assert plan.profile is not None  # noqa: S101 (as above)
    name = plan.score.hardware
    if name == plan.profile.name and hardware is None:
        machine: Machine = measured_devices(times, changes)
    else:
        own = _recorded(plan, "hardware", file, name) or _found(plan, name, file, "hardware") or name
        machine = load_machine(hardware or own, changes)
    found = measured_machine(times, machine, network_of(plan))
    if found.measured is None or f"sha256:{found.measured.digest}" != plan.profile.digest:
        raise PlanError(f"{file}: profile.digest", f"{times} is not what was planned with: it has changed")
    return found


def _times_file(plan: Plan, name: str, file: Path, profile: str | Path | None) -> Path | None:
    """Return the file of a plan's measured times."""
    named = [f"{name}{end}" for end in (".json", *STEP_TABLES)] if _is_name(name) else []
    beside = (folder / one for folder in (file.parent, Path()) for one in named)
    there = next((path for path in beside if path.is_file()), None)
    found = profile or _recorded(plan, "profile", file, name) or there
    return None if found is None else Path(found)


def require_groups(plan: Plan, machine: Machine, file: Path) -> None:
    """Check that a machine has the device groups of a plan.

    Raises:
        PlanError: it has other groups, or only one of the two is heterogeneous.
    """
    heterogeneous = bool(machine.groups)
    if plan.heterogeneous != heterogeneous:
        kinds = ("identical devices", "heterogeneous device groups")
        found = f"a plan for {kinds[plan.heterogeneous]}, and hardware {machine.name!r} has {kinds[heterogeneous]}"
        raise PlanError(f"{file}: splits", found)
    if heterogeneous:
        groups = dict(_groups(machine, WHOLE_ARRAY))
        names = [name for name, _, _ in machine.leaves()]
        planned = {
            split.group: [record.group for record in split.sides] for split in plan.splits if split.sides
        }
        if plan.stages is not None and plan.stages.groups:
            # Stages take the groups in an order of their own.
            order, own = groups[WHOLE_ARRAY], {*plan.stages.groups}
            planned[WHOLE_ARRAY] = order if own == {*order} else [*own]
        if [*(plan.arrays or {})] != names or any(groups.get(name) != own for name, own in planned.items()):
            found = f"hardware {machine.name!r} has the groups {', '.join(names)}"
            raise PlanError(f"{file}: arrays", f"found {', '.join(plan.arrays or {})}", found)


def _groups(machine: Machine, name: str) -> Iterator[tuple[str, list[str]]]:
    yield name, [group.name for group in machine.groups]
    for group in machine.groups:
        if group.machine.groups:
            yield from _groups(group.machine, group.name)


def profile_of(plan: Plan, file: Path, profile: str | Path | None = None) -> Profile | None:
    """Load the measured times of a plan's cost; None for a plan without them.

    Args:
        plan: the plan.
        file: the plan's file.
        profile: the table's file, if it is not found by name beside the plan or in the working folder.

    Raises:
        InputError: there is no such file, it cannot be read, or its digest differs.
    """
    if plan.profile is None:
        return None
    name = plan.profile.name
    found = _times_file(plan, name, file, profile)
    if found is not None and is_step_table(found):
        return None
    if found is None:
        looked = "looked beside the plan and here; name its file with --profile"
        raise PlanError(
            f"{file}: profile.name", f"no profile {shown(name)}", hint=_gone(plan, "profile") + looked
        )
    read = read_profile(found)
    if read.digest != plan.profile.digest:
        raise PlanError(f"{file}: profile.digest", f"{found} is not what was planned with: it has changed")
    return read


def _of_plan(
    error: InputError, file: Path, recorded: Mapping[str, Any], changes: Mapping[str, Any] | None
) -> InputError:
    """Return an error in a change that the plan records as an error of the plan; return others unchanged."""
    for name, value in recorded.items():
        if error.where == f"change {name}={value}" and name not in (changes or {}):
            place = f"{file}: score.hardware_changes.{name}"
            return PlanError(place, error.found, error.allowed, error.hint)
    return error


def _recorded(plan: Plan, kind: str, file: Path, name: str) -> Path | None:
    """Return the file that a plan records, if it is still there under the name that was planned."""
    place = None if plan.files is None else getattr(plan.files, kind)
    if place is None or "\0" in place:
        return None
    found = file.parent / place
    return found if found.stem == name and os.path.isfile(found) else None  # noqa: PTH113 (too long is no file)


def _gone(plan: Plan, kind: str) -> str:
    """Say that the file that a plan records is not there; empty if it records none."""
    place = None if plan.files is None else getattr(plan.files, kind)
    return "" if place is None else f"there is no {shown(place)} as it records; "


def _found(plan: Plan, name: str, file: Path, kind: str) -> str | Path | None:
    """Return the file of a name, or the name itself if it is in hypar's data and the plan records no file."""
    if not _is_name(name):
        return None
    for folder in (file.parent, Path(), Path(kind)):
        for ending in (*ENDINGS, *(FOREIGN if kind == "models" else ())):
            beside = folder / f"{name}{ending}"
            if beside.is_file():
                return beside
    return name if name in data_names(kind) and not _gone(plan, kind.removesuffix("s")) else None


def _is_name(name: str) -> bool:
    return len(name) <= LONGEST_NAME and not set(name) & {"/", "\\", "\0"}


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
    places = {kind: _way_to(path, folder) for kind, path in files.items()}
    given = {kind: place for kind, place in places.items() if place is not None}
    return plan.model_copy(update={"files": FilesRecord(**given)}) if given else plan


def _way_to(used: Path, folder: Path) -> str | None:
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
