"""Makes imports quicker, in a process that runs a command (decision 51).

Modules compile their regular expressions while they are imported.  ``asdffs info`` imports modules with 73 of them,
and uses a third.  Here a regular expression is compiled when it is first used.

``typing.NamedTuple`` takes 94 us to make a class: it compiles the annotation of each field, which nobody reads.  For
classes of asdffs this module leaves that out: 34 us.  A mount makes 80 of them before its first answer.
"""

from __future__ import annotations

import collections
import copyreg
import re
import sys
import typing
from typing import Any, Final

#: The packages and modules whose patterns are compiled later: those with patterns that every command imports.
_PACKAGES: Final = frozenset({"asdffs", "gettext", "locale", "logging", "string", "textwrap", "tokenize", "yaml"})
_compile: Final[Any] = re.compile
_NAMED_TUPLE: Final[Any] = typing.NamedTuple
_usual_bases: Final[Any] = _NAMED_TUPLE.__mro_entries__
_make: Final[Any] = collections.namedtuple  # without its types: mypy wants the fields written out


def make_imports_quicker() -> None:
    """Compile patterns later, and make named tuples quicker, in the modules that are imported from now on."""
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
    """Return the real bases of a class that names ``typing.NamedTuple`` as one.

    If it has another base, such as ``Generic``, these are the usual ones.
    """
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
