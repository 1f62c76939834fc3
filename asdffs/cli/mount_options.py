"""Parses ``-o`` of ``asdffs mount``.

To add an option, add a field to ``MountOptions``, a line to ``_FLAGS`` or ``_VALUES``, and one to the help of
``commands/mount``.  A place is a field of ``MountOptions``, or a field inside
one: ``shown.uid``.  Each array format has an option ``NAME=on|off``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, get_args

from asdffs import registry
from asdffs.errors import UsageError
from asdffs.format.layout import Padding, parse_padding, parse_size
from asdffs.mount.options import Explode, MountOptions
from asdffs.storage.open_file import AUTO, STRATEGIES
from asdffs.storage.urls import FLAGS, SETTINGS, RemoteOptions, with_setting

#: Options that mount(8) and fstab may pass.  They are ignored: they mean nothing here, or the kernel handles them.
_TOLERATED: Final = (
    *("dev", "nodev", "suid", "nosuid", "exec", "atime", "relatime", "strictatime", "lazytime", "nolazytime"),
    *("diratime", "nodiratime", "async", "auto", "noauto", "user", "nouser", "users", "_netdev", "defaults"),
    *("nofail", "group", "owner", "silent", "loud", "mand", "nomand", "nosymfollow"),
)
#: Options that libfuse passes on to the kernel.
_KERNEL: Final = ("noexec", "noatime", "sync", "dirsync")
#: Largest number of a user or group.  The next one means "none".
_LARGEST_ID: Final = (1 << 32) - 2
#: Smallest ``undo`` in bytes.
_LEAST_UNDO: Final = 1 << 20
#: Smallest ``spool_max`` in bytes.  A part of a block that can only be decoded as a whole, and the surroundings of a
#: reader, must fit.
_LEAST_SPOOL: Final = 16 << 20
#: After how many seconds, at least and at most, an unused file of an archive may be closed.
_LEAST_IDLE: Final = 0.1
_MOST_IDLE: Final = 86400.0
#: Where metrics are served unless a host is given, and the largest port.
_LOOPBACK: Final = "127.0.0.1"
_LARGEST_PORT: Final = (1 << 16) - 1


class _Value(NamedTuple):
    """An option with a value.

    ``usage``: how the value is written.  ``place``: where it is kept.  ``parse(name, text, before)`` returns the
    value; ``before`` is the one that it replaces.  It raises ``UsageError``.
    """

    usage: str
    place: str
    parse: Callable[[str, str, Any], Any]


def parse_options(texts: list[str]) -> MountOptions:
    """Parse ``-o`` texts, each a comma-separated list.  Raises ``UsageError`` for an unknown or malformed option."""
    chosen, values = MountOptions(), _values()
    for word in (word for text in texts for word in text.split(",") if word):
        name, equals, text = word.partition("=")
        if word in _KERNEL:
            chosen = chosen._replace(kernel=(*chosen.kernel, word))
        elif name in _FLAGS and not equals:
            chosen = _with(chosen, *_FLAGS[name])
        elif name in values and text:
            _, place, parse = values[name]
            chosen = _with(chosen, place, parse(name, text, functools.reduce(getattr, place.split("."), chosen)))
        elif name in _FLAGS or name in values:
            usage = name if name in _FLAGS else f"{name}={values[name].usage}"
            raise UsageError(f"'{word}' is not a valid mount option; write '{usage}'")
        elif word not in _TOLERATED and not word.startswith(("x-", "comment=")):
            raise UsageError(f"unknown mount option '{word}'; known are {', '.join(usages())}")
    return chosen


def usages() -> list[str]:
    """Return how each option is written: ``ro``, ``uid=N``."""
    return [*_FLAGS, *(f"{name}={value.usage}" for name, value in _values().items())]


def _values() -> dict[str, _Value]:
    """Return the options with a value."""
    formats = (name for name in registry.names("formats") if name not in _VALUES)
    return _VALUES | dict.fromkeys(formats, _Value("on|off", "shown.views.hidden", _hidden))


def _with(options: Any, place: str, value: Any) -> Any:
    """Return ``options`` with ``value`` at ``place``."""
    name, _, inner = place.partition(".")
    return options._replace(**{name: _with(getattr(options, name), inner, value) if inner else value})


def _text(name: str, text: str, before: Any) -> str:
    return text


def _hidden(name: str, text: str, before: frozenset[str]) -> frozenset[str]:
    """Return the formats that are not shown: with or without the format ``name``."""
    if text not in ("on", "off"):
        raise UsageError(f"{name}={text}: choose on or off")
    return before - {name} if text == "on" else before | {name}


def _id(name: str, text: str, before: Any) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _LARGEST_ID:
        raise UsageError(f"{name}={text}: a {name} is a number, at most {_LARGEST_ID}")
    return int(text)


def _umask(name: str, text: str, before: Any) -> int:
    if not re.fullmatch("[0-7]{1,4}", text):
        raise UsageError(f"umask={text}: a umask is an octal number such as 022")
    return int(text, 8) & 0o777


def _padding(name: str, text: str, before: Padding) -> Padding:
    padding = parse_padding(text, before)
    if padding is None:
        raise UsageError(f"pad={text}: give bytes such as 64K, or a part of the tree such as 20% (at most 1000%)")
    return padding


def _size(least: int) -> Callable[[str, str, Any], int]:
    def parse(name: str, text: str, before: Any) -> int:
        size = parse_size(text)
        if size is None or size < least:
            raise UsageError(f"{name}={text}: give bytes such as 20G, at least {least >> 20}M")
        return size

    return parse


def _remote(name: str, text: str, before: RemoteOptions) -> RemoteOptions:
    return with_setting(before, name, text)


def _one_of(words: Callable[[], Sequence[str]]) -> Callable[[str, str, Any], str]:
    def parse(name: str, text: str, before: Any) -> str:
        if text not in words():
            raise UsageError(f"{name}={text}: choose one of {', '.join(words())}")
        return text

    return parse


def _checksum(name: str, text: str, before: Any) -> bool:
    return _one_of(lambda: ("keep", "zero"))(name, text, before) == "keep"


def _count(name: str, text: str, before: Any) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UsageError(f"{name}={text}: give a number of files, at least 1")
    return int(text)


def _metrics(name: str, text: str, before: Any) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > _LARGEST_PORT:
        raise UsageError(f"{name}={text}: give HOST:PORT, such as 127.0.0.1:9101, or PORT of this machine alone")
    return host.removeprefix("[").removesuffix("]") or _LOOPBACK, int(port)


def _idle(name: str, text: str, before: Any) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not _LEAST_IDLE <= seconds <= _MOST_IDLE:
        raise UsageError(f"{name}={text}: give seconds, {_LEAST_IDLE:g} to {_MOST_IDLE:g}")
    return seconds


#: Option -> place, value.
_FLAGS: Final[dict[str, tuple[str, bool]]] = {
    "ro": ("read_only", True),
    "rw": ("read_only", False),
    **{name: (name, True) for name in ("allow_other", "allow_root", "default_permissions")},
    "strict": ("settings.strict", True),
    "schema": ("settings.schema", True),
    "nonempty": ("nonempty", True),
    "nojournal": ("settings.journal", False),
    "verify": ("settings.checksums.verify", True),
    "passthrough": ("passthrough", True),
    **{name: (f"settings.remote.{key}", value) for name, changes in FLAGS.items() for key, value in changes.items()},
}
_VALUES: Final[dict[str, _Value]] = {
    "fsname": _Value("NAME", "fsname", _text),
    "uid": _Value("N", "shown.uid", _id),
    "gid": _Value("N", "shown.gid", _id),
    "umask": _Value("OCTAL", "shown.umask", _umask),
    "growth": _Value("|".join((AUTO, *STRATEGIES)), "settings.growth", _one_of(lambda: (AUTO, *STRATEGIES))),
    "pad": _Value("SIZE|PERCENT%", "settings.padding", _padding),
    "spool": _Value("DIR", "spool", _text),
    "spool_max": _Value("SIZE", "settings.spool_max", _size(_LEAST_SPOOL)),
    "undo": _Value("SIZE", "settings.undo", _size(_LEAST_UNDO)),
    "layout": _Value("VIEW", "shown.views.layout", _one_of(lambda: registry.names("views"))),
    "checksum": _Value("keep|zero", "settings.checksums.keep", _checksum),
    "log": _Value("FILE|syslog", "log", _text),
    "open_max": _Value("N", "open_max", _count),
    "idle": _Value("SECONDS", "idle", _idle),
    "metrics": _Value("[HOST:]PORT", "metrics", _metrics),
    "explode": _Value("|".join(get_args(Explode)), "explode", _one_of(lambda: get_args(Explode))),
    **{name: _Value(usage, "settings.remote", _remote) for name, usage in SETTINGS.items()},
}
