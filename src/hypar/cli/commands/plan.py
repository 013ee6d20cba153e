"""``hypar plan``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hypar.activity import keeping_interrupted
from hypar.cli.commands.base import (
    as_json,
    complete_model,
    fit_option,
    full_option,
    judged,
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
from hypar.reports.formats.base import unfit_line
from hypar.reports.formats.tabular.page import plan_page
from hypar.reports.terminal import Page, note, progress_bar, show, show_page, write, write_json
from hypar.studies.notes import baseline_scores, dp_time, notes

if TYPE_CHECKING:
    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan


def explain(plan: Plan, network: LayerGraph, *, page: Page | None, **named: Any) -> None:
    """Print the reasons for a plan below its page, or as JSON without one; ``named`` holds arguments of ``explain_plan``."""
    import hypar.reports.listings.explanations as listing  # noqa: PLC0415 (only where it is asked for)
    from hypar.studies.explanation import explain_plan  # noqa: PLC0415

    found = explain_plan(plan, network, **named)
    if page is None:
        write_json({"plan": found.plan.to_data(), "explanation": listing.explanation_data(found)})
        return
    show_page(page)
    for one in found.explained:
        heading, *below = listing.explanation_notes(found, one)
        write("")
        show(listing.alternatives_table(found, one), above=heading, below=below)
    write("")
    show(listing.eliminations_table(found), below=[listing.rules_line(found)])


def _measured(plan: Plan, profile: str) -> tuple[Machine | HeterogeneousMachine | None, Profile | None]:
    """Return the machine and the measured times that a plan was made with."""
    from hypar.planning.sources import scored_on, times_of  # noqa: PLC0415 (only where times are named)

    return scored_on(plan), None if is_step_table(profile) else times_of(plan)


def _page(
    plan: Plan,
    network: LayerGraph,
    machine: Machine | HeterogeneousMachine | None,
    **shown: Any,
) -> Page:
    """Return the plan's page, with the bytes and the time of each layer where the plan has a machine."""
    if machine is None:
        return plan_page(plan, **shown)
    from hypar.planning.replay import run_plan  # noqa: PLC0415 (only where a machine is named)

    return plan_page(plan, ran=run_plan(plan, hardware=machine, model=network), **shown)


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
    scores = baseline_scores(plan, network, machine, profile)
    said = list(notes(plan, network, machine, profile, scores))
    page = (
        None if as_json else _page(plan, network, machine, full=full, said=said, dp_s=dp_time(plan, scores))
    )
    with judged([unfit_line(plan.score)], fit=fit, aside=as_json):
        if explained is not None:
            explain(plan, network, page=page, layer=explained, machine=machine, profile=profile)
        elif page is not None:
            show_page(page)
        else:
            write(plan.to_json(), document=True)
            for line in said:
                note(line)
    if plan.limits is not None and plan.limits.cut == "interrupt":
        raise KeyboardInterrupt
