"""The commands: of each its arguments and options, a call, and the document that is shown."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.exceptions import Exit
from click.shell_completion import get_completion_class

from hypar import __version__
from hypar.cli import values
from hypar.cli.options import (
    ARRAY,
    MACHINE,
    NETWORK,
    OUTPUT,
    SEARCH,
    Argument,
    Command,
    Option,
    Row,
    data,
    plugins,
)
from hypar.cli.rows import (
    AS_CSV,
    AS_JSON,
    CHANGES,
    FIT,
    FULL,
    HARDWARE_FILE,
    INPUTS,
    MODEL,
    MODEL_FILE,
    PLAN,
    PLOT,
    PROFILE_FILE,
    SAVE,
    TRACE,
    asked,
    counted,
    exit_if_unfit,
    imported,
    machine_of,
    network_of,
    require_hardware,
    require_one_form,
    show,
    show_plan,
    studied,
    use,
    wrote,
)
from hypar.errors import HyparError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class Spec(NamedTuple):
    """A command: what runs it, its arguments, and a function that returns its options."""

    run: Callable[..., None]
    arguments: tuple[Argument, ...]
    options: Callable[[], Iterable[Row]]

    def command(self, name: str) -> Command:
        """Return it as click has it."""
        params = [*self.arguments, *map(Option, self.options())]
        return Command(name, callback=self.run, params=params, help=self.run.__doc__)


COMMANDS: dict[str, Spec] = {}
"""The commands by their names."""


def command(
    *arguments: Argument, options: Callable[[], Iterable[Row]] = tuple
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that lists a function as a command of its name."""

    def listed(run: Callable[..., None]) -> Callable[..., None]:
        COMMANDS[run.__name__.rstrip("_")] = Spec(run, arguments, options)
        return run

    return listed


@command(MODEL, options=lambda: [
    INPUTS, *asked(), SAVE, PLOT,
    Row(("--explain", "explained"), OUTPUT, "Show every elimination and, for a layer, the costs of its other choices, "
        "as fc1 or fc1@H2.", "[LAYER[@LEVEL]]", alone=""),
    FULL, FIT, AS_JSON,
])  # fmt: skip
def plan(
    model: str, inputs: tuple[str, ...], hardware: str | None, changes: dict[str, Any], output: str | None,
    plot: str | None, explained: str | None, *, full: bool, fit: bool, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Choose how each layer of MODEL is cut at each level of the array.

    MODEL is a bare name, a model file, or what hypar import takes: config.json, an ONNX file, my_net:build.
    """
    require_hardware(hardware, fit=fit)
    network, named = network_of(model, inputs), given["profile"]
    machine, profile = _measured_machine(hardware, changes, named), None
    if explained is not None:
        sized = {name: given[name] for name in ("stages", "starts", "levels", "array")}
        request = use("plan.request:Request")(hardware=machine, **sized)
        use("planning.refusals:require_together")(use("planning.refusals:Asked").whose(request, explain=True))
    with (
        use("reports.terminal:progress_bar")(f"planning {network.name}") as progress,
        use("activity:keeping_interrupted")(),
    ):
        found = use("planning.planner:plan_model")(network, hardware=machine, progress=progress, **given)
    if named is not None:
        machine = use("planning.sources:scored_on")(found)
        profile = None if _is_step_table(named) else use("planning.sources:times_of")(found)
    if output is not None:
        own = None if _is_foreign(model) else model
        found = use("planning.sources:recorded")(found, output, model=own, hardware=hardware, profile=named)
        found.write(output)
    if plot is not None:
        found.plot(plot)
    wrote(output, plot)
    if output is not None and _is_foreign(model):
        words = shlex.join(
            ["hypar", "import", model, *(word for text in inputs for word in ("--input", text))]
        )
        use("reports.terminal:note")(f"hypar check needs its model file: {words} -o {network.name}.yaml")
    made = (found, network, machine, profile)
    document = None if as_json else use("reports.of.plan:planned_document")(*made, full=full)
    if explained is not None:
        _explain(*made, explained, document)
    elif document is not None:
        show_plan(document, len(found.layers), full=full)
    else:
        use("reports.terminal:write")(found.to_json(), document=True)
        for remark in use("studies.remarks:remarks")(*made):
            use("reports.terminal:note")(f"{remark.label}: {remark.text}" if remark.label else remark.text)
    exit_if_unfit(found.score, fit=fit, as_data=as_json)
    if found.limits is not None and found.limits.cut == "interrupt":
        raise KeyboardInterrupt


def _is_foreign(model: str) -> bool:
    """Return whether a model is the network of another framework, and no file that hypar check reads."""
    return ":" in model or Path(model).suffix == ".json"


def _is_step_table(profile: str | None) -> bool:
    return profile is not None and bool(use("machine.step_times:is_step_table")(profile))


def _measured_machine(hardware: str | None, changes: dict[str, Any], profile: str | None) -> Any:
    """Load the machine; changes alone may be for the devices of a table of measured times."""
    if hardware is None and changes and _is_step_table(profile):
        return use("machine.measured:measured_devices")(Path(str(profile)), changes)
    return machine_of(hardware, changes)


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


@command(MODEL, options=lambda: [
    INPUTS,
    *asked(
        strategy={"flags": ("--strategy", "strategies"), "several": True,
                  "help": "Strategy to compare with dp; may be repeated: {names}.  [default: all with dp's cost]"},
        convention=counted("moved"),
    ),
    FIT, AS_JSON,
])  # fmt: skip
def compare(hardware: str | None, changes: dict[str, Any], *, fit: bool, as_json: bool, **given: Any) -> None:
    """Plan MODEL by several strategies and show them side by side, relative to dp."""
    require_hardware(hardware, fit=fit)
    machine = machine_of(hardware, changes)
    found = studied("studies.grid:compare_strategies", "comparing", hardware=machine, **given)
    lines = use("reports.of.comparison:unfit_lines")(found)
    for line in lines if as_json else ():
        use("reports.terminal:warn")(line, to_stderr=True)
    show(lambda: use("reports.of.comparison:comparison_data")(found), found.document, as_json=as_json)
    raise Exit(int(fit and bool(lines)))


@command(MODEL, options=lambda: [
    INPUTS,
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
        convention=counted("moved"),
    ),
    CHANGES._replace(flags=("--vary", "changes"), read=values.read_axes, metavar="NAME=VALUES",
        help="Values of the machine to vary, as topology=h_tree,torus; may be repeated. Names: {names}."),
    Row(("--scale",), MACHINE, "Give a machine with one network as many devices as the levels need.", read=bool),
    PLOT, AS_CSV, AS_JSON,
])  # fmt: skip
def sweep(*, as_csv: bool, as_json: bool, **given: Any) -> None:
    """Plan and score MODEL for every combination of arrays, batches, strategies and machines."""
    require_one_form(as_csv, as_json)
    found = studied("studies.sweep:sweep_model", "sweeping", **given)
    show(lambda: use("reports.of.runs:rows_of")(found), found.document, as_json=as_json, as_csv=as_csv)


@command(MODEL, options=lambda: [
    Row(("--vary",), SEARCH, "Layers and levels whose choices vary, as fc1, conv*@H2 or *@H1; may be repeated.",
        "LAYER[@LEVEL]", several=True, required=True),
    INPUTS,
    *asked(
        strategy={"default": "hypar", "help": "Strategy whose plan gives the space and the fixed choices: {names}."},
        convention=counted("moved"),
    ),
    Row(("--top",), OUTPUT, "Rows of the table.", "N", click.IntRange(min=1), default=10),
    PLOT, AS_CSV, AS_JSON,
])  # fmt: skip
def explore(
    hardware: str | None, changes: dict[str, Any], top: int, *, as_csv: bool, as_json: bool, **given: Any
) -> None:
    """Score every combination of some choices in a plan of MODEL, the others fixed; the fastest come first."""
    require_one_form(as_csv, as_json)
    machine = machine_of(hardware, changes, needed=True)
    found = studied("studies.explore:explore_model", "exploring", hardware=machine, **given)
    rows, document = use("reports.of.runs:rows_of"), use("reports.of.runs:document_of")
    show(lambda: rows(found), lambda: document(found, top), as_json=as_json, as_csv=as_csv)


@command(PLAN, options=lambda: [
    *asked("hardware", "optimizer", "convention", convention=counted("the plan's own, else moved"), optimizer={
        "default": None, "help": "Optimizer, for updates and memory: {names}.  [default: the plan's own, else sgd]"}),
    MODEL_FILE,
    Row(("--layers",), OUTPUT, "Show the mapping of each layer's shard to a device, phase by phase.", read=bool),
    PLOT._replace(help="Plot the start and end of every task, as .png, .svg or .pdf; FILE.csv lists the tasks.",
                  read=values.plot_or_table),
    TRACE,
    Row(("--picture",), OUTPUT, "Draw the plan beside its step, layer by layer, as an SVG.", "FILE", values.picture),
    FULL, FIT, AS_JSON,
])  # fmt: skip
def score(
    plan: str, plot: str | None, trace: str | None, picture: str | None, *,
    layers: bool, full: bool, fit: bool, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Simulate one training step of a stored PLAN on a machine: its time, energy, communication and memory."""
    files = [file for file in (plot, trace, picture) if file is not None]
    if len({*files}) < len(files):
        raise click.UsageError("two of --plot, --trace and --picture name one file")
    with use("reports.terminal:progress_bar")(f"scoring {plan}"):
        ran = use("planning.replay:run_plan")(plan, **given)
    _write_step(ran, plot, trace, picture)
    wrote(picture, trace, plot)
    if layers:
        rows = [row for row in use("studies.layers:layers_of")(ran) if "time_s" in row]
        title = use("reports.words:headline")(ran.plan)
        show(lambda: rows, lambda: use("reports.of.machines:times_document")(rows, title), as_json=as_json)
    elif as_json:
        use("reports.terminal:write_json")(ran.score.to_data())
    else:
        shown = use("reports.of.score:score_document")(ran.score, ran.plan, ran)
        use("reports.terminal:show_shortened")(shown, full=full)
    exit_if_unfit(ran.score, fit=fit, as_data=as_json or layers)


def _write_step(ran: Any, plot: str | None, trace: str | None, picture: str | None) -> None:
    """Write the files that are asked for: the timeline as a plot or as CSV, a trace, the plan beside its step."""
    write = use("files.text:write_text")
    draw: Any = use("reports.plots:plot") if plot or picture else None
    if picture is not None:
        draw(use("reports.report:picture_document")(ran), Path(picture))
    if trace is not None:
        write(Path(trace), use("reports.trace:step_trace")(ran))
    if plot is not None and plot.endswith(".csv"):
        write(Path(plot), use("reports.of.score:timeline_csv")(ran.timeline))
    elif plot is not None:
        draw(use("reports.of.score:score_document")(ran.score, ran.plan, ran), Path(plot))


@command(PLAN, options=lambda: [
    Row(("--format", "form"), OUTPUT, "How to write it: {names}.", "NAME", names=lambda: use("reports.renderers:FORMS"),
        default="table"),
    FULL, AS_JSON,
])  # fmt: skip
def show_(plan: str, form: str, *, full: bool, as_json: bool) -> None:
    """Show a stored PLAN."""
    stored = use("plan.plan:read_plan")(plan)
    if as_json:
        use("reports.terminal:write")(stored.to_json(), document=True)
        return
    document = use("reports.of.plan:plan_document")(stored, full=full)
    if form == "table":
        show_plan(document, len(stored.layers), full=full)
    else:
        text = use("reports.renderers:rendered")(document, form, full=full)
        use("reports.terminal:write")(text, document=True)


@command(PLAN, options=lambda: [
    SAVE._replace(read=values.writable_page, help="File of the page, as plan.html.  [default: stdout]"),
    *asked("convention", "hardware", convention=counted("the plan's own, else moved")), MODEL_FILE, PROFILE_FILE,
])  # fmt: skip
def report(plan: str, output: str | None, **named: Any) -> None:
    """Write a report of a stored PLAN: one HTML page, readable without a network, on paper and on a phone."""
    with use("reports.terminal:progress_bar")(f"reporting {plan}"):
        found = use("reports.report:read_reported")(plan, **named)
        text = use("reports.report:report_page")(found, __version__)
    if output is None:
        use("reports.terminal:write")(text, document=True)
        return
    use("files.text:write_text")(Path(output), text)
    wrote(output)


@command(Argument("plans", nargs=-1, required=True), options=lambda: [
    MODEL_FILE,
    HARDWARE_FILE._replace(help="Hardware file to use if the name in the plans' scores is not found."),
    PROFILE_FILE._replace(help="Measured times to use if the name in the plans' costs is not found."),
    Row(("--tolerance",), OUTPUT, "Relative difference up to which costs, bytes, seconds and joules are no drift, as 1e-6 "
        "or 1%. Choices are never tolerated.", "SHARE", values.read_share, default="0"),
    Row(("--update",), OUTPUT, "Rewrite the plans that drifted; exit 0.", read=bool), AS_JSON,
])  # fmt: skip
def check(plans: tuple[str, ...], *, update: bool, as_json: bool, **named: Any) -> None:
    """Plan again from the requests in stored PLANS; exit 1 and list the differences on drift, 3 on an error.

    Every plan below a folder is checked; its other .json files are skipped.
    """
    note, of = use("reports.terminal:note"), "reports.of.diff:"
    findings, statuses, drifted = [], [], []
    for file, error in _plan_files(plans):
        with use("reports.terminal:progress_bar")(f"checking {file}"):
            verdict = error or _judge(file, **named)
        if isinstance(verdict, HyparError):
            findings.append({"plan": file, "ok": False, "error": str(verdict)})
            for line in str(verdict).splitlines():
                note(f"error: {line if line.startswith(file) else f'{file}: {line}'}", style="")
            statuses.append(verdict.exit_status)
            continue
        findings.append(use(f"{of}verdict_data")(file, verdict))
        statuses.append(0 if verdict.ok or update else 1)
        if not as_json:
            use("reports.terminal:show_document")(use(f"{of}verdict_document")(file, verdict))
        for text in verdict.notes:
            note(f"{file}: {text}")
        if not verdict.ok:
            drifted.append(file)
            if update:
                verdict.fresh.write(file)
                note(f"rewrote {file}")
                findings[-1]["rewritten"] = True
    if as_json:
        use("reports.terminal:write_json")(findings)
    elif drifted and not update:
        use("reports.terminal:write")(f"\n{_count(drifted, plans, len(findings))}")
    raise Exit(max(statuses))


def _count(drifted: list[str], given: tuple[str, ...], checked: int) -> str:
    """Say how many plans drifted, and name the command that rewrites them."""
    plans = "the plan drifted" if checked == 1 else f"{len(drifted)} of {checked} plans drifted"
    named = drifted[0] if len(drifted) == 1 else given[0] if len(given) == 1 else "PLANS"
    return f"{plans}\nhypar check --update {named} rewrites {'it' if len(drifted) == 1 else 'them'}"


def _plan_files(plans: tuple[str, ...]) -> Iterator[tuple[str, HyparError | None]]:
    """Yield each plan's file, those below folders included, or a folder with the error that it has none."""
    for place in plans:
        if not os.path.isdir(place):  # noqa: PTH112 (a name too long is no folder, and no error here)
            yield place, None
            continue
        try:
            files, others = use("studies.check:plans_below")(Path(place))
        except HyparError as error:
            yield place, error
            continue
        if others:
            names = ", ".join(str(file.relative_to(place)) for file in others[:3])
            more = f" and {len(others) - 3} more" if len(others) > 3 else ""
            use("reports.terminal:note")(f"skipped below {place}, as no plans: {names}{more}")
        yield from ((str(file), None) for file in files)


def _judge(file: str, **named: Any) -> Any:
    """Return the verdict on one plan, or the error that prevents one, so that the other plans are still checked."""
    try:
        return use("studies.check:check_plan")(file, **named)
    except HyparError as error:
        return error


@command(Argument("before"), Argument("after"), options=lambda: [AS_JSON])
def diff(before: str, after: str, *, as_json: bool) -> None:
    """Show the layers and levels in which two stored plans differ, and the change in cost; always exit 0."""
    of, plans = "reports.of.diff:", tuple(map(use("plan.plan:read_plan"), (before, after)))
    changes = use("plan.diff:diff_plans")(*plans)
    if not changes and not as_json:
        use("reports.terminal:write")("the plans are equal")
        return
    document = use(f"{of}difference_document")
    show(
        lambda: [change.to_data() for change in changes],
        lambda: document((before, after), plans, changes),
        as_json=as_json,
    )


@command(PLAN, options=lambda: [
    MODEL_FILE,
    *asked("batch", batch={"help": "Samples in the mini-batch.  [default: the plan's; with --shrink the fewest]"}),
    Row(("--shrink",), NETWORK, "Divide channels, image and mini-batch by powers of two; even cuts stay even.", read=bool),
    HARDWARE_FILE,
    *asked("convention", convention={"names": lambda: use("sharding.conventions:CONVENTIONS"),
        "help": "What becomes of partial sums: {names}.  [default: as the plan's cost counts; moved for paper]"}),
    Row(("--count",), OUTPUT, "Count the bytes alone, and run nothing.", read=bool),
    FULL._replace(help="Show each transfer, with a row for each level that it crosses."), AS_JSON,
])  # fmt: skip
def verify(plan: str, *, full: bool, as_json: bool, **given: Any) -> None:
    """Run a step of a stored PLAN on simulated devices; exit 1 if its numbers, bytes or results are wrong, 3 on an error.

    The numbers must be those of one device, every level must move the bytes that are counted there, and the plan's
    cost and score must be those of its choices.
    """
    of = "reports.of.verification:"
    with use("reports.terminal:progress_bar")(f"verifying {plan}"):
        found = use("studies.verify:verify_plan")(plan, **given)
    document = use(f"{of}verification_document")
    show(lambda: use(f"{of}verification_data")(found), lambda: document(found, full=full), as_json=as_json)
    raise Exit(0 if found.ok else 1)


@command(PLAN, options=lambda: [
    Row(("--format",), OUTPUT, "Tool to write for: {names}.", "NAME", names=plugins("exports"), default="scale_sim"),
    Row(("-o", "--output"), OUTPUT, "File to write; for timeloop a folder, with a file for each problem.", "PATH",
        required=True),
    Row(("--layer",), NETWORK, "Layer to write, or a pattern, as conv*.  [default: all with weights]", "LAYER", default="*"),
    Row(("--phase",), NETWORK, "Phase to write: {names}.  [default: all that the format can express]", "NAME",
        names=lambda: use("network.training:PHASES")),
    MODEL_FILE, AS_JSON,
])  # fmt: skip
def export(plan: str, output: str, *, as_json: bool, **given: Any) -> None:
    """Write the piece of each layer that a device of a stored PLAN computes, for SCALE-Sim or Timeloop."""
    with use("reports.terminal:progress_bar")(f"exporting {plan}"):
        found = use("reports.exports.base:export_plan")(plan, output, **given)
    wrote(output)
    of = "reports.of.exports:"
    show(lambda: use(f"{of}export_data")(found), lambda: use(f"{of}document_of")(found), as_json=as_json)


@command(Argument("source", nargs=-1, required=True, metavar="[KIND] SOURCE"), options=lambda: [
    INPUTS,
    *asked("batch", batch={"help": "Samples in a mini-batch of the model file.  [default: 256]"}),
    Row(("--sequence",), NETWORK, "Positions of a sample; for config.  [default: the most that it allows]", "N", int),
    Row(("--partial",), NETWORK, "Accept a network of which less than 99 % of the operations or parameters is recognised.",
        read=bool),
    SAVE._replace(help="Write the model file instead of printing it."),
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
    made = imported(framework, network, inputs, **given)
    if output is None:
        use("reports.terminal:write")(made.text(), document=True)
    else:
        made.write(output)
    wrote(output)


@command(Argument("hardware", "hardware", required=False), options=lambda: [
    CHANGES,
    MODEL_FILE._replace(help="Show how a model's layers are mapped to one device, phase by phase."),
    *asked("batch", batch={"help": "Samples in a mini-batch of that model.  [default: the model's]"}),
    Row(("--validate",), OUTPUT, "Only check that the file is valid.", read=bool),
    Row(("--yaml", "as_yaml"), OUTPUT, "Print the hardware file, to start another from.", read=bool),
    Row(("--energies",), MACHINE, "Table of Accelergy (ERT.yaml) to take the energies from that --map names.", "FILE"),
    Row(("--map", "mapping"), MACHINE, "Energy and its action in the table, as buffer=glb.read, or glb.read/4 for an action "
        "of 4 words; may be repeated. Names: {names}.", "NAME=COMPONENT.ACTION", values.read_energies,
        lambda: use("machine.accelergy:ENERGIES"), several=True),
    AS_JSON,
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
    rows, document = _machine(hardware, changes, model, batch)
    if validate and not as_json:
        write(f"{hardware}: ok")
    else:
        show(
            lambda: {"hardware": hardware, "ok": True} if validate else rows,
            lambda: document,
            as_json=as_json,
        )


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
    rows = use(f"{of}whole_times_data")(machine, graph)
    title = f"{graph.name}, batch {graph.batch}, whole on one device of {machine.name}"
    return rows, use(f"{of}times_document")(rows, title)


def _energies(file: str | None, mapping: dict[str, str]) -> dict[str, Any]:
    """Read the energies of a table.

    Raises:
        OptionError: there is a table without energies to take, or the other way round.
    """
    if (file is None) != (not mapping):
        missing = "--energies" if file is None else "--map"
        raise OptionError("energies", f"{missing} is missing", "--energies ERT.yaml --map buffer=glb.read")
    return {} if file is None else dict(use("machine.accelergy:read_energies")(file, mapping))


@command(Argument("model", "models", required=False), options=lambda: [AS_JSON])
def models(model: str | None, *, as_json: bool) -> None:
    """List the models that come with hypar, or the layers of one MODEL."""
    load, of = use("network.build:load_model"), "reports.of.models:"
    if model is None:
        found = use(f"{of}models_document")(load(name) for name in data("models")())
    else:
        found = use(f"{of}document_of")(load(model))
    show(found.records, lambda: found, as_json=as_json)


@command(options=lambda: [AS_JSON])
def strategies(*, as_json: bool) -> None:
    """List the strategies with their space, cost and search."""
    load, of = use("planning.strategies.base:load_strategy"), "reports.of.strategies:strategies"
    named = {name: load(name) for name in plugins("strategies")()}
    show(lambda: use(f"{of}_data")(named), lambda: use(f"{of}_document")(named), as_json=as_json)


@command(MODEL, options=lambda: [
    Row(("--ways",), ARRAY, "Devices of the level.", "N", int, default=16),
    *asked("batch", "space", space={"help": "Choices to measure: one or several of {names}, as --space of hypar plan.  "
        "[default: those of the strategy deepa]"}),
    Row(("--repeats",), MACHINE, "Measurements of every shard; the shortest time counts.", "N", int, default=3),
    SAVE._replace(help="Write the times to a file."), AS_JSON,
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
