"""The commands that plan networks, and those that show what there is: models, machines, strategies."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from hypar.cli import rows, values
from hypar.cli.options import ARRAY, MACHINE, NETWORK, OUTPUT, SEARCH, Argument, Row
from hypar.cli.rows import asked, command, show, use, wrote
from hypar.errors import OptionError
from hypar.registry import data_names, plugin_names


@command(rows.MODEL, options=lambda: [
    rows.INPUTS, *asked(), rows.SAVE, rows.PLOT,
    Row(("--explain", "explained"), OUTPUT, "Show what eliminations leave and, for a layer, the costs of its other choices, "
        "as fc1 or fc1@H2.", "[LAYER[@LEVEL]]", alone=""),
    rows.FULL, rows.FIT, rows.AS_JSON,
])  # fmt: skip
def plan(
    model: str, inputs: tuple[str, ...], hardware: str | None, changes: dict[str, Any], output: str | None,
    plot: str | None, explained: str | None, *, full: bool, fit: bool, as_json: bool, **given: Any,
) -> bool:  # fmt: skip
    """Choose how each layer of MODEL is cut at each level of the array.

    MODEL is a bare name, a model file, or what hypar import takes: config.json, an ONNX file, my_net:build.
    """
    network, named = rows.network_of(model, inputs), given["profile"]
    step_table = named is not None and use("machine.step_times:is_step_table")(named)
    if step_table and hardware is None and changes:
        machine = use("machine.measured:measured_devices")(Path(named), changes)
    else:
        machine = rows.machine_of(hardware, changes)
    if explained is not None:
        _require_explained(machine, given)
    progress_bar, interruptible = use("reports.terminal:progress_bar"), use("activity:keeping_interrupted")
    with progress_bar(f"planning {network.name}") as progress, interruptible():
        found = use("planning.planner:plan_model")(network, hardware=machine, progress=progress, **given)
    machine = machine if named is None else use("planning.sources:scored_on")(found)
    profile = None if named is None or step_table else use("planning.sources:times_of")(found)
    if output is not None:
        found = _stored(found, output, model, inputs, hardware=hardware, profile=named)
    if plot is not None:
        found.plot(plot)
    wrote(output, plot)
    _show((found, network, machine, profile), explained, full=full, as_json=as_json)
    unfit = rows.unfit(found.score, fit=fit, as_data=as_json)
    if not unfit and found.limits is not None and found.limits.cut == "interrupt":
        raise KeyboardInterrupt
    return unfit


def _require_explained(machine: Any, given: dict[str, Any]) -> None:
    """Refuse to explain a plan without choices."""
    sized = {name: given[name] for name in ("stages", "starts", "levels", "array")}
    asked_for = use("planning.refusals:Asked").whose(
        use("plan.request:Request")(hardware=machine, **sized), explain=True
    )
    use("planning.refusals:require_together")(asked_for)


def _stored(plan: Any, output: str, model: str, inputs: tuple[str, ...], **used: str | None) -> Any:
    """Write a plan with the files that it was made from, and say which file it needs besides."""
    foreign = ":" in model or Path(model).suffix == ".json"
    plan = use("planning.sources:recorded")(plan, output, model=None if foreign else model, **used)
    plan.write(output)
    if foreign:
        words = ["hypar", "import", model, *(word for text in inputs for word in ("--input", text))]
        line = f"{shlex.join(words)} -o {plan.model.name}.yaml"
        use("reports.terminal:note")(f"hypar check needs its model file: {line}")
    return plan


def _show(made: tuple[Any, ...], explained: str | None, *, full: bool, as_json: bool) -> None:
    """Print a plan, with its reasons if asked to; those for a layer stand first."""
    plan, network, machine, profile = made
    document = None if as_json else use("reports.of.plan:planned_document")(*made, full=full)
    if explained is None and as_json:
        rows.print_data(plan.to_json())
        for remark in use("studies.remarks:remarks")(*made):
            use("reports.terminal:note")(f"{remark.label}: {remark.text}" if remark.label else remark.text)
    elif explained is None:
        rows.show_plan(document, len(plan.layers), full=full)
    else:
        explain, of = use("studies.alternatives:explain_plan"), "reports.of.explanation:"
        found = explain(plan, network, layer=explained, machine=machine, profile=profile)
        if as_json:
            rows.print_data(
                {"plan": found.plan.to_data(), "explanation": use(f"{of}explanation_data")(found)}
            )
            return
        both = [document, use(f"{of}document_of")(found)]
        first, last = both[::-1] if found.explained else both
        use("reports.terminal:show_document")(first)
        use("reports.terminal:write")("")
        use("reports.terminal:show_document")(last)


rows.studies(
    compare=rows.Study(
        "Plan MODEL by several strategies and show them side by side, relative to dp.",
        rows.MODEL, "studies.grid:compare_strategies", "comparing", "runs", "comparison_data",
        machine=rows.machine_of, unfit="reports.of.runs:unfit_lines", options=lambda: [
        rows.INPUTS,
        *asked(
            strategy={"flags": ("--strategy", "strategies"), "several": True,
                      "help": "Strategy to compare with dp; may be repeated: {names}.  [default: all with dp's cost]"},
            convention=rows.counted("moved"),
        ),
        rows.FIT, rows.AS_JSON,
    ]),
    sweep=rows.Study(
        "Plan and score MODEL for every combination of arrays, batches, strategies and machines.",
        rows.MODEL, "studies.sweep:sweep_model", "sweeping", "runs", "rows_of", options=lambda: [
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
    ]),
    explore=rows.Study(
        "Score every combination of some choices in a plan of MODEL, the others fixed; the fastest come first.",
        rows.MODEL, "studies.alternatives:explore_model", "exploring", "runs", "rows_of",
        machine=partial(rows.machine_of, needed=True), options=lambda: [
        Row(("--vary",), SEARCH, "Layers and levels whose choices vary, as fc1, conv*@H2 or *@H1; may be repeated.",
            "LAYER[@LEVEL]", several=True, required=True),
        rows.INPUTS,
        *asked(
            strategy={"default": "hypar", "help": "Strategy whose plan gives the space and the fixed choices: {names}."},
            convention=rows.counted("moved"),
        ),
        Row(("--top",), OUTPUT, "Rows of the table.", "N", click.IntRange(min=1), default=10),
        rows.PLOT, rows.AS_CSV, rows.AS_JSON,
    ]),
    profile=rows.Study(
        "Measure with PyTorch, on this machine, the time of a device's shard of each layer of MODEL under each choice.",
        rows.MODEL, "studies.profile:profile_model", "measuring", "catalogue", "", options=lambda: [
        Row(("--ways",), ARRAY, "Devices of the level.", "N", int, default=16),
        *asked("batch", "space", space={"help": "Choices to measure: one or several of {names}, as --space of hypar plan.  "
            "[default: those of the strategy deepa]"}),
        Row(("--repeats",), MACHINE, "Measurements of every shard; the shortest time counts.", "N", int, default=3),
        rows.SAVE._replace(help="Write the times to a file."), rows.AS_JSON,
    ]),
)  # fmt: skip


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
    if kind[1:] or not {*kind} <= {*formats}:
        found = f"found {' '.join(kind)!r} before {network!r}"
        raise click.UsageError(f"{found}; allowed: {', '.join(formats)}, or nothing")
    framework = kind[0] if kind else use("importers.formats:framework_of")(network)
    if framework is None:
        allowed = "a file .onnx, a config.json of Hugging Face, or my_module:build"
        raise OptionError("import", f"found {network}", allowed)
    made = rows.imported(framework, network, inputs, **given)
    if output is None:
        rows.print_data(made.text())
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
    changes = {**changes, **_energies(energies, mapping)}
    if hardware is None and (validate or as_yaml or model is not None or changes or batch is not None):
        raise OptionError("hardware", "no machine is named", ", ".join(data_names("hardware")))
    if model is None and batch is not None:
        raise OptionError("batch", f"found {batch}", "a batch of the model that --model names")
    if validate and model is not None:
        raise click.UsageError("--validate and --model exclude each other")
    if as_yaml and (as_json or validate or model is not None):
        raise click.UsageError("--yaml excludes --json, --validate and --model")
    if as_yaml and hardware is not None:
        rows.print_data(use("machine.load:hardware_yaml")(hardware, changes))
        return
    found, document = _machine(hardware, changes, model, batch)
    if validate:
        found, document = {"hardware": hardware, "ok": True}, None
    if validate and not as_json:
        use("reports.terminal:write")(f"{hardware}: ok")
    else:
        show(lambda: document, lambda: found, as_json=as_json)


def _machine(
    hardware: str | None, changes: dict[str, Any], model: str | None, batch: int | None
) -> tuple[Any, Any]:
    """Return the data and the document of all machines, of one, or of the times of a model's layers on it."""
    load, of = use("machine.load:load_machine"), "reports.of.catalogue:"
    if hardware is None:
        every = [use(f"{of}machine_entry")(load(name)) for name in data_names("hardware")]
        return every, use(f"{of}machines_document")(every)
    machine = load(hardware, changes)
    if model is None:
        return use(f"{of}machine_data")(machine), use(f"{of}document_of")(machine)
    graph = use("network.build:load_model")(model, batch=batch)
    times = use(f"{of}whole_times_data")(machine, graph)
    title = f"{graph.name}, batch {graph.batch}, whole on one device of {machine.name}"
    return times, use(f"{of}times_document")(times, title)


def _energies(file: str | None, mapping: dict[str, str]) -> dict[str, Any]:
    """Read the energies of a table."""
    if (file is None) != (not mapping):
        missing = "--energies" if file is None else "--map"
        raise OptionError("energies", f"{missing} is missing", "--energies ERT.yaml --map buffer=glb.read")
    return {} if file is None else dict(use("machine.accelergy:read_energies")(file, mapping))


@command(Argument("model", "models", required=False), options=lambda: [rows.AS_JSON])
def models(model: str | None, *, as_json: bool) -> None:
    """List the models that come with hypar, or the layers of one MODEL."""
    load, of = use("network.build:load_model"), "reports.of.catalogue:"
    if model is None:
        found = use(f"{of}models_document")(map(load, data_names("models")))
    else:
        found = use(f"{of}document_of")(load(model))
    show(lambda: found, found.records, as_json=as_json)


@command(options=lambda: [rows.AS_JSON])
def strategies(*, as_json: bool) -> None:
    """List the strategies with their space, cost and search."""
    load, of = use("planning.strategies.base:load_strategy"), "reports.of.catalogue:strategies"
    found = use(f"{of}_data")({name: load(name) for name in plugin_names("strategies")})
    show(lambda: use(f"{of}_document")(found), lambda: found, as_json=as_json)


@command(Argument("shell", type=click.Choice(["bash", "zsh", "fish"])))
def completion(shell: str) -> None:
    """Print the completion script of a SHELL, for use as: eval "$(hypar completion bash)"."""
    found = get_completion_class(shell)
    if found is not None:
        main = click.get_current_context().find_root().command
        use("reports.terminal:write")(found(main, {}, "hypar", "_HYPAR_COMPLETE").source())
