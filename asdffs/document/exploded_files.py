"""Writes the exploded form of a document as real files: ``STEM.asdf``, and ``STEM0000.asdf`` ... for its blocks.

Guarantee: the block files are whole before ``STEM.asdf`` gets its name; where something fails, or is interrupted,
what was written is removed.  Stored bytes do not pass through Python (``storage/sharing``).  Users: ``cli/explode``,
``watching``.  Block files are written by several threads, each its own.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from asdffs.document.document import Document
from asdffs.document.exploding import BlockFile, block_file, block_file_name, exploded_text
from asdffs.document.outline import read_outline
from asdffs.errors import DamagedBlockError, NameExistsError
from asdffs.storage.new_file import default_mode, write_new, write_over
from asdffs.storage.payload import create_temporary
from asdffs.storage.sharing import Stretch, misplaced, transfer
from asdffs.storage.store import Folder, Store


def main_name(stem: str) -> str:
    """Name of the file with the tree."""
    return f"{stem}.asdf"


def numbered(names: list[str], stem: str) -> dict[int, str]:
    """Those of ``names`` that are of a block, by its number, in order."""
    pattern = re.compile(re.escape(stem) + r"(\d{4}|[1-9]\d{4,})\.asdf")
    found = {int(match[1]): name for name in names if (match := pattern.fullmatch(name))}
    return dict(sorted(found.items()))


def explode(
    document: Document, folder: Folder, stem: str, *, force: bool = False, durable: bool = False
) -> list[str]:
    """Write all files into ``folder``; their names, that of the tree first.

    ``force``: remove an exploded form of that stem first; ``durable``: sync all.  Raises ``NameExistsError``,
    ``DamagedBlockError``, ``InvalidTreeError``, ``OSError``.
    """
    count = document.count_blocks()
    outline = read_outline(document.tree.text(), document.dialect.is_ndarray)
    text = exploded_text(outline, stem, count)
    files = [block_file(document, number) for number in range(count)]
    stretches = [_stretch(document, file) for file in files]
    _make_way(folder, stem, force=force)
    total = sum(stretch.length for stretch in stretches)
    with document.report.progress.over("exploding", total) as step, _Written(folder, durable).removed() as written:
        written.write_all(stem, list(zip(files, stretches, strict=True)), step)
        write_new(folder, main_name(stem), lambda new: new.write_at(0, text), durable=durable, mode=written.mode)
    return [main_name(stem), *sorted(written.names, key=lambda name: (len(name), name))]


def write_tree_file(document: Document, folder: Folder, stem: str) -> None:
    """Write ``STEM.asdf`` anew, whole or not at all.  Raises ``InvalidTreeError``, ``OSError``."""
    outline = read_outline(document.tree.text(), document.dialect.is_ndarray)
    text = exploded_text(outline, stem, document.block_count)
    _write_anew(folder, main_name(stem), lambda new: new.write_at(0, text))


def write_block_file(document: Document, folder: Folder, stem: str, number: int) -> None:
    """Write the file of block ``number`` anew, whole or not at all.  Raises ``DamagedBlockError``, ``OSError``."""
    file = block_file(document, number)
    stretch = _stretch(document, file)

    def fill(new: Store) -> None:
        placed = _placed(file, stretch, new)
        new.write_at(0, placed.prefix)
        transfer(folder, stretch, new, len(placed.prefix), lambda count: None)

    _write_anew(folder, block_file_name(stem, number), fill)


def _write_anew(folder: Folder, name: str, fill: Callable[[Store], None]) -> None:
    try:
        write_over(folder, name, fill)
    except FileNotFoundError:
        write_new(folder, name, fill, durable=False, mode=default_mode())


def _stretch(document: Document, file: BlockFile) -> Stretch:
    stretch = document.contents.stored_stretch(file.number)
    if stretch.length < file.length:
        raise DamagedBlockError(
            f"the file ends inside this block; 'asdffs block FILE {file.number}' gives what is left of it",
            path=document.path,
            block=file.number,
            offset=document.layout.size,
        )
    return stretch


def _make_way(folder: Folder, stem: str, *, force: bool) -> None:
    """Raise ``NameExistsError`` when there are such files; with ``force`` remove them, that of the tree first."""
    names = folder.names()
    there = [name for name in (main_name(stem), *numbered(names, stem).values()) if name in names]
    if there and not force:
        others = f", and {len(there) - 1} more files of its kind" if len(there) > 1 else ""
        sentence = f"is there already{others}; choose another directory, or use --force"
        raise NameExistsError(sentence, path=folder.path(there[0]))
    for name in there:
        folder.remove(name)
    if there:
        folder.sync()


@dataclass(slots=True)
class _Written:
    """The block files that were written."""

    folder: Folder
    durable: bool
    mode: int = field(default_factory=default_mode)
    names: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def removed(self) -> Iterator[_Written]:
        """Unless the body ends well they are removed."""
        try:
            yield self
        except BaseException:  # an interrupt as well, and it goes on
            for name in self.names:
                with contextlib.suppress(OSError):
                    self.folder.remove(name)
            raise

    def write_all(self, stem: str, files: list[tuple[BlockFile, Stretch]], step: Callable[[int], object]) -> None:
        """Several at a time: the kernel copies, and each waits for another file."""
        clones = can_share(self.folder, main_name(stem), [stretch for _, stretch in files])
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            waiting = [
                pool.submit(self._write, block_file_name(stem, file.number), file, stretch, step, clones=clones)
                for file, stretch in files
            ]
            try:
                for future in waiting:
                    future.result()
            except BaseException:  # an interrupt as well: what has not begun is not begun, and it goes on
                pool.shutdown(cancel_futures=True)
                raise

    def _write(
        self, name: str, file: BlockFile, stretch: Stretch, step: Callable[[int], object], *, clones: bool
    ) -> None:
        new = self.folder.open(name, writable=True, create=True)
        self.names.append(name)
        try:
            prefix = _placed(file, stretch, new).prefix if clones else file.prefix
            new.write_at(0, prefix)
            transfer(self.folder, stretch, new, len(prefix), step)
            self.folder.set_mode(new, self.mode)
            if self.durable:
                new.sync()
        finally:
            new.close()


def _placed(file: BlockFile, stretch: Stretch, new: Store) -> BlockFile:
    """With a content that can be shared."""
    gap = misplaced(stretch, new, len(file.prefix))
    return file.moved(gap + new.unit() if gap == 1 else gap)  # no comment has one byte


def can_share(folder: Folder, name: str, stretches: Sequence[Stretch]) -> bool:
    """Whether new files in ``folder``, as ``name`` will be, can share the bytes of ``stretches``."""
    largest = max(stretches, key=lambda stretch: stretch.length, default=None)
    if largest is None:
        return False
    probe = create_temporary(folder, name, ".tmp")
    try:
        return folder.can_clone(largest.store, probe)
    finally:
        probe.close()
        folder.remove(probe.name)
