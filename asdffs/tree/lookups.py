"""Finds values of a tree by their paths, and turns them into plain values for JSON and YAML.

Pure functions.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from asdffs.errors import MissingValueError
from asdffs.tree.locating import Location, both_places, locate, missing
from asdffs.tree.paths import Path, format_path, item_number
from asdffs.tree.tape import Tape
from asdffs.tree.values import Nodes, ValueNode, datatype_text

if TYPE_CHECKING:
    from asdffs.tree.conditions import Condition

#: What the tag of an ndarray has.
NDARRAY: Final = "core/ndarray-"


class Values:
    """The values of one tree, whose text is parsed when the first of them is asked for."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._nodes: Nodes | None = None

    @property
    def tape(self) -> Tape:
        """The tape of the tree.  Raises ``InvalidTreeError``."""
        return self._read().tape

    def root(self) -> ValueNode:
        """Return the root of the tree.  Raises ``InvalidTreeError``."""
        return self._read().root()

    def find(self, path: Path) -> ValueNode | None:
        """Return the value at ``path``, or None if it is missing.  Raises ``InvalidTreeError``."""
        if not path:
            return self.root()
        found = self._located(path)
        return None if found is None or found.missing else self._read().node(found.row)

    def twice(self, path: Path) -> str:
        """Return a sentence about a key of ``path`` that its mapping has twice; empty without one."""
        found = self._located(path)
        return both_places(found.twice) if found is not None and found.twice is not None else ""

    def hold(self, condition: Condition, footprint: Callable[[], str]) -> bool:
        """Return whether a condition holds for the values.  ``footprint``: see ``conditions.holds``.

        Raises ``InvalidTreeError``.
        """
        from asdffs.tree.comparing import MISSING
        from asdffs.tree.conditions import holds

        def lookup(path: Path) -> Any:
            found = self.find(path)
            return MISSING if found is None else found.value

        return holds(condition, lookup, footprint)

    def written(self, path: Path) -> str | None:
        """Return the text of the value as it is written, with tag and anchor; None if it is missing.

        The lines of a block mapping or sequence without a tag or anchor lose their common indentation.
        """
        text, found = self.tape.text, locate(self.tape, path)
        if found.missing:
            return None
        written = text[found.start : found.end]
        if found.kind not in ("mapping", "sequence") or found.flow or found.content != found.start:
            return written
        indent = " " * (found.start - text.rfind("\n", 0, found.start) - 1)
        return "\n".join(line.removeprefix(indent) for line in written.split("\n"))

    def missing(self, path: Path) -> str:
        """Return a sentence about ``path``, which leads to nothing: where it ends."""
        other = tuple(step for one in path for step in str(one).split("/") if step)  # as other commands print paths
        if other != path and self.find(other) is not None:
            return f"{format_path(path)}: there is no such value; write {format_path(other)}"
        try:
            return missing(self.tape, path, locate(self.tape, path)).sentence
        except MissingValueError as err:
            return f"{format_path(path)}: there is no such value; {err}"

    def _read(self) -> Nodes:
        if self._nodes is None:
            self._nodes = Nodes(Tape(self._text))
        return self._nodes

    def _located(self, path: Path) -> Location | None:
        """Return where the value is; None if the path leads through a scalar."""
        try:
            return locate(self.tape, path)
        except MissingValueError:
            return None


def find_value(root: ValueNode, path: Path) -> ValueNode | None:
    """Return the value at ``path`` in ``root``, or None if it is missing."""
    node = root
    for step in path:
        found = _child(node, step)
        if found is None:
            return None
        node = found
    return node


def _child(node: ValueNode, step: str | int) -> ValueNode | None:
    if isinstance(node.value, dict):
        found: ValueNode | None = node.value.get(str(step))
        return found
    number = item_number(step)
    if not isinstance(node.value, list) or number is None:
        return None
    count = len(node.value)
    one: ValueNode | None = node.value[number] if -count <= number < count else None
    return one


def plain(node: ValueNode) -> Any:
    """Return the value without tags: dicts, lists, str, int, float, bool, None, dates.

    Raises ``InvalidTreeError`` if aliases make too much of it.
    """
    return _copy(node, lambda scalar: scalar.value)


def for_json(node: ValueNode) -> Any:
    """Return the value as JSON can hold it: as ``plain``, with scalars as of ``json_scalar``."""
    return _copy(node, lambda scalar: json_scalar(scalar.value))


def _copy(node: ValueNode, scalar: Callable[[ValueNode], Any]) -> Any:
    node.check_aliases()

    def copied(node: ValueNode) -> Any:
        if isinstance(node.value, dict):
            return {key: copied(item) for key, item in node.value.items()}
        return [copied(item) for item in node.value] if isinstance(node.value, list) else scalar(node)

    return copied(node)


def json_scalar(value: Any) -> Any:
    """Return a scalar as JSON can hold it: a date is text in ISO 8601, a number that is not finite text of YAML."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return value


def cut(node: ValueNode, depth: int) -> ValueNode:
    """Return the value down to ``depth`` levels; what is deeper is text such as ``{3 keys}`` or ``[10 items]``.

    Raises as ``plain``.
    """
    node.check_aliases()
    return _cut(node, depth)


def _cut(node: ValueNode, depth: int) -> ValueNode:
    value = node.value
    if not isinstance(value, (dict, list)):
        return node
    if not depth:
        return ValueNode("", short(node), short(node)) if value else node
    if isinstance(value, dict):
        return node.holding({key: _cut(item, depth - 1) for key, item in value.items()})
    return node.holding([_cut(item, depth - 1) for item in value])


def is_array(node: ValueNode) -> bool:
    """Return whether the value is an ndarray by its tag, and not the short form, a list."""
    return isinstance(node.value, dict) and NDARRAY in node.tag


def short(node: ValueNode) -> str:
    """Return the text of a scalar, what an array is, or how large a mapping or sequence is."""
    value = node.value
    if isinstance(value, dict):
        return _array(value) if is_array(node) else f"{{{_count(len(value), 'key')}}}"
    return f"[{_count(len(value), 'item')}]" if isinstance(value, list) else node.text


def _array(value: dict[str, ValueNode]) -> str:
    shape, source, datatype = (value.get(name) for name in ("shape", "source", "datatype"))
    sizes = [item.text for item in shape.value] if shape and isinstance(shape.value, list) else []
    kind = "array" if datatype is None else datatype.text or datatype_text(plain(datatype))
    return f"{kind} [{', '.join(sizes)}]" + (f", block {source.text}" if source and source.text else "")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def walk(node: ValueNode) -> Iterator[tuple[Path, ValueNode]]:
    """Yield each value below ``node`` with its path, in the order of the text; ``node`` itself first.

    Raises as ``plain``.
    """
    node.check_aliases()
    yield from _walk(node, ())


def _walk(node: ValueNode, path: Path) -> Iterator[tuple[Path, ValueNode]]:
    yield path, node
    value = node.passing_value()
    for key, item in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from _walk(item, (*path, key))
