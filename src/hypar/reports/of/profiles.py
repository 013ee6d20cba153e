"""Documents of measured times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.document import Column, Document, Table

if TYPE_CHECKING:
    from hypar.machine.profiles import Profile

_LAYERS = (
    Column(key="layer"),
    Column(key="choices", unit="whole"),
    Column(key="fastest"),
    Column(key="fastest_s", head="", unit="seconds"),
    Column(key="slowest"),
    Column(key="slowest_s", head="", unit="seconds"),
    Column(key="one_device_s", head="one device", unit="seconds"),
)


def document_of(profile: Profile) -> Document:
    """Return one row for each layer: the number of choices, the fastest and the slowest shard, and the whole layer."""
    rows = []
    for layer, times in profile.seconds.items():
        ends = {"fastest": min(times, key=times.__getitem__), "slowest": max(times, key=times.__getitem__)}
        row = {"layer": layer, "choices": len(times), **ends, "one_device_s": profile.of(layer, {})}
        rows.append(row | {f"{end}_s": times[choice] for end, choice in ends.items()})
    model = profile.model
    asked = f"batch {model.batch}, one level of {profile.ways} ways, on {profile.device}"
    return Document(title=f"{model.name}, {asked}", parts=(Table(_LAYERS, rows),))


plugin = document_of
