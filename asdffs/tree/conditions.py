"""Conditions on the values of a tree: ``roman.meta.instrument.name == "WFI" and roman.meta.exposure.time > 100``.

Grammar, loosest first::

    condition = both *( "or" both )
    both      = one *( "and" one )
    one       = "not" one | "(" condition ")" | "exists" path | path [ operator literal ]
    operator  = "==" | "!=" | "<" | "<=" | ">" | ">=" | "=~" | "in"
    literal   = a decimal number, "string", 'string', true, false, null | "[" literal *( "," literal ) "]"

In a string only its own quote is escaped, by a backslash; every other backslash stays.
A path alone is true if its value is there and is not false, null, zero or empty.  A comparison with a value that is
missing, or of another kind, is false; ``!=`` is true then.  ``=~`` searches for a regular expression.  Nothing is
ever evaluated as Python.  Pure functions.
"""

from __future__ import annotations

import datetime
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from asdffs.errors import UsageError
from asdffs.tree.paths import IN_CONDITION, Path, format_path, parse_prefix

#: What a lookup returns for a path that is not in the tree.
MISSING: Final = object()
_TIME: Final = re.compile(r"(?<=^\d{4}-\d\d-\d\d) +(?=\d)")
#: Bounds of a search: one pattern on one value must not take seconds.
_LONGEST_PATTERN: Final = 200
LONGEST_VALUE: Final = 1000
_MOST_REPEATS: Final = 3
_DEEPEST: Final = 50
_SPACE: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r"(?:and|or|not|in|exists)\b")
_OPERATOR: Final = re.compile(r"==|!=|<=|>=|=~|<|>|in\b")
_LITERAL: Final = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\b|"""
    r"""(?P<word>true|false|null)\b"""
)
_NUMBERS: Final = frozenset({int, float})
_WORDS: Final = {"true": True, "false": False, "null": None}
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

#: Returns the value at a path, or ``MISSING``.
Lookup = Callable[[Path], Any]
#: The values of many trees at each path.
Columns = Mapping[Path, Sequence[Any]]


class Condition(Protocol):
    """A condition that was parsed."""

    def holds(self, lookup: Lookup) -> bool:
        """Return whether it holds for the values that ``lookup`` returns."""

    def holds_each(self, columns: Columns, count: int) -> list[bool]:
        """Return for each of ``count`` trees whether it holds: as ``holds``, but much faster for many.

        ``columns``: path -> the value in each tree, or ``MISSING``; a path that is not there is missing in all.
        """

    def paths(self) -> set[Path]:
        """Return the paths that it looks up."""


def parse_condition(text: str) -> Condition:
    """Return the condition ``text``.  Raises ``UsageError`` with the character where it is wrong."""
    parser = _Parser(text)
    found = parser.condition(0)
    parser.end()
    return found


class _Either(NamedTuple):
    parts: list[Condition]

    def holds(self, lookup: Lookup) -> bool:
        return any(part.holds(lookup) for part in self.parts)

    def holds_each(self, columns: Columns, count: int) -> list[bool]:
        return list(map(any, zip(*(part.holds_each(columns, count) for part in self.parts), strict=True)))

    def paths(self) -> set[Path]:
        return {path for part in self.parts for path in part.paths()}


class _Both(NamedTuple):
    parts: list[Condition]

    def holds(self, lookup: Lookup) -> bool:
        return all(part.holds(lookup) for part in self.parts)

    def holds_each(self, columns: Columns, count: int) -> list[bool]:
        return list(map(all, zip(*(part.holds_each(columns, count) for part in self.parts), strict=True)))

    def paths(self) -> set[Path]:
        return {path for part in self.parts for path in part.paths()}


class _Not(NamedTuple):
    part: Condition

    def holds(self, lookup: Lookup) -> bool:
        return not self.part.holds(lookup)

    def holds_each(self, columns: Columns, count: int) -> list[bool]:
        return [not held for held in self.part.holds_each(columns, count)]

    def paths(self) -> set[Path]:
        return self.part.paths()


class _Exists(NamedTuple):
    path: Path

    def holds(self, lookup: Lookup) -> bool:
        return lookup(self.path) is not MISSING

    def holds_each(self, columns: Columns, count: int) -> list[bool]:
        return [value is not MISSING for value in _column(columns, self.path, count)]

    def paths(self) -> set[Path]:
        return {self.path}


class _True(NamedTuple):
    path: Path

    def holds(self, lookup: Lookup) -> bool:
        value = lookup(self.path)
        return value is not MISSING and bool(value)

    def holds_each(self, columns: Columns, count: int) -> list[bool]:
        return [value is not MISSING and bool(value) for value in _column(columns, self.path, count)]

    def paths(self) -> set[Path]:
        return {self.path}


class _Comparison(NamedTuple):
    path: Path
    name: str
    literal: Any

    def holds(self, lookup: Lookup) -> bool:
        return compare(self.name, lookup(self.path), self.literal)

    def holds_each(self, columns: Columns, count: int) -> list[bool]:
        values = _column(columns, self.path, count)
        order = _ORDER.get(self.name)
        if order is not None and isinstance(self.literal, (int, float)) and not isinstance(self.literal, bool):
            name, literal = self.name, self.literal
            return [
                order(value, literal) if value.__class__ in _NUMBERS else compare(name, value, literal)
                for value in values
            ]
        return _compare_each(self.name, values, self.literal)

    def paths(self) -> set[Path]:
        return {self.path}


def _column(columns: Columns, path: Path, count: int) -> Sequence[Any]:
    values = columns.get(path)
    return [MISSING] * count if values is None else values


def _compare_each(name: str, values: Sequence[Any], literal: Any) -> list[bool]:
    """Return ``compare`` of each of ``values``, of which many are the same."""
    known: dict[type, dict[Any, bool]] = {}
    found: list[bool] = []
    for value in values:
        if isinstance(value, (dict, list)):
            found.append(compare(name, value, literal))
            continue
        results = known.setdefault(value.__class__, {})  # 1, 1.0 and True are the same key, and not the same value
        result = results.get(value)
        if result is None:
            result = results[value] = compare(name, value, literal)
        found.append(result)
    return found


def compare(name: str, value: Any, literal: Any) -> bool:
    """Return the result of the operator ``name`` on a value of the tree and a literal.

    A number equals a number whatever its type.  Dates and times are compared as text in ISO 8601, with a ``T``.
    """
    if value is MISSING:
        return name == "!="
    if isinstance(value, datetime.date):
        value, literal = value.isoformat(), _iso(literal)
    if name == "=~":
        return isinstance(value, str) and literal.search(value[:LONGEST_VALUE]) is not None
    if name == "in":
        return any(_equal(value, item) for item in literal)
    if name in ("==", "!="):
        return _equal(value, literal) == (name == "==")
    kinds = (str, str) if isinstance(value, str) else ((int, float), (int, float))
    same_kind = isinstance(value, kinds[0]) and isinstance(literal, kinds[1]) and not isinstance(value, bool)
    return same_kind and _ORDER[name](value, literal)


def _iso(literal: Any) -> Any:
    """Return a literal with a ``T`` between date and time; lists item by item, anything else as it is."""
    if isinstance(literal, str):
        return _TIME.sub("T", literal, count=1)
    return [_iso(item) for item in literal] if isinstance(literal, (list, tuple)) else literal


def _equal(value: Any, literal: Any) -> bool:
    if isinstance(value, bool) or isinstance(literal, bool):
        return value is literal
    if isinstance(literal, str) and value is not None and not isinstance(value, (int, float, list, dict)):
        return str(value) == literal
    return bool(value == literal)


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
        return parts[0] if len(parts) == 1 else _Either(parts)

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
        return parts[0] if len(parts) == 1 else _Both(parts)

    def _one(self, depth: int) -> Condition:
        if self._takes("not"):
            if depth > _DEEPEST:
                raise self._wrong(f"'not' is nested more than {_DEEPEST} deep")
            return _Not(self._one(depth + 1))
        if self._takes("exists"):
            return _Exists(self._path())
        self._space()
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
            return _True(path)
        self._at = found.end()
        self._space()
        place = self._at
        literal = self._literals() if found[0] == "in" else self._literal()
        if found[0] == "=~":
            literal = self._pattern(literal, place)
        return _Comparison(path, found[0], literal)

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
        self._at = found.end()
        if found["string"] is not None:
            return _unquoted(found["string"])
        if found["word"] is not None:
            return _WORDS[found["word"]]
        return float(found["number"]) if re.search(r"[.eE]", found["number"]) else int(found["number"][:400])

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

    def _pattern(self, literal: Any, place: int) -> re.Pattern[str]:
        self._at = place
        if not isinstance(literal, str):
            raise self._wrong("a regular expression in quotes is expected here")
        found = compile_pattern(literal)
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


def compile_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression whose search takes bounded time.

    Refused (``UsageError``) are patterns that are too long, refer back, repeat a repetition, or repeat too often.
    """
    if len(text) > _LONGEST_PATTERN:
        raise UsageError(f"a regular expression has at most {_LONGEST_PATTERN} characters")
    try:
        parsed = re._parser.parse(text, flags)  # type: ignore[attr-defined]  # how re itself reads a pattern
    except (re.error, OverflowError, RecursionError) as err:
        raise UsageError(f"{text!r} is not a regular expression: {err}") from err
    if _repeats(parsed, text, inside=False) > _MOST_REPEATS:
        raise UsageError(f"the regular expression {text!r} has more than {_MOST_REPEATS} of '*', '+' and '{{'")
    return re.compile(text, flags)


def _repeats(parsed: Any, text: str, *, inside: bool) -> int:
    """Count the repetitions of a parsed pattern."""
    count = 0
    for name, value in parsed:
        kind = str(name)
        if kind in ("GROUPREF", "GROUPREF_EXISTS", "ASSERT", "ASSERT_NOT"):
            raise UsageError(
                f"the regular expression {text!r} refers to other parts of the text, which may take for ever"
            )
        repeats = kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and int(value[1]) > 1
        if repeats and inside:
            raise UsageError(f"the regular expression {text!r} repeats a repetition, which may take for ever")
        count += repeats
        for part in value if isinstance(value, (list, tuple)) else ():
            count += _inner(part, text, inside=inside or repeats)
    return count


def _inner(part: Any, text: str, *, inside: bool) -> int:
    if isinstance(part, re._parser.SubPattern):  # type: ignore[attr-defined]
        return _repeats(part, text, inside=inside)
    if isinstance(part, list):
        return sum(_inner(one, text, inside=inside) for one in part)
    return 0


def describe(condition: Condition) -> str:
    """Return the paths of a condition as text, for messages."""
    return ", ".join(sorted(format_path(path) for path in condition.paths()))
