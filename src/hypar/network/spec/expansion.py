"""Expansion of a model file's entries to single layers: blocks inlined, inputs resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypar.errors import InputError, ModelError, UnknownNameError
from hypar.files.validation import Faults, validated
from hypar.network.spec.schema import MOST_REPEATS, Argument, Block, BlockUse, LayerHead
from hypar.registry import load_plugin, plugin_names

if TYPE_CHECKING:
    from hypar.errors import Where
    from hypar.files.yaml_file import Document
    from hypar.ops.base import Op

MOST_LAYERS = 20_000
"""Largest number of layers, with blocks and repeats expanded."""

MOST_BLOCKS = 32
"""Largest nesting of blocks."""


UNNAMED = "?"
"""Begins the name of an invalid entry without a name; no layer of a file has it."""


class _TooManyLayersError(ModelError):
    """Blocks that expand to so many layers that the expansion stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSpec:
    """One layer, with blocks expanded and inputs resolved.

    Attributes:
        name: name, unique in the network.
        op_name: name of its op's plug-in.
        op: its op.
        inputs: names of the layers that it reads.
        where: its place, as ``file:line: layers[i] 'name'``.
    """

    name: str
    op_name: str
    op: Op
    inputs: tuple[str, ...]
    where: str


@dataclass(slots=True)
class _Scope:
    """The names visible to the layers of one list.

    Attributes:
        prefix: prefix of the names of its layers.
        arguments: the values of ``$parameters``.
        outer: scope and name that ``input`` refers to inside a block.
        outputs: full layer name by local name.
        named: names given explicitly in this list.
        counts: number of unnamed layers of each op.
        using: blocks being expanded, outermost first.
    """

    prefix: str = ""
    arguments: dict[str, Argument] = field(default_factory=dict)
    outer: tuple[_Scope, str] | None = None
    outputs: dict[str, str] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    counts: dict[str, int] = field(default_factory=dict)
    using: tuple[str, ...] = ()


@dataclass(slots=True)
class _Pending:
    """A layer whose inputs are still local names of its scope."""

    name: str
    op_name: str
    op: Op
    inputs: list[str]
    scope: _Scope
    where: Where


class Expansion:
    """Expands blocks, then resolves the names of inputs, which may refer to later layers."""

    def __init__(
        self, document: Document, blocks: dict[str, Block], dims: dict[str, int] | None = None
    ) -> None:
        self.document, self.blocks, self.dims = document, blocks, dims or {}
        self.layers: list[_Pending] = []
        self.used: set[str] = set()
        self.faults = Faults()
        self.failed: dict[Where, int] = {}
        self.places: dict[Where, str] = {}
        self.parsed: dict[tuple[Where, int], tuple[LayerHead, Op]] = {}

    def run(self, entries: list[dict[str, Any]]) -> tuple[LayerSpec, ...]:
        """Return every layer of the file, in its order.

        Raises:
            InputError: entries are invalid; every fault is named, but for those that follow from another.
        """
        with self.faults:
            self.add_all(entries, ("layers",), _Scope())
        self.check_blocks()
        specs = []
        for layer in self.layers:
            with self.faults:
                specs.append(
                    LayerSpec(
                        name=layer.name,
                        op_name=layer.op_name,
                        op=self.with_tie(layer),
                        inputs=tuple(self.resolve(name, layer.scope, layer.where) for name in layer.inputs),
                        where=self.place(layer.where, layer.name),
                    )
                )
        if self.faults.found:
            raise self.faults.error()
        return tuple(specs)

    def with_tie(self, layer: _Pending) -> Op:
        """Return the op of a layer with the full name of the layer whose weight it uses."""
        tied = layer.op.tied
        if tied is None:
            return layer.op
        return layer.op.model_copy(
            update={"weight": self.resolve(tied, layer.scope, (*layer.where, "weight"))}
        )

    def check_blocks(self) -> None:
        """Gather the faults of blocks; a block may be unused because the entry that uses it is invalid."""
        entries_valid = not self.faults.found
        for name, block in self.blocks.items():
            where = ("blocks", name)
            if name not in self.used and entries_valid:
                self.faults.found.append(ModelError(self.place(where), "an unused block"))
            elif len(set(block.parameters)) < len(block.parameters):
                twice = ModelError(self.place((*where, "parameters")), "a parameter given twice", "each once")
                self.faults.found.append(twice)

    def place(self, where: Where, name: str = "") -> str:
        """Return a place as ``file:line: field 'name'``."""
        if where not in self.places:
            self.places[where] = self.document.at(where)
        return self.places[where] + (f" {name!r}" if name else "")

    def add_all(self, entries: list[dict[str, Any]], where: Where, scope: _Scope) -> None:
        """Add a list's entries in order; each reads the previous one by default."""
        before = ["input"] if scope.outer else []
        scope.named = frozenset(entry["name"] for entry in entries if isinstance(entry.get("name"), str))
        for index, entry in enumerate(entries):
            here = (*where, index)
            add = self.add_block if "block" in entry else self.add_layer
            if here not in self.failed:
                try:
                    before = [add(entry, here, scope, before)]
                    continue
                except _TooManyLayersError:
                    raise
                except InputError as fault:
                    self.faults.found.append(fault)
            before = [self.stand_in(entry, here, scope)]

    def stand_in(self, entry: dict[str, Any], where: Where, scope: _Scope) -> str:
        """Register the names of an invalid entry, so that those who read it have no fault from it; return its name."""
        self.failed[where] = self.failed.get(where, 0) + 1
        self.require_room(where)
        name, repeat = entry.get("name"), entry.get("repeat")
        local = name if isinstance(name, str) else self.free_name(UNNAMED, scope)
        turns = range(min(repeat, MOST_REPEATS) if isinstance(repeat, int) else 0)
        for own in (local, *(f"{local}.{turn}" for turn in turns)):
            scope.outputs.setdefault(own, scope.prefix + own)
        return local

    def require_room(self, where: Where, name: str = "") -> None:
        """Check that one more layer is allowed; invalid ones count too."""
        if len(self.layers) + sum(self.failed.values()) >= MOST_LAYERS:
            raise _TooManyLayersError(
                self.place(where, name), "too many layers, blocks expanded", f"at most {MOST_LAYERS:,}"
            )

    def substituted(self, entry: dict[str, Any], where: Where, scope: _Scope) -> dict[str, Any]:
        """Return the entry with every ``$parameter`` replaced, including inside its lists and mappings."""

        def replace(value: Any, place: Where) -> Any:
            if isinstance(value, dict):
                return {key: replace(item, (*place, key)) for key, item in value.items()}
            if isinstance(value, list):
                return [replace(item, (*place, index)) for index, item in enumerate(value)]
            if not (isinstance(value, str) and value.startswith("$")):
                return value
            if value[1:] not in scope.arguments:
                raise UnknownNameError("parameter", value[1:], scope.arguments, self.place(place))
            return scope.arguments[value[1:]]

        return {key: replace(value, (*where, key)) for key, value in entry.items()}

    def add_layer(self, entry: dict[str, Any], where: Where, scope: _Scope, before: list[str]) -> str:
        """Add one layer; return its name within the scope."""
        # The turns of an entry share its arguments, which their scopes keep alive.
        known = self.parsed.get((where, id(scope.arguments)))
        if known is None:
            head, op, local = self.layer_of(self.substituted(entry, where, scope), where, scope)
            self.parsed[where, id(scope.arguments)] = head, op
        else:
            head, op = known
            local = head.name or self.free_name(head.op, scope)
        inputs = ([] if head.op == "input" else before) if head.inputs is None else head.inputs
        name = scope.prefix + local
        self.require_room(where, name)
        self.register(local, name, scope, where)
        self.layers.append(_Pending(name, head.op, op, inputs, scope, where))
        return local

    def layer_of(self, entry: dict[str, Any], where: Where, scope: _Scope) -> tuple[LayerHead, Op, str]:
        """Return what an entry says of a layer, and its name within the scope.

        Raises:
            InputError: the entry is invalid; every fault is named.
        """
        shared = {key: entry[key] for key in LayerHead.model_fields if key in entry}
        faults, head, op = Faults(), None, None
        with faults:
            head = validated(
                LayerHead, shared, place=lambda at: self.document.at(where + at), error=ModelError, every=True
            )
        if head is None and entry.get("op") not in plugin_names("ops"):
            raise faults.error()
        try:
            op_type: type[Op] = load_plugin("ops", entry["op"])
        except UnknownNameError as error:
            raise UnknownNameError("op", error.name, error.known, self.place((*where, "op"))) from None
        local = "" if head is None else head.name or self.free_name(head.op, scope)
        with faults:
            entry |= {key: self.sized(entry[key], (*where, key)) for key in op_type.sized if key in entry}
        with faults:
            op = validated(
                op_type,
                {key: value for key, value in entry.items() if key not in shared},
                place=lambda at: self.place(where + at, scope.prefix + local if local else ""),
                error=ModelError,
                also_allowed=LayerHead.model_fields,
                every=True,
            )
        if head is None or op is None:
            raise faults.error()
        return head, op, local

    def sized(self, value: Any, where: Where) -> Any:
        """Return dims with their sizes: names, one or in a list, of dims that the file declares, or names with sizes.

        Raises:
            InputError: a name is not declared.
        """
        if isinstance(value, dict) or not isinstance(value, str | list):
            return value
        found: dict[str, int] = {}
        for name in [value] if isinstance(value, str) else value:
            if not isinstance(name, str):
                return value
            if name not in self.dims:
                raise UnknownNameError("dim", name, self.dims, self.place(where))
            if name in found:
                raise ModelError(self.place(where), f"found {name!r} twice", "each dim once")
            found[name] = self.dims[name]
        return found

    def add_block(self, entry: dict[str, Any], where: Where, scope: _Scope, before: list[str]) -> str:
        """Add the layers of a block, repeated on request; return the entry's name within the scope."""
        entry = self.substituted(entry, where, scope)
        use = validated(
            BlockUse, entry, place=lambda at: self.document.at(where + at), error=ModelError, every=True
        )
        if use.block not in self.blocks:
            raise UnknownNameError("block", use.block, self.blocks, self.place((*where, "block")))
        if use.block in scope.using:
            chain = " -> ".join([*scope.using[scope.using.index(use.block) :], use.block])
            raise ModelError(self.place((*where, "block")), f"a block that uses itself: {chain}")
        if len(scope.using) >= MOST_BLOCKS:
            raise ModelError(self.place((*where, "block")), "blocks nested too deeply", f"{MOST_BLOCKS} deep")
        block = self.blocks[use.block]
        self.used.add(use.block)
        if set(use.arguments) != set(block.parameters):
            missing = [name for name in block.parameters if name not in use.arguments]
            unknown = [name for name in use.arguments if name not in block.parameters]
            found = [
                f"{kind} {', '.join(names)}"
                for kind, names in (("no", missing), ("unknown", unknown))
                if names
            ]
            wanted = ", ".join(block.parameters) or "nothing"
            raise ModelError(self.place((*where, "with"), use.name), f"found {' and '.join(found)}", wanted)
        inputs = before if use.inputs is None else use.inputs
        if len(inputs) != 1:
            raise ModelError(self.place(where, use.name), f"found {len(inputs)} inputs", "1 for a block")
        read, outer = inputs[0], scope
        for turn in range(use.repeat or 1):
            name = use.name if use.repeat is None else f"{use.name}.{turn}"
            inner = _Scope(
                prefix=f"{scope.prefix}{name}.",
                arguments=use.arguments,
                outer=(outer, read),
                using=(*scope.using, use.block),
            )
            self.add_all(block.layers, ("blocks", use.block, "layers"), inner)
            read, outer = list(inner.outputs)[-1], inner
            if use.repeat is not None:
                scope.outputs[name] = inner.outputs[read]
        self.register(use.name, inner.outputs[read], scope, where)
        return use.name

    def register(self, local: str, name: str, scope: _Scope, where: Where) -> None:
        """Register a name for a layer in its scope, once."""
        if local in scope.outputs or (local == "input" and scope.outer):
            raise ModelError(self.place(where), f"name {local!r} given twice", "each name once")
        scope.outputs[local] = name

    @staticmethod
    def free_name(op: str, scope: _Scope) -> str:
        """Return a generated name: ``relu1``, ``relu2``; the input is just ``input``."""
        if op == "input" and "input" not in scope.named | scope.outputs.keys():
            return op
        while True:
            scope.counts[op] = scope.counts.get(op, 0) + 1
            if (name := f"{op}{scope.counts[op]}") not in scope.named:
                return name

    def resolve(self, local: str, scope: _Scope, where: Where) -> str:
        """Return the layer that a name refers to."""
        while local == "input" and scope.outer:
            scope, local = scope.outer
        if local not in scope.outputs:
            named = [name for name in scope.outputs if not name.startswith(UNNAMED)]
            known = [*named, *(["input"] if scope.outer else [])]
            place = where if where[-1:] == ("weight",) else (*where, "inputs")
            raise UnknownNameError("layer", local, known, self.place(place))
        return scope.outputs[local]
