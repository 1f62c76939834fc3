"""Translates errors of the YAML parser and of UTF-8, so that every reader of a tree says the same.

Pure.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from asdffs.errors import InvalidTreeError
from asdffs.limits import DEPTH

#: What libyaml says of a text that is nested more than 1,000 deep (since 0.2.6; before, it had no limit).
_TOO_DEEP: Final = "exceeded maximum nesting depth"
#: asdf and PyYAML build a tree recursively; a deeper one raises RecursionError there.
TOO_DEEP: Final = f"nested more than {DEPTH} deep; the asdf library could not read it"


def syntax_error(err: yaml.YAMLError, text: str) -> InvalidTreeError:
    """Return the error for a tree that the YAML parser refused, with its place in ``text`` and the parser's words."""
    problem = getattr(err, "problem", None) or getattr(err, "reason", None)
    mark = getattr(err, "problem_mark", None) or getattr(err, "context_mark", None)
    if problem == _TOO_DEEP:
        return invalid_at(TOO_DEEP, mark)
    if mark is None and isinstance(err, yaml.reader.ReaderError):
        line = text.count("\n", 0, err.position) + 1
        return InvalidTreeError(f"a character that YAML does not allow: {problem}", line=line)
    return invalid_at(problem or "not YAML", mark)


def decoded(text: bytes) -> str:
    """Return a text in UTF-8 as characters.  Raises ``InvalidTreeError``."""
    try:
        return text.decode()
    except UnicodeDecodeError as err:
        raise InvalidTreeError("the tree is not UTF-8", line=text.count(b"\n", 0, err.start) + 1) from err


def nested_too_deep(line: int | None) -> InvalidTreeError:
    """Return the error for a tree that is nested too deep; ``line`` from 1."""
    return InvalidTreeError(TOO_DEEP, line=line)


def invalid_at(problem: str, mark: Any) -> InvalidTreeError:
    """Return the error for a ``problem`` at a mark of PyYAML, which may be None."""
    if mark is None:
        return InvalidTreeError(problem)
    return InvalidTreeError(problem, line=mark.line + 1, column=mark.column + 1)
