"""How a graph gets smaller while its optimum stays: DeePa's two rules, the order of elimination, the folding."""

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
    "identity",
    "reduced",
    "steps",
    "trace",
]
