"""Directories of this user for state and for caches, as the XDG specification names them.

mount(8) starts a mount with the home directory of root, or without one.  ``sudo`` may start a command with the home
directory of the user who called it: root neither trusts what is there, nor leaves files there that are root's.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat

from asdffs.errors import MountError


def own_directory(variable: str, default: str) -> str:
    """Return ``$variable``, else ``default`` in the home directory; absolute, and perhaps missing.

    The first of them that this user may use.  A relative value is ignored, as the specification says.  If there is
    none, a temporary directory.  Raises ``MountError``, ``OSError``.
    """
    homes = [os.environ.get("HOME", ""), _home_of_user()]
    wanted = [os.environ.get(variable, ""), *(os.path.join(home, default) for home in homes if home)]
    usable = (place for place in wanted if os.path.isabs(place) and _is_usable(place))
    return next(usable, "") or os.path.join(_own_temporary(), default)


def _home_of_user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ""


def _is_usable(place: str) -> bool:
    """Return whether it can be written, or made; for root also whether nobody else can replace it."""
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    usable = os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK)
    return usable and (os.geteuid() != 0 or _is_of_root(os.path.realpath(place)))


def _is_of_root(place: str) -> bool:
    """Return whether the directory is root's, and all above it are, or are sticky."""
    while os.stat(place).st_uid == 0:
        above = os.path.dirname(place)
        if above == place:
            return True
        place = above
    return False


def _own_temporary() -> str:
    """Return a temporary directory of this user alone; another user's could read or redirect our files."""
    import tempfile  # which few need

    place = os.path.join(tempfile.gettempdir(), f"asdffs-of-{os.geteuid()}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(place, 0o700)
    facts = os.lstat(place)
    if facts.st_uid == os.geteuid() and stat.S_ISDIR(facts.st_mode) and not facts.st_mode & 0o022:
        return place
    raise MountError(
        "belongs to somebody else, and there is no other place for state; set XDG_STATE_HOME", path=place
    )
