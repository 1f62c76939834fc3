"""Conditions on the values of a tree: ``roman.meta.instrument.name == "WFI" and roman.meta.exposure.time > 100``.

Grammar, loosest first (docs/conditions.md is for users)::

    condition = both *( "or" both )
    both      = one *( "and" one )
    one       = "not" one | "(" condition ")" | "exists" path | path [ operator literal ] | place
    place     = "cone(" number "," number "," number [ unit ] ")" | "contains(" number "," number ")"
    unit      = "deg" | "arcmin" | "arcsec"
    operator  = "==" | "!=" | "<" | "<=" | ">" | ">=" | "=~" | "in"
    literal   = a decimal number, "string", 'string', true, false, null | "[" literal *( "," literal ) "]"

In a string only its own quote is escaped, by a backslash; every other backslash stays.  Nothing is ever evaluated as
Python.

There is one evaluator, for many trees at once.  Its answers are True, False, and None: not known, because the value
is not known (``Mark``).  A tree that is read knows all its values.  A catalogue does not, and asks the file then.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from asdffs.errors import InvalidTreeError, UsageError
from asdffs.tree.comparing import MISSING, Mark, compare_each
from asdffs.tree.paths import IN_CONDITION, Path, parse_prefix
from asdffs.tree.patterns import TOO_SLOW, Pattern
from asdffs.tree.sphere import Circle, meets, parse_region, point_at

_DATE: Final = re.compile(r"\d{4}-\d\d")
_DEEPEST: Final = 50
_LONGEST_NUMBER: Final = 400
_LARGEST_RADIUS: Final = 180
_SPACE: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r"(?:and|or|not|in|exists)\b")
_OPERATOR: Final = re.compile(r"==|!=|<=|>=|=~|<|>|in\b")
_LITERAL: Final = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\b|"""
    r"""(?P<word>true|false|null)\b"""
)
_WORDS: Final = {"true": True, "false": False, "null": None}
#: Returns the value at a path, ``MISSING`` or a ``Mark``.
Lookup = Callable[[Path], Any]
#: A circle on the sky, in degrees.
_CIRCLE: Final = re.compile(
    r"cone\s*\(\s*(?P<ra>[-+.\deE]+)\s*,\s*(?P<dec>[-+.\deE]+)\s*,\s*(?P<radius>[-+.\deE]+)\s*"
    r"(?P<unit>deg|arcmin|arcsec)?\s*\)|contains\s*\(\s*(?P<x>[-+.\deE]+)\s*,\s*(?P<y>[-+.\deE]+)\s*\)"
)
_ON_SKY: Final = re.compile(r"(cone|contains)\s*\(")
_UNITS: Final = {None: 1.0, "deg": 1.0, "arcmin": 60.0, "arcsec": 3600.0}


class Columns(Protocol):
    """The values that are known of a fixed number of trees."""

    def __call__(self, path: Path) -> Sequence[Any]:
        """Return for each tree the value at a path, ``MISSING`` or a ``Mark``."""

    def footprints(self) -> Sequence[str]:
        """Return for each tree its footprint on the sky (``arrays/footprints``), or an empty text."""


class Condition(Protocol):
    """A condition that was parsed."""

    @property
    def circles(self) -> Sequence[Circle]:
        """The circles on the sky of which it speaks."""

    def holds_each(self, columns: Columns) -> list[bool | None]:
        """Return for each tree whether the condition holds; None if ``columns`` does not know enough."""


class _Alone:
    """One tree, as ``Columns``."""

    def __init__(self, lookup: Lookup, footprint: Callable[[], str]) -> None:
        self._lookup = lookup
        self._footprint = footprint

    def __call__(self, path: Path) -> Sequence[Any]:
        return (self._lookup(path),)

    def footprints(self) -> Sequence[str]:
        return (self._footprint(),)


def holds(condition: Condition, lookup: Lookup, footprint: Callable[[], str] = str) -> bool:
    """Return whether ``condition`` holds for one tree, whose ``lookup`` knows every value.

    ``footprint()``: see ``Columns``.  Raises ``InvalidTreeError`` if a search in one of its texts takes too long.
    """
    held = condition.holds_each(_Alone(lookup, footprint))[0]
    if held is None:
        raise InvalidTreeError(f"the condition is not decided: {TOO_SLOW}")
    return held


def parse_condition(text: str) -> Condition:
    """Return the condition ``text``.  Raises ``UsageError`` with the character where it is wrong."""
    parser = _Parser(text)
    found = parser.condition(0)
    parser.end()
    return found


@dataclass(frozen=True, slots=True)
class _Joined:
    """Parts with ``or`` (``decides`` is True) or ``and`` (it is False): one such part decides."""

    parts: Sequence[Condition]
    decides: bool

    @property
    def circles(self) -> Sequence[Circle]:
        return [circle for part in self.parts for circle in part.circles]

    def holds_each(self, columns: Columns) -> list[bool | None]:
        decides, held = self.decides, self.parts[0].holds_each(columns)
        for part in self.parts[1:]:
            if held.count(decides) == len(held):
                break
            pairs = zip(held, part.holds_each(columns), strict=True)
            held = [decides if decides in pair else None if None in pair else not decides for pair in pairs]
        return held


@dataclass(frozen=True, slots=True)
class _Not:
    part: Condition

    @property
    def circles(self) -> Sequence[Circle]:
        return self.part.circles

    def holds_each(self, columns: Columns) -> list[bool | None]:
        return [None if held is None else not held for held in self.part.holds_each(columns)]


@dataclass(frozen=True, slots=True)
class _There:
    """A value is there, and with ``true``, it is also true."""

    path: Path
    true: bool
    circles: Sequence[Circle] = ()

    def holds_each(self, columns: Columns) -> list[bool | None]:
        found = ((value, value is not MISSING and (not self.true or bool(value))) for value in columns(self.path))
        return [None if value is Mark.UNKNOWN else held for value, held in found]


@dataclass(frozen=True, slots=True)
class _Comparison:
    path: Path
    name: str
    literal: Any
    circles: Sequence[Circle] = ()

    def holds_each(self, columns: Columns) -> list[bool | None]:
        return compare_each(self.name, columns(self.path), self.literal)


@dataclass(frozen=True, slots=True)
class _Place:
    """The footprint meets a circle on the sky, which is a point if its radius is 0."""

    circle: Circle

    @property
    def circles(self) -> Sequence[Circle]:
        return (self.circle,)

    def holds_each(self, columns: Columns) -> list[bool | None]:
        return [self._meets(text) if text[:1].isalpha() else False for text in columns.footprints()]

    def _meets(self, footprint: str) -> bool | None:
        """Return whether a footprint meets the circle; None if it is none, as in a damaged catalogue."""
        try:
            return meets(parse_region(footprint), self.circle)
        except ValueError:
            return None


class _Parser:
    """Recursive descent over one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def condition(self, depth: int) -> Condition:
        if depth > _DEEPEST:
            raise self._wrong(f"parentheses are nested more than {_DEEPEST} deep")
        parts = [self._both(depth)]
        while self._takes("or"):
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else _Joined(parts, decides=True)

    def end(self) -> None:
        self._space()
        if self._text[self._at : self._at + 1] == "=":
            raise self._wrong("write '==' to compare")
        if self._at < len(self._text):
            raise self._wrong("'and', 'or' or the end is expected here")

    def _both(self, depth: int) -> Condition:
        parts = [self._one(depth)]
        while self._takes("and"):
            parts.append(self._one(depth))
        parts.sort(key=lambda part: not part.circles)  # these leave few trees of a catalogue
        return parts[0] if len(parts) == 1 else _Joined(parts, decides=False)

    def _one(self, depth: int) -> Condition:
        if self._takes("not"):
            if depth > _DEEPEST:
                raise self._wrong(f"'not' is nested more than {_DEEPEST} deep")
            return _Not(self._one(depth + 1))
        if self._takes("exists"):
            return _There(self._path(), true=False)
        self._space()
        if _ON_SKY.match(self._text, self._at):
            return self._place()
        if self._text.startswith("(", self._at):
            self._at += 1
            found = self.condition(depth + 1)
            self._space()
            if not self._text.startswith(")", self._at):
                raise self._wrong("')' is missing here")
            self._at += 1
            return found
        return self._comparison()

    def _comparison(self) -> Condition:
        path = self._path()
        self._space()
        found = _OPERATOR.match(self._text, self._at)
        if found is None:
            return _There(path, true=True)
        self._at = found.end()
        self._space()
        place = self._at
        literal = self._literals() if found[0] == "in" else self._literal()
        if found[0] == "=~":
            literal = self._pattern(literal, place)
        return _Comparison(path, found[0], literal)

    def _place(self) -> Condition:
        found = _CIRCLE.match(self._text, self._at)
        if found is None:
            raise self._wrong("write cone(RA, DEC, RADIUS) or contains(RA, DEC), in degrees; RADIUS also as 5 arcmin")
        try:
            center = point_at(float(found["ra"] or found["x"]), float(found["dec"] or found["y"]))
            radius = float(found["radius"] or 0) / _UNITS[found["unit"]]
            if not 0 <= radius <= _LARGEST_RADIUS:
                raise ValueError(f"a radius is from 0 to {_LARGEST_RADIUS} degrees")
        except ValueError as err:
            raise self._wrong(str(err)) from err
        self._at = found.end()
        return _Place(Circle(center, math.radians(radius)))

    def _path(self) -> Path:
        self._space()
        if _WORD.match(self._text, self._at):
            raise self._wrong("a path is expected here; put a key of this name into double quotes")
        path, self._at = parse_prefix(self._text, self._at, IN_CONDITION, "condition")
        return path

    def _literal(self) -> Any:
        self._space()
        found = _LITERAL.match(self._text, self._at)
        if found is None:
            raise self._wrong('a number, a "string", true, false or null is expected here')
        if _DATE.match(self._text, self._at):
            raise self._wrong("put a date into quotes")
        self._at = found.end()
        if found["string"] is not None:
            return _unquoted(found["string"])
        if found["word"] is not None:
            return _WORDS[found["word"]]
        if len(found["number"]) > _LONGEST_NUMBER:
            raise self._wrong(f"a number of more than {_LONGEST_NUMBER} characters ends here")
        return float(found["number"]) if re.search(r"[.eE]", found["number"]) else int(found["number"])

    def _literals(self) -> list[Any]:
        if not self._text.startswith("[", self._at):
            raise self._wrong("'[' is expected here: 'in' takes a list")
        self._at += 1
        found = [self._literal()]
        while self._sign(","):
            found.append(self._literal())
        if not self._sign("]"):
            raise self._wrong("',' or ']' is expected here")
        return found

    def _pattern(self, literal: Any, place: int) -> Pattern:
        self._at = place
        if not isinstance(literal, str):
            raise self._wrong("a regular expression in quotes is expected here")
        found = Pattern(literal)
        self._at = place + len(_LITERAL.match(self._text, place)[0])  # type: ignore[index]  # it matched before
        return found

    def _sign(self, sign: str) -> bool:
        self._space()
        there = self._text.startswith(sign, self._at)
        self._at += there
        return there

    def _takes(self, word: str) -> bool:
        self._space()
        found = _WORD.match(self._text, self._at)
        if found is None or found[0] != word:
            return False
        self._at = found.end()
        return True

    def _space(self) -> None:
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _wrong(self, sentence: str) -> UsageError:
        return UsageError(f"condition {self._text!r}, character {self._at + 1}: {sentence}")


def _unquoted(string: str) -> str:
    """Return what is inside the quotes: a backslash is as typed, but for one before the quote."""
    quote = string[0]
    return re.sub(r"\\(.)", lambda pair: quote if pair[1] == quote else pair[0], string[1:-1], flags=re.DOTALL)
