"""How a graph gets smaller while its optimum stays: DeePa's two rules, and the order of elimination."""

from hypar.reduction.order import Step, Trace, steps, trace
from hypar.reduction.rules import Reduction, RuleStep, reduced

__all__ = ["Reduction", "RuleStep", "Step", "Trace", "reduced", "steps", "trace"]
