"""The commands that make the plan and the page again, and what they start from."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from hypar.reports.page.blocks import section as section_of
from hypar.reports.page.html import Markup, tag

if TYPE_CHECKING:
    from hypar.studies.report.gather import Gathered

PAGE = "plan.html"


def section(found: Gathered, version: str) -> Markup:
    """Return the commands and the digests."""
    lines = [
        found.command,
        shlex.join(["hypar", "report", found.file, *found.options, "-o", PAGE]),
        shlex.join(["hypar", "check", found.file]),
    ]
    digests = [("model", found.plan.model.name, found.plan.model.digest)]
    if found.score is not None:
        digests.append(("machine", found.score.hardware, found.score.hardware_digest))
    if found.plan.profile is not None:
        digests.append(("profile", found.plan.profile.name, found.plan.profile.digest))
    named = (f"{kind} {name} {digest}" for kind, name, digest in digests)
    return section_of(
        "again",
        "Make it again",
        tag("pre", "\n".join(lines), tabindex=0),
        tag("p", f"{', '.join(named)}, hypar {version}", class_="note any"),
    )
