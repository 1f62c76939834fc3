"""Unpacks the store of an ASDF file into a new directory: every file and directory, byte for byte.

The directory gets its name when it is complete; a failure leaves nothing behind.  The kernel copies or shares the
bytes of blocks.  For one thread.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing

from asdffs.document.document import Document, Foreign
from asdffs.errors import (
    InvalidStoreError,
    MissingFileError,
    NameExistsError,
    NotPermittedError,
    Remedy,
    StaleFileError,
)
from asdffs.features.daf.files import Content, Files, pieces, sorted_paths
from asdffs.features.daf.stored import Stored
from asdffs.features.daf.tree_files import TreeStore
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.sharing import Stretch, transfer


def check_faultless(store: TreeStore) -> None:
    """Raise ``InvalidStoreError`` if nodes of the tree cannot become files, because unpacking would lose them."""
    if store.faults:
        fault = store.faults[0]
        sentence = f"{fault.path}: {fault.sentence}; repair the tree"
        raise InvalidStoreError(sentence, path=store.files.name, remedy=Remedy.FORCE_WITHOUT)


def unpack(
    document: Document, files: Files, path: str, step: Callable[[int], object], *, mode: int, durable: bool
) -> None:
    """Write the ``files`` of ``document`` into the new directory ``path``.

    ``step`` is called with the number of bytes written.  ``mode``: permissions of the files.  ``durable``: fsync each
    file, each directory, and the parent of ``path``.

    Raises ``NameExistsError`` if ``path`` exists and is not an empty directory.  Raises ``MissingFileError`` if its
    parent does not exist.  Raises ``StaleFileError`` if the ASDF file changed meanwhile.  Raises ``AsdffsError``,
    ``OSError``.
    """
    target = os.path.realpath(path)
    if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        raise NameExistsError("already exists; choose another name", path=path)
    above, name = FileFolder(os.path.dirname(target)), os.path.basename(target)
    with _temporary(above, name) as temporary:
        for directory in sorted(files.directories):
            temporary.below(directory, create=True)
        for path in sorted_paths(files.contents):
            inner, leaf = os.path.split(path)
            _write(document, files.contents[path], temporary.below(inner), leaf, step, mode=mode, durable=durable)
        if durable:
            for directory in (*sorted(files.directories, reverse=True), ""):
                temporary.below(directory).sync()
        if document.foreign() is not Foreign.NO:
            raise StaleFileError("changed while it was read; nothing was written", path=document.path)
        with temporary.readable() as fd:
            os.fchmod(fd, 0o700 | mode | (mode & 0o444) >> 2)
        os.rename(os.path.basename(temporary.directory), name, src_dir_fd=above.fileno(), dst_dir_fd=above.fileno())
        if durable:
            above.sync()


@contextlib.contextmanager
def _temporary(above: FileFolder, name: str) -> Iterator[FileFolder]:
    """Create a temporary directory for ``name`` in ``above``; it is removed at the end unless it was renamed.

    Who may write ``above`` may exchange it: then ``NotPermittedError`` is raised, or our own directory goes on.
    """
    own = f".{name[:100]}.{secrets.token_hex(8)}.tmp"
    try:
        os.mkdir(own, 0o700, dir_fd=above.fileno())
    except FileNotFoundError as err:
        raise MissingFileError("is not a directory; create it first", path=above.directory) from err
    try:
        temporary = above.below(own)
        if os.fstat(temporary.fileno()).st_uid != os.geteuid():
            raise NotPermittedError("was exchanged by another user; choose another directory", path=above.path(own))
        yield temporary
    finally:
        if above.has(own):
            shutil.rmtree(own, dir_fd=above.fileno())


def _write(
    document: Document,
    content: Content,
    folder: FileFolder,
    name: str,
    step: Callable[[int], object],
    *,
    mode: int,
    durable: bool,
) -> None:
    with closing(folder.open(name, writable=True, create=True)) as new:
        new.truncate(content.size)
        stretch = _stretch(document, content)
        if stretch is not None:
            transfer(folder, stretch, new, 0, step)
        else:
            offset = 0
            for piece in pieces(content):
                new.write_at(offset, piece)
                offset += len(piece)
                step(len(piece))
        folder.set_mode(new, mode)
        if durable:
            new.sync()


def _stretch(document: Document, content: Content) -> Stretch | None:
    """Return the range of the file in which the bytes lie unchanged; None for compressed or computed content."""
    window = content.window if isinstance(content, Stored) else None
    if window is None or document.blocks[window[0]].header.compressed:
        return None
    stored = document.contents.stored_stretch(window[0])
    return Stretch(stored.backend, stored.offset + window[1], content.size)
