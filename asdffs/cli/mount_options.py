"""Parses ``-o`` of ``asdffs mount``.

To add an option, add a line to ``_FLAGS`` or ``_VALUES``.  Each array format has an option ``NAME=on|off``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from asdffs import registry
from asdffs.errors import UsageError
from asdffs.format.layout import parse_padding, parse_size
from asdffs.mount.options import MountOptions
from asdffs.storage.open_file import AUTO, STRATEGIES
from asdffs.storage.urls import FLAGS, SETTINGS, with_setting

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
#: Smallest ``spool_max`` in bytes.  A part of a block that can only be decoded as a whole, and the surroundings of a
#: reader, must fit.
_LEAST_SPOOL: Final = 16 << 20
#: After how many seconds, at least and at most, an unused file of an archive may be closed.
_LEAST_IDLE: Final = 0.1
_MOST_IDLE: Final = 86400.0
Setter = Callable[[MountOptions, str], MountOptions]


def parse_options(texts: list[str]) -> MountOptions:
    """Parse ``-o`` texts, each a comma-separated list.  Raises ``UsageError`` for an unknown or malformed option."""
    chosen = MountOptions()
    values = _values()
    for word in (word for text in texts for word in text.split(",") if word):
        name, equals, value = word.partition("=")
        if word in _KERNEL:
            chosen = chosen._replace(kernel=(*chosen.kernel, word))
        elif name in FLAGS and not equals:
            chosen = chosen._replace(remote=chosen.remote._replace(**FLAGS[name]))
        elif name in _FLAGS and not equals:
            chosen = chosen._replace(**_FLAGS[name])
        elif name in values and value:
            chosen = values[name][1](chosen, value)
        elif name in _FLAGS or name in values:
            usage = name if name in _FLAGS else f"{name}={values[name][0]}"
            raise UsageError(f"'{word}' is not a valid mount option; write '{usage}'")
        elif word not in _TOLERATED and not word.startswith(("x-", "comment=")):
            raise UsageError(f"unknown mount option '{word}'; known are {', '.join(usages())}")
    return chosen


def usages() -> list[str]:
    """Return how each option is written: ``ro``, ``uid=N``."""
    return [*_FLAGS, *FLAGS, *(f"{name}={usage}" for name, (usage, _) in _values().items())]


def _values() -> dict[str, tuple[str, Setter]]:
    """Return the options with a value: how the value is written, and what sets it."""
    formats = (name for name in registry.names("formats") if name not in _VALUES)
    return _VALUES | {name: ("on|off", _set_format(name)) for name in formats}


def _set_id(name: str) -> Setter:
    def set_it(options: MountOptions, value: str) -> MountOptions:
        if not value.isascii() or not value.isdigit() or int(value) > _LARGEST_ID:
            raise UsageError(f"{name}={value}: a {name} is a number, at most {_LARGEST_ID}")
        number: dict[str, Any] = {name: int(value)}
        return options._replace(shown=options.shown._replace(**number))

    return set_it


def _set_umask(options: MountOptions, value: str) -> MountOptions:
    if not re.fullmatch("[0-7]{1,4}", value):
        raise UsageError(f"umask={value}: a umask is an octal number such as 022")
    return options._replace(shown=options.shown._replace(umask=int(value, 8) & 0o777))


def _set_padding(options: MountOptions, value: str) -> MountOptions:
    padding = parse_padding(value, options.padding)
    if padding is None:
        raise UsageError(f"pad={value}: give bytes such as 64K, or a part of the tree such as 20% (at most 1000%)")
    return options._replace(padding=padding)


def _set_spool_max(options: MountOptions, value: str) -> MountOptions:
    size = parse_size(value)
    if size is None or size < _LEAST_SPOOL:
        raise UsageError(f"spool_max={value}: give bytes such as 20G, at least {_LEAST_SPOOL >> 20}M")
    return options._replace(spool_max=size)


def _set_checksum(options: MountOptions, value: str) -> MountOptions:
    if value not in ("keep", "zero"):
        raise UsageError(f"checksum={value}: choose keep or zero")
    return options._replace(keep_checksums=value == "keep")


def _set_format(name: str) -> Setter:
    """Return the setter of ``name=on|off``, which shows or hides the arrays in format ``name``."""

    def set_it(options: MountOptions, value: str) -> MountOptions:
        if value not in ("on", "off"):
            raise UsageError(f"{name}={value}: choose on or off")
        hidden = options.shown.views.hidden
        return _with_views(options, hidden=hidden - {name} if value == "on" else hidden | {name})

    return set_it


def _set_layout(options: MountOptions, value: str) -> MountOptions:
    if value not in registry.names("views"):
        raise UsageError(f"layout={value}: no such view; choose one of {', '.join(registry.names('views'))}")
    return _with_views(options, layout=value)


def _with_views(options: MountOptions, **changes: Any) -> MountOptions:
    shown = options.shown
    return options._replace(shown=shown._replace(views=shown.views._replace(**changes)))


def _set_remote(name: str) -> Setter:
    return lambda options, value: options._replace(remote=with_setting(options.remote, name, value))


def _set_open_max(options: MountOptions, value: str) -> MountOptions:
    if not value.isascii() or not value.isdigit() or int(value) < 1:
        raise UsageError(f"open_max={value}: give a number of files, at least 1")
    return options._replace(open_max=int(value))


def _set_idle(options: MountOptions, value: str) -> MountOptions:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not _LEAST_IDLE <= seconds <= _MOST_IDLE:
        raise UsageError(f"idle={value}: give seconds, {_LEAST_IDLE:g} to {_MOST_IDLE:g}")
    return options._replace(idle=seconds)


def _set_growth(options: MountOptions, value: str) -> MountOptions:
    if value not in (AUTO, *STRATEGIES):
        raise UsageError(f"growth={value}: choose one of {', '.join((AUTO, *STRATEGIES))}")
    return options._replace(growth=value)


def _set_text(name: str) -> Setter:
    def set_it(options: MountOptions, value: str) -> MountOptions:
        chosen: dict[str, Any] = {name: value}
        return options._replace(**chosen)

    return set_it


_FLAGS: Final[dict[str, dict[str, Any]]] = {
    "ro": {"read_only": True},
    "rw": {"read_only": False},
    "allow_other": {"allow_other": True},
    "allow_root": {"allow_root": True},
    "default_permissions": {"default_permissions": True},
    "strict": {"strict": True},
    "schema": {"schema": True},
    "nonempty": {"nonempty": True},
    "nojournal": {"journal": False},
    "verify": {"verify": True},
    "passthrough": {"passthrough": True},
}
_VALUES: Final[dict[str, tuple[str, Setter]]] = {
    "fsname": ("NAME", _set_text("fsname")),
    "uid": ("N", _set_id("uid")),
    "gid": ("N", _set_id("gid")),
    "umask": ("OCTAL", _set_umask),
    "growth": ("|".join((AUTO, *STRATEGIES)), _set_growth),
    "pad": ("SIZE|PERCENT%", _set_padding),
    "spool": ("DIR", _set_text("spool")),
    "spool_max": ("SIZE", _set_spool_max),
    "layout": ("VIEW", _set_layout),
    "checksum": ("keep|zero", _set_checksum),
    "log": ("FILE|syslog", _set_text("log")),
    "open_max": ("N", _set_open_max),
    "idle": ("SECONDS", _set_idle),
    **{name: (usage, _set_remote(name)) for name, usage in SETTINGS.items()},
}
