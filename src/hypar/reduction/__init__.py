"""How a graph gets smaller while its optimum stays.

DeePa's two rules; the order in which elimination goes on where they end, and the folding; dominated choices.
"""

from hypar.reduction.dominance import Undominated, undominated
from hypar.reduction.folding import Folding, Taken, identity
from hypar.reduction.order import Step, Trace, steps, trace
from hypar.reduction.rules import Reduction, RuleStep, reduced

__all__ = [
    "Folding",
    "Reduction",
    "RuleStep",
    "Step",
    "Taken",
    "Trace",
    "Undominated",
    "identity",
    "reduced",
    "steps",
    "trace",
    "undominated",
]
