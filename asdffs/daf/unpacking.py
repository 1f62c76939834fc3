"""Unpacks the store of an ASDF file into a new directory: every file and directory, byte for byte.

The directory gets its name when it is complete; a failure leaves nothing behind.  The kernel copies or shares the
bytes of blocks.  For one thread.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing

from asdffs.daf.files import Content, Files, pieces, sorted_paths
from asdffs.daf.stored import Stored
from asdffs.daf.tree_files import TreeStore
from asdffs.document.document import Document, Foreign
from asdffs.errors import InvalidStoreError, MissingFileError, NameExistsError, Remedy, StaleFileError
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
    with _temporary(target) as temporary:
        for directory in sorted(files.directories):
            os.mkdir(os.path.join(temporary, directory))
        for name in sorted_paths(files.contents):
            _write(document, files.contents[name], os.path.join(temporary, name), step, mode=mode, durable=durable)
        if durable:
            for directory in (*sorted(files.directories, reverse=True), ""):
                FileFolder(os.path.join(temporary, directory)).sync()
        if document.foreign() is not Foreign.NO:
            raise StaleFileError("changed while it was read; nothing was written", path=document.path)
        os.chmod(temporary, 0o700 | mode | (mode & 0o444) >> 2)
        os.rename(temporary, target)
        if durable:
            FileFolder(os.path.dirname(target)).sync()


@contextlib.contextmanager
def _temporary(target: str) -> Iterator[str]:
    """Create a temporary directory beside ``target``; it is removed at the end unless it was renamed."""
    above, name = os.path.split(target)
    try:
        temporary = tempfile.mkdtemp(prefix=f".{name[:100]}.", suffix=".tmp", dir=above)
    except FileNotFoundError as err:
        raise MissingFileError("is not a directory; create it first", path=above) from err
    try:
        yield temporary
    finally:
        if os.path.isdir(temporary):
            shutil.rmtree(temporary)


def _write(
    document: Document,
    content: Content,
    path: str,
    step: Callable[[int], object],
    *,
    mode: int,
    durable: bool,
) -> None:
    folder = FileFolder(os.path.dirname(path))
    with closing(folder.open(os.path.basename(path), writable=True, create=True)) as new:
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
