"""Loading of model files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypar.errors import InputError, ModelError, OptionError, UnknownNameError, shown
from hypar.files.validation import Faults, validated
from hypar.files.yaml_file import Document, plain_document, read_yaml
from hypar.network.spec.expansion import Expansion, LayerSpec
from hypar.network.spec.schema import ModelFile, SameAs
from hypar.registry import data_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hypar.network.layer import Layer


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A network as stated in its file, with all blocks expanded.

    Attributes:
        name: the file's name without its ending.
        source: publication of the network.
        batch: default mini-batch.
        dtype: number format of every tensor.
        layers: layers in the order of the file.
    """

    name: str
    source: str
    batch: int
    dtype: str
    layers: tuple[LayerSpec, ...]

    @property
    def digest(self) -> str:
        """Hash of everything that a plan depends on; comments, source and default batch do not count."""
        return digest_of(self.dtype, self.layers)


def digest_of(dtype: str, layers: Sequence[Layer] | Sequence[LayerSpec]) -> str:
    """Return a hash of everything that a plan depends on; comments, source and default batch do not count."""
    # Layers of a repeated block share their op.
    ops = {id(layer.op): layer.op for layer in layers}
    fields = {key: op.model_dump(mode="json", exclude_defaults=True) for key, op in ops.items()}
    named = [[layer.name, layer.op_name, fields[id(layer.op)], layer.inputs] for layer in layers]
    text = json.dumps([dtype, named], sort_keys=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def load_spec(model: str | Path | Mapping[str, Any], name: str | None = None) -> ModelSpec:
    """Read a model file, or a mapping of the same content.

    Args:
        model: a path, the bare name of a file in ``models/``, or what such a file says.
        name: the name of a mapping's network; ``model`` if not given.

    Raises:
        InputError: the file is missing, not YAML, or not a model file.
    """
    if isinstance(model, Mapping):
        name = "model" if name is None else name
        return parse_spec(plain_document(dict(model), name), name)
    if name is not None:
        raise OptionError(
            "name", f"given together with the file {str(model)!r}", "a name for a mapping alone"
        )
    file = data_file("models", str(model))
    document = read_yaml(file)
    if isinstance(document.data, dict) and "same_as" in document.data:
        document = _named(file, document)
    return parse_spec(document, file.stem)


def _named(file: Path, document: Document) -> Document:
    """Return the document that an alias refers to."""
    same_as = validated(SameAs, document.data, place=document.at, error=ModelError).same_as
    place, named = document.at(("same_as",)), file.with_name(f"{same_as}.yaml")
    if not named.is_file():
        beside = sorted(other.stem for other in file.parent.glob("*.yaml") if other.name != file.name)
        raise UnknownNameError("model", same_as, beside, place)
    found = read_yaml(named)
    if isinstance(found.data, dict) and "same_as" in found.data:
        raise ModelError(place, f"found {same_as!r}, itself a second name", "a model with layers")
    return found


def parse_spec(document: Document, name: str) -> ModelSpec:
    """Parse a document into a network.

    Raises:
        InputError: the document is not a model file.
    """
    if not isinstance(document.data, dict):
        raise ModelError(document.at(()), f"found {shown(document.data)}", "a mapping with layers")
    faults = Faults()
    layers: tuple[LayerSpec, ...] = ()
    content = _content(document, document.data, faults)
    if content is not None:
        with faults:
            layers = Expansion(document, content.blocks, content.dims).run(content.layers)
    if content is None or faults.found:
        raise faults.error()
    return ModelSpec(
        name=name, source=content.source, batch=content.batch, dtype=content.dtype, layers=layers
    )


def _content(document: Document, data: dict[str, Any], faults: Faults) -> ModelFile | None:
    """Return the content of a file, with valid values in place of faulty ones beside its layers; None without layers."""
    with faults:
        return validated(ModelFile, data, place=document.at, error=ModelError, every=True)
    with suppress(InputError):
        layers = {key: data[key] for key in ("dims", "blocks", "layers") if key in data}
        return validated(ModelFile, {"source": "", "batch": 1, **layers}, place=document.at, error=ModelError)
    return None
