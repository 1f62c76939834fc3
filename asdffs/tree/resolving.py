"""Says what a scalar means, as the asdf library reads it: by its tag, or as a plain scalar of YAML 1.1.

``1.0`` is ``1.00``, ``yes`` is true, ``012`` is ten and ``12:30`` is 750; ``1e3`` is text.  A text with quotes, or
with a tag that is not one of YAML's own, is itself.  Pure.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Final

import yaml

#: Prefix of the tags of YAML 1.1.
YAML_TAGS: Final = "tag:yaml.org,2002:"
#: Tags of YAML 1.1, by the kind of node that they need.
SCALAR_TAGS: Final = frozenset(
    YAML_TAGS + name for name in ("int", "float", "timestamp", "bool", "binary", "str", "null")
)
PAIR_TAGS: Final = frozenset({YAML_TAGS + "omap", YAML_TAGS + "pairs"})
SEQUENCE_TAGS: Final = PAIR_TAGS | {YAML_TAGS + "seq"}
MAPPING_TAGS: Final = frozenset({YAML_TAGS + "map", YAML_TAGS + "set"})
#: First characters of plain scalars that may be numbers or dates.
NUMBERS_BEGIN: Final = frozenset("-+.0123456789")
#: Plain scalars (in lower case) that are not text although they do not begin like a number.
WORDS: Final = frozenset({"", "~", "null", "true", "false", "yes", "no", "on", "off", "=", "<<"})
#: Ways to write null (YAML 1.1).
NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
#: Characters of a wrong scalar that a message shows.
SHOWN: Final = 60
#: Tags whose scalars PyYAML constructs.  Of ``!!binary`` the text is kept.
_CONSTRUCTED: Final = SCALAR_TAGS - {YAML_TAGS + "str", YAML_TAGS + "binary"}
_RESOLVER: Final[Any] = yaml.resolver.Resolver()
_CONSTRUCTOR: Final[Any] = yaml.constructor.SafeConstructor()
#: Most numbers are written like this, and Python reads them as YAML does.
_DECIMAL: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT: Final = re.compile(r"[-+]?[0-9]{1,30}\.[0-9]{0,30}(?:[eE][-+][0-9]{1,3})?")
#: Numbers that need no check, and texts that begin as some; longer ones may be too long for Python.
_HARMLESS: Final = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?\Z")
_LONGEST_UNCHECKED: Final = 4300
#: Digits of numbers that need no closer look.
_LONGEST_SHORT: Final = 18
#: Characters of the longest text whose value is remembered.
_REMEMBERED: Final = 64


def plain_value(text: str) -> Any:
    """Return the value of a scalar without quotes and tag; of a text, the text itself."""
    return _plain_value(text) if len(text) <= _REMEMBERED else _plain_value.__wrapped__(text)


@functools.lru_cache(maxsize=1 << 14)
def _plain_value(text: str) -> Any:
    if text[:1] not in NUMBERS_BEGIN and len(text) > _LONGEST_WORD:
        return text
    if text.isdecimal() and text[0] != "0" and len(text) < _LONGEST_SHORT and text.isascii():
        return int(text)
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return tagged_value(tag_of(text), text)


_LONGEST_WORD: Final = max(map(len, WORDS))


def tagged_value(tag: str, text: str) -> Any:
    """Return the value of a scalar with a tag; the text, where it is not what the tag says."""
    return _constructed(tag, text) if tag in _CONSTRUCTED else text


def tag_of(text: str) -> str:
    """Return the tag that YAML 1.1 gives to a scalar without quotes and tag."""
    if text.count(".") > 1:  # a version, as in most trees: no number and no date has two points
        return YAML_TAGS + "str"
    return str(_RESOLVER.resolve(yaml.ScalarNode, text, (True, False)))


def _constructed(tag: str, text: str) -> Any:
    try:
        return _construct(tag, text)
    except _FAULTS:
        return text  # looks or is tagged like a number but is not valid


#: What PyYAML raises for a scalar that it cannot construct.
_FAULTS: Final = (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, yaml.YAMLError)


def _construct(tag: str, text: str) -> Any:
    """Return what PyYAML makes of a scalar.  Raises ``_FAULTS``."""
    try:
        value = _CONSTRUCTOR.construct_object(yaml.ScalarNode(tag, text))
        str(value)  # raises for integers of more than 4300 digits, which no library reads
        return value
    finally:
        _CONSTRUCTOR.constructed_objects.clear()
        _CONSTRUCTOR.recursive_objects.clear()


def fault_of(text: str, tag: str | None) -> str:
    """Return why asdf could not open a file with this scalar; empty if it could.

    ``tag``: None for a plain scalar without one.
    """
    if tag is None:
        if text[:1] not in NUMBERS_BEGIN or (len(text) <= _LONGEST_UNCHECKED and _HARMLESS.match(text)):
            return ""
        tag = tag_of(text)
    if tag in SEQUENCE_TAGS or tag in MAPPING_TAGS:
        return f"a scalar cannot have the tag {tag}"
    if tag not in SCALAR_TAGS or tag == YAML_TAGS + "str":
        return ""
    try:
        _construct(tag, text)
    except _FAULTS:
        shown = text if len(text) <= SHOWN else text[:SHOWN] + "..."
        return f"{shown!r} is not a valid {tag.removeprefix(YAML_TAGS)}; quote it if it is text"
    return ""


#: Keys that are usual (``is_usual``): the same ones come again and again, in one tree and in many.
USUAL: Final[set[str]] = set()
_MOST_USUAL: Final = 1 << 14
_LONGEST_USUAL: Final = 64


def is_usual(name: str) -> bool:
    """Return whether what is written as a key is text as it is written, and remember it.

    Who looks at each key of each tree asks first whether it is in ``USUAL``, because a call would take as long again.
    Whether such a key is a scalar is not asked again.  So text as a mapping may also have it, ``a:``, is not usual.
    """
    if not name[:1].isalpha() or name[-1] == ":" or not is_text(name) or not name.isprintable():
        return False
    if len(name) < _LONGEST_USUAL:
        if len(USUAL) >= _MOST_USUAL:  # many come once: forget all, and learn again those that come often
            USUAL.clear()
        USUAL.add(name)
    return True


def is_text(text: str) -> bool:
    """Return whether a scalar without quotes and tag is text."""
    return text[:1] not in NUMBERS_BEGIN and (len(text) > _LONGEST_WORD or text.lower() not in WORDS)
