"""The commands on stored plans."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hypar import __version__
from hypar.cli import rows, values
from hypar.cli.options import NETWORK, OUTPUT, Argument, Row
from hypar.cli.rows import asked, command, show, use, wrote
from hypar.errors import HyparError, OptionError
from hypar.registry import plugin_names

if TYPE_CHECKING:
    from collections.abc import Iterator


@command(rows.PLAN, options=lambda: [
    *asked("hardware", "optimizer", "convention", convention=rows.counted("the plan's own, else moved"), optimizer={
        "default": None, "help": "Optimizer, for updates and memory: {names}.  [default: the plan's own, else sgd]"}),
    rows.MODEL_FILE,
    Row(("--layers",), OUTPUT, "Show the mapping of each layer's shard to a device, phase by phase.", read=bool),
    rows.PLOT._replace(help="Plot the start and end of every task, as .png, .svg or .pdf; FILE.csv lists the tasks.",
                  read=partial(values.plot, also=".csv")),
    rows.TRACE,
    Row(("--picture",), OUTPUT, "Draw the plan beside its step, layer by layer, as an SVG.", "FILE", values.picture),
    rows.FULL, rows.FIT, rows.AS_JSON,
])  # fmt: skip
def score(
    plan: str, plot: str | None, trace: str | None, picture: str | None, *,
    layers: bool, full: bool, fit: bool, as_json: bool, **given: Any,
) -> bool:  # fmt: skip
    """Simulate one training step of a stored PLAN on a machine: its time, energy, communication and memory."""
    files = [file for file in (plot, trace, picture) if file is not None]
    if len({*files}) < len(files):
        raise click.UsageError("two of --plot, --trace and --picture name one file")
    with use("reports.terminal:progress_bar")(f"scoring {plan}"):
        ran = use("planning.replay:run_plan")(plan, **given)
    _write_step(ran, plot, trace, picture)
    wrote(picture, trace, plot)
    if layers:
        times = [row for row in use("studies.step:StepRows")(ran).phases if "time_s" in row]
        headline = use("reports.words:headline")(ran.plan)
        show(
            partial(use("reports.of.catalogue:times_document"), times, headline),
            lambda: times,
            as_json=as_json,
        )
    elif as_json:
        rows.print_data(ran.score.to_data())
    else:
        document = use("reports.of.score:score_document")(ran.score, ran.plan, ran)
        use("reports.terminal:show_document")(document, full=full)
    return rows.unfit(ran.score, fit=fit, as_data=as_json or layers)


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


@command(rows.PLAN, options=lambda: [
    Row(("--format", "form"), OUTPUT, "How to write it: {names}.", "NAME", names=lambda: use("reports.renderers:FORMS"),
        default="table"),
    rows.FULL, rows.AS_JSON,
])  # fmt: skip
def show_(plan: str, form: str, *, full: bool, as_json: bool) -> None:
    """Show a stored PLAN."""
    stored = use("plan.plan:read_plan")(plan)
    if as_json:
        rows.print_data(stored.to_json())
        return
    document = use("reports.of.plan:plan_document")(stored, full=full)
    if form == "table":
        rows.show_plan(document, len(stored.layers), full=full)
    else:
        rows.print_data(use("reports.renderers:rendered")(document, form, full=full))


@command(rows.PLAN, options=lambda: [
    rows.SAVE._replace(read=lambda text: None if text == "-" else values.writable(text), help="File of the page, as plan.html.  [default: stdout]"),
    *asked("convention", "hardware", convention=rows.counted("the plan's own, else moved")), rows.MODEL_FILE, rows.PROFILE_FILE,
])  # fmt: skip
def report(plan: str, output: str | None, **named: Any) -> None:
    """Write a report of a stored PLAN: one HTML page, readable without a network, on paper and on a phone."""
    with use("reports.terminal:progress_bar")(f"reporting {plan}"):
        found = use("reports.report:read_reported")(plan, **named)
        text = use("reports.report:report_page")(found, __version__)
    if output is None:
        rows.print_data(text)
    else:
        use("files.text:write_text")(Path(output), text)
    wrote(output)


@command(Argument("plans", nargs=-1, required=True), options=lambda: [
    rows.MODEL_FILE,
    rows.HARDWARE_FILE._replace(help="Hardware file to use if the name in the plans' scores is not found."),
    rows.PROFILE_FILE._replace(help="Measured times to use if the name in the plans' costs is not found."),
    Row(("--tolerance",), OUTPUT, "Relative difference up to which costs, bytes, seconds and joules are no drift, as 1e-6 "
        "or 1%. Choices are never tolerated.", "SHARE", values.read_share, default="0"),
    Row(("--update",), OUTPUT, "Rewrite the plans that drifted; exit 0.", read=bool), rows.AS_JSON,
])  # fmt: skip
def check(plans: tuple[str, ...], *, update: bool, as_json: bool, **named: Any) -> int:
    """Plan again from the requests in stored PLANS; exit 1 and list the differences on drift, 3 on an error.

    Every plan below a folder is checked; its other .json files are skipped.
    """
    findings, statuses, drifted = [], [], []
    for file, error in _plan_files(plans):
        with use("reports.terminal:progress_bar")(f"checking {file}"):
            verdict = error or _judge(file, **named)
        if isinstance(verdict, HyparError):
            findings.append(_refused(file, verdict))
            statuses.append(verdict.exit_status)
        else:
            findings.append(_judged(file, verdict, update=update, as_json=as_json))
            statuses.append(0 if verdict.ok or update else 1)
            drifted += [] if verdict.ok else [file]
    if as_json:
        rows.print_data(findings)
    elif drifted and not update:
        use("reports.terminal:write")(f"\n{_count(drifted, plans, len(findings))}")
    return max(statuses)


def _refused(file: str, error: HyparError) -> dict[str, Any]:
    """Say that a plan cannot be checked."""
    for line in str(error).splitlines():
        use("reports.terminal:note")(
            f"error: {line if line.startswith(file) else f'{file}: {line}'}", style=""
        )
    return {"plan": file, "ok": False, "error": str(error)}


def _judged(file: str, verdict: Any, *, update: bool, as_json: bool) -> dict[str, Any]:
    """Show the verdict on a plan, rewrite it if asked to, and return what JSON says."""
    note, rewritten = use("reports.terminal:note"), update and not verdict.ok
    document = None if as_json else use("reports.of.diff:verdict_document")(file, verdict)
    if document is not None and verdict.ok:
        use("reports.terminal:write")(document.title)  # a line, however long the file's name is
    elif document is not None:
        use("reports.terminal:show_document")(document)
    for text in verdict.notes:
        note(f"{file}: {text}")
    found: dict[str, Any] = use("reports.of.diff:verdict_data")(file, verdict)
    if rewritten:
        verdict.fresh.write(file)
        note(f"rewrote {file}")
    return {**found, "rewritten": True} if rewritten else found


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


@command(Argument("before"), Argument("after"), options=lambda: [rows.AS_JSON])
def diff(before: str, after: str, *, as_json: bool) -> None:
    """Show the layers and levels in which two stored plans differ, and the change in cost; always exit 0."""
    plans = tuple(map(use("plan.plan:read_plan"), (before, after)))
    changes = use("plan.diff:diff_plans")(*plans)
    if not (as_json or changes):
        use("reports.terminal:write")("the plans are equal")
        return
    document = partial(use("reports.of.diff:difference_document"), (before, after), plans, changes)
    show(document, lambda: [change.to_data() for change in changes], as_json=as_json)


rows.studies(
    verify=rows.Study(
        """Run a step of a stored PLAN on simulated devices; exit 1 if its numbers, bytes or results are wrong, 3 on an error.

        The numbers must be those of one device, every level must move the bytes that are counted there, and the plan's
        cost and score must be those of its choices.
        """,
        rows.PLAN, "studies.verify:verify_plan", "verifying {plan}", "verification", "verification_data", options=lambda: [
        rows.MODEL_FILE,
        *asked("batch", batch={"help": "Samples in the mini-batch.  [default: the plan's; with --shrink the fewest]"}),
        Row(("--shrink",), NETWORK, "Divide channels, image and mini-batch by powers of two; even cuts stay even.", read=bool),
        rows.HARDWARE_FILE,
        *asked("convention", convention={"names": lambda: use("sharding.conventions:CONVENTIONS"),
            "help": "What becomes of partial sums: {names}.  [default: as the plan's cost counts; moved for paper]"}),
        Row(("--count",), OUTPUT, "Count the bytes alone, and run nothing.", read=bool),
        rows.FULL._replace(help="Show each transfer, with a row for each level that it crosses."), rows.AS_JSON,
    ]),
)  # fmt: skip


@command(rows.PLAN, options=lambda: [
    Row(("--format",), OUTPUT, "Tool to write for: {names}.", "NAME", names=lambda: plugin_names("exports"), default="scale_sim"),
    Row(("-o", "--output"), OUTPUT, "File to write, - for stdout; for timeloop a folder, with a file for each problem.", "PATH",
        required=True),
    Row(("--layer",), NETWORK, "Layer to write, or a pattern, as conv*.  [default: all with weights]", "LAYER", default="*"),
    Row(("--phase",), NETWORK, "Phase to write: {names}.  [default: all that the format can express]", "NAME",
        names=lambda: use("network.training:PHASES")),
    rows.MODEL_FILE, rows.AS_JSON,
])  # fmt: skip
def export(plan: str, output: str, *, as_json: bool, **given: Any) -> None:
    """Write the piece of each layer that a device of a stored PLAN computes, for SCALE-Sim or Timeloop."""
    of, file = "reports.of.catalogue:", None if output == "-" else output
    if file is None and as_json:
        raise click.UsageError("--json prints what is written: it excludes -o -")
    with use("reports.terminal:progress_bar")(f"exporting {plan}"):
        found = use("reports.exports.base:export_plan")(plan, file, **given)
    if file is not None:
        wrote(file)
        show(partial(use(f"{of}plugin"), found), partial(use(f"{of}export_data"), found), as_json=as_json)
    elif not found.text:
        raise OptionError("output", f"found -, and {given['format']} has several files", "a folder")
    else:
        rows.print_data(found.text)
        for line in use(f"{of}left_out")(found):
            use("reports.terminal:note")(f"left out: {line}")
