"""The model file: a list of layers, with blocks for what repeats, as ``docs/models.md`` describes it.

A layer reads the one before it unless it names its inputs. A block is a list of layers with parameters;
using it puts its layers in the place of the entry, named ``entry.layer``.
"""

from hypar.spec.expansion import LayerSpec
from hypar.spec.load import ModelSpec, load_spec, parse_spec

__all__ = ["LayerSpec", "ModelSpec", "load_spec", "parse_spec"]
