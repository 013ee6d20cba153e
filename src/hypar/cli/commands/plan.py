"""``hypar plan``."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from hypar.cli.commands.base import (
    array_options,
    as_json,
    complete_model,
    complete_plugin,
    fit_option,
    full_option,
    hardware_options,
    judged,
    named_machine,
    profile_option,
    require_hardware,
    writable,
)
from hypar.errors import OptionError, shown
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.network.build import load_model
from hypar.planning.planner import plan_model
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


def _read_stages(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | str | None:
    """Read a number, or ``best``."""
    if value is None or value == "best":
        return value
    try:
        return int(value)
    except ValueError:
        raise OptionError("stages", f"found {shown(value)}", "a whole number, or best") from None


@click.command("plan")
@click.argument("model", shell_complete=complete_model)
@array_options
@click.option("--strategy", shell_complete=complete_plugin("strategies"), metavar="NAME",
              help="Named combination of a space, a cost and a search.  [default: hypar]")  # fmt: skip
@click.option(
    "--space",
    metavar="DIMS",
    help="Choices to search: dims (batch,out_channels), several at once (batch*height), per op (conv:batch linear:mp), all, or a strategy's name.  [default: the strategy's]",
)
@click.option(
    "--cost",
    shell_complete=complete_plugin("costs"),
    metavar="NAME",
    help="Cost to minimise.  [default: the strategy's]",
)
@click.option(
    "--mode", metavar="NAME", help="Mode of the cost deepa: exact, serial, or paper (as published)."
)
@profile_option
@click.option("--graph", metavar="NAME", help="operators (with pools) or contracted (without them).")
@click.option("--search", shell_complete=complete_plugin("searches"), metavar="NAME", help="greedy or joint.")
@click.option(
    "--solver",
    shell_complete=complete_plugin("solvers"),
    metavar="NAME",
    help="Solver to use.  [default: the cheapest exact one]",
)
@click.option("--pin", "pins", multiple=True, metavar="LAYER[@LEVEL]=CHOICE",
              help="Fix a choice, as fc1=mp or conv*@H2=batch; may be repeated.")  # fmt: skip
@hardware_options
@click.option("--shares", metavar="NAME",
              help="How device groups share the work: equal, linear, exact, or layers (per layer).  [default: the strategy's]")  # fmt: skip
@click.option("--stages", callback=_read_stages, metavar="N|best",
              help="Number of stages of consecutive layers, each planned by itself; best: the fastest number over the outermost levels.")  # fmt: skip
@click.option("--schedule", metavar="NAME", help="Order of the stages' work: 1f1b, gpipe or layer-block.  [default: 1f1b]")  # fmt: skip
@click.option("--microbatches", type=int, metavar="N",
              help="Microbatches in a mini-batch, with stages.  [default: the number of stages, or the next smaller divisor of the batch]")  # fmt: skip
@click.option("--integral", is_flag=True, help="Restrict the shares of device groups to whole elements.")
@click.option(
    "--refine", is_flag=True, help="Improve the plan choice by choice by the engine's time; needs --hardware."
)
@click.option(
    "--chunks",
    metavar="CHUNKS",
    help="Exchange gradients in chunks: best, layers (one chunk per layer), one, or a number of layers; needs --hardware.",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), callback=writable, help="Write the plan to a file."
)
@click.option("--explain", "explained", is_flag=False, flag_value="", metavar="[LAYER]",
              help="Show every elimination and, for a layer, the costs of its other choices.")  # fmt: skip
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
    explained: str | None,
    full: bool,
    fit: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Choose how each layer of MODEL is cut at each level of the array."""
    require_hardware(ctx, fit=fit)
    if explained is not None and asked["stages"] not in {None, 1}:
        raise OptionError("explain", "given together with stages", "one of the two")
    network, machine = load_model(model), named_machine(hardware, changes)
    if explained is not None and isinstance(machine, HeterogeneousMachine):
        found = f"the devices of hardware {machine.name!r} are heterogeneous"
        raise OptionError("explain", found, "a machine of identical devices")
    if asked["profile"] is not None:
        from hypar.machine.profiles import read_profile  # noqa: PLC0415 (only where it is asked for)

        asked["profile"] = read_profile(asked["profile"])
    long = {"refining": asked["refine"], "trying stages": asked["stages"] == "best"}
    what = next((name for name, holds in long.items() if holds), None)
    with progress_bar(what) if what else nullcontext(lambda *_: None) as progress:
        plan = plan_model(network, hardware=machine, progress=progress, **asked)
    if output is not None:
        plan.write(output)
        note(f"wrote {output}")
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
