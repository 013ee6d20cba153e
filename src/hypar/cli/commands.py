"""The commands that plan networks, and those that show what there is: models, machines, strategies."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from hypar.cli import rows, values
from hypar.cli.options import argument
from hypar.cli.rows import asked, command, doing, show, use, wrote
from hypar.errors import OptionError
from hypar.plan.parameter import ARRAY, MACHINE, NETWORK, OUTPUT, SEARCH, Parameter
from hypar.registry import data_names, plugin_names


@command(rows.MODEL, options=lambda: [
    rows.INPUTS, rows.SEQUENCE, *asked(), rows.SAVE, rows.PLOT,
    Parameter("--explain explained", OUTPUT, "Show what the other choices of every layer would cost, or of one, as fc1 or fc1@H2.",
        "[LAYER[@LEVEL]]", alone="*"),
    rows.FULL, rows.FIT, rows.AS_JSON,
])  # fmt: skip
def plan(
    model: str, inputs: tuple[str, ...], sequence: int | None, hardware: str | None, changes: dict[str, Any],
    output: str | None, plot: str | None, explained: str | None, *, full: bool, fit: bool, as_json: bool, **given: Any,
) -> bool:  # fmt: skip
    """Choose how each layer of MODEL is cut at each level of the array.

    MODEL is a bare name, a model file, or what hypar import takes: config.json, an ONNX file, my_net:build.
    """
    network, named = rows.network_of(model, inputs, sequence), given["profile"]
    step_table = named is not None and use("machine.step_times:is_step_table")(named)
    if step_table and hardware is None and changes:
        machine = use("machine.measured:measured_devices")(Path(named), changes)
    else:
        machine = rows.machine_of(hardware, changes)
    if explained is not None:
        use("planning.refusals:require_explained")(machine, given)
    with doing(f"planning {network.name}") as progress, use("activity:keeping_interrupted")():
        found = use("planning.planner:plan_model")(network, hardware=machine, progress=progress, **given)
    if output is not None:
        found = _stored(found, output, model, inputs, hardware=hardware, profile=named)
    if plot is not None:
        found.plot(plot)
    wrote(output, plot)
    _show(found, explained, full=full, as_json=as_json)
    unfit = rows.unfit(rows.unfit_score(found.score), fit=fit, as_data=as_json)
    if not unfit and found.limits is not None and found.limits.cut == "interrupt":
        raise KeyboardInterrupt
    return unfit


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


def _show(plan: Any, explained: str | None, *, full: bool, as_json: bool) -> None:
    """Print a plan, with its reasons if asked to; those for a layer stand first."""
    origin, of = use("plan.records:origin_of")(plan), "reports.of.explanation:"
    made = plan, origin.network, origin.machine, origin.profile
    found = None if explained is None else plan.explain(explained)
    if as_json and found is not None:
        rows.print_data({"plan": plan.to_data(), "explanation": use(f"{of}explanation_data")(found)})
    elif as_json:
        rows.print_data(plan.to_json())
        for remark in use("studies.remarks:remarks")(*made):
            use("reports.terminal:note")(f"{remark.label}: {remark.text}" if remark.label else remark.text)
    else:
        document = use("reports.of.plan:planned_document")(*made, full=full)
        if found is None:
            rows.show_plan(document, len(plan.layers), full=full)
            return
        both = [document, use(f"{of}document_of")(found)]
        for part in both[::-1]:
            use("reports.terminal:show_document")(part)
            use("reports.terminal:write")("" * (part is both[0]))


rows.studies(
    compare=rows.Study(
        "Plan MODEL by several strategies and show them side by side, relative to dp.",
        rows.MODEL, "studies.grid:compare_strategies", "comparing", "runs", "comparison_data",
        loads=True, unfit="reports.of.runs:unfit_lines", options=lambda: [
        rows.INPUTS, rows.SEQUENCE,
        *asked(
            strategy={"flags": "--strategy strategies", "several": True,
                      "help": "Strategy to compare with dp; may be repeated: {names}.  [default: all with dp's cost]"},
            convention=rows.counted("moved"),
        ),
        rows.FIT, rows.AS_JSON,
    ]),
    sweep=rows.Study(
        "Plan and score MODEL for every combination of arrays, batches, strategies and machines.",
        rows.MODEL, "studies.sweep:sweep_model", "sweeping", "runs", "rows_of", options=lambda: [
        rows.INPUTS, rows.SEQUENCE,
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
        rows.CHANGES._replace(flags="--vary changes", read=values.read_axes, metavar="NAME=VALUES",
            help="Values of the machine to vary, as topology=h_tree,torus; may be repeated. Names: {names}."),
        Parameter("--scale", MACHINE, "Give a machine with one network as many devices as the levels need.", read=bool),
        rows.PLOT, rows.AS_CSV, rows.AS_JSON,
    ]),
    explore=rows.Study(
        "Score every combination of some choices in a plan of MODEL, the others fixed; the fastest come first.",
        rows.MODEL, "studies.alternatives:explore_model", "exploring", "runs", "rows_of",
        loads=True, options=lambda: [
        Parameter("--vary", SEARCH, "Layers and levels whose choices vary, as fc1, conv*@H2 or *@H1; may be repeated.",
            "LAYER[@LEVEL]", several=True, required=True),
        rows.INPUTS, rows.SEQUENCE,
        *asked(
            strategy={"default": "hypar", "help": "Strategy whose plan gives the space and the fixed choices: {names}."},
            convention=rows.counted("moved"),
        ),
        Parameter("--top", OUTPUT, "Rows of the table.", "N", click.IntRange(min=1), default=10),
        rows.PLOT, rows.AS_CSV, rows.AS_JSON,
    ]),
    profile=rows.Study(
        "Measure with PyTorch, on this machine, the time of a device's shard of each layer of MODEL under each choice.",
        rows.MODEL, "studies.profile:profile_model", "measuring", "catalogue", "", options=lambda: [
        Parameter("--ways", ARRAY, "Devices of the level.", "N", int, default=16),
        *asked("batch", "space", space={"help": "Choices to measure: one or several of {names}, as --space of hypar plan.  "
            "[default: those of the strategy deepa]"}),
        Parameter("--repeats", MACHINE, "Measurements of every shard; the shortest time counts.", "N", int, default=3),
        rows.SAVE._replace(help="Write the times to a file."), rows.AS_JSON,
    ]),
)  # fmt: skip


@command(argument("source", nargs=-1, required=True, metavar="[KIND] SOURCE"), options=lambda: [
    rows.INPUTS, rows.SEQUENCE,
    *asked("batch", batch={"help": "Samples in a mini-batch of the model file.  [default: 256]"}),
    Parameter("--partial", NETWORK, "Accept a network of which less than 99 % of the operations or parameters is recognised.",
        read=bool),
    rows.SAVE._replace(help="Write the model file instead of printing it."),
])  # fmt: skip
def import_(source: tuple[str, ...], inputs: tuple[str, ...], output: str | None, **given: Any) -> None:
    """Write the model file of a network of another framework: a PyTorch module, an ONNX file, a JAX function or a config.

    SOURCE is the path of an ONNX file or of a config.json of Hugging Face (gpt2, llama, mistral, mixtral, qwen2, bert,
    and with PyTorch and transformers any language model of theirs), or my_module:build, a function without arguments: it
    returns a PyTorch module, or a JAX function of parameters and inputs, and the parameters. A KIND before it, torch, onnx,
    jax or config, is not needed. The module is run, as python -m my_module would run it, with all that it does; run only
    what you trust. A file is only read. No weights are read or kept.
    """
    *kind, network = source
    formats = use("importers.formats:FORMATS")
    if kind[1:] or not {*kind} <= {*formats}:
        found = f"found {' '.join(kind)!r} before {network!r}"
        raise click.UsageError(f"{found}; allowed: {', '.join(formats)}, or nothing")
    made = rows.imported(network, inputs, *kind, **given)
    if output is None:
        rows.print_data(made.text())
    else:
        made.write(output)
    wrote(output)


@command(argument("hardware", "hardware", required=False), options=lambda: [
    rows.CHANGES,
    rows.MODEL_FILE._replace(help="Show how a model's layers are mapped to one device, phase by phase."),
    *asked("batch", batch={"help": "Samples in a mini-batch of that model.  [default: the model's]"}),
    Parameter("--validate", OUTPUT, "Only check that the file is valid.", read=bool),
    Parameter("--yaml as_yaml", OUTPUT, "Print the hardware file, to start another from.", read=bool),
    Parameter("--energies", MACHINE, "Table of Accelergy (ERT.yaml) to take the energies from that --map names.", "FILE"),
    Parameter("--map mapping", MACHINE, "Energy and its action in the table, as buffer=glb.read, or glb.read/4 for an action "
        "of 4 words; may be repeated. Names: {names}.", "NAME=COMPONENT.ACTION", values.read_energies,
        lambda: use("machine.accelergy:ENERGIES"), several=True),
    rows.AS_JSON,
])  # fmt: skip
def hardware(
    hardware: str | None, changes: dict[str, Any], energies: str | None, mapping: dict[str, str],
    model: str | None, batch: int | None, *, validate: bool, as_yaml: bool, as_json: bool,
) -> None:  # fmt: skip
    """List the machines that come with hypar, or show one, by name or hardware file; exit 3 if the file is invalid."""
    if (energies is None) != (not mapping):
        missing = "--energies" if energies is None else "--map"
        raise OptionError("energies", f"{missing} is missing", "--energies ERT.yaml --map buffer=glb.read")
    if energies is not None:
        changes = {**changes, **use("machine.accelergy:read_energies")(energies, mapping)}
    if hardware is None and (validate or as_yaml or model is not None or changes or batch is not None):
        raise OptionError("hardware", "no machine is named", ", ".join(data_names("hardware")))
    if model is None and batch is not None:
        raise OptionError("batch", f"found {batch}", "a batch of the model that --model names")
    load, of = use("machine.load:load_machine"), "reports.of.catalogue:"
    if hardware is None:
        every = [use("machine.numbers:machine_summary")(load(name)) for name in data_names("hardware")]
        show(f"{of}machines_document", every, data=every, as_json=as_json)
    elif as_yaml:
        rows.print_data(use("machine.load:hardware_yaml")(hardware, changes))
    elif validate:
        load(hardware, changes)
        rows.print_data({"hardware": hardware, "ok": True} if as_json else f"{hardware}: ok")
    elif model is None:
        machine = load(hardware, changes)
        show(
            f"{of}document_of", machine, data=use("machine.numbers:machine_numbers")(machine), as_json=as_json
        )
    else:
        machine, graph = load(hardware, changes), use("network.build:load_model")(model, batch=batch)
        times = use("machine.numbers:whole_layers")(machine, graph)
        title = f"{graph.name}, batch {graph.batch}, whole on one device of {machine.name}"
        show(f"{of}times_document", times, title, data=times, as_json=as_json)


@command(argument("model", "models", required=False), options=lambda: [rows.AS_JSON])
def models(model: str | None, *, as_json: bool) -> None:
    """List the models that come with hypar, or the layers of one MODEL."""
    load, of = use("network.build:load_model"), "reports.of.catalogue:"
    found = [*map(load, data_names("models"))] if model is None else load(model)
    name = f"{of}models_document" if model is None else f"{of}document_of"
    show(name, found, data=use(name)(found).records(), as_json=as_json)


@command(options=lambda: [rows.AS_JSON])
def strategies(*, as_json: bool) -> None:
    """List the strategies with their space, cost and search."""
    load, of = use("planning.strategies.base:load_strategy"), "reports.of.catalogue:"
    found = use(f"{of}strategies_data")({name: load(name) for name in plugin_names("strategies")})
    show(f"{of}strategies_document", found, data=found, as_json=as_json)


@command(click.Argument(["shell"], type=click.Choice(["bash", "zsh", "fish"])))
def completion(shell: str) -> None:
    """Print the completion script of a SHELL, for use as: eval "$(hypar completion bash)"."""
    found = get_completion_class(shell)
    if found is not None:
        main = click.get_current_context().find_root().command
        use("reports.terminal:write")(found(main, {}, "hypar", "_HYPAR_COMPLETE").source())
