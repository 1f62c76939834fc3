"""New values: what a user or a program means, and how it is written as YAML text.

Behind ``PATH=`` a user types:

| typed                                                | value                                            |
|------------------------------------------------------|--------------------------------------------------|
| a number of JSON's grammar, ``0x1F``, ``.inf``, ``.nan`` | that number, written as YAML 1.1 reads it    |
| ``true``, ``false``, ``null``                        | these                                            |
| an ISO date or time: ``2027-01-31``, ``2027-01-31T12:30`` | that date                                   |
| anything else, also nothing                          | that text                                        |

If the value that is there is text, what was typed is text as well (``value_edits``).

A value is written in the style of the value that it replaces, or of its siblings.  Each text is parsed again before
it is used.  If a style cannot hold the value, the next safer style is tried.  Pure functions.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import yaml

from asdffs.errors import InvalidTreeError, UsageError, ValueRefusedError
from asdffs.tree.resolving import is_text, plain_value, tag_of
from asdffs.tree.tape import FLOW_MAPPING, FLOW_SEQUENCE, SCALAR, Tape
from asdffs.tree.values import Nodes, ValueNode, fault_at, key_name, scalar_rows

#: Wider than any line: the emitter folds nothing.
_NO_FOLDING: Final = 1 << 30
_LONGEST_ROW: Final = 100
#: White space of YAML.  Python's ``strip()`` would also take no-break spaces, which are text.
BLANKS: Final = " \t\r\n"
#: Plain scalars that PyYAML takes for something other than text, and does not construct.
_NO_TEXTS: Final = ("<<", "=")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_OTHER_NUMBER: Final = re.compile(r"[-+]?(?:0x[0-9a-fA-F]+|\.inf)|\.nan")
_DATE: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[Tt ]([0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]+)?)?(Z|[-+][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_WORDS: Final = frozenset({"true", "false", "null"})
#: What begins a value of YAML that is more than a word.
_YAML: Final = ("[", "{", '"', "'", "!")


class NewValue(NamedTuple):
    """A value to write.

    ``node``: its meaning.  ``typed``: its text as the user typed it, if that is one line.
    ``text``: the content of a string, else None.  ``typed_text``: what the user typed, if the value that is there
    decides whether it is text (``typed_value``).
    """

    node: ValueNode
    typed: str | None = None
    text: str | None = None
    typed_text: str | None = None


class Place(NamedTuple):
    """Where a snippet is written.

    ``flow``: inside braces or brackets.  ``indent``: columns before the lines of a block.  ``newline``: of the file.
    """

    flow: bool = False
    indent: int = 2
    newline: str = "\n"


def parse_value(typed: str) -> NewValue:
    """Return the value that the YAML text ``typed`` means.  Raises ``UsageError`` if it is not one YAML value."""
    try:
        tape = _tape_of(_as_item(typed))
        node = Nodes(tape, distinguish_quoted=True).root()
        wrong = next((fault for row in scalar_rows(tape) if (fault := fault_at(tape, row))), "")
    except UnicodeError as err:
        raise UsageError(f"the value {typed!r} is not UTF-8") from err
    except InvalidTreeError as err:
        raise UsageError(f"the value {typed!r} is not valid YAML; use --string for text") from err
    if wrong:
        raise UsageError(f"the value {typed!r} is not valid YAML; use --string for text")
    if not isinstance(node.value, list) or len(node.value) != 1:
        raise UsageError(f"the value {typed!r} is more than one YAML value; use --string for text")
    if re.search(r"(?:^|\s)#", typed) and typed[:1] not in "\"'[{|>":
        raise UsageError(f"the value {typed!r} has a comment; use --string, or quote it, to have '#' in the text")
    (value,) = node.value
    if "\n" in typed.strip(BLANKS) and isinstance(value.value, str) and typed[:1] not in "\"'|>":
        raise UsageError(f"the value {typed!r} has line breaks, which YAML joins; use --string to keep them")
    one_line = "\n" not in typed and not re.match(r"(?:- |\? )|[^\"'\[{]*: ", typed)
    text = value.value if isinstance(value.value, str) and not value.tag and isinstance(value.text, str) else None
    return NewValue(value, typed.strip(BLANKS) if one_line else None, text)


def text_value(text: str) -> NewValue:
    """Return the string ``text`` as a value."""
    return NewValue(ValueNode("", text, text), None, text)


def python_value(value: Any) -> NewValue:
    """Return a plain Python value as a value to write: None, bool, int, float, str, date, or dicts and lists of them.

    Numbers and texts of numpy are such values, too: ``float32(0.1)`` is written as 0.10000000149011612, which is
    exactly it.  Raises ``TypeError`` for other types.
    """
    if isinstance(value, str):
        return text_value(str.__str__(value))  # plain text, of which ever class of str it is
    if isinstance(value, bool) or value is None:
        return parse_value({None: "null", True: "true", False: "false"}[value])
    if isinstance(value, (int, float)):
        return parse_value(number_text(value))
    if isinstance(value, (datetime.date, datetime.datetime)):
        return parse_value(value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat())
    if isinstance(value, dict):
        return NewValue(ValueNode("", {_python_key(key): python_value(item).node for key, item in value.items()}))
    if isinstance(value, (list, tuple)):
        return NewValue(ValueNode("", [python_value(item).node for item in value]))
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a number of numpy: float32
        item = value.item()
        if type(item) is not type(value):
            return python_value(item)
    raise TypeError(
        f"{type(value).__name__} is not a plain value; use None, bool, int, float, str, date, datetime, list, tuple, "
        "dict or a number of numpy"
    )


def write_value(new: NewValue, place: Place, *, style: str | None = None) -> str:
    """Return the text of ``new`` for ``place``, in the scalar style ``style`` (as YAML events name it) if possible.

    The text goes behind ``key: `` or ``- ``; that of a block collection begins with a line end.
    """
    for text in _candidates(new, place, style):
        if _holds(text, new, place):
            return text
    raise ValueRefusedError("YAML has no way to write this value")


def write_key(key: str) -> str:
    """Return the text of a mapping's new key: plain where that is read as a string or a whole number, else quoted."""
    for text in (key, _single(key), _double(key)):
        tape = _portable(f"{{{text}: 1}}")
        if tape is None or len(tape.kind) != 3 or tape.kind[1] != SCALAR or tape.scalar(1) != key:
            continue
        if not tape.is_plain(1) or is_text(key) or tag_of(key).endswith(":str") or key.isdecimal():
            return text
    raise ValueRefusedError(f"YAML has no way to write the key {key!r}")


def _tape_of(text: str) -> Tape:
    """Return the tape of a new value.  Raises ``InvalidTreeError``, ``UnicodeError``."""
    tape = Tape(text)
    if tape.anchors:
        raise InvalidTreeError("a new value cannot have an anchor or an alias")
    if not tape.kind:
        raise InvalidTreeError("this is not one YAML document")
    return tape


def _portable(text: str) -> Tape | None:
    """Return the tape of a new text; None if not every parser of YAML reads it.

    PyYAML's parser in Python takes no tab outside of quotes, and no question mark in a plain scalar in flow style.
    """
    try:
        tape = _tape_of(text)
    except (InvalidTreeError, UnicodeError):
        return None
    refused = "\t?" if {FLOW_MAPPING, FLOW_SEQUENCE} & {*tape.kind} else "\t"
    place, outside = 0, ""
    for row, kind in enumerate(tape.kind):
        if kind == SCALAR and tape.style(row):
            outside += text[place : tape.content(row)]
            place = tape.end[row]
    outside += text[place:]
    return None if any(one in outside for one in refused) else tape


def _candidates(new: NewValue, place: Place, style: str | None) -> Iterator[str]:
    """Yield ways to write the value, the best first."""
    if isinstance(new.node.value, (dict, list)):
        if new.typed is not None:
            yield new.typed
        row = flow_text(new.node)
        if place.flow or len(row) <= _LONGEST_ROW or not new.node.value:
            yield row
        else:
            yield place.newline + place.newline.join(_block(new.node, place.indent))
        return
    if new.text is None or new.node.tag:
        yield new.typed if new.typed is not None else _tagged(new.node)
        return
    if style in ("|", ">") and not place.flow:
        yield _literal(new.text, place) if style == "|" else _folded(new.text, place)
    if style == '"':
        yield _double(new.text)
    if style == "'":
        yield _single(new.text)
    if style not in ("'", '"') and new.text not in _NO_TEXTS:
        yield new.text if new.typed is None or new.typed[:1] in "'\"" else new.typed
        if new.typed is not None:
            yield new.typed
    yield _single(new.text)
    yield _double(new.text)


def _holds(text: str, new: NewValue, place: Place) -> bool:
    """Return whether ``text`` is read back as the value in its place."""
    lead = " " * max(place.indent - 2, 0)
    sample = f"- {{k: {text}, z: 1}}" if place.flow else f"{lead}k: {text.rstrip(BLANKS)}\n{lead}z: 1\n"
    if not place.flow and text.endswith(("\n", "\r")):
        sample = f"{lead}k: {text}{lead}z: 1\n"
    tape = _portable(sample)
    if tape is None or any(fault_at(tape, row) for row in scalar_rows(tape)):
        return False
    node = Nodes(tape, distinguish_quoted=True).root()
    pairs = node.value[0].value if place.flow else node.value
    return isinstance(pairs, dict) and list(pairs) == ["k", "z"] and same(pairs["k"], new.node)


def same(one: ValueNode, two: ValueNode) -> bool:
    """Return whether two values mean the same and have the same tags."""
    if one.tag != two.tag or type(one.value) is not type(two.value):
        return False
    if isinstance(one.value, dict):
        return list(one.value) == list(two.value) and all(same(one.value[key], two.value[key]) for key in one.value)
    if isinstance(one.value, list):
        return len(one.value) == len(two.value) and all(map(same, one.value, two.value))
    if isinstance(one.value, float):
        return repr(one.value) == repr(two.value)
    return bool(one.value == two.value)


def _tagged(node: ValueNode) -> str:
    text = node.text if not isinstance(node.value, str) or node.tag == "" else _double(node.text)
    return f"!<{node.tag}> {text}".rstrip(BLANKS) if node.tag else text


def flow_text(node: ValueNode) -> str:
    """Return the node on one line."""
    tag = f"!<{node.tag}> " if node.tag else ""
    if isinstance(node.value, dict):
        inner = ", ".join(f"{_write_name(key)}: {flow_text(item)}".rstrip(BLANKS) for key, item in node.value.items())
        return f"{tag}{{{inner}}}"
    if isinstance(node.value, list):
        return f"{tag}[{', '.join(map(flow_text, node.value))}]"
    if isinstance(node.value, str):
        return tag + write_value(text_value(node.value), Place(flow=True))
    return tag + (node.text or "null")


def _block(node: ValueNode, indent: int) -> Iterator[str]:
    """Yield the lines of a collection that is too wide for one line."""
    lead = " " * indent
    pairs = node.value.items() if isinstance(node.value, dict) else [(None, item) for item in node.value]
    for key, item in pairs:
        name = f"{lead}-" if key is None else f"{lead}{_write_name(key)}:"
        row = flow_text(item)
        if isinstance(item.value, (dict, list)) and item.value and not item.tag and len(row) > _LONGEST_ROW - indent:
            yield name
            yield from _block(item, indent + 2)
        else:
            yield f"{name} {row}"


def _write_name(name: str) -> str:
    """Return the text of a key from its name in a ``ValueNode``; a string that looks like a number gets quotes."""
    for text in (name, _single(name), _double(name)):
        tape = _portable(f"{{{text}: 1}}")
        if tape is not None and list(Nodes(tape, distinguish_quoted=True).root().value) == [name]:
            return text
    raise ValueRefusedError(f"YAML has no way to write the key {name!r}")


def _as_item(typed: str) -> str:
    """Return the text of a sequence with the one item ``typed``."""
    first, *rest = typed.split("\n")
    return "\n".join([f"- {first}", *("  " + line if line else line for line in rest)])


def _single(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _double(text: str) -> str:
    written: str = yaml.dump(text, default_style='"', allow_unicode=True, width=_NO_FOLDING)
    return written.rstrip("\n")


def _literal(text: str, place: Place) -> str:
    """Return a literal block: ``|`` and the indented lines."""
    chomp = "-" if not text.endswith("\n") else "+" if text.endswith("\n\n") or text == "\n" else ""
    lead = " " * place.indent
    lines = text.split("\n")
    if text.endswith("\n"):
        lines.pop()
    body = place.newline.join(lead + line if line else "" for line in lines)
    return f"|{chomp}{place.newline}{body}{place.newline}"


def _folded(text: str, place: Place) -> str:
    """Return a folded block, in which each line end is written as an empty line."""
    chomp = "" if text.endswith("\n") else "-"
    lead = " " * place.indent
    body = (place.newline * 2).join(lead + line for line in text.removesuffix("\n").split("\n"))
    return f">{chomp}{place.newline}{body}{place.newline}"


def _python_key(key: object) -> str:
    if not isinstance(key, (str, int)) or isinstance(key, bool):
        raise TypeError(f"a key is a str or an int, not {type(key).__name__}")
    return key_name(key)


def number_text(value: float) -> str:
    """Return the text of a number as every parser of YAML 1.1 reads it."""
    if isinstance(value, float):
        if math.isnan(value):
            return ".nan"
        if math.isinf(value):
            return ".inf" if value > 0 else "-.inf"
        text = float.__repr__(value)  # that of numpy.float64, which is a float, has the name of the type
        mantissa, e, exponent = text.partition("e")
        return (
            f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}" if e else text
        )  # YAML 1.1 needs a point before the exponent
    return int.__repr__(value)


def typed_value(typed: str) -> NewValue:
    """Return the value that ``typed`` means by the rule above, with ``typed`` itself.

    Raises ``UsageError`` for a number that YAML 1.1 cannot hold.
    """
    found = text_value(typed)
    if number := _number_of(typed):
        found = parse_value(number)
    elif typed in _WORDS:
        found = parse_value(typed)
    elif date := _date_of(typed):
        found = parse_value(date)
    return found._replace(typed_text=typed)


def is_yaml(typed: str) -> bool:
    """Return whether ``typed`` begins like a list, a mapping, a quoted text or a tag of YAML."""
    return typed.startswith(_YAML)


def _number_of(typed: str) -> str:
    """Return the number that was typed, as YAML 1.1 reads it; empty if it is none."""
    if _OTHER_NUMBER.fullmatch(typed):
        return typed
    found = _NUMBER.fullmatch(typed)
    if found is None:
        return ""
    if not (found[1] or found[2]):
        if isinstance(plain_value(typed), int):
            return typed
        raise UsageError(f"the number {typed[:20]}... has too many digits; --string takes it as text")
    value = float(typed)
    if math.isinf(value):
        raise UsageError(f"the number {typed} is larger than any float; write .inf, or --string to have it as text")
    return typed if plain_value(typed) == value else number_text(value)


def _date_of(typed: str) -> str:
    """Return the date that was typed, with seconds, as YAML 1.1 needs them; empty if it is none."""
    found = _DATE.fullmatch(typed)
    if found is None:
        return ""
    written = typed if found[1] is None or found[2] else typed.replace(found[1], f"{found[1]}:00", 1)
    return written if isinstance(plain_value(written), datetime.date) else ""
