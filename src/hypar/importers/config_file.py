"""Import of a Hugging Face config: a shipped model's family by that model's file, any other through transformers."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from hypar.errors import ModelError, OptionError, field_name, shown, suggestion
from hypar.files.text import read_json
from hypar.files.validation import validated
from hypar.importers.config_families import FAMILIES, Family
from hypar.importers.formats import BATCH
from hypar.importers.imported import Coverage, Imported, imported
from hypar.importers.torch_module import capture
from hypar.importers.trace import Node, Trace
from hypar.importers.user_code import one_line, package
from hypar.network.dims import LARGEST
from hypar.registry import data_file

if TYPE_CHECKING:
    from hypar.errors import Where
    from hypar.network.graph import LayerGraph

EXAMPLE = 2
"""Samples of the example that is captured."""


def from_config(
    config: str | Path | Mapping[str, Any],
    *,
    batch: int | None = None,
    sequence: int | None = None,
    name: str | None = None,
) -> LayerGraph:
    """Read a Hugging Face config as a network, without weights.

    The families gpt2, bert, llama, mistral, mixtral and qwen2 need no other package; any other family that PyTorch and
    transformers know is built by these on the meta device and captured.

    Args:
        config: path of a ``config.json``, or what it says.
        batch: samples in a mini-batch, if not 256.
        sequence: positions of a sample, if not the most that the config allows.
        name: name of the network; the config's ``model_type`` if not given.

    Raises:
        InputError: the file cannot be read, its family is not known, or a key is missing or wrong.
    """
    found = read_config(config, batch=BATCH if batch is None else batch, sequence=sequence)
    return (found if name is None else replace(found, name=name)).graph()


def import_named(network: str, *, batch: int, sequence: int | None, partial: bool) -> Imported:
    """Read the file at a path.

    Raises:
        InputError: as ``from_config`` does.
    """
    found = read_config(network, batch=batch, sequence=sequence, partial=partial)
    return replace(found, notes=(f"{found.graph().num_parameters:,} parameters", *found.notes))


def read_config(
    config: str | Path | Mapping[str, Any], *, batch: int, sequence: int | None, partial: bool = False
) -> Imported:
    """Read a config.

    Raises:
        InputError: the config is invalid, or asks for an op that hypar does not have.
    """
    where = "config" if isinstance(config, Mapping) else str(config)
    data = dict(config) if isinstance(config, Mapping) else read_json(Path(config))
    if not isinstance(data, dict):
        raise ModelError(where, f"found {shown(data)}", "a mapping with model_type")
    family = data.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        return _through_transformers(data, where, batch=batch, sequence=sequence, partial=partial)

    def place(field: Where) -> str:
        return f"{where}: {field_name(field)}" if field else where

    said = validated(FAMILIES[family], data, place=place, error=ModelError)
    return _of_template(family, said, _length(said, sequence), batch)


def _of_template(family: str, said: Family, length: int, batch: int) -> Imported:
    """Return the file of a shipped model with the sizes of a config."""
    shipped = yaml.safe_load(data_file("models", said.template).read_text(encoding="utf-8"))
    dims = {"sequence": length, **said.dims()}
    content = {
        "source": _source(family),
        "batch": batch,
        **({} if said.number_format == "float32" else {"dtype": said.number_format}),
        "dims": {name: dims[name] for name in shipped["dims"] if name in dims},
        "blocks": {
            kind: {"layers": [said.entry(entry) for entry in block["layers"]]}
            for kind, block in shipped["blocks"].items()
        },
        "layers": [said.entry(entry) for entry in shipped["layers"]],
    }
    none = Coverage(flop=0, said_flop=0, parameters=0, said_parameters=0, opaque={})
    found = Imported(name=family, content=content, coverage=none, notes=tuple(said.notes(length)))
    graph = found.graph()
    flop, parameters = 2 * graph.macs(batch=1), graph.num_parameters
    whole = replace(none, flop=flop, said_flop=flop, parameters=parameters, said_parameters=parameters)
    return replace(found, coverage=whole)


def _source(family: str) -> str:
    return f"imported from a Hugging Face config of model_type {family}"


def _length(said: Family, sequence: int | None) -> int:
    """Return the positions of a sample.

    Raises:
        OptionError: there are too many or none.
    """
    if sequence is None:
        return said.max_position_embeddings
    largest = said.max_position_embeddings if said.learned else LARGEST
    if not 1 <= sequence <= largest:
        key = said.key("max_position_embeddings")
        limit = f"{largest:,}, the {key} of the config" if said.learned else f"{largest:,}"
        raise OptionError("sequence", f"found {sequence:,}", f"a whole number from 1 to {limit}")
    return sequence


def _through_transformers(
    data: dict[str, Any], where: str, *, batch: int, sequence: int | None, partial: bool
) -> Imported:
    """Build a config's model on the meta device, with the head of a language model, and capture it.

    Raises:
        ModelError: the family is not known, or the model cannot be built, captured or said.
    """
    family = _family(data, where)
    torch, library = package("torch", "torch"), package("transformers", "torch")
    masked = any(name.endswith("ForMaskedLM") for name in data.get("architectures") or ())
    kind = library.AutoModelForMaskedLM if masked else library.AutoModelForCausalLM
    with one_line(where, "transformers cannot build it:"), torch.device("meta"):
        options = {key: value for key, value in data.items() if key != "model_type"}
        config = library.AutoConfig.for_model(family, **options)
        config.use_cache = False
        own_format = getattr(config, "dtype", None) or torch.float32
        model = kind.from_config(config, dtype=own_format)
        length = sequence or getattr(config, "max_position_embeddings", None) or 1024
        tokens = torch.zeros((EXAMPLE, length), dtype=torch.int64)
    trace = replace(
        capture(model, (tokens,), name=family, where=where), source=_source(family), unused_outputs=0
    )
    found = imported(_with_loss(trace), batch=batch, partial=partial)
    further = data.get("num_nextn_predict_layers")
    note = f"num_nextn_predict_layers: {further} not in the model file, which is the main model alone"
    return replace(found, notes=(*found.notes, note)) if further else found


def _family(data: dict[str, Any], where: str) -> str:
    """Return the name of a family of transformers.

    Raises:
        ModelError: it is missing or not known.
    """
    known = f"{', '.join(FAMILIES)}, or with PyTorch and transformers a family of theirs"
    name = data.get("model_type")
    if name is None:
        raise ModelError(where, "'model_type' is missing", known)
    have = all(importlib.util.find_spec(one) for one in ("torch", "transformers"))
    if isinstance(name, str) and have and name in package("transformers", "torch").CONFIG_MAPPING:
        return name
    hint = suggestion(name, FAMILIES) if isinstance(name, str) else ""
    raise ModelError(f"{where}: model_type", f"found {shown(name)}", known, hint)


def _with_loss(trace: Trace) -> Trace:
    """Return a language model with the cross-entropy of its scores [batch, sequence, vocab]."""
    sizes = trace.shapes[trace.output]
    read = {"flat scores": ("reshape", trace.output), "loss": ("loss", "flat scores")}
    nodes = [
        Node(kind=op, op=op, operands={"input": (value,)}, attributes={}, result=made)
        for made, (op, value) in read.items()
    ]
    shapes = {**trace.shapes, "flat scores": (sizes[0] * sizes[1], *sizes[2:]), "loss": ()}
    return replace(trace, shapes=shapes, nodes=(*trace.nodes, *nodes), output="loss")
