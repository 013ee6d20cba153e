"""How a graph gets smaller while its optimum stays.

DeePa's two rules; the order in which elimination goes on where they end, and the folding; dominated choices.
"""

from hypar.reduction.buckets import Bucket, Part, buckets
from hypar.reduction.descent import descended
from hypar.reduction.diffusion import diffused
from hypar.reduction.dominance import Undominated, undominated
from hypar.reduction.folding import Folding, Taken, eliminated, identity, spread
from hypar.reduction.order import Step, Trace, steps, trace
from hypar.reduction.rules import Reduction, RuleStep, reduced

__all__ = [
    "Bucket",
    "Folding",
    "Part",
    "Reduction",
    "RuleStep",
    "Step",
    "Taken",
    "Trace",
    "Undominated",
    "buckets",
    "descended",
    "diffused",
    "eliminated",
    "identity",
    "reduced",
    "spread",
    "steps",
    "trace",
    "undominated",
]
