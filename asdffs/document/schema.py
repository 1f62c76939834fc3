"""Validates a tree against the schemas of its tags, which the asdf library and its installed extensions have.

Objects with tags that the library does not know are not validated, because they may be right.  For a file in a draft
dialect, the tree that ``asdffs upgrade`` would write is validated.  The asdf library is an optional dependency, so it
is imported late.  Validation takes from a tenth of a second to several seconds for a large tree.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from typing import Any

import yaml

from asdffs import registry
from asdffs.dialects.base import Dialect
from asdffs.errors import InvalidTreeError, MissingValueError, UsageError
from asdffs.format.text import standard_version
from asdffs.tree.locating import locate
from asdffs.tree.paths import Path
from asdffs.tree.tape import Tape


def check_available() -> None:
    """Raise ``UsageError`` with the command that installs the asdf library if it is missing."""
    from importlib.util import find_spec  # late, as below: commands import this module, and few use it

    if find_spec("asdf") is None:
        raise UsageError("schemas need the asdf library, which is not installed: pip install 'asdffs[schema]'")


def check_schemas(text: bytes, dialect: Dialect | None = None, count: int = 0) -> tuple[str, ...]:
    """Validate the tree in ``text``, and return the tags without a known schema, sorted.

    ``dialect``: the dialect of the text; ``count``: the number of blocks in its file.  Raises ``InvalidTreeError``,
    with the line, if the tree violates a schema or the asdf library cannot read it.
    """
    lines = _lines_before_tree(text)
    if dialect is not None and dialect.upgradable:
        text = registry.needed_feature("drafts").as_of_today(text, dialect, count)
    try:
        return _checked(text)
    except InvalidTreeError as err:
        if err.line is not None:  # make it a line of the text that the user knows, not of the upgraded one
            err.line += lines - _lines_before_tree(text)
        raise


def _lines_before_tree(text: bytes) -> int:
    return text.count(b"\n", 0, max(0, text.find(b"\n%YAML")))


def _checked(text: bytes) -> tuple[str, ...]:
    import asdf
    from asdf import schema, util

    with warnings.catch_warnings():  # asdf warns about tags that no extension knows
        warnings.simplefilter("ignore")
        try:
            tree = util.load_yaml(io.BytesIO(text), tagged=True)
            context = asdf.AsdfFile(version=_version_of(text))
        except (yaml.YAMLError, ValueError, TypeError, RecursionError) as err:
            raise InvalidTreeError(f"the asdf library cannot read it: {_first_line(err)}") from err
        _validate(schema, tree, context, text)
        return _unknown_tags(tree, context)


def _version_of(text: bytes) -> str | None:
    """Return the version of the standard that the text states; None if the library does not know it."""
    from asdf import versioning

    version = standard_version(text)
    return version if version in [str(known) for known in versioning.supported_versions] else None


def _validate(schema: Any, tree: Any, context: Any, text: bytes) -> None:
    from asdf.exceptions import ValidationError

    try:
        schema.validate(tree, context, reading=True)
    except ValidationError as err:
        path, error = _first_error(schema.get_validator({}, context), tree) or (tuple(err.path), err)
        where = ".".join(map(str, path)) or "the tree"
        sentence = f"{where} does not fit its schema: {_first_line(error.message)}"
        raise InvalidTreeError(sentence, line=_line_of(text, path)) from err


def _first_error(validator: Any, tree: Any) -> tuple[Path, Any] | None:
    """Return the path of the first error in the tree and the error itself; None if there is none.

    An error has only its path below the object with the schema, so the path of this object is put in front.
    """
    error = next(validator.iter_errors(tree), None)
    node, path = tree, Path()
    while error is not None:
        for key, child in _children(node):
            below = next(validator.iter_errors(child), None)
            if below is not None:
                error, node, path = below, child, (*path, key)
                break
        else:
            error = _nearest(error)
            return (*path, *error.absolute_path), error
    return None


def _children(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield keys and values of the collections and tagged scalars in ``node``; others have no schema of their own."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return ((key, child) for key, child in pairs if isinstance(child, (dict, list)) or hasattr(child, "_tag"))


def _unknown_tags(tree: Any, context: Any) -> tuple[str, ...]:
    manager = context.extension_manager
    found: dict[str, None] = {}
    rest, seen = [tree], {id(tree)}
    while rest:
        node = rest.pop()
        tag: Any = getattr(node, "_tag", None)
        known = tag is None or (manager.handles_tag_definition(tag) and manager.get_tag_definition(tag).schema_uris)
        if not known and not tag.startswith("tag:yaml.org,2002:"):
            found[tag] = None
        new = [child for _, child in _children(node) if id(child) not in seen]
        seen.update(map(id, new))
        rest += new
    return tuple(sorted(found))


def _nearest(err: Any) -> Any:
    """Return the error of the schema that fits best, if several schemas were possible."""
    while err.context:
        err = max(err.context, key=lambda one: len(one.absolute_path))
    return err


def _first_line(err: object) -> str:
    return str(err).partition("\n")[0][:300]


def _line_of(text: bytes, path: Path) -> int | None:
    """Return the line of the node at ``path``, from 1 in the file; None if there is none."""
    try:
        found = locate(Tape(text), path)
    except (InvalidTreeError, MissingValueError):
        return None
    return None if found.missing else found.line
