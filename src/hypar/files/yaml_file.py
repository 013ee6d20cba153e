"""Reading of handwritten YAML files with the line of every field.

PyYAML composes nodes with their lines; this module turns them into plain data. It refuses recursive
aliases, repeated keys and excessive nesting.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hypar.errors import DocumentError, Where, field_name, shown
from hypar.files.text import read_text

MOST_NODES = 200_000
"""Largest number of values in one file, with aliases expanded."""

MOST_DEPTH = 64
"""Largest nesting of lists and mappings; YAML's composer recurses in C and would end the process."""

MOST_BITS = 10_000
"""Largest number of bits in a whole number; Python refuses to print more than 4300 digits."""

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The content of a file, with the line of every place in it.

    Attributes:
        file: path as given.
        data: mappings, lists and scalars.
        lines: line of each place, from 1; empty for data that were not read from a file.
    """

    file: Path
    data: Any
    lines: dict[Where, int] = field(default_factory=dict)

    def at(self, where: Where) -> str:
        """``file:line: field`` of a place; the line is that of the nearest place around it, if there are lines.

        Examples:
            >>> from pathlib import Path
            >>> Document(file=Path("a.yaml"), data={}, lines={(): 1, ("layers",): 4}).at(("layers", 2, "op"))
            'a.yaml:4: layers[2].op'
        """
        if not self.lines:
            return f"{self.file}" + (f": {field_name(where)}" if where else "")
        line = next((self.lines[where[:n]] for n in range(len(where), -1, -1) if where[:n] in self.lines), 1)
        return f"{self.file}:{line}" + (f": {field_name(where)}" if where else "")


def plain_document(data: object, name: str) -> Document:
    """Return data that a program made as the content of a file without lines.

    Args:
        data: mappings, lists, texts, numbers, true, false and None.
        name: stands for the file in messages.

    Raises:
        DocumentError: there is something else among the data, or they hold themselves.
    """
    try:
        return Document(file=Path(name), data=json.loads(json.dumps(data)))
    except (TypeError, ValueError, RecursionError) as error:
        allowed = "mappings, lists, texts, numbers, true, false and None, as a YAML file has"
        raise DocumentError(name, f"found data that no file could hold: {error}", allowed) from error


def format_yaml(data: Any) -> str:
    """Return plain data as the text of a YAML file, keys in the order given."""
    text: str = yaml.dump(data, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=110)
    return text


def read_yaml(file: Path) -> Document:
    """Read a YAML file with the line of each field.

    Raises:
        DocumentError: the file cannot be read, is empty or not YAML, or expands to more than ``MOST_NODES`` values.
    """
    return parse_yaml(read_text(file), file)


def parse_yaml(text: str, file: Path) -> Document:
    """Parse the text of a file, like ``read_yaml``."""
    loader = None
    try:
        loader = _Loader(text, file)
        root = loader.get_single_node()
        if root is None:
            raise DocumentError(str(file), "the file is empty")
        lines: dict[Where, int] = {}
        return Document(file=file, data=_Builder(loader, file, lines).build(root, ()), lines=lines)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        found = ", ".join(filter(None, (error.context, error.problem)))
        raise DocumentError(f"{file}{line}", f"not YAML: {found}") from error
    except yaml.reader.ReaderError as error:
        raise _character_error(file, text, chr(error.character)) from error
    except UnicodeEncodeError as error:
        raise _character_error(file, text, text[error.start]) from error
    finally:
        if loader is not None:
            loader.dispose()


def _character_error(file: Path, text: str, character: str) -> DocumentError:
    line = text.count("\n", 0, text.find(character)) + 1
    return DocumentError(f"{file}:{line}", f"found the character U+{ord(character):04X}", "YAML text")


class _Loader(_BASE):  # type: ignore[misc]
    """A loader that refuses too many nodes and too deep a nesting before memory or the stack runs out.

    PyYAML calls its resolver before and after each node; hypar needs only the calls.
    """

    def __init__(self, text: str, file: Path) -> None:
        super().__init__(text)
        self.file, self.nodes, self.depth = file, 0, 0

    def descend_resolver(self, parent: yaml.Node | None, _index: object) -> None:
        """Count one more node, inside ``parent``."""
        self.nodes += 1
        self.depth += 1
        if self.nodes > MOST_NODES or self.depth > MOST_DEPTH:
            raise _too_much(self.file, parent, self.depth)

    def ascend_resolver(self) -> None:
        """Leave a complete node."""
        self.depth -= 1


def _too_much(file: Path, node: yaml.Node | None, depth: int) -> DocumentError:
    place = f"{file}:{node.start_mark.line + 1}" if node is not None else str(file)
    if depth > MOST_DEPTH:
        return DocumentError(place, "nested too deeply", f"{MOST_DEPTH} lists and mappings inside each other")
    return DocumentError(place, "too many values, aliases expanded", f"at most {MOST_NODES:,}")


class _Builder:
    """Turns composed nodes into plain data and records their lines."""

    def __init__(self, loader: Any, file: Path, lines: dict[Where, int]) -> None:
        self.loader, self.file, self.lines = loader, file, lines
        self.around: list[yaml.Node] = []

    def build(self, node: yaml.Node, where: Where) -> Any:
        """Build one node and all nodes below it; an alias has the line of its anchor."""
        line = node.start_mark.line + 1
        self.lines[where] = line
        if len(self.lines) > MOST_NODES or len(where) >= MOST_DEPTH:
            raise _too_much(self.file, node, len(where) + 1)
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, where)
        if node in self.around:
            raise DocumentError(f"{self.file}:{line}", "an alias inside its own anchor")
        self.around.append(node)
        if isinstance(node, yaml.MappingNode):
            found: Any = self.mapping(node, where)
        else:
            found = [self.build(item, (*where, index)) for index, item in enumerate(node.value)]
        self.around.pop()
        return found

    def scalar(self, node: yaml.Node, where: Where) -> Any:
        """Build one scalar, such as a number or a text."""
        reason: Exception | None = None
        try:
            value = self.loader.construct_object(node)
            if not isinstance(value, int) or value.bit_length() <= MOST_BITS:
                return value
        except (ArithmeticError, AttributeError, LookupError, ValueError) as error:
            # Raised by PyYAML for a number too long to read, an impossible date, or ``!!int x``.
            reason = error
        place = f"{self.file}:{node.start_mark.line + 1}: {field_name(where)}".removesuffix(": ")
        kind = node.tag.rpartition(":")[2]
        allowed = "at most 3,000 digits" if kind == "int" else ""
        found = f"found {shown(node.value)}, which cannot be read as {kind}"
        raise DocumentError(place, found, allowed) from reason

    def mapping(self, node: yaml.MappingNode, where: Where) -> dict[str, Any]:
        """Build a mapping whose keys are distinct words."""
        found: dict[str, Any] = {}
        for key_node, value in node.value:
            place = f"{self.file}:{key_node.start_mark.line + 1}"
            if not isinstance(key_node, yaml.ScalarNode):
                raise DocumentError(place, "a key that is a list or a mapping", "a word")
            key = key_node.value
            if key in found:
                raise DocumentError(place, f"key {shown(key)} given twice", "once")
            found[key] = self.build(value, (*where, key))
            self.lines[*where, key] = key_node.start_mark.line + 1
        return found
