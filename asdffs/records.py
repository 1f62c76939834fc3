"""``NamedTuple``, as in ``typing``, for the modules that a mount, ``info`` or ``get`` imports.

Python's own compiles the annotation of each field, which nobody reads.  A mount makes 80 of these classes before its
first answer; each takes 34 us here, and 94 us there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from collections import namedtuple

    class _Maker(type):
        """Makes a named tuple of the fields that a class annotates, with its methods."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            fields = body.get("__annotations__", {})
            defaults = [body[field] for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            for key in body.keys() - fields.keys():
                setattr(made, key, body[key])
            return made

    NamedTuple = type.__new__(_Maker, "NamedTuple", (), {})
