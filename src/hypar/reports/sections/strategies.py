"""The strategies side by side, the fastest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.reports.page.blocks import bar, cell, details, head, note, number, region, row, table
from hypar.reports.page.blocks import section as section_of
from hypar.reports.page.html import Markup, tag
from hypar.reports.page.numbers import DASH, amount, joules, num_bytes, prose, ratio, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.studies.report.gather import Gathered
    from hypar.studies.report.strategies import Rival

BREAK = 5.0
"""The ratio to the next from which the longest bar is broken."""


def section(found: Gathered) -> Markup:
    """Return the strategies for the same devices."""
    rows, scored = found.rivals.rows, found.score is not None
    sorted_by = "The fastest first" if scored else "The cheapest first"
    limit, broken = _limit([worth for row_of in rows if (worth := _worth(row_of))])
    text = f"{sorted_by}. Gain is dp\u2019s {'time' if scored else 'cost'} over its own"
    text += "; a broken bar is longer than drawn." if broken else "."
    heads = [
        head("strategy"),
        head("", "hide-s wide"),
        head("time" if scored else found.plan.cost.name, "r"),
        head("gain", "r"),
    ]
    if scored:
        heads += [head(each, "r") for each in ("energy", "received", "memory of a device")]
    base = _worth(found.rivals.baseline) if found.rivals.baseline else None
    refused = note(f"No strategy could be compared: {found.rivals.refused}") if found.rivals.refused else None
    return section_of(
        "strategies",
        "Strategies side by side",
        note(text),
        region(
            "Strategies",
            table(heads, (_row(each, base, limit, scored=scored) for each in rows), class_="full"),
        ),
        refused,
        details("What each is optimal over", tag("dl", *(part for each in rows for part in _claim(each)))),
    )


def _limit(worths: Sequence[float]) -> tuple[float, bool]:
    """Return the longest bar that is drawn whole, and whether one is broken."""
    ordered = sorted(worths, reverse=True)
    shown = [worth for worth in ordered if worth * BREAK > ordered[0]] if ordered else []
    if len(shown) == 1 and len(ordered) > 1:
        return ordered[1] * 1.15, True
    return (ordered[0] if ordered else 1.0), False


def _worth(row_of: Rival) -> float:
    """Return a strategy's time, or its cost without a machine; 0 without a plan."""
    if row_of.score is not None:
        return row_of.score.time_s
    return row_of.cost


def _row(each: Rival, base: float | None, limit: float, *, scored: bool) -> Markup:
    """Return the row of a strategy."""
    own, score = _worth(each), each.score
    flags = [" ", tag("span", "this plan", class_="flag")] if each.this else []
    if score is not None and not score.fits:
        flags += [" ", tag("span", "\u2715 does not fit", class_="flag")]
    if each.plan is None:
        flags += [" ", tag("span", "search does not fit", class_="flag")]
    shown = seconds(own) if scored else amount(own, each.plan.cost.unit) if each.plan else DASH
    cells = [
        tag("th", tag("span", each.name, class_="m"), *flags, scope="row"),
        cell(
            bar(own / limit, "ink" if each.this else "backward", broken=own > limit) if own else "",
            "hide-s wide",
        ),
        number(shown if each.plan else DASH),
        number(ratio(base, own) if base and own else DASH),
    ]
    if scored:
        cells += [
            number(DASH if score is None else joules(score.energy_j)),
            number(DASH if score is None else num_bytes(score.communication_bytes)),
            number(DASH if score is None else num_bytes(score.memory_bytes)),
        ]
    return row(*cells, class_="this" if each.this else None)


def _claim(each: Rival) -> list[Markup]:
    return [tag("dt", each.name, class_="m"), tag("dd", prose(each.note))]
