"""Lets regular expressions be compiled when they are first used, in a process that runs a command.

Modules compile theirs while they are imported.  ``asdffs info`` imports 73 of them, in Python's own modules, in
``yaml`` and here, and uses a third; the others took a tenth of its time.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import Any, Final

#: The packages whose patterns wait: all that a command imports at its start.
_PACKAGES: Final = frozenset({"asdffs", "gettext", "locale", "logging", "string", "textwrap", "tokenize", "yaml"})
_compile: Final[Any] = re.compile


class _Lazy:
    """A pattern that is compiled when its first method or attribute is asked for; ``re`` takes it for a pattern."""

    def __init__(self, *words: Any) -> None:
        self._words = words

    __class__ = property(lambda self: re.Pattern)

    @functools.cached_property
    def _pattern(self) -> Any:
        return _compile(*self._words)

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(self._pattern, name)  # the next time nobody asks here
        return found


def compile_lazily() -> None:
    """Make ``re.compile`` return patterns of a module that is being imported without compiling them.

    Other packages, and calls from functions, such as for what the user typed, get theirs at once.
    """

    def compiled(*words: Any) -> Any:
        known = sys._getframe(1).f_globals
        if known["__name__"].partition(".")[0] not in _PACKAGES or not _is_imported_now(known):
            return _compile(*words)
        return _Lazy(*words)

    re.compile = compiled  # type: ignore[assignment]


def _is_imported_now(known: dict[str, Any]) -> bool:
    return getattr(known.get("__spec__"), "_initializing", False) is True
