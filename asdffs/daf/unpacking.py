"""Unpacks the store of an ASDF file into a new directory: every file and directory, byte for byte.

The directory gets its name when all of it is there; what fails leaves nothing.  Bytes of blocks are copied, or
shared, by the kernel.  One thread.
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
from asdffs.storage.new_file import current_umask, default_mode
from asdffs.storage.sharing import Stretch, transfer


def check_faultless(store: TreeStore) -> None:
    """Raise ``InvalidStoreError`` when the tree has what no file can be: unpacked, it would be lost."""
    if store.faults:
        fault = store.faults[0]
        sentence = f"{fault.path}: {fault.sentence}; mend the tree"
        raise InvalidStoreError(sentence, path=store.files.name, remedy=Remedy.FORCE_WITHOUT)


def unpack(document: Document, files: Files, path: str, step: Callable[[int], object], *, durable: bool) -> None:
    """Write ``files``, which are of ``document``, into the new directory ``path``.

    Raises ``NameExistsError`` when it is there and not empty, ``MissingFileError`` when it cannot be there,
    ``StaleFileError`` when the file changed meanwhile, ``AsdffsError``, ``OSError``.
    """
    target = os.path.realpath(path)
    if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        raise NameExistsError("is there already; choose another name", path=path)
    with _temporary(target) as temporary:
        for directory in sorted(files.directories):
            os.mkdir(os.path.join(temporary, directory))
        for name in sorted_paths(files.contents):
            _write(document, files.contents[name], os.path.join(temporary, name), step, durable=durable)
        if document.foreign() is not Foreign.NO:
            raise StaleFileError("changed while it was read; nothing was written", path=document.path)
        os.chmod(temporary, 0o777 & ~current_umask())
        os.rename(temporary, target)
        if durable:
            FileFolder(os.path.dirname(target)).sync()


@contextlib.contextmanager
def _temporary(target: str) -> Iterator[str]:
    """A directory beside ``target``, removed unless it got that name."""
    above, name = os.path.split(target)
    try:
        temporary = tempfile.mkdtemp(prefix=f".{name[:100]}.", suffix=".tmp", dir=above)
    except FileNotFoundError as err:
        raise MissingFileError("is no directory; create it first", path=above) from err
    try:
        yield temporary
    finally:
        if os.path.isdir(temporary):
            shutil.rmtree(temporary)


def _write(document: Document, content: Content, path: str, step: Callable[[int], object], *, durable: bool) -> None:
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
        folder.set_mode(new, default_mode())
        if durable:
            new.sync()


def _stretch(document: Document, content: Content) -> Stretch | None:
    """Where the bytes are in the file as they are; None for what is computed."""
    window = content.window if isinstance(content, Stored) else None
    if window is None or document.blocks[window[0]].header.compressed:
        return None
    stored = document.contents.stored_stretch(window[0])
    return Stretch(stored.backend, stored.offset + window[1], content.size)
