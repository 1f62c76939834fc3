"""Rules for the scalars of a tree: which of them asdf can read, and which are the same as keys.  Pure."""

from __future__ import annotations

import re
from typing import Any

import yaml

from asdffs.tree.syntax import invalid_at

#: Plain scalars that need no check: they cannot begin a number or date, or are plain numbers.
_HARMLESS = re.compile(r"(?![-+.\d])|[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?\Z")
#: First characters of scalars that may be numbers or dates; of all others, ``check_scalar`` refuses only long ones.
NUMBERS_BEGIN = frozenset("-+.0123456789")
#: Python refuses to parse integers of more than 4300 digits, so asdf could not read them.
LONGEST_UNCHECKED = 4300
#: Characters of a wrong scalar that a message shows.
SHOWN = 60
#: Prefix of the tags of YAML 1.1.
YAML_TAGS = "tag:yaml.org,2002:"
#: Tags of YAML 1.1, by the kind of node that they need.
_SCALAR_TAGS = frozenset(YAML_TAGS + name for name in ("int", "float", "timestamp", "bool", "binary", "str", "null"))
_CONSTRUCTED = _SCALAR_TAGS - {YAML_TAGS + "str", YAML_TAGS + "null"}
PAIR_TAGS = frozenset({YAML_TAGS + "omap", YAML_TAGS + "pairs"})
_SEQUENCE_TAGS = PAIR_TAGS | {YAML_TAGS + "seq"}
_MAPPING_TAGS = frozenset({YAML_TAGS + "map", YAML_TAGS + "set"})
NO_MAPPING_TAGS = _SCALAR_TAGS | _SEQUENCE_TAGS
NO_SEQUENCE_TAGS = _SCALAR_TAGS | _MAPPING_TAGS
_RESOLVER: Any = yaml.resolver.Resolver()
_CONSTRUCTOR = yaml.constructor.SafeConstructor()
#: Scalars (in lower case) that may not be text although they do not begin like a number.
WORDS = frozenset({"", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n"})
LONGEST_WORD = max(map(len, WORDS))
#: Decimal integers; others in YAML 1.1 are octal (with a leading zero), binary, hexadecimal or sexagesimal.
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9]\d*)\Z")
_NUMERIC = re.compile(r"[-+\d]")


def kind_of_scalar(event: Any) -> str:
    """Return ``merge`` for ``<<``, ``tagged`` for a tag that is not YAML's own, else ``scalar``.

    asdf cannot hash a tagged scalar, so it cannot be a key.
    """
    if event.tag == YAML_TAGS + "merge" or (event.implicit[0] and event.value == "<<"):
        return "merge"
    return "tagged" if event.tag and event.tag != "!" and not event.tag.startswith(YAML_TAGS) else "scalar"


def check_scalar(event: Any) -> None:
    """Refuse scalars that YAML takes for a number or a date but cannot construct: asdf could not open the file."""
    tag = event.tag
    if not tag and event.implicit[0]:
        if len(event.value) <= LONGEST_UNCHECKED and _HARMLESS.match(event.value):
            return
        tag = _RESOLVER.resolve(yaml.ScalarNode, event.value, (True, False))
    if tag in _SEQUENCE_TAGS or tag in _MAPPING_TAGS:
        raise invalid_at(f"a scalar cannot have the tag {tag}", event.start_mark)
    if tag in _CONSTRUCTED:
        _check_constructible(event, tag)


def is_text(value: str) -> bool:
    """Return whether a scalar is text also without quotes."""
    return value[:1] not in NUMBERS_BEGIN and value.lower() not in WORDS


def key_value(event: Any) -> object:
    """Return the value of a scalar as a key, equal for scalars that are the same key, as 1 and 0x1, or a and "a"."""
    value, tag = event.value, event.tag
    if tag is None and (not event.implicit[0] or is_text(value)):
        return value
    resolved = tag if tag and tag != "!" else _RESOLVER.resolve(yaml.ScalarNode, value, (True, False))
    if resolved not in _SCALAR_TAGS - {YAML_TAGS + "str"} or len(value) > LONGEST_UNCHECKED:
        return value
    return _constructed(event, resolved)


def _constructed(event: Any, tag: str) -> object:
    """Return the Python object that PyYAML makes of a scalar of ``tag``.  Raises any error of PyYAML."""
    node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark)
    try:
        return _CONSTRUCTOR.construct_object(node)
    finally:
        _CONSTRUCTOR.constructed_objects.clear()
        _CONSTRUCTOR.recursive_objects.clear()


def _check_constructible(event: Any, tag: str) -> None:
    try:
        str(_constructed(event, tag))  # str: Python also limits the length of integers that it converts to text
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, yaml.YAMLError) as err:
        shown = event.value if len(event.value) <= SHOWN else event.value[:SHOWN] + "..."
        kind = tag.removeprefix(YAML_TAGS)
        raise invalid_at(f"{shown!r} is not a valid {kind}; quote it if it is text", event.start_mark) from err


def plain_value(event: Any) -> str | int:
    """Return an int for an integer (unquoted, or with the tag of one), and the text of any other scalar."""
    if len(event.value) > LONGEST_UNCHECKED or not (event.implicit[0] or event.tag == YAML_TAGS + "int"):
        return str(event.value)
    if event.tag == YAML_TAGS + "int" and not event.implicit[0]:
        return _tagged_integer(event)
    if _DECIMAL.match(event.value):
        return int(event.value)
    if (
        _NUMERIC.match(event.value)
        and _RESOLVER.resolve(yaml.ScalarNode, event.value, (True, False)) == YAML_TAGS + "int"
    ):
        return int(_CONSTRUCTOR.construct_yaml_int(yaml.ScalarNode(YAML_TAGS + "int", event.value)))
    return str(event.value)


def _tagged_integer(event: Any) -> str | int:
    try:
        return int(_CONSTRUCTOR.construct_yaml_int(yaml.ScalarNode(YAML_TAGS + "int", event.value)))
    except (ValueError, IndexError):
        return str(event.value)
