"""Chooses the FUSE binding, the Python package that calls libfuse.

With libfuse 3 the first choice is mfusepy.  If only libfuse 2 is installed, it is fusepy.  Both run the same
``operations`` on the same ``loop``; ``mending`` adds the features that they lack.  Used once per process.
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

#: Environment variables that name the library to load.  The bindings read them at import; only mfusepy the second.
_LIBRARY_PATH: Final = "FUSE_LIBRARY_PATH"
_LIBRARY_NAME: Final = "FUSE_LIBRARY_NAME"
#: Names of the libraries for the dynamic linker.  libfuse 3 has the second name since 3.17.
_LIBFUSE3: Final = ("libfuse3.so.3", "libfuse3.so.4")
_LIBFUSE2: Final = ("libfuse.so.2",)
#: fusepy decodes paths strictly, but lets us choose the encoding.  This one accepts all bytes.
_PATH_ENCODING: Final = "asdffs_path"


class Binding(NamedTuple):
    """A usable FUSE binding, on version ``libfuse`` of the library.

    ``run(operations, mountpoint, serve, **options)`` mounts, calls ``serve(session)``, unmounts and returns.
    """

    name: str
    libfuse: str
    libfuse2: bool
    run: Callable[..., Any]


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


def _libfuse_version(library: Any) -> str:
    """Return the version of the library.  libfuse 2 has only two digits: 29 means 2.9."""
    if hasattr(library, "fuse_pkgversion"):
        library.fuse_pkgversion.restype = ctypes.c_char_p
        return str(library.fuse_pkgversion().decode())
    major, minor = divmod(int(library.fuse_version()), 10)
    return f"{major}.{minor}"


def _load_mfusepy() -> Binding:
    with _library(*_LIBFUSE3, *_LIBFUSE2):  # if both are installed, mfusepy would prefer libfuse 2
        module: Any = importlib.import_module("mfusepy")
    libfuse2 = module.fuse_version_major == 2
    base = mended2(module, "_fuse_2") if libfuse2 else mended3(module)

    def run(operations: Any, mountpoint: str, serve: Callable[[Session], None], **options: Any) -> None:
        module.fuse_main_real = main_of(module._libfuse._name, libfuse2=libfuse2, serve=serve)
        base(operations, mountpoint, foreground=True, nothreads=True, **options)

    return Binding("mfusepy", _libfuse_version(module._libfuse), libfuse2, run)


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
    """Makes ``operations`` callable for fusepy, which calls ``operations(name, *arguments)``.

    ``Operations`` itself is not callable, because mfusepy warns about callable objects.
    """

    def __init__(self, operations: Any) -> None:
        self._operations = operations

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operations, name)

    def __call__(self, name: str, *arguments: Any) -> Any:
        return getattr(self._operations, name)(*arguments)
