"""The memory of a process, of which a test starts one anew."""

import re
import resource
from pathlib import Path


def own_peak() -> float:
    """Return the most megabytes of this program; ``ru_maxrss`` is no less than that of the process that has started it."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text(encoding="utf-8")) if status.exists() else None
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if found is None else int(found[1])
    return kilobytes / 1024
