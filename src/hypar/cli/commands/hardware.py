"""``hypar hardware``."""

from __future__ import annotations

from typing import Any

import click

from hypar.cli.commands.base import as_json, complete_hardware, complete_model
from hypar.cli.options import MACHINE, NETWORK, OUTPUT, Command, option
from hypar.cli.planning import change_option
from hypar.errors import OptionError, shown
from hypar.machine.accelergy import ENERGIES, read_energies
from hypar.machine.load_heterogeneous import hardware_yaml, load_hardware
from hypar.network.build import load_model
from hypar.registry import data_names
from hypar.reports.of.machines import (
    document_of,
    machine_data,
    machines_data,
    machines_document,
    times_document,
    whole_times_data,
)
from hypar.reports.terminal import show_document, write, write_json


def _mapping(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Read ``buffer=glb.read`` as an energy and its action."""
    found: dict[str, str] = {}
    for text in values:
        name, equals, target = text.partition("=")
        if not equals or name in found:
            problem = f"found {shown(text)}" if not equals else f"{name} given twice"
            raise OptionError("map", problem, "NAME=COMPONENT.ACTION, each name once")
        found[name] = target
    return found


def _energies(file: str | None, mapping: dict[str, str]) -> dict[str, Any]:
    """Read the energies of a table.

    Raises:
        OptionError: there is a table without energies to take, or the other way round.
    """
    if (file is None) != (not mapping):
        missing = "--energies" if file is None else "--map"
        raise OptionError("energies", f"{missing} is missing", "--energies ERT.yaml --map buffer=glb.read")
    return {} if file is None else read_energies(file, mapping)


@click.command("hardware", cls=Command)
@click.argument("hardware", required=False, shell_complete=complete_hardware)
@change_option
@option(
    "--model",
    heading=NETWORK,
    shell_complete=complete_model,
    help="Show how a model's layers are mapped to one device, phase by phase.",
)
@option(
    "--batch",
    heading=NETWORK,
    type=int,
    metavar="N",
    help="Samples in a mini-batch of that model.  [default: the model's]",
)
@option("--validate", heading=OUTPUT, is_flag=True, help="Only check that the file is valid.")
@option(
    "--yaml", "as_yaml", heading=OUTPUT, is_flag=True, help="Print the hardware file, to start another from."
)
@option(
    "--energies",
    heading=MACHINE,
    type=click.Path(),
    metavar="FILE",
    help="Table of Accelergy (ERT.yaml) to take the energies from that --map names.",
)
@option(
    "--map",
    "mapping",
    heading=MACHINE,
    multiple=True,
    callback=_mapping,
    metavar="NAME=COMPONENT.ACTION",
    names=lambda: ENERGIES,
    help="Energy and its action in the table, as buffer=glb.read, or glb.read/4 for an action of 4 words; may be repeated. Names: {names}.",
)
@as_json
def command(
    hardware: str | None,
    changes: dict[str, Any],
    energies: str | None,
    mapping: dict[str, str],
    model: str | None,
    batch: int | None,
    validate: bool,
    as_yaml: bool,
    as_json: bool,
) -> None:
    """List the machines that come with hypar, or show one, by name or hardware file; exit 3 if the file is invalid."""
    changes = {**changes, **_energies(energies, mapping)}
    _refuse_alone(hardware, model, batch, changes, file=validate or as_yaml)
    if validate and model is not None:
        raise click.UsageError("--validate and --model exclude each other")
    if as_yaml and (as_json or validate or model is not None):
        raise click.UsageError("--yaml excludes --json, --validate and --model")
    if as_yaml and hardware is not None:
        write(hardware_yaml(hardware, changes), document=True)
        return
    if hardware is None:
        machines = [load_hardware(name) for name in data_names("hardware")]
        data, found = machines_data(machines), machines_document(machines)
    elif model is None:
        machine = load_hardware(hardware, changes)
        data, found = machine_data(machine), document_of(machine)
    else:
        machine, graph = load_hardware(hardware, changes), load_model(model, batch=batch)
        data = whole_times_data(machine, graph)
        found = times_document(
            data, f"{graph.name}, batch {graph.batch}, whole on one device of {machine.name}"
        )
    if as_json:
        write_json({"hardware": hardware, "ok": True} if validate else data)
    elif validate:
        write(f"{hardware}: ok")
    else:
        show_document(found)


def _refuse_alone(
    hardware: str | None, model: str | None, batch: int | None, changes: dict[str, Any], *, file: bool
) -> None:
    """Refuse options that would have no effect."""
    if hardware is None and (file or model is not None or changes or batch is not None):
        raise OptionError("hardware", "no machine is named", ", ".join(data_names("hardware")))
    if model is None and batch is not None:
        raise OptionError("batch", f"found {batch}", "a batch of the model that --model names")
