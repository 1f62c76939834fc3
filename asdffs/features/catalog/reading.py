"""Reads files for a catalogue: runs in worker processes, which know nothing of the catalogue.

A file that cannot be read has a row with the reason, never an error: an archive has broken files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from asdffs.arrays.footprints import UNKNOWN, footprint_of
from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.scalars import Scalars, read_scalars
from asdffs.codecs.base import name_of
from asdffs.document.scanning import find_embedded, place_of, scan, window_of, with_pending_record
from asdffs.errors import AsdffsError, MissingFileError, reason_of
from asdffs.failures import Failure, attempt
from asdffs.features.catalog.cells import cells_of
from asdffs.features.catalog.chunks import WEIGHT, Packed, Packer
from asdffs.features.catalog.store import FileRow
from asdffs.format.block_scan import drive, scan_block_header
from asdffs.format.layout import Layout
from asdffs.format.text import standard_version
from asdffs.scheduling import SingleThread
from asdffs.storage.backend import ReadBackend, ReadFolder, RemoteFile
from asdffs.storage.urls import is_remote
from asdffs.tree.comparing import Mark
from asdffs.tree.paths import format_path
from asdffs.workflows.ahead import read_ahead

if TYPE_CHECKING:
    from asdffs.features.remote.transport import Validator
    from asdffs.storage.urls import RemoteOptions

#: The most block headers that are read of one file.
_MOST_BLOCKS: Final = 10_000
_MOST_SENTENCE: Final = 500
#: Bytes of the header of a block, and bytes of memory that the row of an array or of a block takes.
_HEADER: Final = 64
_ROW: Final = 400


class Chunk(NamedTuple):
    """Rows of files, and their scalars.  ``asked``: how many files were looked at."""

    rows: list[FileRow]
    packed: Packed
    asked: int


def identity_of(status: os.stat_result) -> str:
    """Return what tells one version of a file from another: device, inode, size, mtime and ctime."""
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"


def version_of(found: Validator) -> str:
    """Return what tells one version of a remote file from another: size, tag and time."""
    return _identity(found.size, found.tag, found.modified)


def read_chunk(paths: Sequence[bytes], remote: RemoteOptions | None = None) -> Chunk:
    """Read the first files, as many as one chunk takes, and return them.  Files that are gone have no row.

    ``remote``: settings for remote files.  Several of these are read at a time, because each waits for its server.
    """
    rows, packer, asked, more = list[FileRow](), Packer(), 0, 0
    for _, read in read_ahead(list(map(os.fsdecode, paths)), lambda name: read_file(os.fsencode(name), remote)):
        asked += 1
        if (found := read()) is not None:
            rows.append(found[0])
            packer.add(found[1])
            more += _ROW * (len(found[0].arrays) + len(found[0].blocks))
        if packer.weight + more > WEIGHT:
            break
    return Chunk(rows, packer.packed(), asked)


def unread_chunk(path: bytes, err: AsdffsError) -> Chunk:
    """Return the chunk of one file that could not be read.  The next index tries again."""
    packer = Packer()
    packer.add({})
    return Chunk([_unread(path, err)], packer.packed(), 1)


def read_file(path: bytes, remote: RemoteOptions | None = None) -> tuple[FileRow, dict[str, Any]] | None:
    """Return the row and the scalars of a file; None if it is gone.

    The identity is that of the open file, looked at before its content: if the file changes meanwhile, the next index
    sees another identity and reads it again.
    """
    opened = attempt(lambda: _opened(os.fsdecode(path), remote))
    if isinstance(opened, Failure):
        return None if _is_gone(path, opened.error) else (_unread(path, opened.error), {})
    folder, backend = opened
    with closing(backend):
        identity, size = _known(backend)
        read = attempt(lambda: _read(path, identity, size, with_pending_record(folder, backend)))
    return (_unread(path, read.error, identity, size), {}) if isinstance(read, Failure) else read


def _opened(name: str, remote: RemoteOptions | None) -> tuple[ReadFolder, ReadBackend]:
    folder, name = place_of(name, remote, SingleThread())
    return folder, folder.open(name, writable=False)


def _is_gone(path: bytes, err: AsdffsError | OSError) -> bool:
    if isinstance(err, MissingFileError):
        return is_remote(os.fsdecode(path)) or isinstance(err.__cause__, FileNotFoundError)
    return isinstance(err, FileNotFoundError)


def _known(backend: ReadBackend) -> tuple[str, int]:
    """Return the identity and the size of an open file."""
    if isinstance(backend, RemoteFile):
        return version_of(backend.validator), backend.validator.size
    known = backend.signature()
    return _identity(*known[:5]), known.size


def _identity(*facts: object) -> str:
    return ":".join(map(str, facts))


def _unread(path: bytes, err: AsdffsError | OSError, identity: str = "", size: int = 0) -> FileRow:
    sentence = err.sentence if isinstance(err, MissingFileError) else reason_of(err)
    return FileRow(path, identity, size, error=sentence[:_MOST_SENTENCE])


def _read(path: bytes, identity: str, size: int, backend: ReadBackend) -> tuple[FileRow, dict[str, Any]]:
    embedded = find_embedded(backend)
    part = window_of(backend, embedded)
    layout, dialect = scan(part, trusting=is_remote(os.fsdecode(path)))
    text = part.read_at(0, layout.text_end)
    found = read_scalars(text, dialect)
    blocks = _blocks(part, layout)
    footprint = footprint_of(found)
    row = FileRow(
        path,
        identity,
        size,
        standard=standard_version(text[: layout.text_start]) or "",
        format=".".join(map(str, layout.header.version)),
        container=embedded.kind if embedded is not None else "",
        left_out=tuple(found.left_out),
        footprint=footprint,
        cells=tuple(cells_of(footprint)) if footprint and footprint[0] != UNKNOWN else (),
        arrays=tuple(_array(array, blocks, len(layout.offsets)) for array in found.arrays),
        blocks=tuple(blocks),
    )
    return row, {**found.values, **_marks(found)}


def _marks(found: Scalars) -> dict[str, Mark]:
    """Return what is there and is no scalar."""
    left_out = [*found.left_out, *(format_path(array.path) for array in found.arrays)]
    full = dict.fromkeys(found.empty, Mark.EMPTY) | dict.fromkeys(found.full, Mark.FULL)
    return full | dict.fromkeys(left_out, Mark.LEFT_OUT)


def _blocks(part: ReadBackend, layout: Layout) -> list[tuple[Any, ...]]:
    """Return number, offset, size, stored size, compression and damage of each block."""
    found: list[tuple[Any, ...]] = []
    if isinstance(part, RemoteFile):  # all headers at the same time
        part.fetch_ahead([(offset, offset + _HEADER) for offset in layout.offsets[:_MOST_BLOCKS]])
    for number, offset in enumerate(layout.offsets[:_MOST_BLOCKS]):
        try:
            header = drive(scan_block_header(offset, layout.rules), part.read_at)
        except AsdffsError as err:
            found.append((number, offset, None, None, "", str(err)[:_MOST_SENTENCE]))
            continue
        stored = layout.size - offset - header.full_size if header.streamed else header.used_size
        compression = "streamed" if header.streamed else name_of(header.compression)
        size = stored if header.streamed else header.data_size
        damage = "the file ends inside this block" if offset + header.full_size + stored > layout.size else ""
        found.append((number, offset, size, stored, compression, damage))
    return found


def _array(array: Ndarray, blocks: Sequence[tuple[Any, ...]], count: int) -> tuple[Any, ...]:
    """Return path, source, shape, datatype, compression and offset in the file of an array.

    The file has ``count`` blocks, of which ``blocks`` are the first.
    """
    number = array.block_in(count)
    block = blocks[number] if number is not None and number < len(blocks) else None
    shape = "" if array.shape is None else "x".join(map(str, array.shape))
    datatype = array.datatype if isinstance(array.datatype, str) else "" if array.datatype is None else "record"
    source = "" if array.source is None else str(array.source)
    return (
        format_path(array.path),
        "inline" if array.inline else source,
        shape,
        datatype,
        block[4] if block is not None else "",
        block[1] if block is not None else None,
    )
