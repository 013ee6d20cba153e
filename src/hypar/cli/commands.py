"""The commands on networks and stored plans, and those that show what there is: models, machines, strategies."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.shell_completion import shell_complete

from hypar import __version__
from hypar.activity import INTERRUPTIBLE, holding
from hypar.cli import rows
from hypar.cli.rows import argument, asked, command, doing, show, use, wrote
from hypar.errors import HyparError, OptionError
from hypar.files.text import require_writable
from hypar.plan.parameter import MACHINE, NETWORK, OUTPUT, Parameter
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
    step_table = named is not None and use("machine.work:is_step_table")(named)
    if step_table and hardware is None and changes:
        machine = use("machine.profiles:measured_devices")(Path(named), changes)
    else:
        machine = rows.machine_of(hardware, changes)
    with doing(f"planning {network.name}"), holding(INTERRUPTIBLE, True):
        found = use("planning.planner:plan_model")(network, hardware=machine, **given)
    why = None if explained is None else found.explain(explained)
    if output is not None:
        found = _stored(found, output, model, inputs, hardware=hardware, profile=named)
    if plot is not None:
        found.plot(plot)
    wrote(output, plot)
    _show(found, why, full=full, as_json=as_json)
    unfit = rows.unfit({"": found.score}, fit=fit, as_data=as_json)
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


def _show(plan: Any, why: Any, *, full: bool, as_json: bool) -> None:
    origin, of = use("plan.records:origin_of")(plan), "reports.of.plan:"
    if as_json:
        both = why and {"plan": plan.to_data(), "explanation": use(f"{of}explanation_data")(why)}
        rows.print_data(both or plan.to_json())
        for remark in use("studies.remarks:remarks")(plan) if origin.network else ():
            use("reports.terminal:note")(": ".join(filter(None, (remark.label, remark.text))))
    else:
        document = use(f"{of}plan_document")(plan, full=full)
        if why is not None:
            use("reports.terminal:show_document")(use(f"{of}explanation_document")(why))
            use("reports.terminal:write")("")
        shown, folded = full if why is None else None, len(plan.layers) > use("reports.words:MOST_ROWS")
        use("reports.terminal:show_document")(document, full=shown, folded=folded)


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
        "of 4 words; may be repeated. Names: {names}.", "NAME=COMPONENT.ACTION", rows.later("machine.accelergy:read_mapping"),
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
    machine = None if hardware is None else load(hardware, changes)
    if machine is None:
        every = [use("machine.machine:machine_summary")(load(name)) for name in data_names("hardware")]
        show(f"{of}machines_document", every, data=every, as_json=as_json)
    elif as_yaml:
        rows.print_data(use("machine.load:hardware_yaml")(hardware, changes))
    elif validate:
        rows.print_data({"hardware": hardware, "ok": True} if as_json else f"{hardware}: ok")
    elif model is None:
        show(f"{of}document_of", machine, data="machine_numbers", as_json=as_json)
    else:
        graph = use("network.graph:load_model")(model, batch=batch)
        times = use("machine.setting:whole_layers")(machine, graph)
        title = f"{graph.name}, batch {graph.batch}, whole on one device of {machine.name}"
        show(f"{of}times_document", times, title, data=times, as_json=as_json)


@command(argument("model", "models", required=False), options=lambda: [rows.AS_JSON])
def models(model: str | None, *, as_json: bool) -> None:
    """List the models that come with hypar, or the layers of one MODEL."""
    load, of = use("network.graph:load_model"), "reports.of.catalogue:"
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
    main = click.get_current_context().find_root().command
    shell_complete(main, {}, "hypar", "_HYPAR_COMPLETE", f"{shell}_source")


@command(rows.PLAN, options=lambda: [
    *asked("hardware", "optimizer", "convention", convention=rows.counted("the plan's own, else moved"), optimizer={
        "default": None, "help": "Optimizer, for updates and memory: {names}.  [default: the plan's own, else sgd]"}),
    rows.MODEL_FILE,
    Parameter("--layers", OUTPUT, "Show the mapping of each layer's shard to a device, phase by phase.", read=bool),
    rows.PLOT._replace(help="Plot the start and end of every task, as .png, .svg or .pdf; FILE.csv lists the tasks.",
                  read=lambda file: require_writable(file) if file.endswith(".csv") else use("reports.plots:require_plot")(file, ".csv")),
    Parameter("--trace", OUTPUT, "Write a Chrome trace for Perfetto.", "FILE", require_writable),
    Parameter("--picture", OUTPUT, "Draw the plan beside its step, layer by layer, as .png, .svg or .pdf.", "FILE", rows.later("reports.plots:require_plot")),
    rows.FULL, rows.FIT, rows.AS_JSON,
])  # fmt: skip
def score(
    plan: str, plot: str | None, trace: str | None, picture: str | None, *,
    layers: bool, full: bool, fit: bool, as_json: bool, **given: Any,
) -> bool:  # fmt: skip
    """Simulate one training step of a stored PLAN on a machine: its time, energy, communication and memory."""
    files = [file for file in (picture, trace, plot) if file is not None]
    if len({*files}) < len(files):
        raise click.UsageError("two of --plot, --trace and --picture name one file")
    with doing(f"scoring {plan}"):
        ran = use("planning.replay:run_plan")(plan, **given)
    step = use("studies.step:StepRows")(ran)
    document = partial(use("reports.of.plan:score_document"), ran.score, step)
    if picture is not None:
        scored = ran.plan.model_copy(update={"score": ran.score})
        use("plan.records:remember")(scored, use("plan.records:origin_of")(ran.score))
        scored.plot(picture)
    if trace is not None:
        use("files.text:write")(Path(trace), use("reports.steps:step_trace")(step))
    if plot is not None and plot.endswith(".csv"):
        use("files.text:write")(Path(plot), use("reports.renderers:step_csv")(step))
    elif plot is not None:
        use("reports.plots:plot")(document(), plot)
    wrote(*files)
    if layers:
        times = [row for row in step.phases if "time_s" in row]
        title = use("reports.words:headline")(ran.plan)
        show("reports.of.catalogue:times_document", times, title, data=times, as_json=as_json)
    elif as_json:
        rows.print_data(ran.score.to_data())
    else:
        use("reports.terminal:show_document")(document(), full=full)
    return rows.unfit({"": ran.score}, fit=fit, as_data=as_json or layers)


@command(rows.PLAN, options=lambda: [
    Parameter("--format form", OUTPUT, "How to write it: {names}.", "NAME", names=lambda: use("reports.renderers:FORMS"),
        default="table"),
    rows.FULL, rows.AS_JSON,
])  # fmt: skip
def show_(plan: str, form: str, *, full: bool, as_json: bool) -> None:
    """Show a stored PLAN."""
    stored = use("plan.plan:read_plan")(plan)
    if as_json or form == "table":
        _show(stored, None, full=full, as_json=as_json)
    else:
        document = use("reports.of.plan:plan_document")(stored, full=full)
        rows.print_data(use("reports.renderers:rendered")(document, form, full=full))


@command(rows.PLAN, options=lambda: [
    rows.SAVE._replace(read=lambda text: None if text == "-" else require_writable(text), help="File of the page, as plan.html.  [default: stdout]"),
    *asked("convention", "hardware", convention=rows.counted("the plan's own, else moved")), rows.MODEL_FILE, rows.PROFILE_FILE,
])  # fmt: skip
def report(plan: str, output: str | None, **named: Any) -> None:
    """Write a report of a stored PLAN: one HTML page, readable without a network, on paper and on a phone."""
    with doing(f"reporting {plan}"):
        found = use("reports.report:read_reported")(plan, **named)
        text = use("reports.report:report_page")(found, __version__)
    if output in {None, "-"}:
        rows.print_data(text)
        return
    use("files.text:write")(Path(output), text)
    wrote(output)


@command(argument("plans", nargs=-1, required=True), options=lambda: [
    rows.MODEL_FILE,
    rows.HARDWARE_FILE._replace(help="Hardware file to use if the name in the plans' scores is not found."),
    rows.PROFILE_FILE._replace(help="Measured times to use if the name in the plans' costs is not found."),
    Parameter("--tolerance", OUTPUT, "Relative difference up to which costs, bytes, seconds and joules are no drift, as 1e-6 "
        "or 1%. Choices are never tolerated.", "SHARE", rows.read_share, default="0", allowed="a share, as 1e-6 or 1%"),
    Parameter("--update", OUTPUT, "Rewrite the plans that drifted; exit 0.", read=bool), rows.AS_JSON,
])  # fmt: skip
def check(plans: tuple[str, ...], *, update: bool, as_json: bool, **named: Any) -> int:
    """Plan again from the requests in stored PLANS; exit 1 and list the differences on drift, 3 on an error.

    Every plan below a folder is checked; its other .json files are skipped.
    """
    note, of = use("reports.terminal:note"), "reports.of.diff:"
    with doing("checking"):
        found = [*use("studies.check:check_plans")(plans, note, **named)]
    findings = [use(f"{of}verdict_data")(*each) for each in found]
    failed = [own.exit_status for _, own in found if isinstance(own, HyparError)]
    drifted = [file for file, own in found if not (isinstance(own, HyparError) or own.ok or update)]
    for (file, verdict), data in zip(found, findings, strict=True):
        if isinstance(verdict, HyparError):
            for line in str(verdict).splitlines():
                note(f"error: {line if line.startswith(file) else f'{file}: {line}'}", style="")
            continue
        document = use(f"{of}verdict_document")(file, verdict)
        if verdict.ok and not as_json:
            use("reports.terminal:write")(document.title)  # a line, however long the file's name is
        elif not as_json:
            use("reports.terminal:show_document")(document)
        for text in verdict.notes:
            note(f"{file}: {text}")
        if update and not verdict.ok:
            verdict.fresh.write(file)
            note(f"rewrote {file}")
            data["rewritten"] = True
    if as_json:
        rows.print_data(findings)
    elif drifted:
        use("reports.terminal:write")(f"\n{_count(drifted, plans, len(found))}")
    return max(failed, default=bool(drifted))


def _count(drifted: list[str], given: tuple[str, ...], checked: int) -> str:
    plans = "the plan drifted" if checked == 1 else f"{len(drifted)} of {checked} plans drifted"
    named = drifted[0] if len(drifted) == 1 else given[0] if len(given) == 1 else "PLANS"
    return f"{plans}\nhypar check --update {named} rewrites {'it' if len(drifted) == 1 else 'them'}"


@command(argument("before"), argument("after"), options=lambda: [rows.AS_JSON])
def diff(before: str, after: str, *, as_json: bool) -> None:
    """Show the layers and levels in which two stored plans differ, and the change in cost; always exit 0."""
    plans = tuple(map(use("plan.plan:read_plan"), (before, after)))
    changes = use("plan.diff:diff_plans")(*plans)
    if not (as_json or changes):
        use("reports.terminal:write")("the plans are equal")
        return
    of, data = "reports.of.diff:difference_document", [change.to_data() for change in changes]
    show(of, (before, after), plans, changes, data=data, as_json=as_json)


@command(rows.PLAN, options=lambda: [
    Parameter("--format", OUTPUT, "Tool to write for: {names}.", "NAME", names=lambda: plugin_names("exports"), default="scale_sim"),
    Parameter("-o --output", OUTPUT, "File to write, - for stdout; for timeloop a folder, with a file for each problem.", "PATH",
        required=True),
    Parameter("--layer", NETWORK, "Layer to write, or a pattern, as conv*.  [default: all with weights]", "LAYER", default="*"),
    Parameter("--phase", NETWORK, "Phase to write: {names}.  [default: all that the format can express]", "NAME",
        names=lambda: use("ops.nest:PHASES")),
    rows.MODEL_FILE, rows.AS_JSON,
])  # fmt: skip
def export(plan: str, output: str, *, as_json: bool, **given: Any) -> None:
    """Write the piece of each layer that a device of a stored PLAN computes, for SCALE-Sim or Timeloop."""
    of, printed = "reports.of.catalogue:", output == "-"
    with doing(f"exporting {plan}"):
        found = use("studies.pieces:export_plan")(plan, None if printed else output, **given)
    if printed and (as_json or not found.text):
        why = "--json is printed" if as_json else f"{given['format']} has several files"
        raise OptionError("output", f"found -, and {why}", "a file" if found.text else "a folder")
    wrote(None if printed else output)
    if printed:
        rows.print_data(found.text)
        for line in use(f"{of}left_out")(found):
            use("reports.terminal:note")(f"left out: {line}")
    else:
        show(f"{of}plugin", found, data="export_data", as_json=as_json)
