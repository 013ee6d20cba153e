"""The answer: what a step costs, against data parallelism and against the best strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.reports.formats.base import headline, on_machine, unfit_line
from hypar.reports.page.blocks import track
from hypar.reports.page.html import Markup, markup, tag
from hypar.reports.page.numbers import (
    LEAST_SHARE,
    amount,
    faster,
    joules,
    num_bytes,
    percent,
    prose,
    ratio,
    seconds,
)

if TYPE_CHECKING:
    from hypar.plan.score import Score
    from hypar.reports.page.html import Content
    from hypar.studies.report.gather import Gathered
    from hypar.studies.report.strategies import Rival

LINKS = (
    ("plan", "Plan"),
    ("costs", "Where the step goes"),
    ("step", "Timeline"),
    ("memory", "Memory"),
    ("strategies", "Strategies"),
    ("why", "Why this cut"),
    ("claim", "Claim"),
    ("machine", "Machine"),
    ("again", "Make it again"),
)
"""The sections below, in their order."""

TWICE = 2.0
"""The ratio from which a longer time is said to be so many times as long."""


def title(found: Gathered) -> str:
    """Return the answer in one line."""
    plan, score = found.plan, found.score
    if score is None:
        return f"{plan.model.name} over {plan.num_devices} devices: {cost(found)} of {plan.cost.name} a step"
    devices = f"{plan.num_devices} devices"
    return f"{plan.model.name} {on_machine(score)}, {devices}: {seconds(score.time_s)} a step"


def cost(found: Gathered) -> str:
    """Return the plan's cost with its unit, counted as those of the other strategies are."""
    return amount(found.rivals.own.cost, found.plan.cost.unit)


def section(found: Gathered) -> Markup:
    """Return the head of the page."""
    unfit = unfit_line(found.score)
    return tag(
        "header",
        tag("p", headline(found.plan), class_="eyebrow"),
        tag("h1", title(found)),
        tag("p", prose(unfit), class_="alarm") if unfit else None,
        tag("p", *_lead(found), class_="lead"),
        tag("dl", *_tiles(found), class_="tiles"),
        tag("nav", *(tag("a", text, href=f"#{name}") for name, text in LINKS), aria_label="Sections"),
        id="headline",
    )


def _lead(found: Gathered) -> list[Content]:
    """Say how the plan compares with data parallelism, and with the best strategy."""
    base, best = found.rivals.baseline, found.rivals.best
    if base is None or best is None:
        return [f"Not compared with data parallelism: {found.rivals.refused or 'its search does not fit'}."]
    own, first, worth = _worth(found, None), _worth(found, base), _worth(found, best)
    if found.score is None:
        gain = (
            f"{ratio(first, own)} less than data parallelism"
            if own < first
            else "no less than data parallelism"
        )
        against: list[Content] = ["A step costs ", tag("b", gain), ". "]
    else:
        against = ["The step is ", tag("b", f"{faster(first, own)} than data parallelism"), ". "]
        if faster(first, own) == "as fast":
            against = ["The step is ", tag("b", "as fast as data parallelism"), ". "]
    if best.this or own - worth < LEAST_SHARE * own:
        return [*against, f"No strategy compared is noticeably {'faster' if found.score else 'cheaper'}."]
    more = own / worth
    longer = f"{ratio(own, worth)} as {{}}" if more >= TWICE else f"{percent(more - 1)} {{}}"
    if found.score is None:
        text = longer.format("much" if more >= TWICE else "more")
        return [
            *against,
            "Of the strategies compared, ",
            tag("b", best.name),
            f" costs less: {_shown(found, worth)}; this plan costs {text}.",
        ]
    text = longer.format("long" if more >= TWICE else "longer")
    fits = "" if best.score is None or best.score.fits else ", though it does not fit"
    return [
        *against, "Of the strategies compared, ", tag("b", best.name),
        f" is faster: {seconds(worth)}{fits}; this plan takes {text}.",
    ]  # fmt: skip


def _worth(found: Gathered, row: Rival | None) -> float:
    """Return the time of a strategy, or its cost without a machine; the plan's own for None."""
    shown = found.rivals.own if row is None else row
    return shown.cost if shown.score is None else shown.score.time_s


def _shown(found: Gathered, worth: float) -> str:
    return amount(worth, found.plan.cost.unit)


def _tiles(found: Gathered) -> list[Markup]:
    """Return the four figures, each against data parallelism."""
    base = found.rivals.baseline
    first = base.score if base else None
    score = found.score
    if score is None:
        unknown = "the plan names no machine"
        worth = _worth(found, base) if base else 0.0
        against = _against(_worth(found, None), worth, _shown(found, worth)) if base else None
        return [
            _tile(f"Cost of a step ({found.plan.cost.name})", cost(found), against),
            *(_tile(name, "not known", unknown) for name in ("A step takes", "Energy", "Memory of a device")),
        ]
    energy = "the machine\u2019s file gives no energies"
    time_s, energy_j, received = (
        (first.time_s, first.energy_j, first.communication_bytes) if first else (None,) * 3
    )
    return [
        _tile("A step takes", seconds(score.time_s), _against(score.time_s, time_s, seconds(time_s))),
        _tile("Energy", "not known", energy)
        if score.energy_j is None
        else _tile("Energy", joules(score.energy_j), _against(score.energy_j, energy_j, joules(energy_j))),
        _tile(
            "Devices receive",
            num_bytes(score.communication_bytes),
            _against(score.communication_bytes, received, num_bytes(received)),
        ),
        _tile("Memory of a device", num_bytes(score.memory_bytes), _filled(score)),
    ]


def _tile(name: str, big: str, below: Content) -> Markup:
    return tag("div", tag("dt", name), tag("dd", big, class_="big"), " ", tag("dd", below, class_="sub"))


def _against(own: float, base: float | None, text: str) -> Markup | None:
    """Return a bar of a number against that of data parallelism."""
    if not base:
        return None
    return markup(track(own / base), f"{text} with dp: {ratio(base, own)}")


def _filled(score: Score) -> Content:
    """Return a bar of the memory against the capacity."""
    if not score.capacity_bytes:
        return "the machine\u2019s file gives no capacity"
    share = score.memory_bytes / score.capacity_bytes
    fits = "fits" if score.fits else "does not fit"
    return markup(track(share), f"{percent(share)} of {num_bytes(score.capacity_bytes)}: {fits}")
