"""The commands that plan networks, and those that show what there is: models, machines, strategies."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
from click.exceptions import Exit
from click.shell_completion import get_completion_class

from hypar.cli import rows, values
from hypar.cli.options import ARRAY, MACHINE, NETWORK, OUTPUT, SEARCH, Argument, Row, data, plugins
from hypar.cli.rows import asked, command, show, use, wrote
from hypar.errors import OptionError


@command(rows.MODEL, options=lambda: [
    rows.INPUTS, *asked(), rows.SAVE, rows.PLOT,
    Row(("--explain", "explained"), OUTPUT, "Show every elimination and, for a layer, the costs of its other choices, "
        "as fc1 or fc1@H2.", "[LAYER[@LEVEL]]", alone=""),
    rows.FULL, rows.FIT, rows.AS_JSON,
])  # fmt: skip
def plan(
    model: str, inputs: tuple[str, ...], hardware: str | None, changes: dict[str, Any], output: str | None,
    plot: str | None, explained: str | None, *, full: bool, fit: bool, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Choose how each layer of MODEL is cut at each level of the array.

    MODEL is a bare name, a model file, or what hypar import takes: config.json, an ONNX file, my_net:build.
    """
    rows.require_hardware(hardware, fit=fit)
    network, named = rows.network_of(model, inputs), given["profile"]
    machine, profile = _measured_machine(hardware, changes, named), None
    if explained is not None:
        _require_explained(machine, given)
    progress_bar, interruptible = use("reports.terminal:progress_bar"), use("activity:keeping_interrupted")
    with progress_bar(f"planning {network.name}") as progress, interruptible():
        found = use("planning.planner:plan_model")(network, hardware=machine, progress=progress, **given)
    if named is not None:
        machine = use("planning.sources:scored_on")(found)
        profile = None if _is_step_table(named) else use("planning.sources:times_of")(found)
    if output is not None:
        found = _stored(found, output, model, inputs, hardware=hardware, profile=named)
    if plot is not None:
        found.plot(plot)
    wrote(output, plot)
    _show(found, network, machine, profile, explained, full=full, as_json=as_json)
    rows.exit_if_unfit(found.score, fit=fit, as_data=as_json)
    if found.limits is not None and found.limits.cut == "interrupt":
        raise KeyboardInterrupt


def _require_explained(machine: Any, given: dict[str, Any]) -> None:
    """Refuse to explain a plan without choices."""
    sized = {name: given[name] for name in ("stages", "starts", "levels", "array")}
    asked_for = use("planning.refusals:Asked").whose(
        use("plan.request:Request")(hardware=machine, **sized), explain=True
    )
    use("planning.refusals:require_together")(asked_for)


def _stored(plan: Any, output: str, model: str, inputs: tuple[str, ...], **used: str | None) -> Any:
    """Write a plan with the files that it was made from, and say which file it needs besides."""
    foreign = _is_foreign(model)
    plan = use("planning.sources:recorded")(plan, output, model=None if foreign else model, **used)
    plan.write(output)
    if foreign:
        words = ["hypar", "import", model, *(word for text in inputs for word in ("--input", text))]
        line = f"{shlex.join(words)} -o {plan.model.name}.yaml"
        use("reports.terminal:note")(f"hypar check needs its model file: {line}")
    return plan


def _show(
    plan: Any, network: Any, machine: Any, profile: Any, explained: str | None, *, full: bool, as_json: bool
) -> None:
    """Print a plan, with its reasons if asked to."""
    made = (plan, network, machine, profile)
    document = None if as_json else use("reports.of.plan:planned_document")(*made, full=full)
    if explained is not None:
        _explain(*made, explained, document)
    elif document is not None:
        rows.show_plan(document, len(plan.layers), full=full)
    else:
        use("reports.terminal:write")(plan.to_json(), document=True)
        for remark in use("studies.remarks:remarks")(*made):
            use("reports.terminal:note")(f"{remark.label}: {remark.text}" if remark.label else remark.text)


def _is_foreign(model: str) -> bool:
    """Return whether a model is the network of another framework, and no file that hypar check reads."""
    return ":" in model or Path(model).suffix == ".json"


def _is_step_table(profile: str | None) -> bool:
    return profile is not None and bool(use("machine.step_times:is_step_table")(profile))


def _measured_machine(hardware: str | None, changes: dict[str, Any], profile: str | None) -> Any:
    """Load the machine; changes alone may be for the devices of a table of measured times."""
    if hardware is None and changes and _is_step_table(profile):
        return use("machine.measured:measured_devices")(Path(str(profile)), changes)
    return rows.machine_of(hardware, changes)


def _explain(plan: Any, network: Any, machine: Any, profile: Any, layer: str, document: Any) -> None:
    """Print the reasons for a plan beside its document, or as JSON without one; those for a layer first."""
    terminal, of = "reports.terminal:", "reports.of.explanation:"
    found = use("studies.explain:explain_plan")(plan, network, layer=layer, machine=machine, profile=profile)
    if document is None:
        data = {"plan": found.plan.to_data(), "explanation": use(f"{of}explanation_data")(found)}
        use(f"{terminal}write_json")(data)
        return
    both = [document, use(f"{of}document_of")(found)]
    first, last = both[::-1] if found.explained else both
    use(f"{terminal}show_document")(first)
    use(f"{terminal}write")("")
    use(f"{terminal}show_document")(last)


@command(rows.MODEL, options=lambda: [
    rows.INPUTS,
    *asked(
        strategy={"flags": ("--strategy", "strategies"), "several": True,
                  "help": "Strategy to compare with dp; may be repeated: {names}.  [default: all with dp's cost]"},
        convention=rows.counted("moved"),
    ),
    rows.FIT, rows.AS_JSON,
])  # fmt: skip
def compare(hardware: str | None, changes: dict[str, Any], *, fit: bool, as_json: bool, **given: Any) -> None:
    """Plan MODEL by several strategies and show them side by side, relative to dp."""
    rows.require_hardware(hardware, fit=fit)
    machine = rows.machine_of(hardware, changes)
    found = rows.studied("studies.grid:compare_strategies", "comparing", hardware=machine, **given)
    lines = use("reports.of.comparison:unfit_lines")(found)
    for line in lines if as_json else ():
        use("reports.terminal:warn")(line, to_stderr=True)
    show(found, "comparison", "comparison_data", as_json=as_json)
    raise Exit(int(fit and bool(lines)))


@command(rows.MODEL, options=lambda: [
    rows.INPUTS,
    *asked(
        without=["changes"],
        hardware={"required": True, "read": values.read_words, "metavar": "NAMES", "listed": True,
                  "help": "Machines, as hmc or hmc,my.yaml: {names}, and hardware files."},
        levels={"read": values.read_numbers("levels"), "metavar": "NUMBERS",
                "help": "Numbers of two-way levels, as 0..6; 0 means one device.  [default: 4]"},
        array={"read": lambda text: tuple(map(use("plan.request:read_array"), text.split(","))), "metavar": "ARRAYS",
               "help": "Arrays instead, each by the ways of its levels, outermost first, as 4,16,2xs4x2."},
        batch={"read": values.read_numbers("batch"), "metavar": "NUMBERS",
               "help": "Samples in a mini-batch, as 32,4096.  [default: the model's]"},
        strategy={"default": "dp,hypar", "read": values.read_words, "metavar": "NAMES", "listed": True,
                  "help": "Strategies, as dp,hypar: {names}."},
        convention=rows.counted("moved"),
    ),
    rows.CHANGES._replace(flags=("--vary", "changes"), read=values.read_axes, metavar="NAME=VALUES",
        help="Values of the machine to vary, as topology=h_tree,torus; may be repeated. Names: {names}."),
    Row(("--scale",), MACHINE, "Give a machine with one network as many devices as the levels need.", read=bool),
    rows.PLOT, rows.AS_CSV, rows.AS_JSON,
])  # fmt: skip
def sweep(*, as_csv: bool, as_json: bool, **given: Any) -> None:
    """Plan and score MODEL for every combination of arrays, batches, strategies and machines."""
    rows.require_one_form(as_csv, as_json)
    found = rows.studied("studies.sweep:sweep_model", "sweeping", **given)
    show(found, "runs", "rows_of", as_json=as_json, as_csv=as_csv)


@command(rows.MODEL, options=lambda: [
    Row(("--vary",), SEARCH, "Layers and levels whose choices vary, as fc1, conv*@H2 or *@H1; may be repeated.",
        "LAYER[@LEVEL]", several=True, required=True),
    rows.INPUTS,
    *asked(
        strategy={"default": "hypar", "help": "Strategy whose plan gives the space and the fixed choices: {names}."},
        convention=rows.counted("moved"),
    ),
    Row(("--top",), OUTPUT, "Rows of the table.", "N", click.IntRange(min=1), default=10),
    rows.PLOT, rows.AS_CSV, rows.AS_JSON,
])  # fmt: skip
def explore(
    hardware: str | None, changes: dict[str, Any], top: int, *, as_csv: bool, as_json: bool, **given: Any
) -> None:
    """Score every combination of some choices in a plan of MODEL, the others fixed; the fastest come first."""
    rows.require_one_form(as_csv, as_json)
    machine = rows.machine_of(hardware, changes, needed=True)
    found = rows.studied("studies.explore:explore_model", "exploring", hardware=machine, **given)
    show(found, "runs", "rows_of", top, as_json=as_json, as_csv=as_csv)


@command(Argument("source", nargs=-1, required=True, metavar="[KIND] SOURCE"), options=lambda: [
    rows.INPUTS,
    *asked("batch", batch={"help": "Samples in a mini-batch of the model file.  [default: 256]"}),
    Row(("--sequence",), NETWORK, "Positions of a sample; for config.  [default: the most that it allows]", "N", int),
    Row(("--partial",), NETWORK, "Accept a network of which less than 99 % of the operations or parameters is recognised.",
        read=bool),
    rows.SAVE._replace(help="Write the model file instead of printing it."),
])  # fmt: skip
def import_(source: tuple[str, ...], inputs: tuple[str, ...], output: str | None, **given: Any) -> None:
    """Write the model file of a network of another framework: a PyTorch module, an ONNX file, a JAX function or a config.

    SOURCE is the path of an ONNX file or of a config.json of Hugging Face (gpt2, llama, mistral, qwen2, bert), or
    my_module:build, a function without arguments: it returns a PyTorch module, or a JAX function of parameters and inputs,
    and the parameters. A KIND before it, torch, onnx, jax or config, is not needed. The module is run, as python -m my_module
    would run it, with all that it does; run only what you trust. A file is only read. No weights are read or kept.
    """
    *kind, network = source
    formats = use("importers.formats:FORMATS")
    if len(kind) > 1 or (kind and kind[0] not in formats):
        found = " ".join(kind)
        raise click.UsageError(
            f"found {found!r} before {network!r}; allowed: {', '.join(formats)}, or nothing"
        )
    framework = kind[0] if kind else use("importers.formats:framework_of")(network)
    if framework is None:
        allowed = "a file .onnx, a config.json of Hugging Face, or my_module:build"
        raise OptionError("import", f"found {network}", allowed)
    made = rows.imported(framework, network, inputs, **given)
    if output is None:
        use("reports.terminal:write")(made.text(), document=True)
    else:
        made.write(output)
    wrote(output)


@command(Argument("hardware", "hardware", required=False), options=lambda: [
    rows.CHANGES,
    rows.MODEL_FILE._replace(help="Show how a model's layers are mapped to one device, phase by phase."),
    *asked("batch", batch={"help": "Samples in a mini-batch of that model.  [default: the model's]"}),
    Row(("--validate",), OUTPUT, "Only check that the file is valid.", read=bool),
    Row(("--yaml", "as_yaml"), OUTPUT, "Print the hardware file, to start another from.", read=bool),
    Row(("--energies",), MACHINE, "Table of Accelergy (ERT.yaml) to take the energies from that --map names.", "FILE"),
    Row(("--map", "mapping"), MACHINE, "Energy and its action in the table, as buffer=glb.read, or glb.read/4 for an action "
        "of 4 words; may be repeated. Names: {names}.", "NAME=COMPONENT.ACTION", values.read_energies,
        lambda: use("machine.accelergy:ENERGIES"), several=True),
    rows.AS_JSON,
])  # fmt: skip
def hardware(
    hardware: str | None, changes: dict[str, Any], energies: str | None, mapping: dict[str, str],
    model: str | None, batch: int | None, *, validate: bool, as_yaml: bool, as_json: bool,
) -> None:  # fmt: skip
    """List the machines that come with hypar, or show one, by name or hardware file; exit 3 if the file is invalid."""
    write = use("reports.terminal:write")
    changes = {**changes, **_energies(energies, mapping)}
    if hardware is None and (validate or as_yaml or model is not None or changes or batch is not None):
        raise OptionError("hardware", "no machine is named", ", ".join(data("hardware")()))
    if model is None and batch is not None:
        raise OptionError("batch", f"found {batch}", "a batch of the model that --model names")
    if validate and model is not None:
        raise click.UsageError("--validate and --model exclude each other")
    if as_yaml and (as_json or validate or model is not None):
        raise click.UsageError("--yaml excludes --json, --validate and --model")
    if as_yaml and hardware is not None:
        write(use("machine.load_heterogeneous:hardware_yaml")(hardware, changes), document=True)
        return
    found, document = _machine(hardware, changes, model, batch)
    if as_json:
        rows.print_rows({"hardware": hardware, "ok": True} if validate else found)
    elif validate:
        write(f"{hardware}: ok")
    else:
        use("reports.terminal:show_document")(document)


def _machine(
    hardware: str | None, changes: dict[str, Any], model: str | None, batch: int | None
) -> tuple[Any, Any]:
    """Return the data and the document of all machines, of one, or of the times of a model's layers on it."""
    load, of = use("machine.load_heterogeneous:load_hardware"), "reports.of.machines:"
    if hardware is None:
        every = [load(name) for name in data("hardware")()]
        return use(f"{of}machines_data")(every), use(f"{of}machines_document")(every)
    machine = load(hardware, changes)
    if model is None:
        return use(f"{of}machine_data")(machine), use(f"{of}document_of")(machine)
    graph = use("network.build:load_model")(model, batch=batch)
    times = use(f"{of}whole_times_data")(machine, graph)
    title = f"{graph.name}, batch {graph.batch}, whole on one device of {machine.name}"
    return times, use(f"{of}times_document")(times, title)


def _energies(file: str | None, mapping: dict[str, str]) -> dict[str, Any]:
    """Read the energies of a table.

    Raises:
        OptionError: there is a table without energies to take, or the other way round.
    """
    if (file is None) != (not mapping):
        missing = "--energies" if file is None else "--map"
        raise OptionError("energies", f"{missing} is missing", "--energies ERT.yaml --map buffer=glb.read")
    return {} if file is None else dict(use("machine.accelergy:read_energies")(file, mapping))


@command(Argument("model", "models", required=False), options=lambda: [rows.AS_JSON])
def models(model: str | None, *, as_json: bool) -> None:
    """List the models that come with hypar, or the layers of one MODEL."""
    load, of = use("network.build:load_model"), "reports.of.models:"
    if model is None:
        found = use(f"{of}models_document")(load(name) for name in data("models")())
    else:
        found = use(f"{of}document_of")(load(model))
    if as_json:
        rows.print_rows(found.records())
    else:
        use("reports.terminal:show_document")(found)


@command(options=lambda: [rows.AS_JSON])
def strategies(*, as_json: bool) -> None:
    """List the strategies with their space, cost and search."""
    load = use("planning.strategies.base:load_strategy")
    named = {name: load(name) for name in plugins("strategies")()}
    if as_json:
        rows.print_rows(use("reports.of.strategies:strategies_data")(named))
    else:
        use("reports.terminal:show_document")(use("reports.of.strategies:strategies_document")(named))


@command(rows.MODEL, options=lambda: [
    Row(("--ways",), ARRAY, "Devices of the level.", "N", int, default=16),
    *asked("batch", "space", space={"help": "Choices to measure: one or several of {names}, as --space of hypar plan.  "
        "[default: those of the strategy deepa]"}),
    Row(("--repeats",), MACHINE, "Measurements of every shard; the shortest time counts.", "N", int, default=3),
    rows.SAVE._replace(help="Write the times to a file."), rows.AS_JSON,
])  # fmt: skip
def profile(model: str, output: str | None, *, as_json: bool, **given: Any) -> None:
    """Measure with PyTorch, on this machine, the time of a device's shard of each layer of MODEL under each choice."""
    with use("reports.terminal:progress_bar")("measuring") as progress:
        found = use("studies.profile:profile_model")(model, progress=progress, **given)
    if output is not None:
        found.write(output)
    wrote(output)
    if as_json:
        use("reports.terminal:write")(found.to_json(), document=True)
    else:
        use("reports.terminal:show_document")(use("reports.of.profiles:document_of")(found))


@command(Argument("shell", type=click.Choice(["bash", "zsh", "fish"])))
def completion(shell: str) -> None:
    """Print the completion script of a SHELL, for use as: eval "$(hypar completion bash)"."""
    found = get_completion_class(shell)
    if found is not None:
        main = click.get_current_context().find_root().command
        use("reports.terminal:write")(found(main, {}, "hypar", "_HYPAR_COMPLETE").source())
