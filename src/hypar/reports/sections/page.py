"""The page of a plan: one file without scripts, links to other hosts, or anything to load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.reports.page.css import page_style
from hypar.reports.page.html import Markup, tag
from hypar.reports.sections import (
    again,
    claim,
    costs,
    grid,
    headline,
    machine,
    memory,
    step,
    strategies,
    why,
)

if TYPE_CHECKING:
    from hypar.studies.report.gather import Gathered

SECTIONS = (headline, grid, costs, step, memory, strategies, why, claim, machine)


def page(found: Gathered, version: str) -> str:
    """Return the report of a plan.

    Args:
        found: what it shows.
        version: the version of hypar that writes it.
    """
    top = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", headline.title(found)),
        tag("style", Markup("\n" + page_style())),
    )
    sections = [each.section(found) for each in SECTIONS]
    foot = tag("footer", f"Written by hypar {version}. Sizes in decimal prefixes: 1 MB is a million bytes.")
    main = tag("main", *sections, again.section(found, version), foot)
    return Markup("<!DOCTYPE html>\n") + tag("html", top, tag("body", main, class_="hy"), lang="en") + "\n"
