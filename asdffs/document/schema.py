"""Whether a tree fits the schemas of its tags, as the asdf library and its installed extensions have them.

Tags that nobody there knows are not looked at: they may be right.  Imports asdf late; it is an extra.  Takes from a
tenth of a second to several for a large tree.
"""

from __future__ import annotations

import importlib.util
import io
import warnings
from typing import Any

import yaml

from asdffs.errors import InvalidTreeError, UsageError


def check_available() -> None:
    """Raise ``UsageError`` saying what to install."""
    if importlib.util.find_spec("asdf") is None:
        raise UsageError("schemas are the asdf library's, which is not there: pip install 'asdffs[schema]'")


def check_schemas(text: bytes) -> None:
    """Raise ``InvalidTreeError``, with the line, unless the tree in ``text`` fits its schemas."""
    import asdf
    from asdf import schema, util
    from asdf.exceptions import ValidationError

    with warnings.catch_warnings():  # of tags that no extension knows
        warnings.simplefilter("ignore")
        try:
            tree = util.load_yaml(io.BytesIO(text), tagged=True)
        except (yaml.YAMLError, ValueError, TypeError, RecursionError) as err:
            raise InvalidTreeError(f"the asdf library cannot read it: {_first_line(err)}") from err
        try:
            schema.validate(tree, asdf.AsdfFile(), reading=True)
        except ValidationError as err:
            path = _path_of(tree, err.instance) or tuple(err.path)
            where = ".".join(map(str, path)) or "the tree"
            raise InvalidTreeError(
                f"{where} does not fit its schema: {_reason(err)}", line=_line_of(text, path)
            ) from err


def _reason(err: Any) -> str:
    """Of several schemas that might fit, what the nearest one says."""
    while err.context:
        err = max(err.context, key=lambda one: len(one.absolute_path))
    return _first_line(err.message)


def _first_line(err: object) -> str:
    return str(err).partition("\n")[0][:300]


def _path_of(tree: Any, wanted: Any) -> tuple[str | int, ...]:
    """Where in the tree the very object ``wanted`` is; empty where it is not, or is the tree."""
    rest: list[tuple[tuple[str | int, ...], Any]] = [((), tree)]
    seen: set[int] = set()
    while rest:
        path, node = rest.pop()
        if node is wanted:
            return path
        if id(node) in seen or not isinstance(node, (dict, list)):
            continue
        seen.add(id(node))
        pairs = node.items() if isinstance(node, dict) else enumerate(node)
        rest += [((*path, key), child) for key, child in pairs]
    return ()


def _line_of(text: bytes, path: tuple[str | int, ...]) -> int | None:
    """The line of what is at ``path``, counted from 1 of the file."""
    node: Any = yaml.compose(io.BytesIO(text), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    for key in path:
        if isinstance(node, yaml.MappingNode):
            node = next((value for name, value in node.value if name.value == str(key)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int):
            node = node.value[key]
    return node.start_mark.line + 1 if isinstance(node, yaml.Node) else None
