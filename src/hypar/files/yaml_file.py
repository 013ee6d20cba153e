"""Reading of handwritten YAML files with the line of every field.

PyYAML composes nodes with their lines, which become plain data. Refused are repeated keys, too many values, and too deep
nesting, as of aliases inside their own anchors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hypar.errors import DocumentError, Where, field_name, shown
from hypar.files.text import read_text

MOST_NODES, MOST_DEPTH = 200_000, 64
"""The most values in one file, aliases expanded, and its deepest nesting: YAML's composer recurses in C, and would end the process."""

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The content of a file, with the line of every place in it, from 1; without lines if it was not read from a file."""

    file: Path
    data: Any
    lines: dict[Where, int] = field(default_factory=dict)

    def at(self, where: Where, name: str = "") -> str:
        """Return a place as ``a.yaml:4: layers[2].op 'name'``; the line is that of the nearest place around it that has one."""
        around = (self.lines[where[:n]] for n in range(len(where), -1, -1) if where[:n] in self.lines)
        line = f":{next(around, 1)}" if self.lines else ""
        place = f": {field_name(where)}" if where else ""
        return f"{self.file}{line}{place}{f' {name!r}' if name else ''}"


def plain_document(data: object, name: str) -> Document:
    """Return plain data of a program as the content of a file, for which a name stands in messages; raises ``DocumentError``."""
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
    """Read a YAML file with the line of each field; raises ``DocumentError``, also for more than ``MOST_NODES`` values."""
    return parse_yaml(read_text(file), file)


def parse_yaml(text: str, file: Path) -> Document:
    """Parse the text of a file, like ``read_yaml``."""
    try:
        loader = _Loader(text, file)
        root = loader.get_single_node()
        if root is None:
            raise DocumentError(str(file), "the file is empty")
        return Document(file=file, data=loader.built(root, ()), lines=loader.lines)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        if "nesting depth" in (error.problem or ""):  # libyaml has a limit of its own from 0.2.6 on
            raise _too_deep(f"{file}{line}") from error
        found = ", ".join(filter(None, (error.context, error.problem)))
        raise DocumentError(f"{file}{line}", f"not YAML: {found}") from error
    except (yaml.reader.ReaderError, UnicodeEncodeError) as error:
        character = chr(error.character) if isinstance(error, yaml.reader.ReaderError) else text[error.start]
        place = f"{file}:{text.count(chr(10), 0, text.find(character)) + 1}"
        raise DocumentError(place, f"found the character U+{ord(character):04X}", "YAML text") from error
    except RecursionError as error:
        raise _too_deep(str(file)) from error


class _Loader(_BASE):  # type: ignore[misc]
    """A loader that keeps the line of each place, and ends at too many values before memory or the stack does."""

    def __init__(self, text: str, file: Path) -> None:
        super().__init__(text)
        self.file, self.nodes, self.depth = file, 0, 0
        self.lines: dict[Where, int] = {}

    def descend_resolver(self, parent: yaml.Node | None, _index: object) -> None:
        """Count one more node, inside ``parent``: PyYAML calls it before each."""
        self.nodes += 1
        self.depth += 1
        if self.nodes > MOST_NODES or self.depth > MOST_DEPTH:
            place = f"{self.file}:{parent.start_mark.line + 1}" if parent is not None else str(self.file)
            raise _too_deep(place) if self.depth > MOST_DEPTH else _too_many(place)

    def ascend_resolver(self) -> None:
        self.depth -= 1

    def built(self, node: yaml.Node, where: Where) -> Any:
        """Return the plain data of one node and all below it; an alias has the line of its anchor."""
        self.lines[where] = node.start_mark.line + 1
        if len(self.lines) > MOST_NODES:
            raise _too_many(f"{self.file}:{self.lines[where]}")
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, where)
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, where)
        return [self.built(item, (*where, index)) for index, item in enumerate(node.value)]

    def scalar(self, node: yaml.Node, where: Where) -> Any:
        try:
            value = self.construct_object(node)
            str(value)  # Python refuses to for a number of more than 4,300 digits.
        except (ArithmeticError, AttributeError, LookupError, ValueError) as error:
            # Raised by PyYAML for a number too long to read, an impossible date, or ``!!int x``.
            place = f"{self.file}:{self.lines[where]}: {field_name(where)}".removesuffix(": ")
            kind = node.tag.rpartition(":")[2]
            found = f"found {shown(node.value)}, which cannot be read as {kind}"
            raise DocumentError(place, found) from error
        return value

    def mapping(self, node: yaml.MappingNode, where: Where) -> dict[str, Any]:
        """Return a mapping whose keys are distinct words."""
        found: dict[str, Any] = {}
        for key_node, value in node.value:
            place = f"{self.file}:{key_node.start_mark.line + 1}"
            if not isinstance(key_node, yaml.ScalarNode):
                raise DocumentError(place, "a key that is a list or a mapping", "a word")
            key = key_node.value
            if key in found:
                raise DocumentError(place, f"key {shown(key)} given twice", "once")
            found[key] = self.built(value, (*where, key))
            self.lines[*where, key] = key_node.start_mark.line + 1
        return found


def _too_deep(place: str) -> DocumentError:
    return DocumentError(place, "nested too deeply", f"{MOST_DEPTH} lists and mappings inside each other")


def _too_many(place: str) -> DocumentError:
    return DocumentError(place, "too many values, aliases expanded", f"at most {MOST_NODES:,}")
