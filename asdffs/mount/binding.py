"""Chooses the FUSE binding.  Both run the same ``operations`` on the loop of ``scheduler``.

mfusepy on libfuse 3 first (on libfuse 2 where that is all there is), fusepy on libfuse 2 as the other one.  What they
leave out is mended in ``mending``.  Called once per process.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import importlib
import os
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple

from asdffs.errors import MountError, UsageError
from asdffs.mount.mending import mended2, mended3
from asdffs.mount.session import Session, main_of

BindingName = Literal["auto", "mfusepy", "fusepy"]

#: Which library the bindings load; read when they are imported.  mfusepy knows the second as well.
_LIBRARY_PATH: Final = "FUSE_LIBRARY_PATH"
_LIBRARY_NAME: Final = "FUSE_LIBRARY_NAME"
#: Their names in the dynamic linker's table; of libfuse 3 since 3.17 the second.
_LIBFUSE3: Final = ("libfuse3.so.3", "libfuse3.so.4")
_LIBFUSE2: Final = ("libfuse.so.2",)
#: fusepy decodes paths strictly, with an encoding that may be chosen: this one loses nothing.
_PATH_ENCODING: Final = "asdffs_path"


class Binding(NamedTuple):
    """A binding on the version ``libfuse`` that can serve: ``run(operations, mountpoint, serve, **options)`` returns
    after the unmount.

    ``serve(session)`` is called between mount and unmount.
    """

    name: str
    libfuse: str
    libfuse2: bool
    run: Callable[..., Any]


def load_binding(wanted: BindingName = "auto") -> Binding:
    """The binding ``wanted``.  Raises ``MountError`` saying what to install."""
    loaders = {"mfusepy": _load_mfusepy, "fusepy": _load_fusepy}
    if wanted not in ("auto", *loaders):
        raise UsageError(f"the binding is auto, mfusepy or fusepy, not {wanted!r}; see $ASDFFS_BINDING")
    names = list(loaders) if wanted == "auto" else [wanted]
    reasons = []
    for name in names:
        try:
            return loaders[name]()
        except (ImportError, OSError, AttributeError) as err:  # the bindings raise any of these without libfuse
            reasons.append(f"{name}: {err}")
    raise MountError(
        "no usable FUSE binding (" + "; ".join(reasons) + "); install libfuse, for example 'apt install fuse3', "
        "and mfusepy, or libfuse2 and the extra 'asdffs[fusepy]'"
    )


def describe_binding(wanted: BindingName = "auto") -> str:
    """The versions of the binding that would serve and of its libfuse, or why there is none."""
    from importlib import metadata

    try:
        binding = load_binding(wanted)
    except (MountError, UsageError) as err:
        return str(err)
    return f"{binding.name} {metadata.version(binding.name)}, libfuse {binding.libfuse}"


def _libfuse_version(library: Any) -> str:
    """As its package has it; libfuse 2 tells 29 for 2.9 and nothing more."""
    if hasattr(library, "fuse_pkgversion"):
        library.fuse_pkgversion.restype = ctypes.c_char_p
        return str(library.fuse_pkgversion().decode())
    major, minor = divmod(int(library.fuse_version()), 10)
    return f"{major}.{minor}"


def _load_mfusepy() -> Binding:
    with _library(*_LIBFUSE3, *_LIBFUSE2):  # by itself it prefers libfuse 2 where both are
        module: Any = importlib.import_module("mfusepy")
    libfuse2 = module.fuse_version_major == 2
    base = mended2(module, "_fuse_2") if libfuse2 else mended3(module)

    def run(operations: Any, mountpoint: str, serve: Callable[[Session], None], **options: Any) -> None:
        module.fuse_main_real = main_of(module._libfuse._name, libfuse2=libfuse2, serve=serve)
        base(operations, mountpoint, foreground=True, nothreads=True, **options)

    return Binding("mfusepy", _libfuse_version(module._libfuse), libfuse2, run)


@contextlib.contextmanager
def _library(*names: str) -> Iterator[None]:
    """Inside, a binding that is imported takes the first of these that there is, unless the user has chosen another.

    By itself it would run ``ldconfig``, and a compiler where that knows nothing, before it knows.
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


def _load_fusepy() -> Binding:
    with _library(*_LIBFUSE2):
        module: Any = importlib.import_module("fuse")
    base = mended2(module)
    codecs.register(_find_path_encoding)

    def run(operations: Any, mountpoint: str, serve: Callable[[Session], None], **options: Any) -> None:
        module._libfuse.fuse_main_real = main_of(module._libfuse._name, libfuse2=True, serve=serve)
        base(_Called(operations), mountpoint, foreground=True, nothreads=True, encoding=_PATH_ENCODING, **options)

    version = _libfuse_version(module._libfuse)
    return Binding("fusepy", version, libfuse2=True, run=run)


def _find_path_encoding(name: str) -> codecs.CodecInfo | None:
    if name != _PATH_ENCODING:
        return None

    def encode(text: str, errors: str = "") -> tuple[bytes, int]:
        return text.encode("utf-8", "surrogateescape"), len(text)

    def decode(raw: Any, errors: str = "") -> tuple[str, int]:
        return bytes(raw).decode("utf-8", "surrogateescape"), len(raw)

    return codecs.CodecInfo(encode, decode, name=_PATH_ENCODING)


class _Called:
    """fusepy calls ``operations(name, *arguments)``; mfusepy warns about objects that can be called."""

    def __init__(self, operations: Any) -> None:
        self._operations = operations

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operations, name)

    def __call__(self, name: str, *arguments: Any) -> Any:
        return getattr(self._operations, name)(*arguments)
