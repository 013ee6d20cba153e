"""AccPar's time: operations at a device's speed and elements at its bandwidth.

Source: AccPar (HPCA 2020): ``E_cp = a C / c_i`` for the three phases of a layer, ``E_cm = A(T) / b_i``. At an uneven
split the slowest device group decides. At a level of identical devices shares are equal, and ``b_i`` is a device's
bandwidth on the machine's links of that level; computation is counted once, at the innermost level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hypar.costs.base import link_rates, machine_setting
from hypar.machine.rates import time_rates
from hypar.sharding.conventions import PAPER, require_convention
from hypar.sharding.rates import between_costs, inside_costs

if TYPE_CHECKING:
    from hypar.costs.base import Cost, GroupRates, Items
    from hypar.machine.heterogeneous import DeviceGroup
    from hypar.machine.machine import Machine
    from hypar.network.contraction import CutLayer, Tensor
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options
    from hypar.sharding.rates import Rates
    from hypar.solve.edge import Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class AccPar:
    """Seconds of a step.

    Attributes:
        machine: the machine that the step runs on.
        convention: the convention by which transfers are counted, one of ``BY_LEVELS``.
    """

    unit: ClassVar[str] = "seconds"
    counts_work: ClassVar[bool] = True
    direct: ClassVar[bool] = False
    slowest: ClassVar[bool] = True
    machine: Machine | None = None
    convention: str = PAPER

    def __post_init__(self) -> None:
        """Check the convention."""
        require_convention(self.convention)

    def layer_costs(self, level: Level, layer: CutLayer, options: Options, sizes: LocalSizes) -> Items:
        """Return the cost of adding up partial sums and, at the innermost level, of a device's operations."""
        return {
            **self.inside(level, layer, options, sizes),
            **self.work(level, layer, options, sizes),
        }

    def inside(self, level: Level, layer: CutLayer, options: Options, sizes: LocalSizes) -> Items:
        """Return the seconds of adding up partial sums."""
        return inside_costs(layer, options, sizes, level.ways, self.rates(level)[0])

    def work(self, level: Level, layer: CutLayer, options: Options, sizes: LocalSizes) -> Items:
        """Return the seconds of a device's operations, at the innermost level."""
        if not (level.innermost and layer.timed and self.machine is not None):
            return {}
        left = sizes.divided(layer.einsum, options, level.ways)
        own = left.of_dims.prod(axis=0)
        flop = layer.einsum.step_flop
        return {"compute": (flop / self.machine.flop_per_s * own).reshape(-1, len(options))}

    def tensor_costs(
        self,
        level: Level,
        tensor: Tensor,
        ends: tuple[CutLayer, CutLayer],
        options: tuple[Options, Options],
        sizes: LocalSizes,
    ) -> Costs:
        """Return the cost of F from producer to consumer and of E from consumer to producer."""
        return between_costs(tensor, ends, options, sizes, level.ways, self.rates(level)[1])

    def group_rates(self, group: DeviceGroup, element_bytes: int) -> GroupRates:
        """Return the rates of a device group whose devices all receive, and all compute, at the same time."""
        return link_rates(group, element_bytes)

    def rates(self, level: Level) -> tuple[Rates, Rates]:
        """Return the seconds of an element at the bandwidth of a device on the links of a level."""
        rates = time_rates(machine_setting("accpar", self.machine, level, "sgd"), level.index)
        return rates, rates


plugin: Cost = AccPar()
