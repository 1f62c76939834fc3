"""Translates errors of the YAML parser, so that every reader of a tree says the same.

Pure.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from asdffs.errors import InvalidTreeError
from asdffs.limits import DEPTH

#: What libyaml says of a text that is nested more than 1,000 deep (since 0.2.6; before, it had no limit).
_TOO_DEEP: Final = "exceeded maximum nesting depth"


def syntax_error(err: yaml.YAMLError) -> InvalidTreeError:
    """Return the error for a tree that the YAML parser refused, with the line and the parser's own words."""
    mark = getattr(err, "problem_mark", None) or getattr(err, "context_mark", None)
    line = mark.line + 1 if mark is not None else None
    if too_deep(err):
        return nested_too_deep(line)
    problem = getattr(err, "problem", None) or getattr(err, "reason", None)
    return InvalidTreeError(f"the tree is not YAML: {problem}" if problem else "the tree is not YAML", line=line)


def nested_too_deep(line: int | None) -> InvalidTreeError:
    """Return the error for a tree that is nested too deep; ``line`` from 1."""
    return InvalidTreeError(f"nested more than {DEPTH} deep", line=line)


def too_deep(err: Any) -> bool:
    """Return whether the parser refused the text because of its nesting alone."""
    return getattr(err, "problem", None) == _TOO_DEEP


def invalid_at(problem: str, mark: Any) -> InvalidTreeError:
    """Return the error for a ``problem`` at a mark of PyYAML, which may be None."""
    if mark is None:
        return InvalidTreeError(problem)
    return InvalidTreeError(problem, line=mark.line + 1, column=mark.column + 1)
