"""Planning with nothing known from before, as the first plan of a process does it."""

from __future__ import annotations

import functools
import sys

from hypar.sharding.grids import reshard as reshards

KEPT = ("hypar.registry.", "hypar.topologies.", "hypar.machine.routing.", "hypar.machine.machine._links")
"""What belongs to the program and to the machine: plug-ins that are imported, routes and links."""


def forget() -> None:
    """Empty the caches of hypar's modules but those of ``KEPT``."""
    for name, module in [*sys.modules.items()]:
        if name.split(".")[0] == "hypar":
            for found in [*vars(module).values()]:
                # A module also has those that it imports: each is kept or emptied by where it is made.
                if isinstance(found, functools._lru_cache_wrapper) and not _kept(found):
                    found.cache_clear()
    reshards._KNOWN.clear()


def _kept(cached: functools._lru_cache_wrapper[object]) -> bool:
    """Whether a cached function is one of ``KEPT``."""
    return f"{cached.__module__}.{cached.__name__}".startswith(KEPT)
