"""Listings of measured times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.reports.listings.base import make_table
from hypar.units import format_seconds

if TYPE_CHECKING:
    from hypar.machine.profiles import Profile
    from hypar.reports.columns import Sheet


def profile_table(profile: Profile) -> Sheet:
    """Return one row for each layer: the number of choices, the fastest and the slowest shard, and the whole layer."""
    table = make_table(["layer", "choices", "fastest", "", "slowest", "", "one device"], "lrlrlrr")
    for layer, times in profile.seconds.items():
        ends = (min(times, key=times.__getitem__), max(times, key=times.__getitem__))
        cells = [cell for word in ends for cell in (word, format_seconds(times[word]))]
        table.add_row(layer, str(len(times)), *cells, format_seconds(profile.of(layer, {})))
    return table


def profile_head(profile: Profile) -> str:
    """Describe the model, the level and the device of the measurements."""
    model = profile.model
    return f"{model.name}, batch {model.batch}, one level of {profile.ways} ways, on {profile.device}"
