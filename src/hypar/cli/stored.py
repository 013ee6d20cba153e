"""The commands on stored plans."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from hypar import __version__
from hypar.cli import rows
from hypar.cli.options import argument
from hypar.cli.rows import asked, command, doing, show, use, wrote
from hypar.errors import HyparError, OptionError
from hypar.files.text import require_writable
from hypar.plan.parameter import NETWORK, OUTPUT, Parameter
from hypar.registry import plugin_names


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
    document = partial(use("reports.of.plan:score_document"), ran.score, ran)
    if picture is not None:
        scored = ran.plan.model_copy(update={"score": ran.score})
        use("reports.plots:plot")(
            use("reports.of.plan:planned_document")(scored, ran.graph, ran.machine), Path(picture)
        )
    if trace is not None:
        use("files.text:write_text")(Path(trace), use("reports.steps:step_trace")(ran))
    if plot is not None and plot.endswith(".csv"):
        use("files.text:write_text")(Path(plot), use("reports.renderers:timeline_csv")(ran.timeline))
    elif plot is not None:
        use("reports.plots:plot")(document(), Path(plot))
    wrote(*files)
    if layers:
        times = [row for row in use("studies.step:StepRows")(ran).phases if "time_s" in row]
        title = use("reports.words:headline")(ran.plan)
        show("reports.of.catalogue:times_document", times, title, data=times, as_json=as_json)
    elif as_json:
        rows.print_data(ran.score.to_data())
    else:
        use("reports.terminal:show_document")(document(), full=full)
    return rows.unfit(rows.unfit_score(ran.score), fit=fit, as_data=as_json or layers)


@command(rows.PLAN, options=lambda: [
    Parameter("--format form", OUTPUT, "How to write it: {names}.", "NAME", names=lambda: use("reports.renderers:FORMS"),
        default="table"),
    rows.FULL, rows.AS_JSON,
])  # fmt: skip
def show_(plan: str, form: str, *, full: bool, as_json: bool) -> None:
    """Show a stored PLAN."""
    stored = use("plan.plan:read_plan")(plan)
    document = None if as_json else use("reports.of.plan:plan_document")(stored, full=full)
    if as_json:
        rows.print_data(stored.to_json())
    elif form == "table":
        rows.show_plan(document, len(stored.layers), full=full)
    else:
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
    use("files.text:write_text")(Path(output), text)
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
    statuses, drifted = [], []
    for (file, verdict), data in zip(found, findings, strict=True):
        if isinstance(verdict, HyparError):
            for line in str(verdict).splitlines():
                note(f"error: {line if line.startswith(file) else f'{file}: {line}'}", style="")
            statuses.append(verdict.exit_status)
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
        drifted += [] if verdict.ok or update else [file]
        statuses.append(file in drifted)
    if as_json:
        rows.print_data(findings)
    elif drifted:
        use("reports.terminal:write")(f"\n{_count(drifted, plans, len(found))}")
    return max(statuses)


def _count(drifted: list[str], given: tuple[str, ...], checked: int) -> str:
    """Say how many plans drifted, and name the command that rewrites them."""
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


rows.studies(
    verify=rows.Study(
        """Run a step of a stored PLAN on simulated devices; exit 1 if its numbers, bytes or results are wrong, 3 on an error.

        The numbers must be those of one device, every level must move the bytes that are counted there, and the plan's
        cost and score must be those of its choices.
        """,
        rows.PLAN, "studies.verify:verify_plan", "verifying {plan}", "verification", "verification_data", options=lambda: [
        rows.MODEL_FILE,
        *asked("batch", batch={"help": "Samples in the mini-batch.  [default: the plan's; with --shrink the fewest]"}),
        Parameter("--shrink", NETWORK, "Divide channels, image and mini-batch by powers of two; even cuts stay even.", read=bool),
        rows.HARDWARE_FILE,
        *asked("convention", convention={"names": lambda: use("sharding.conventions:CONVENTIONS"),
            "help": "What becomes of partial sums: {names}.  [default: as the plan's cost counts; moved for paper]"}),
        Parameter("--count", OUTPUT, "Count the bytes alone, and run nothing.", read=bool),
        rows.FULL._replace(help="Show each transfer, with a row for each level that it crosses."), rows.AS_JSON,
    ]),
)  # fmt: skip


@command(rows.PLAN, options=lambda: [
    Parameter("--format", OUTPUT, "Tool to write for: {names}.", "NAME", names=lambda: plugin_names("exports"), default="scale_sim"),
    Parameter("-o --output", OUTPUT, "File to write, - for stdout; for timeloop a folder, with a file for each problem.", "PATH",
        required=True),
    Parameter("--layer", NETWORK, "Layer to write, or a pattern, as conv*.  [default: all with weights]", "LAYER", default="*"),
    Parameter("--phase", NETWORK, "Phase to write: {names}.  [default: all that the format can express]", "NAME",
        names=lambda: use("network.training:PHASES")),
    rows.MODEL_FILE, rows.AS_JSON,
])  # fmt: skip
def export(plan: str, output: str, *, as_json: bool, **given: Any) -> None:
    """Write the piece of each layer that a device of a stored PLAN computes, for SCALE-Sim or Timeloop."""
    of, printed = "reports.of.catalogue:", output == "-"
    with doing(f"exporting {plan}"):
        found = use("reports.exports.base:export_plan")(plan, None if printed else output, **given)
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
