"""Chooses the FUSE binding, the Python package that loads libfuse, and lets libfuse mount and unmount.

libfuse has the rights to do that: its helper fusermount is setuid root.  It does nothing else: the requests come to
``session``.  With libfuse 3 the first choice is mfusepy.  If only libfuse 2 is installed, it is fusepy.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
from collections.abc import Callable, Iterator
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from typing import Any, Final, Literal, NamedTuple

from asdffs.errors import MountError, UsageError

BindingName = Literal["auto", "mfusepy", "fusepy"]

#: Environment variables that name the library to load.  The bindings read them at import; only mfusepy the second.
_LIBRARY_PATH: Final = "FUSE_LIBRARY_PATH"
_LIBRARY_NAME: Final = "FUSE_LIBRARY_NAME"
#: Names of the libraries for the dynamic linker.  libfuse 3 has the second name since 3.17.
_LIBFUSE3: Final = ("libfuse3.so.3", "libfuse3.so.4")
_LIBFUSE2: Final = ("libfuse.so.2",)


class Mounted(NamedTuple):
    """A mount.  ``fd``: the file descriptor of /dev/fuse.  ``unmount()`` unmounts, if that was not done."""

    fd: int
    unmount: Callable[[], None]


class Binding(NamedTuple):
    """A usable FUSE binding, on version ``libfuse`` of the library.

    ``mount(mountpoint, options)`` returns a ``Mounted``.  It raises ``MountError`` after libfuse has said why.
    """

    name: str
    libfuse: str
    libfuse2: bool
    mount: Callable[[str, list[str]], Mounted]


def load_binding(wanted: BindingName = "auto") -> Binding:
    """Import and return a binding.

    Raises ``UsageError`` for an unknown name, and ``MountError`` with what to install if none can be used.
    """
    loaders = {"mfusepy": _load_mfusepy, "fusepy": _load_fusepy}
    if wanted not in ("auto", *loaders):
        raise UsageError(f"the binding must be auto, mfusepy or fusepy, not {wanted!r}; change $ASDFFS_BINDING")
    names = _in_order() if wanted == "auto" else [wanted]
    reasons = []
    for name in names:
        try:
            return loaders[name]()
        except (ImportError, OSError, AttributeError) as err:  # the bindings raise any of these without libfuse
            reasons.append(f"{name}: {err}")
    raise MountError(
        "no usable FUSE binding (" + "; ".join(reasons) + "); for libfuse 3 run: sudo apt install fuse3 && "
        "pip install mfusepy, for libfuse 2: sudo apt install libfuse2 && pip install fusepy"
    )


def _in_order() -> list[str]:
    """Return the names of the bindings, the one to try first in front."""
    libfuse3 = any(map(_can_load, _LIBFUSE3))
    return ["mfusepy", "fusepy"] if libfuse3 else ["fusepy", "mfusepy"]


def describe_binding(wanted: BindingName = "auto") -> str:
    """Return the versions of the usable binding and its libfuse, or the reason why there is none."""
    from importlib import metadata

    try:
        binding = load_binding(wanted)
    except (MountError, UsageError) as err:
        return str(err)
    return f"{binding.name} {metadata.version(binding.name)}, libfuse {binding.libfuse}"


def _load_mfusepy() -> Binding:
    with _library(*_LIBFUSE3, *_LIBFUSE2):  # if both are installed, mfusepy would prefer libfuse 2
        module: Any = importlib.import_module("mfusepy")
    return _binding("mfusepy", module._libfuse)


def _load_fusepy() -> Binding:
    with _library(*_LIBFUSE2):
        module: Any = importlib.import_module("fuse")
    return _binding("fusepy", module._libfuse)


def _binding(name: str, loaded: Any) -> Binding:
    library = ctypes.CDLL(loaded._name)  # with argument types of its own
    libfuse2 = not hasattr(library, "fuse_session_mount")
    return Binding(name, _version(library), libfuse2, (_mounter2 if libfuse2 else _mounter3)(library))


def _version(library: ctypes.CDLL) -> str:
    """Return the version of the library.  libfuse 2 has only two digits: 29 means 2.9."""
    if hasattr(library, "fuse_pkgversion"):
        return str(_declared(library, "fuse_pkgversion", c_char_p)().decode())
    major, minor = divmod(int(library.fuse_version()), 10)
    return f"{major}.{minor}"


@contextlib.contextmanager
def _library(*names: str) -> Iterator[None]:
    """Make a binding load the first of these libraries, while it is imported inside the block.

    Libraries that are not installed are skipped.  A choice of the user in the environment takes precedence.  Without
    this, the binding would search by running ``ldconfig``, and even a compiler.
    """
    found = next(filter(_can_load, names), None)
    if found is None or _LIBRARY_PATH in os.environ or _LIBRARY_NAME in os.environ:
        yield
        return
    os.environ[_LIBRARY_PATH] = found
    try:
        yield
    finally:
        del os.environ[_LIBRARY_PATH]


def _can_load(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


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
