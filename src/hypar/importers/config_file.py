"""Import of a Hugging Face config, which says a network by its family and its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.errors import ModelError, OptionError, field_name, shown, suggestion
from hypar.files.text import read_json
from hypar.files.validation import validated
from hypar.importers.config_families import Bert, Family, Gpt2, Llama, Mistral, Mixtral, Qwen2
from hypar.importers.config_latent import DeepseekV3
from hypar.importers.coverage import Coverage
from hypar.importers.formats import BATCH
from hypar.importers.imported import Imported
from hypar.network.graph import load_model
from hypar.ops.dims import LARGEST

if TYPE_CHECKING:
    from hypar.errors import Where
    from hypar.network.graph import LayerGraph

FAMILIES: dict[str, type[Family]] = {
    "gpt2": Gpt2,
    "llama": Llama,
    "mistral": Mistral,
    "mixtral": Mixtral,
    "qwen2": Qwen2,
    "deepseek_v3": DeepseekV3,
    "bert": Bert,
}
"""Families by ``model_type``."""

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
"""Keys of a family whose layers have experts."""


def from_config(
    config: str | Path | Mapping[str, Any],
    *,
    batch: int | None = None,
    sequence: int | None = None,
    name: str | None = None,
) -> LayerGraph:
    """Read a Hugging Face config as a network; no package of Hugging Face and no weights are needed.

    Args:
        config: path of a ``config.json``, or what it says.
        batch: samples in a mini-batch, if not 256.
        sequence: positions of a sample, if not the most that the config allows.
        name: name of the network; the config's ``model_type`` if not given.

    Raises:
        InputError: the file cannot be read, its family is not known, or a key is missing or wrong.
    """
    found = read_config(config, batch=BATCH if batch is None else batch, sequence=sequence)
    return load_model(found.content, name=found.family if name is None else name)


def import_named(network: str, *, batch: int, sequence: int | None) -> Imported:
    """Read the file at a path.

    Raises:
        InputError: as ``from_config`` does.
    """
    found = read_config(network, batch=batch, sequence=sequence)
    graph = load_model(found.content, name=found.family)
    flop, parameters = 2 * graph.macs(batch=1), graph.num_parameters
    return Imported(
        name=found.family,
        content=found.content,
        coverage=Coverage(
            flop=flop, said_flop=flop, parameters=parameters, said_parameters=parameters, opaque={}
        ),
        notes=(f"{parameters:,} parameters", *found.notes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a config says.

    Attributes:
        family: its ``model_type``.
        content: the content of the model file.
        notes: what the model file says otherwise, a line each.
    """

    family: str
    content: dict[str, Any]
    notes: tuple[str, ...]


def read_config(config: str | Path | Mapping[str, Any], *, batch: int, sequence: int | None) -> Found:
    """Read a config.

    Raises:
        InputError: the config is invalid, or asks for an op that hypar does not have.
    """
    where = "config" if isinstance(config, Mapping) else str(config)
    data = dict(config) if isinstance(config, Mapping) else read_json(Path(config))
    if not isinstance(data, dict):
        raise ModelError(where, f"found {shown(data)}", "a mapping with model_type")
    family = _family(data, where)

    def place(field: Where) -> str:
        return f"{where}: {field_name(field)}" if field else where

    said = validated(FAMILIES[family], data, place=place, error=ModelError)
    length = _length(said, sequence)
    content = {
        "source": f"imported from a Hugging Face config of model_type {family}",
        "batch": batch,
        **({} if said.number_format == "float32" else {"dtype": said.number_format}),
        "dims": {"sequence": length, **said.dims()},
        **said.network(),
    }
    return Found(family=family, content=content, notes=tuple(said.notes(length)))


def _family(data: dict[str, Any], where: str) -> str:
    """Return the name of a config's family.

    Raises:
        ModelError: it is missing or not known.
    """
    name, known = data.get("model_type"), ", ".join(FAMILIES)
    if name is None:
        raise ModelError(where, "'model_type' is missing", known)
    if isinstance(name, str) and name in FAMILIES:
        return name
    hint = suggestion(name, FAMILIES) if isinstance(name, str) else ""
    experts = next((key for key in EXPERTS if key in data), None)
    if experts is not None:
        hint = f"{experts}: of families with experts, mixtral and deepseek_v3 are read"
    raise ModelError(f"{where}: model_type", f"found {shown(name)}", known, hint)


def _length(said: Family, sequence: int | None) -> int:
    """Return the positions of a sample.

    Raises:
        OptionError: there are too many or none.
    """
    key, most = said.positions
    if sequence is None:
        return most
    largest = most if said.learned else LARGEST
    if not 1 <= sequence <= largest:
        limit = f"{largest:,}, the {key} of the config" if said.learned else f"{largest:,}"
        raise OptionError("sequence", f"found {sequence:,}", f"a whole number from 1 to {limit}")
    return sequence
