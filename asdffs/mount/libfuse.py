"""Loads libfuse, which mounts and unmounts: it may, because its helper fusermount is setuid root.

It does nothing else: the requests come to ``session``.  libfuse 3 is the first choice; libfuse 2 serves where it is
alone (decision 49).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from typing import Any, Final, NamedTuple

from asdffs.errors import MountError, UsageError

#: Names of the libraries for the dynamic linker, by version.  libfuse 3 has the second name since 3.17.
_NAMES: Final = {"3": ("libfuse3.so.3", "libfuse3.so.4"), "2": ("libfuse.so.2",)}
_AUTO: Final = "auto"
#: What may be asked for.
VERSIONS: Final = (_AUTO, *_NAMES)


class Mounted(NamedTuple):
    """A mount.  ``fd``: the file descriptor of /dev/fuse.  ``unmount()`` unmounts, if that was not done."""

    fd: int
    unmount: Callable[[], None]


class Libfuse(NamedTuple):
    """A loaded libfuse.  ``version``: such as ``3.14.0``.  ``old``: it is libfuse 2.

    ``mount(mountpoint, options)`` returns a ``Mounted``.  It raises ``MountError`` after libfuse has said why.
    """

    version: str
    old: bool
    mount: Callable[[str, list[str]], Mounted]


def load_libfuse(wanted: str = _AUTO) -> Libfuse:
    """Load libfuse ``wanted``, one of ``VERSIONS``.

    Raises ``UsageError`` for another version, and ``MountError`` with what to install if none can be loaded.
    """
    if wanted not in VERSIONS:
        raise UsageError(f"the version of libfuse is auto, 3 or 2, not {wanted!r}; change $ASDFFS_LIBFUSE")
    reasons = []
    for name in [name for version, names in _NAMES.items() if wanted in (_AUTO, version) for name in names]:
        try:
            return _loaded(ctypes.CDLL(name))
        except (OSError, AttributeError) as err:
            reasons.append(str(err))
    advice = "apt install libfuse2" if wanted == "2" else "apt install fuse3"
    raise MountError(f"libfuse cannot be loaded ({'; '.join(reasons)}); run: sudo {advice}")


def describe_libfuse(wanted: str = _AUTO) -> str:
    """Return the version of the libfuse that can be loaded, or the reason why there is none."""
    try:
        return f"libfuse {load_libfuse(wanted).version}"
    except (MountError, UsageError) as err:
        return str(err)


def _loaded(library: ctypes.CDLL) -> Libfuse:
    old = not hasattr(library, "fuse_session_mount")
    return Libfuse(_version(library), old, (_mounter2 if old else _mounter3)(library))


def _version(library: ctypes.CDLL) -> str:
    """Return the version of the library.  libfuse 2 has only two digits: 29 means 2.9."""
    if hasattr(library, "fuse_pkgversion"):
        return str(_declared(library, "fuse_pkgversion", c_char_p)().decode())
    major, minor = divmod(int(library.fuse_version()), 10)
    return f"{major}.{minor}"


# -- mounting -------------------------------------------------------------------


class _Arguments(ctypes.Structure):
    """``struct fuse_args``."""

    _fields_ = (("argc", c_int), ("argv", POINTER(c_char_p)), ("allocated", c_int))


def _arguments(options: list[str]) -> _Arguments:
    words = [b"asdffs", *(os.fsencode(word) for option in options for word in ("-o", option))]
    return _Arguments(len(words), (c_char_p * len(words))(*words), 0)


def _refused(mountpoint: str) -> MountError:
    return MountError("FUSE refused the mount; see the message above", path=mountpoint)


def _mounter3(library: ctypes.CDLL) -> Callable[[str, list[str]], Mounted]:
    create = "fuse_session_new" if hasattr(library, "fuse_session_new") else "fuse_session_new_30"
    new = _declared(library, create, c_void_p, POINTER(_Arguments), c_void_p, c_size_t, c_void_p)
    attach = _declared(library, "fuse_session_mount", c_int, c_void_p, c_char_p)
    number = _declared(library, "fuse_session_fd", c_int, c_void_p)
    detach = _declared(library, "fuse_session_unmount", None, c_void_p)
    destroy = _declared(library, "fuse_session_destroy", None, c_void_p)

    def mount(mountpoint: str, options: list[str]) -> Mounted:
        operations = ctypes.create_string_buffer(8)  # of size 0: libfuse calls none
        session = new(byref(_arguments(options)), operations, 0, None)
        if not session or attach(session, os.fsencode(mountpoint)) != 0:
            if session:
                destroy(session)
            raise _refused(mountpoint)

        def unmount() -> None:
            detach(session)
            destroy(session)

        return Mounted(number(session), unmount)

    return mount


def _mounter2(library: ctypes.CDLL) -> Callable[[str, list[str]], Mounted]:
    attach = _declared(library, "fuse_mount", c_void_p, c_char_p, POINTER(_Arguments))
    number = _declared(library, "fuse_chan_fd", c_int, c_void_p)
    detach = _declared(library, "fuse_unmount", None, c_char_p, c_void_p)

    def mount(mountpoint: str, options: list[str]) -> Mounted:
        channel = attach(os.fsencode(mountpoint), byref(_arguments(options)))
        if not channel:
            raise _refused(mountpoint)
        return Mounted(number(channel), lambda: detach(os.fsencode(mountpoint), channel))

    return mount


def _declared(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    return function
