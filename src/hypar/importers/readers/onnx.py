"""ONNX files as models, under the ending ``.onnx``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.importers.onnx_file import from_onnx

if TYPE_CHECKING:
    from pathlib import Path

    from hypar.network.graph import LayerGraph


class Onnx:
    """Reads a file that is named where a model file may be."""

    def read(self, file: Path) -> LayerGraph:
        """Return the network."""
        return from_onnx(file)


plugin = Onnx()
