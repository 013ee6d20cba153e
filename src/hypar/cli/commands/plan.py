"""``hypar plan``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hypar.cli.commands.base import (
    array_options,
    as_json,
    complete_model,
    convention_option,
    cost_option,
    fit_option,
    full_option,
    hardware_options,
    judged,
    named_machine,
    plot_option,
    profile_option,
    require_hardware,
    space_names,
    weight_option,
    writable,
)
from hypar.cli.options import MACHINE, NETWORK, OUTPUT, SEARCH, STAGES, Command, option, plugins
from hypar.errors import OptionError, shown, suggestion
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.network.build import load_model
from hypar.plan.chunks import CHUNKS
from hypar.plan.files import recorded
from hypar.plan.splits import FLUSHES
from hypar.planning.planner import plan_model
from hypar.planning.refusals import Asked, require_together
from hypar.planning.request import BEST, GRAPHS, SHARES
from hypar.reports.formats.base import unfit_line
from hypar.reports.formats.tabular.page import plan_page
from hypar.reports.terminal import Page, note, progress_bar, show, show_page, write, write_json
from hypar.studies.notes import baseline_scores, dp_time, notes

if TYPE_CHECKING:
    from hypar.machine.machine import Machine
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


def _modes() -> tuple[str, ...]:
    from hypar.costs.deepa import MODES  # noqa: PLC0415 (only for a help page or a completion)

    return MODES


def _read_stages(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | str | None:
    """Read a number, or ``best``."""
    if value is None or value == BEST:
        return value
    try:
        return int(value)
    except ValueError:
        hint = suggestion(value, [BEST])
        raise OptionError("stages", f"found {shown(value)}", "a whole number, or best", hint) from None


@click.command("plan", cls=Command)
@click.argument("model", shell_complete=complete_model)
@array_options
@option("--strategy", heading=SEARCH, names=plugins("strategies"), metavar="NAME",
              help="Named combination of a space, a cost and a search: {names}.  [default: hypar]")  # fmt: skip
@option(
    "--space",
    heading=SEARCH,
    metavar="DIMS",
    names=space_names,
    help="Choices to search: one or several of {names}; several dims at once (batch*height), other dims for some ops (conv:batch linear:mp), or a strategy's name.  [default: the strategy's]",
)
@cost_option
@weight_option
@convention_option("the strategy's for the cost, moved for the score")
@option(
    "--mode",
    heading=SEARCH,
    metavar="NAME",
    names=_modes,
    help="Mode of the cost deepa: exact, serial, or paper (as published).",
)
@profile_option
@option(
    "--graph",
    heading=NETWORK,
    metavar="NAME",
    names=lambda: GRAPHS,
    help="Graph of the network: contracted (without pools) or operators (with them).",
)
@option(
    "--search",
    heading=SEARCH,
    names=plugins("searches"),
    metavar="NAME",
    help="Search over the levels: {names}.  [default: the strategy's]",
)
@option(
    "--solver",
    heading=SEARCH,
    names=plugins("solvers"),
    metavar="NAME",
    help="Solver to use: {names}.  [default: the cheapest exact one]",
)
@option("--pin", "pins", heading=SEARCH, multiple=True, metavar="LAYER[@LEVEL]=CHOICE",
              help="Fix a choice, as fc1=mp or conv*@H2=batch; may be repeated.")  # fmt: skip
@hardware_options
@option("--shares", heading=MACHINE, metavar="NAME",
              names=lambda: SHARES, help="How device groups share the work: equal, linear, exact, or layers (per layer).  [default: the strategy's]")  # fmt: skip
@option("--stages", heading=STAGES, callback=_read_stages, names=lambda: [BEST], metavar="N|best",
              help="Number of stages of consecutive layers, each planned by itself; best: the fastest number over the outermost levels.")  # fmt: skip
@option("--schedule", heading=STAGES, names=lambda: FLUSHES, metavar="NAME", help="Order of the stages' work: 1f1b, gpipe or layer-block.  [default: 1f1b]")  # fmt: skip
@option("--microbatches", heading=STAGES, type=int, metavar="N",
              help="Microbatches in a mini-batch, with stages.  [default: the number of stages, or the next smaller divisor of the batch]")  # fmt: skip
@option(
    "--integral",
    heading=MACHINE,
    is_flag=True,
    help="Restrict the shares of device groups to whole elements.",
)
@option(
    "--refine",
    heading=SEARCH,
    is_flag=True,
    help="Improve the plan choice by choice by the engine's time; needs --hardware.",
)
@option(
    "--chunks",
    heading=STAGES,
    names=lambda: CHUNKS,
    metavar="CHUNKS",
    help="Exchange gradients in chunks: best, layers (one chunk per layer), one, or a number of layers; needs --hardware.",
)
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
    network, machine = load_model(model), named_machine(hardware, changes)
    if explained is not None:
        sized = {name: asked[name] for name in ("stages", "levels", "array")}
        require_together(Asked(machine=machine, explain=True, **sized))
    if asked["profile"] is not None:
        from hypar.machine.profiles import read_profile  # noqa: PLC0415 (only where it is asked for)

        asked["profile"] = read_profile(asked["profile"])
    with progress_bar(f"planning {network.name}") as progress:
        plan = plan_model(network, hardware=machine, progress=progress, **asked)
    if output is not None:
        used = {"model": model, "hardware": hardware, "profile": ctx.params["profile"]}
        plan = recorded(plan, output, **used)
        plan.write(output)
        note(f"wrote {output}")
    if plot is not None:
        plan.plot(plot)
        note(f"wrote {plot}")
    scores = baseline_scores(plan, network, machine, asked["profile"])
    said = list(notes(plan, network, machine, asked["profile"], scores))
    page = (
        None if as_json else _page(plan, network, machine, full=full, said=said, dp_s=dp_time(plan, scores))
    )
    with judged([unfit_line(plan.score)], fit=fit, aside=as_json):
        if explained is not None:
            explain(plan, network, page=page, layer=explained, machine=machine, profile=asked["profile"])
        elif page is not None:
            show_page(page)
        else:
            write(plan.to_json())
            for line in said:
                note(line)
