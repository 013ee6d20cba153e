"""Time: seconds of one training step on a machine, one thing after another.

What a level's choices make move takes as long as the machine's links of that level say; computation is
counted at the innermost level, where the pieces of every device are known. The sum over levels is the
engine's time on a machine without overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hypar.errors import OptionError
from hypar.exchange import Rates, between_costs, inside_costs
from hypar.schedule.step import Setting
from hypar.words import COLLECTIVES, CUTTABLE

if TYPE_CHECKING:
    from hypar.costs.base import Cost
    from hypar.graph import CutLayer, Tensor
    from hypar.hardware import Machine
    from hypar.levels import Level, LocalSizes, Options
    from hypar.ops.base import Einsum
    from hypar.problem import Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """Seconds a step.

    Attributes:
        machine: what the step runs on.
        optimizer: whose updates are counted.
    """

    unit: ClassVar[str] = "seconds"
    counts_work: ClassVar[bool] = True
    direct: ClassVar[bool] = False
    machine: Machine | None = None
    optimizer: str = "sgd"

    def layer_costs(self, level: Level, layer: CutLayer, options: Options, sizes: LocalSizes) -> Costs:
        """Adding up what a choice leaves partial; at the innermost level also the computation of a device."""
        total = inside_costs(layer, options, sizes, level.ways, self._rates(level))
        if level.innermost and layer.weighted:
            left = sizes.divided(layer.einsum, options, level.ways)
            total += self._computation(level, layer.einsum, left).reshape(total.shape)
        return total

    def tensor_costs(
        self,
        level: Level,
        tensor: Tensor,
        ends: tuple[CutLayer, CutLayer],
        options: tuple[Options, Options],
        sizes: LocalSizes,
    ) -> Costs:
        """F from producer to consumer, E from consumer to producer."""
        return between_costs(tensor, ends, options, sizes, level.ways, self._rates(level))

    def _setting(self, level: Level) -> Setting:
        """The machine, or why there is none."""
        if self.machine is None:
            raise OptionError("cost 'time'", "no machine is named", "one, as --hardware hmc")
        return Setting(
            machine=self.machine,
            array=level.array,
            element_bytes=level.element_bytes,
            optimizer=self.optimizer,
        )

    def _rates(self, level: Level) -> Rates:
        """Seconds for each element that a group's devices receive; its parts receive at the same time."""
        return _rates(self._setting(level), level.index)

    def _computation(self, level: Level, einsum: Einsum, left: LocalSizes) -> Costs:
        """The three phases and the update on one device, for each tuple; equal pieces are computed once."""
        setting = self._setting(level)
        pieces = np.rint(1 / np.stack([left.of(dim) for dim in CUTTABLE], axis=1)).astype(np.int64)
        distinct, which = np.unique(pieces, axis=0, return_inverse=True)
        seconds = []
        for row in distinct.tolist():
            time = setting.machine.layer_time(einsum, tuple(row), level.element_bytes)
            seconds.append(sum(time.seconds.values()) + setting.update_seconds(time))
        return np.array(seconds)[which.reshape(-1)]


@lru_cache(maxsize=256)
def _rates(setting: Setting, index: int) -> Rates:
    """The rates of one level of an array on a machine."""
    link = setting.machine.links(setting.array)[index]
    each = tuple(link.seconds_per_byte[kind] * setting.element_bytes for kind in COLLECTIVES)
    return Rates(each, tuple(link.latency_s[kind] for kind in COLLECTIVES), together=True)


plugin: Cost = Time()
