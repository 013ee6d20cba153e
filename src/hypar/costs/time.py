"""Time: seconds of one training step on a machine, one task after another.

The transfers of a level take as long as the machine's links of that level say; computation is counted at the
innermost level, where the shards of every device are known. The sum over levels is the engine's time on a machine
without overlap whose levels reduce one after another.
"""

from __future__ import annotations

from hypar.costs.base import Cost, Time

plugin: Cost = Time()
