"""Makes the cards of FITS headers from the metadata in a tree.

| in the tree                                 | in the header                                                     |
|---------------------------------------------|-------------------------------------------------------------------|
| a scalar beside the array                   | its own name, if that can be a keyword; else ``HIERARCH tree.…``  |
| a scalar of the nearest ``meta``            | ``HIERARCH meta.instrument.name``                                 |
| one in a table of keywords                  | that keyword as well: INSTRUME                                    |
| keywords of FITS in ``meta``, as in sunpy   | these keywords, COMMENT and HISTORY line by line                  |
| a text that fits no card                    | CONTINUE after a keyword; after ``HIERARCH``, COMMENT instead     |

Implements FITS 4.0, section 4.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from asdffs import registry
from asdffs.arrays.branch import Branch, upwards
from asdffs.features.fits.cards import CARD, value_of
from asdffs.features.fits.data import Card
from asdffs.features.fits.sky import AXES, axes_of, is_science

#: Cards of metadata: beyond this a header says nothing to anybody.
_MOST: Final = 2000
_META: Final = "meta"
#: Before names beside the array that cannot be keywords, or have a meaning: astropy reads HIERARCH NAXIS as NAXIS.
_BESIDE: Final = "tree"
_KEYWORD: Final = re.compile(r"[A-Z][A-Z0-9_-]{0,7}")
#: Keywords about the file itself, which metadata must not change.
_STRUCTURE: Final = re.compile(
    r"SIMPLE|XTENSION|BITPIX|NAXIS\d*|EXTEND|PCOUNT|GCOUNT|GROUPS|B(SCALE|ZERO|UNIT|LANK)|END|COMMENT|HISTORY|CONTINUE"
    r"|T(FIELDS|HEAP)|T[A-Z]{4}\d+|EXT(NAME|VER|LEVEL)|CHECKSUM|DATASUM|Z[A-Z]+\d*|INHERIT"
)
#: Keywords of coordinates, which must come together.
_COORDINATES: Final = re.compile(
    r"WCS.*|C(TYPE|RVAL|RPIX|DELT|UNIT|ROTA|D|NAME)\d.*|P[CVS]\d.*|(LON|LAT)POLE.?|RADESYS.?|EQUINOX.?|MJDREF.*"
)
_COMMENTARY: Final = ("COMMENT", "HISTORY")
_DATES: Final = re.compile(r"DATE(-[A-Z]{3})?")
#: What stands for a value that is not known in files of Roman.
_UNKNOWN: Final = ("?", "", -999999)
#: The day 0 of the modified Julian date.
_DAY_0: Final = datetime.datetime(1858, 11, 17)


def metadata_of(home: Branch | None, array: Branch | None = None) -> list[Card]:
    """Cards for the scalars beside an array, and in the nearest ``meta``.  ``array``: of an image, its branch."""
    if home is None:
        return []
    beside = list(_scalars(home, "")) if home.mapping else []
    meta = next((found for above in upwards(home) if (found := above.children.get(_META)) is not None), None)
    below = _below(meta, array) if meta is not None and meta is not home and meta.array is None else ()
    taken: dict[str, Card] = {}
    comments: list[Card] = []
    for keyword, value in itertools.islice(itertools.chain(beside, below), _MOST):
        if keyword in _COMMENTARY:
            comments.append((keyword, value, ""))
        elif _is_too_long(keyword, value):
            comments.append(("COMMENT", f"{keyword.partition(' ')[2]}: {value}", ""))
        else:
            taken.setdefault(keyword.upper(), (keyword, value, ""))
    return [*taken.values(), *comments]


def _is_too_long(keyword: str, value: Any) -> bool:
    """Return whether a card after HIERARCH does not fit, which has no continuation."""
    length = len(value) + value.count("'") + 2 if isinstance(value, str) else len(str(value))
    return keyword.startswith("HIERARCH ") and len(keyword) + len(" = ") + length > CARD


def _below(meta: Branch, array: Branch | None) -> Iterator[tuple[str, Any]]:
    """Yield the scalars of ``meta`` with their names: keywords, if it has those of FITS."""
    if not any(AXES.fullmatch(key.lower()) for key in meta.scalars):
        yield from _known(meta)
        yield from _flat(meta, _META)
        return
    stated = array is not None and meta.above and is_science(array, meta.above[0], axes_of(meta))
    for key, scalar in meta.scalars.items():
        name, value = key.upper(), value_of(scalar)
        if name in _COMMENTARY:
            yield from ((name, line) for line in scalar.text.splitlines() if line.isascii() and line.isprintable())
        elif value is None or not _KEYWORD.fullmatch(name) or _STRUCTURE.fullmatch(name):
            continue
        elif stated or not _COORDINATES.fullmatch(name):
            yield name, value


@functools.cache
def keyword_tables() -> Mapping[str, Sequence[str]]:
    """Return the tables of keywords of all plug-ins; the paths of another one come before those of ``standard``."""
    found: dict[str, tuple[str, ...]] = {}
    for name in registry.names("keywords"):
        table = registry.find("keywords", name)
        paths: dict[str, tuple[str, ...]] = {}
        if table is not None:
            paths = registry.answer("keywords", name, functools.partial(_paths_of, table), paths)
        for keyword, places in paths.items():
            found[keyword] = (*places, *found.get(keyword, ()))
    return found


def _paths_of(table: Any) -> dict[str, tuple[str, ...]]:
    pairs = {str(keyword): tuple(map(str, places)) for keyword, places in table.paths.items()}
    wrong = [keyword for keyword in pairs if not _KEYWORD.fullmatch(keyword) or _STRUCTURE.fullmatch(keyword)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is no keyword that metadata can have")
    return pairs


def _known(meta: Branch) -> Iterator[tuple[str, Any]]:
    """Yield the values that have a keyword in a table.  MJD-OBS is computed from DATE-OBS, if no path has it."""
    stated = ((keyword, _first(meta, keyword, places)) for keyword, places in keyword_tables().items())
    found = {keyword: value for keyword, value in stated if value is not None}
    if "DATE-OBS" in found and "MJD-OBS" not in found:
        found["MJD-OBS"] = _days(found["DATE-OBS"])
    yield from found.items()


def _first(meta: Branch, keyword: str, places: Sequence[str]) -> Any:
    """Return the value at the first of ``places`` that has one; None without one."""
    for place in places:
        *steps, last = place.split(".")
        branch: Branch | None = meta
        for step in steps:
            branch = None if branch is None else branch.children.get(step)
        scalar = None if branch is None else branch.scalars.get(last)
        value = None if scalar is None else value_of(scalar)
        if (
            value is not None
            and value not in _UNKNOWN
            and (not _DATES.fullmatch(keyword) or _days(value) is not None)
        ):
            return value
    return None


def _days(value: Any) -> float | None:
    """Return the modified Julian date of a date in ISO 8601; None for what is none."""
    try:
        when = datetime.datetime.fromisoformat(str(value))
    except ValueError:
        return None
    utc = when.astimezone(datetime.UTC) if when.tzinfo is not None else when
    return (utc.replace(tzinfo=None) - _DAY_0) / datetime.timedelta(days=1)


def _flat(branch: Branch, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the scalars of a mapping and of those in it, each once, however many aliases lead to it."""
    rest, seen = [(branch, prefix)], {id(branch)}
    while rest:
        found, name = rest.pop(0)
        yield from _scalars(found, name)
        for key, child in found.children.items():
            if found.mapping and child.array is None and child.mapping and id(child) not in seen:
                seen.add(id(child))
                rest.append((child, f"{name}.{key}"))


def _scalars(branch: Branch, prefix: str) -> Iterator[tuple[str, Any]]:
    for key, scalar in branch.scalars.items():
        value = value_of(scalar)
        if value is None:
            continue
        name = key.upper()
        plain = not prefix and _KEYWORD.fullmatch(name)
        if plain and not _STRUCTURE.fullmatch(name) and not _COORDINATES.fullmatch(name):
            yield name, value
        elif key.isprintable() and key.isascii() and key.strip():
            yield f"HIERARCH {prefix or _BESIDE}.{key}", value
