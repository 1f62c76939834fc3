"""Chooses the FUSE binding and mends what it leaves out.

mfusepy on libfuse3 first (on libfuse2 where that is all there is), fusepy on libfuse2 as the
other one.  Both run the same ``operations``.  User: ``daemon``.  Called once per process.
"""

from __future__ import annotations

import ctypes.util
import functools
import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from asdffs.errors import MountError

BindingName = Literal["auto", "mfusepy", "fusepy"]

#: Decides between libfuse 2 and 3 inside mfusepy; read when it is imported.
_LIBRARY_VARIABLE = "FUSE_LIBRARY_NAME"


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding that can serve: ``run(operations, mountpoint, **options)`` returns after the unmount."""

    name: str
    libfuse2: bool
    run: Callable[..., Any]
    caller_pid: Callable[[], int]


def load_binding(wanted: BindingName = "auto") -> Binding:
    """The binding ``wanted``.  Raises ``MountError`` saying what to install."""
    loaders = {"mfusepy": _load_mfusepy, "fusepy": _load_fusepy}
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


def _load_mfusepy() -> Binding:
    if ctypes.util.find_library("fuse3"):
        os.environ.setdefault(_LIBRARY_VARIABLE, "fuse3")  # it prefers libfuse2 where both are
    module = importlib.import_module("mfusepy")
    run = functools.partial(_run, _mended(module.FUSE))
    return Binding("mfusepy", module.fuse_version_major == 2, run, lambda: int(module.fuse_get_context()[2]))


def _load_fusepy() -> Binding:
    module = importlib.import_module("fuse")
    run = functools.partial(_run_fusepy, module.FUSE)
    return Binding("fusepy", libfuse2=True, run=run, caller_pid=lambda: int(module.fuse_get_context()[2]))


def _mended(base: Any) -> Any:
    """mfusepy drops the flags of rename and the handle of truncate on libfuse3."""

    class Mended(base):  # type: ignore[misc]
        def rename_fuse_3(self, old: bytes, new: bytes, flags: int) -> int:
            self.operations.rename(self._text(old), self._text(new), flags)
            return 0

        def truncate_fuse_3(self, path: bytes | None, length: int, info: Any) -> int:
            handle = info.contents.fh if info else None
            self.operations.truncate(None if path is None else self._text(path), length, handle)
            return 0

        def _text(self, path: bytes) -> str:
            return path.decode(self.encoding, self.errors)

    return Mended


def _run(fuse: Callable[..., Any], operations: Any, mountpoint: str, **options: Any) -> None:
    fuse(operations, mountpoint, foreground=True, nothreads=True, **options)


def _run_fusepy(fuse: Callable[..., Any], operations: Any, mountpoint: str, **options: Any) -> None:
    _run(fuse, _Called(operations), mountpoint, **options)


class _Called:
    """fusepy calls ``operations(name, *arguments)``; mfusepy warns about objects that can be called."""

    def __init__(self, operations: Any) -> None:
        self._operations = operations

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operations, name)

    def __call__(self, name: str, *arguments: Any) -> Any:
        return getattr(self._operations, name)(*arguments)
