"""``hypar plan``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hypar.activity import keeping_interrupted
from hypar.cli.commands.base import (
    as_json,
    complete_model,
    exit_if_unfit,
    fit_option,
    full_option,
    measured_or_named,
    plot_option,
    require_hardware,
    writable,
)
from hypar.cli.options import OUTPUT, Command, option
from hypar.cli.planning import planning_options
from hypar.machine.step_times import is_step_table
from hypar.network.build import load_model
from hypar.plan.files import recorded
from hypar.plan.request import Request
from hypar.planning.planner import plan_model
from hypar.planning.refusals import Asked, require_together
from hypar.reports.of.plan import planned_document
from hypar.reports.terminal import note, progress_bar, show_document, show_shortened, write, write_json
from hypar.reports.words import MOST_ROWS
from hypar.studies.remarks import remarks

if TYPE_CHECKING:
    from hypar.document import Document
    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan


def explain(plan: Plan, network: LayerGraph, document: Document | None, **named: Any) -> None:
    """Print the reasons for a plan beside its document, or as JSON without one; ``named`` holds arguments of ``explain_plan``."""
    from hypar.reports.of.explanation import document_of, explanation_data  # noqa: PLC0415 (only where it is asked for)
    from hypar.studies.explain import explain_plan  # noqa: PLC0415

    found = explain_plan(plan, network, **named)
    if document is None:
        write_json({"plan": found.plan.to_data(), "explanation": explanation_data(found)})
        return
    both = [document, document_of(found)]
    first, last = both[::-1] if found.explained else both
    show_document(first)
    write("")
    show_document(last)


def _measured(plan: Plan, profile: str) -> tuple[Machine | HeterogeneousMachine | None, Profile | None]:
    """Return the machine and the measured times that a plan was made with."""
    from hypar.planning.sources import scored_on, times_of  # noqa: PLC0415 (only where times are named)

    return scored_on(plan), None if is_step_table(profile) else times_of(plan)


@click.command("plan", cls=Command)
@click.argument("model", shell_complete=complete_model)
@planning_options()
@option(
    "-o",
    "--output",
    heading=OUTPUT,
    type=click.Path(dir_okay=False),
    callback=writable,
    help="Write the plan to a file.",
)
@plot_option
@option("--explain", "explained", heading=OUTPUT, is_flag=False, flag_value="", metavar="[LAYER[@LEVEL]]",
              help="Show every elimination and, for a layer, the costs of its other choices, as fc1 or fc1@H2.")  # fmt: skip
@full_option
@fit_option
@as_json
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    hardware: str | None,
    changes: dict[str, Any],
    output: str | None,
    plot: str | None,
    explained: str | None,
    full: bool,
    fit: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Choose how each layer of MODEL is cut at each level of the array."""
    require_hardware(ctx, fit=fit)
    network, machine = load_model(model), measured_or_named(hardware, changes, asked["profile"])
    if explained is not None:
        sized = {name: asked[name] for name in ("stages", "starts", "levels", "array")}
        require_together(Asked.whose(Request(hardware=machine, **sized), explain=True))
    with progress_bar(f"planning {network.name}") as progress, keeping_interrupted():
        plan = plan_model(network, hardware=machine, progress=progress, **asked)
    profile = asked["profile"]
    if profile is not None:
        machine, profile = _measured(plan, profile)
    if output is not None:
        used = {"model": model, "hardware": hardware, "profile": ctx.params["profile"]}
        plan = recorded(plan, output, **used)
        plan.write(output)
        note(f"wrote {output}")
    if plot is not None:
        plan.plot(plot)
        note(f"wrote {plot}")
    document = None if as_json else planned_document(plan, network, machine, profile, full=full)
    if explained is not None:
        explain(plan, network, document, layer=explained, machine=machine, profile=profile)
    elif document is not None:
        show_shortened(document, full=full, folded=len(plan.layers) > MOST_ROWS)
    else:
        write(plan.to_json(), document=True)
        for remark in remarks(plan, network, machine, profile):
            note(f"{remark.label}: {remark.text}" if remark.label else remark.text)
    exit_if_unfit(plan.score, fit=fit, as_data=as_json)
    if plan.limits is not None and plan.limits.cut == "interrupt":
        raise KeyboardInterrupt
