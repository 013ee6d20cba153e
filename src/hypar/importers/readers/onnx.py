"""ONNX files as models, under the ending ``.onnx``."""

from __future__ import annotations

from types import SimpleNamespace

from hypar.importers.onnx_file import from_onnx

plugin = SimpleNamespace(read=from_onnx)
