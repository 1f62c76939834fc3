"""Makes imports quicker, in a process that runs a command.

Modules compile regular expressions while they are imported: for ``asdffs info`` there are 73, in modules of Python,
in ``yaml`` and here.  It uses a third; the others took a tenth of its time.  Now the first use of each compiles it.

A class that ``typing.NamedTuple`` makes takes 94 us, because the annotation of each field is compiled, which nobody
reads; one of asdffs takes 34 us.  A mount makes 80 before its first answer.
"""

from __future__ import annotations

import collections
import copyreg
import re
import sys
import typing
from typing import Any, Final

#: The packages whose patterns wait: all that a command imports at its start.
_PACKAGES: Final = frozenset({"asdffs", "gettext", "locale", "logging", "string", "textwrap", "tokenize", "yaml"})
_compile: Final[Any] = re.compile
_NAMED_TUPLE: Final[Any] = typing.NamedTuple
_usual_bases: Final[Any] = _NAMED_TUPLE.__mro_entries__
_make: Final[Any] = collections.namedtuple  # mypy wants to see the fields


def make_imports_quicker() -> None:
    """Do it from now on: for patterns of modules that are being imported, and for named tuples of asdffs."""
    re.compile = _compiled
    _NAMED_TUPLE.__mro_entries__ = _bases


def _compiled(pattern: Any, flags: Any = 0) -> Any:
    """Return a pattern, as ``re.compile``.

    Other packages, and calls from functions, such as for what the user typed, get theirs at once.
    """
    known = sys._getframe(1).f_globals
    imported = getattr(known.get("__spec__"), "_initializing", False)
    lazy = imported and known["__name__"].partition(".")[0] in _PACKAGES
    return _Lazy(pattern, flags) if lazy else _compile(pattern, flags)


class _Lazy:
    """A pattern that is compiled when its first method or attribute is asked for; ``re`` takes it for a pattern."""

    def __init__(self, *words: Any) -> None:
        self._words = words

    __class__ = property(lambda self: re.Pattern)

    def __reduce__(self) -> Any:
        return copyreg.dispatch_table[re.Pattern](self._pattern)

    def __getattr__(self, name: str) -> Any:
        found = _compile(*self._words) if name == "_pattern" else getattr(self._pattern, name)
        self.__dict__[name] = found  # the next time nobody asks here
        return found


def _bases(bases: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what a class gets for its base ``typing.NamedTuple``; one with types gets what it always does."""
    return (_Base,) if len(bases) == 1 else _usual_bases(bases)


class _Maker(type):
    """Makes a named tuple of the fields that a class annotates, with its methods."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        if not body["__module__"].startswith("asdffs."):
            usual = _usual_bases((_NAMED_TUPLE,))
            return type(usual[0])(name, usual, body)
        fields = body.get("__annotations__", {})
        defaults = [body[field] for field in fields if field in body]
        made = _make(name, fields, defaults=defaults, module=body["__module__"])
        for key in body.keys() - fields.keys():
            setattr(made, key, body[key])
        return made


_Base: Final = type.__new__(_Maker, "NamedTuple", (), {})
