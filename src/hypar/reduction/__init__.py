"""How a graph gets smaller while its optimum stays.

DeePa's two rules; the order in which elimination goes on where they end, and the folding; dominated choices.
"""

from hypar.reduction.dominance import Undominated, undominated
from hypar.reduction.folding import Folding, Taken, eliminated, identity, spread
from hypar.reduction.local_search import LocalSearch
from hypar.reduction.order import Step, Trace, steps, trace
from hypar.reduction.reparametrisation import Messages, work_of_round
from hypar.reduction.rules import Reduction, RuleStep, reduced

__all__ = [
    "Folding",
    "LocalSearch",
    "Messages",
    "Reduction",
    "RuleStep",
    "Step",
    "Taken",
    "Trace",
    "Undominated",
    "eliminated",
    "identity",
    "reduced",
    "spread",
    "steps",
    "trace",
    "undominated",
    "work_of_round",
]
