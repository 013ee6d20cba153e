"""Timeloop's problem, version 0.4: one file for each phase of a piece, samples and groups included.

Dims are those of Timeloop's convolution, with ``G`` for the groups; ``R``, ``P`` and ``W..`` go along the width, ``S``, ``Q`` and ``H..``
along the height. Gradient and forward phase have the same loops and another result. The backward phase gives the
terms of each tap, ``Terms``, before those of overlapping windows are added.

Source: NVlabs/timeloop, ``problem-shapes/cnn_layer.yaml`` and ``src/workload/shape-models/problem-shape.cpp``;
Accelergy-Project/timeloop-accelergy-exercises, ``example_designs/layer_shapes/problem_base.yaml``, which has the groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.files.yaml_file import format_yaml
from hypar.reports.exports.base import Entry

if TYPE_CHECKING:
    from hypar.studies.pieces import Problem

DIMS = {"C": "in_channels", "M": "out_channels", "R": "kernel_width", "S": "kernel_height",
        "N": "batch", "P": "width", "Q": "height", "G": "groups"}  # fmt: skip
"""Each dim of the problem, and the op's dim."""

TENSORS = {"Weights": "C M R S G", "Inputs": "N C R*Wdilation+P*Wstride S*Hdilation+Q*Hstride G",
           "Outputs": "N M Q P G", "Terms": "N C R S P Q G"}  # fmt: skip
"""The dims of each tensor, a sum of terms each, which may have a coefficient."""

SPACES = {"forward": ("Weights", "Inputs", "Outputs"), "backward": ("Weights", "Outputs", "Terms"),
          "gradient": ("Inputs", "Outputs", "Weights")}  # fmt: skip
"""The tensors of each phase, the result last."""


def entry(problem: Problem) -> Entry:
    """Return the file of a problem."""
    spaces: list[dict[str, Any]] = [
        {"name": name, "projection": [[term.split("*") for term in dim.split("+")] for dim in dims.split()]}
        for name, dims in ((name, TENSORS[name]) for name in SPACES[problem.kind])
    ]
    spaces[-1]["read_write"] = True
    factors = {
        f"{dim[0].upper()}{factor}": getattr(problem.shape.windows.get(dim), factor, 1)
        for dim in ("width", "height")
        for factor in ("stride", "dilation")
    }
    shape = {
        "name": f"conv_{problem.kind}",
        "dimensions": [*DIMS],
        "coefficients": [{"name": name, "default": 1} for name in factors],
        "data_spaces": spaces,
    }
    instance = {dim: problem.shape.size(own) for dim, own in DIMS.items()}
    data = {"problem": {"version": 0.4, "shape": shape, "instance": instance | factors}}
    return Entry(f"{problem.name}.yaml", format_yaml(data))


plugins = {"timeloop": entry}
