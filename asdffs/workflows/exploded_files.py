"""Writes the exploded form of a document as real files: ``STEM.asdf``, and ``STEM0000.asdf`` ... for its blocks.

All files are first written under temporary names, so an error or an interrupt there leaves the directory unchanged.
Then an old ``STEM.asdf`` is removed, the block files get their names, and ``STEM.asdf`` gets its name last.  So if
``STEM.asdf`` exists, the exploded form is complete and has no other files.  The source is never overwritten.  Stored
bytes do not pass through Python (``storage/copying``).  Only one explosion at a time runs in a directory.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing

from asdffs import interrupts
from asdffs.arrays.outline import read_outline
from asdffs.arrays.sources import checked_sources
from asdffs.document.document import Document, Foreign
from asdffs.document.opening import open_document
from asdffs.errors import (
    AsdffsError,
    LockedError,
    NameExistsError,
    NotPermittedError,
    Remedy,
    StaleFileError,
    StorageError,
)
from asdffs.storage import linux_calls
from asdffs.storage.backend import WriteBackend
from asdffs.storage.copying import Stretch, misplaced, sharing_unit, transfer
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.new_file import remove_stale
from asdffs.storage.sidecars import temporary_prefix
from asdffs.workflows.exploded_names import block_file_name
from asdffs.workflows.exploding import ExplodedPart, block_file, exploded_sources
from asdffs.workflows.references import find_externals

_SUFFIX = ".tmp"


def main_name(stem: str) -> str:
    """Return the name of the file with the tree."""
    return f"{stem}.asdf"


def numbered(names: list[str], stem: str) -> dict[int, str]:
    """Return the names of block files among ``names``: block number -> name, in the order of the numbers."""
    pattern = re.compile(re.escape(stem) + r"(\d{4}|[1-9]\d{4,})\.asdf")
    found = {int(match[1]): name for name in names if (match := pattern.fullmatch(name))}
    return dict(sorted(found.items()))


def is_block_file(path: str) -> bool:
    """Return whether a file has one block and no tree, and so is nothing but a block file.  Raises ``OSError``."""
    try:
        with closing(open_document(path, writable=False)) as document:
            return len(document.blocks) == 1 and not document.layout.has_tree
    except AsdffsError:
        return False


def tree_text(document: Document, directory: str, stem: str) -> bytes:
    """Return the text of ``STEM.asdf`` in ``directory``.  Raises ``InvalidTreeError``."""
    outline = read_outline(document.tree.text(), document.dialect)
    wanted = exploded_sources(stem, len(document.blocks), document.path, directory)
    return checked_sources(outline, wanted, document.dialect)


def explode(
    document: Document, folder: FileFolder, stem: str, *, mode: int, force: bool = False, durable: bool = False
) -> list[str]:
    """Write all files with the permissions ``mode`` into ``folder``, and return their names, that of the tree first.

    ``force``: replace existing files; ``durable``: sync all files.  Raises ``NameExistsError``,
    ``NotPermittedError``, ``LockedError``, ``StaleFileError``, ``DamagedBlockError``, ``InvalidTreeError``,
    ``OSError``.
    """
    count = document.count_blocks(force=force)
    _check_on_their_own(document, count)
    text = tree_text(document, folder.directory, stem)
    if not force:
        document.fit.check_unnumbered()
    files = [block_file(document, number) for number in range(count)]
    stretches = [document.contents.stored_stretch(number) for number in range(count)]
    targets = [main_name(stem), *(block_file_name(stem, number) for number in range(count))]
    total = sum(stretch.length for stretch in stretches)
    with document.report.progress.over("exploding", total) as step, folder.exclusive():
        _check_targets(document, folder, targets, force=force)
        with _Temporaries(folder, stem, mode, durable=durable).removed() as temporaries:
            temporaries.write_tree(text)
            temporaries.write_blocks(list(zip(files, stretches, strict=True)), step)
            if document.foreign() is not Foreign.NO:
                raise StaleFileError("changed while it was read; nothing was written", path=document.path)
            temporaries.place(targets, force=force)
    return targets


def _check_on_their_own(document: Document, count: int) -> None:
    """Raise ``NotPermittedError`` for a block with a content that depends on the tree."""
    for number in range(count):
        if document.contents.codecs.follows_tree(number):
            sentence = "the tree states its byteorder, and a file of its own has no tree"
            raise NotPermittedError(sentence, path=document.path, block=number, remedy=Remedy.RECOMPRESS)


#: Writes the content of a new file.
Fill = Callable[[WriteBackend], None]


def fill_of_tree(document: Document, directory: str, stem: str) -> Fill:
    """Return what writes ``STEM.asdf`` in ``directory``.  Raises ``InvalidTreeError``, ``OSError``."""
    text = tree_text(document, directory, stem)
    return lambda new: new.write_at(0, text)


def fill_of_block(document: Document, folder: FileFolder, number: int) -> Fill:
    """Return what writes the file of block ``number`` in ``folder``.  Raises as ``explode``."""
    stretch = document.contents.stored_stretch(number)
    return _fill(folder, block_file(document, number), stretch, lambda count: None)


def _fill(folder: FileFolder, file: ExplodedPart, stretch: Stretch, step: Callable[[int], object]) -> Fill:
    def fill(new: WriteBackend) -> None:
        gap = misplaced(stretch, new, len(file.prefix))  # so that the bytes can be shared, or copied by pages
        prefix = file.moved(gap + sharing_unit(new) if gap == 1 else gap).prefix  # a comment has at least 2 bytes
        new.write_at(0, prefix)
        transfer(folder, stretch, new, len(prefix), step)

    return fill


def _check_targets(document: Document, folder: FileFolder, targets: list[str], *, force: bool) -> None:
    """Check existing files: only ``force`` replaces them, but never the source or files in use.

    Raises ``NotPermittedError``, ``NameExistsError``, ``LockedError``, ``StorageError``.
    """
    there = [name for name in targets if os.path.lexists(folder.path(name))]
    externals = [
        os.path.realpath(one.path) for one in find_externals(document, document.tree.arrays()) if one.path is not None
    ]
    needed = {document.path, *externals}
    for name in there:
        if os.path.realpath(folder.path(name)) in needed:
            sentence = "is the file to explode or a part of it, and would be overwritten; choose another directory"
            raise NotPermittedError(sentence, path=folder.path(name))
    if there and not force:
        others = f", and {len(there) - 1} more files of its kind" if len(there) > 1 else ""
        sentence = f"already exists{others}; choose another directory"
        raise NameExistsError(sentence, path=folder.path(there[0]), remedy=Remedy.FORCE_REPLACE)
    for name in there:
        if linux_calls.is_mount_point(folder.fileno(), name):
            sentence = "is a mount point, so it cannot be replaced; choose another directory"
            raise StorageError(sentence, path=folder.path(name))
        with closing(folder.open(name, writable=False)) as old:
            if not folder.lock(old):
                raise LockedError("another asdffs has it open for writing; unmount it first", path=folder.path(name))


class _Temporaries:
    """The temporary files, by the number of the block; the file of the tree has number -1.

    Only this class uses names with this prefix.  Otherwise other code that writes ``STEM.asdf`` could remove them as
    leftovers.
    """

    def __init__(self, folder: FileFolder, stem: str, mode: int, *, durable: bool) -> None:
        self.folder = folder
        self.stem = stem
        self.mode = mode
        self.durable = durable
        self.names: dict[int, str] = {}

    @property
    def _purpose(self) -> str:
        return f"{self.stem}, exploded"

    @contextlib.contextmanager
    def removed(self) -> Iterator[_Temporaries]:
        """Remove leftovers of a crash at the beginning, and temporary files without their final name at the end."""
        remove_stale(self.folder, self._purpose)
        with interrupts.critical():  # an interrupt between the renames would leave an incomplete exploded form
            try:
                yield self
            finally:
                with interrupts.cleaning():
                    for name in self.names.values():
                        with contextlib.suppress(OSError):
                            self.folder.remove(name)

    def write_tree(self, text: bytes) -> None:
        self._write(-1, lambda new: new.write_at(0, text))

    def write_blocks(self, files: list[tuple[ExplodedPart, Stretch]], step: Callable[[int], object]) -> None:
        """Write the block files.  ``step`` may raise, to end it."""
        for file, stretch in files:
            self._write(file.number, _fill(self.folder, file, stretch, step))

    def _write(self, number: int, fill: Fill) -> None:
        name = f"{temporary_prefix(self._purpose)}{number}{_SUFFIX}"
        new = self.folder.open(name, writable=True, create=True)
        self.names[number] = name
        with closing(new):
            fill(new)
            self.folder.set_mode(new, self.mode)
            if self.durable:
                new.sync()

    def place(self, targets: list[str], *, force: bool) -> None:
        """Give the files their names, the tree last.  With ``force``, remove all files of an old exploded form."""
        tree, *blocks = targets
        if force:
            with contextlib.suppress(FileNotFoundError):
                self.folder.remove(tree)
        for number, name in enumerate(blocks):
            self._place(number, name, force=force)
        if force:
            self._remove_rest(len(blocks))
        self._place(-1, tree, force=force)
        if self.durable:
            self.folder.sync()

    def _place(self, number: int, name: str, *, force: bool) -> None:
        with closing(self.folder.open(self.names[number], writable=False)) as backend:
            (self.folder.replace if force else self.folder.place)(backend, name).close()
        del self.names[number]

    def _remove_rest(self, number: int) -> None:
        """Remove the files of an old exploded form from ``number`` on, until a number has no block file."""
        names = numbered(self.folder.names(), self.stem)
        while number in names and is_block_file(self.folder.path(names[number])):
            self.folder.remove(names[number])
            number += 1
