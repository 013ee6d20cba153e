"""The model file: its schema, and the expansion of its entries to single layers: blocks inlined, inputs resolved."""

# Annotations are not postponed here: pydantic would parse the text of each one at every start.

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from hypar.errors import ModelError, UnknownNameError, Where, shown
from hypar.files.validation import Faults, Model, Record, validated
from hypar.files.yaml_file import Document
from hypar.network.layer import Layer
from hypar.ops.base import Op, Size
from hypar.ops.dims import DimName, DimSize
from hypar.registry import load_plugin, plugin_names

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$")]
Reference = Annotated[str, Field(max_length=200)]
References = Annotated[
    list[Reference], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
]
Argument = int | float | bool | str | list[int]

MOST_LAYERS = 20_000
"""Largest number of layers, with blocks and repeats expanded."""

MOST_BLOCKS = 32
"""Largest nesting of blocks."""

MOST_REPEATS = 1000
"""Largest number of times that an entry repeats a block."""


class Block(Record):
    """A list of layers with parameters."""

    parameters: list[Name] = Field(default=[])
    layers: Annotated[list[dict[str, Any]], Field(min_length=1)]


class ModelFile(Record):
    """The whole file."""

    source: str
    batch: Size
    dtype: Literal["float64", "float32", "float16", "bfloat16"] = "float32"
    dims: dict[DimName, DimSize] = Field(default={})
    blocks: dict[Name, Block] = Field(default={})
    layers: Annotated[list[dict[str, Any]], Field(min_length=1)]


class LayerHead(Record):
    """The fields of every layer; the others are those of its op."""

    op: Name
    name: Name | None = None
    inputs: References | None = None


class BlockUse(Record):
    """The layers of a block, once, or repeated one behind the other and numbered."""

    block: Name
    name: Name
    inputs: References | None = None
    arguments: dict[Name, Argument] = Field(default={}, alias="with")
    repeat: Annotated[int, Field(ge=1, le=MOST_REPEATS)] | None = None


@lru_cache(maxsize=MOST_LAYERS)
def one_op(op: Op) -> Op:
    """Return the first of equal ops, so that equal layers share it in whatever form a file says them."""
    return op


@dataclass(slots=True)
class _Scope:
    """The names of the layers of one list; behind the first of its faults, entries are judged and not added."""

    prefix: str = ""
    outer: "tuple[_Scope, str] | None" = None  # what ``input`` names inside a block
    arguments: dict[str, Argument] = field(default_factory=dict)
    using: tuple[str, ...] = ()
    given: frozenset[str] = frozenset()
    outputs: dict[str, str] = field(default_factory=dict)  # full names by names
    counts: Counter[str] = field(default_factory=Counter)  # of unnamed layers by op
    faults: Faults = field(default_factory=Faults)

    def free_name(self, op: str) -> str:
        """Return a generated name: ``relu1``, ``relu2``; the input is just ``input``."""
        if op == "input" and op not in self.given | self.outputs.keys():
            return op
        while True:
            self.counts[op] += 1
            if (name := f"{op}{self.counts[op]}") not in self.given:
                return name


def expanded(document: Document) -> tuple[ModelFile, list[tuple[Layer, Where]]]:
    """Return the content of a model file, and its layers in its order, without shapes, each with its place.

    Raises ``InputError`` for no model file or invalid entries, with all faults of the first list that has any.
    """
    if not isinstance(document.data, dict):
        raise ModelError(document.at(()), f"found {shown(document.data)}", "a mapping with layers")
    content = validated(ModelFile, document.data, place=document.at, error=ModelError, every=True)
    expansion, layers, faults = _Expansion(document, content), [], Faults()
    expansion.add_all(content.layers, ("layers",), _Scope())
    expansion.check_blocks()
    for layer, where, scope in expansion.layers:
        with faults:
            layers.append((expansion.resolved(layer, where, scope), where))
    faults.check()
    return content, layers


class _Expansion:
    """Adds layers whose inputs are names within their list, as they may be those of later layers, then resolves these."""

    def __init__(self, document: Document, content: ModelFile) -> None:
        self.place, self.content = document.at, content
        self.layers: list[tuple[Layer, Where, _Scope]] = []
        self.used: set[str] = set()
        self.known: dict[tuple[Where, str], Layer | BlockUse] = {}

    def judged(self, model: type[Model], data: Any, where: Where, name: str = "", beside: Any = ()) -> Model:
        """Return an entry, or the fields of its op ``beside`` those of every layer, with all faults named at their places."""

        def place(at: Where) -> str:
            return self.place(where + at, name)

        return validated(model, data, place=place, error=ModelError, also_allowed=beside, every=True)

    def check_blocks(self) -> None:
        """Check that each block is used, and names each of its parameters once."""
        faults = Faults()
        for name, block in self.content.blocks.items():
            with faults:
                if name not in self.used:
                    raise ModelError(self.place(("blocks", name)), "an unused block")
                if len(set(block.parameters)) < len(block.parameters):
                    place = self.place(("blocks", name, "parameters"))
                    raise ModelError(place, "a parameter given twice", "each once")
        faults.check()

    def add_all(self, entries: list[dict[str, Any]], where: Where, scope: _Scope) -> None:
        """Add a list's entries in order; each reads the previous one by default."""
        before = ("input",) if scope.outer else ()
        scope.given = frozenset(entry["name"] for entry in entries if isinstance(entry.get("name"), str))
        for index, entry in enumerate(entries):
            here = (*where, index)
            with scope.faults:
                found = self.entry(entry, here, scope, before)
                if found.name in scope.outputs or (found.name == "input" and scope.outer):
                    raise ModelError(self.place(here), f"name {found.name!r} given twice", "each name once")
                before = (found.name,)
                add: Any = self.add_layer if isinstance(found, Layer) else self.add_block
                scope.outputs[found.name] = add(found, here, scope)
        scope.faults.check()

    def entry(
        self, entry: dict[str, Any], where: Where, scope: _Scope, before: tuple[str, ...]
    ) -> Layer | BlockUse:
        """Return what an entry says, with names within the list: the same wherever its block has equal arguments."""
        key = where, repr(scope.arguments)
        if key not in self.known:
            entry = self.substituted(entry, where, scope)
            said = self.block_of if "block" in entry else self.layer_of
            self.known[key] = said(entry, where, scope, before)
        return self.known[key]

    def substituted(self, value: Any, where: Where, scope: _Scope) -> Any:
        if isinstance(value, dict):
            return {key: self.substituted(item, (*where, key), scope) for key, item in value.items()}
        if isinstance(value, list):
            return [self.substituted(item, (*where, index), scope) for index, item in enumerate(value)]
        if not (isinstance(value, str) and value.startswith("$")):
            return value
        if value[1:] not in scope.arguments:
            raise UnknownNameError("parameter", value[1:], scope.arguments, self.place(where))
        return scope.arguments[value[1:]]

    def layer_of(self, entry: dict[str, Any], where: Where, scope: _Scope, before: tuple[str, ...]) -> Layer:
        shared = {key: entry.pop(key) for key in LayerHead.model_fields if key in entry}
        head = self.judged(LayerHead, shared, where)
        if head.op not in plugin_names("ops"):
            raise UnknownNameError("op", head.op, plugin_names("ops"), self.place((*where, "op")))
        op_type: type[Op] = load_plugin("ops", head.op)
        name = head.name or scope.free_name(head.op)
        entry |= {key: self.sized(entry[key], (*where, key)) for key in op_type.sized if key in entry}
        op = self.judged(op_type, entry, where, scope.prefix + name, LayerHead.model_fields)
        inputs = head.inputs if head.inputs is not None else () if head.op == "input" else before
        return Layer(name=name, op_name=head.op, op=one_op(op), inputs=tuple(inputs))

    def sized(self, value: Any, where: Where) -> Any:
        """Return the names of dims, one or a list, with the sizes that the file declares; anything else as it is."""
        names, dims = [value] if isinstance(value, str) else value, self.content.dims
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return value
        found: dict[str, int] = {}
        for name in names:
            if name not in dims:
                raise UnknownNameError("dim", name, dims, self.place(where))
            if name in found:
                raise ModelError(self.place(where), f"found {name!r} twice", "each dim once")
            found[name] = dims[name]
        return found

    def block_of(self, entry: dict[str, Any], where: Where, _: _Scope, before: tuple[str, ...]) -> BlockUse:
        use = self.judged(BlockUse, entry, where)
        if use.block not in self.content.blocks:
            raise UnknownNameError("block", use.block, self.content.blocks, self.place((*where, "block")))
        wanted, given = self.content.blocks[use.block].parameters, use.arguments
        wrong = {
            "no": [name for name in wanted if name not in given],
            "unknown": [name for name in given if name not in wanted],
        }
        found = " and ".join(f"{kind} {', '.join(names)}" for kind, names in wrong.items() if names)
        if found:
            place = self.place((*where, "with"), use.name)
            raise ModelError(place, f"found {found}", ", ".join(wanted) or "nothing")
        inputs = before if use.inputs is None else use.inputs
        if len(inputs) != 1:
            raise ModelError(self.place(where, use.name), f"found {len(inputs)} inputs", "1 for a block")
        return use.model_copy(update={"inputs": inputs})

    def add_layer(self, layer: Layer, where: Where, scope: _Scope) -> str:
        name = scope.prefix + layer.name
        if len(self.layers) >= MOST_LAYERS:
            allowed = f"at most {MOST_LAYERS:,}"
            raise ModelError(self.place(where, name), "too many layers, blocks expanded", allowed)
        if not scope.faults:
            self.layers.append((layer, where, scope))
        return name

    def add_block(self, use: BlockUse, where: Where, scope: _Scope) -> str:
        """Add the layers of a block, repeated on request; return the full name of the last one."""
        place, using = self.place((*where, "block")), (*scope.using, use.block)
        if use.block in scope.using:
            chain = " -> ".join(using[using.index(use.block) :])
            raise ModelError(place, f"a block that uses itself: {chain}")
        if len(using) > MOST_BLOCKS:
            raise ModelError(place, "blocks nested too deeply", f"{MOST_BLOCKS} deep")
        self.used.add(use.block)
        if scope.faults:
            return ""
        (read,) = use.inputs or []
        outer = scope, read
        for name in [use.name] if use.repeat is None else [f"{use.name}.{at}" for at in range(use.repeat)]:
            inner = _Scope(f"{scope.prefix}{name}.", outer, use.arguments, using)
            self.add_all(self.content.blocks[use.block].layers, ("blocks", use.block, "layers"), inner)
            outer = inner, [*inner.outputs][-1]
            scope.outputs[name] = inner.outputs[outer[1]]
        return scope.outputs[name]

    def resolved(self, layer: Layer, where: Where, scope: _Scope) -> Layer:
        op = layer.op
        if op.tied is not None:
            op = one_op(op.model_copy(update={"weight": self.resolve(op.tied, scope, (*where, "weight"))}))
        inputs = tuple([self.resolve(name, scope, (*where, "inputs")) for name in layer.inputs])
        return replace(layer, name=scope.prefix + layer.name, op=op, inputs=inputs)

    def resolve(self, local: str, scope: _Scope, where: Where) -> str:
        while local == "input" and scope.outer:
            scope, local = scope.outer
        if local not in scope.outputs:
            known = [*scope.outputs, *(["input"] if scope.outer else [])]
            raise UnknownNameError("layer", local, known, self.place(where))
        return scope.outputs[local]
