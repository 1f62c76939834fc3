"""Opens a file with the asdf library, which reads the tree, while asdffs reads the arrays.

asdf gets the bytes of the file through asdffs: so files on servers, ASDF inside FITS, and the converters of other
packages that read blocks themselves work as well.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import asdf

from asdffs.document.document import Document
from asdffs.document.opening import open_to_read
from asdffs.features.asdf_library.arrays import LazyArray, lazy_array
from asdffs.features.asdf_library.extensions import LazyArrays
from asdffs.storage.urls import is_remote

#: Options of ``asdf.open`` that say how arrays are read, or what may be written.
_REFUSED: Final = ("fd", "uri", "mode", "memmap", "lazy_load", "validate_checksums")


def open_asdf(path: str | os.PathLike[str], options: Mapping[str, Any]) -> asdf.AsdfFile:
    """Do what ``asdffs.open_asdf`` does.  ``options``: of ``asdf.open``."""
    if refused := sorted(options.keys() & set(_REFUSED)):
        raise TypeError(f"open_asdf() has no option {refused[0]}: asdffs reads the arrays, and writes nothing")
    document = open_to_read(os.fspath(path))
    try:
        return _opened(document, dict(options))
    except BaseException:
        document.close()
        raise


def _opened(document: Document, options: dict[str, Any]) -> asdf.AsdfFile:
    opened: list[weakref.ref[asdf.AsdfFile]] = []

    @functools.cache
    def of_asdf(version: str) -> Any:
        return asdf.AsdfFile(version=version).extension_manager

    def make(node: Any, tag: str, ctx: Any) -> Any:
        if isinstance(node, dict) and "source" in node and "data" not in node:
            array = lazy_array(document, node, tag)
            array.noted = lambda array: _keep_storage(opened, document, array, node["source"])
            return array
        return of_asdf(ctx.version).get_converter_for_tag(tag).from_yaml_tree(node, tag, ctx)

    given = options.pop("extensions", None) or ()
    extensions = [LazyArrays(make), *(given if isinstance(given, (list, tuple)) else [given])]
    place = document.location if is_remote(document.path) else Path(document.path).as_uri()
    found = asdf.open(_Bytes(document), uri=place, mode="r", extensions=extensions, **options)
    opened.append(weakref.ref(found))
    _close_with(found, document)
    return found


def _keep_storage(
    opened: Sequence[weakref.ref[asdf.AsdfFile]], document: Document, array: LazyArray, source: int | str
) -> None:
    """Have asdf write an array that was read as the file has it: with its compression, or in a file of its own."""
    file = opened[0]() if opened else None
    if file is None:
        return
    if isinstance(source, str):
        if not source.startswith("fits:"):
            file.set_array_storage(array, "external")
        return
    compression = document.blocks[source].compression
    with contextlib.suppress(ValueError):  # asdf does not know it
        file.set_array_compression(array, None if compression == "none" else compression)


def _close_with(found: asdf.AsdfFile, document: Document) -> None:
    """Close ``document`` when ``found`` is closed, or when nothing refers to it any more."""
    close = found.close

    def close_both() -> None:
        close()
        document.close()

    found.close = close_both
    weakref.finalize(found, document.close)


class _Bytes(io.RawIOBase):
    """The bytes of the ASDF file of ``document``, as a file to read."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._backend = document.contents.transaction.backend
        self._place = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the place of the next read."""
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place, and return it."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._backend.size()}[whence]
        self._place = start + offset
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Read into ``buffer``, and return how many bytes.  Raises as ``ReadBackend.read_at``."""
        view = memoryview(buffer).cast("B")
        with self._document.scheduler.entered():
            found = self._backend.read_at(self._place, len(view))
        view[: len(found)] = found
        self._place += len(found)
        return len(found)
