"""An exploded form of real files and the one ASDF file that it mirrors: what is saved in it is carried into the file.

| in the directory                     | what is done                                                              |
|--------------------------------------|---------------------------------------------------------------------------|
| ``STEM.asdf`` was saved              | sources become numbers, then as a save of ``tree.yaml`` in a mount        |
| it is empty, or gone                 | nothing: the save follows                                                 |
| ``STEMNNNN.asdf`` of a block         | the bytes that differ are written in place; its compression, if it differs|
| the next number                      | a new block                                                               |
| it is gone                           | nothing                                                                   |
| the ASDF file was changed by others  | it is carried into the directory; a save that was not carried yet is kept |
|                                      | beside the file as a conflict copy                                        |

Blocks are carried before the tree that may refer to them.  A file that changes while it is read is read again.
User: ``cli/watch``, which says when.  One thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Final

from asdffs.codecs.base import name_of
from asdffs.document.arrays import Ndarray
from asdffs.document.document import Document, Foreign
from asdffs.document.drafts import Drafts
from asdffs.document.exploded_files import main_name, numbered, write_block_file, write_tree_file
from asdffs.document.exploding import block_file_name
from asdffs.document.external import resolve
from asdffs.document.keeping import Keeper
from asdffs.document.opening import open_document
from asdffs.document.outline import read_outline
from asdffs.document.sources import with_numbers
from asdffs.errors import (
    AsdffsError,
    InvalidTreeError,
    MissingFileError,
    NotPermittedError,
    StaleFileError,
    UnfinishedError,
)
from asdffs.format.plan import difference
from asdffs.format.scanner import drive, scan_layout
from asdffs.storage.file_store import FileFolder
from asdffs.storage.store import Signature, read_bytes

logger = logging.getLogger(__name__)

_PIECE: Final = 1 << 20
#: How often the directory is written anew while somebody else writes it too.
_PATIENCE: Final = 100
_OWN_BLOCKS: Final = (
    "has blocks of its own; in a directory that is watched each is a file of its own: "
    "save it with all_array_storage='external'"
)


class Mirror:
    """The exploded form of ``stem`` in ``directory``, of ``document``.

    ``seen``: the signature of each file there as it was last carried, or written here; ``trouble``: why files could
    not be carried, a sentence for each name.  ``announce(name, text)`` is called before a file is carried; ``text``:
    the new tree, empty for a block.
    """

    def __init__(
        self, directory: str, stem: str, document: Document, drafts: Drafts, announce: Callable[[str, bytes], None]
    ) -> None:
        self.folder = FileFolder(directory)
        self.stem = stem
        self.main = main_name(stem)
        self.seen: dict[str, Signature] = {}
        self.trouble: dict[str, str] = {}
        self._document = document
        self._drafts = drafts
        self._announce = announce

    # -- what there is ----------------------------------------------------

    def signatures(self) -> dict[str, Signature]:
        """Of all files of the exploded form that are there: blocks by their numbers, then the tree."""
        names = self.folder.names()
        found: dict[str, Signature] = {}
        for name in (*numbered(names, self.stem).values(), self.main):
            with contextlib.suppress(FileNotFoundError):  # gone meanwhile, or not there
                found[name] = self.folder.signature(name)
        return found

    def differs(self, name: str) -> bool:
        """Whether a file has something that the ASDF file has not.  Raises ``AsdffsError``, ``OSError``."""
        document = self._document
        if name == self.main:
            return self._text() not in (b"", document.tree.text())
        number = self._number(name)
        if number >= document.block_count:
            return True
        with closing(self._opened(name)) as other:
            sizes = other.block_size(0), document.block_size(number)
            return sizes[0] != sizes[1] or any(self._differences(other, number))

    def is_whole(self, name: str) -> bool:
        """Whether a file has all that it says it has: its end marker, or its stored bytes."""
        try:
            if name == self.main:
                return self._raw_text().rstrip(b"\r\n").endswith(b"\n...")
            with closing(self._opened(name)) as other:
                header = other.block_header(0)
                return header.streamed or other.contents.stored_stretch(0).length >= header.used_size
        except (AsdffsError, OSError):
            return False

    # -- into the ASDF file ------------------------------------------------

    def carry(self, names: Iterable[str]) -> list[str]:
        """Carry the files ``names``, blocks first; those that changed the ASDF file.

        What could not be carried is in ``trouble``, and is tried again when something else was.
        """
        wanted, carried = set(names), []
        for name, before in self.signatures().items():
            if name in wanted and self._carried(name, before):
                carried.append(name)
        waiting = set(self.trouble) - wanted
        return [*carried, *(self.carry(waiting) if carried and waiting else ())]

    def _carried(self, name: str, before: Signature) -> bool:
        """Whether that changed the ASDF file; ``before``: the signature of the file."""
        changed = False
        try:
            changed = self._carry(name, before)
        except StaleFileError as err:  # it is looked at first, and then this file again
            self.refuse(name, err)
            return False
        except (AsdffsError, OSError) as err:
            self.refuse(name, err)
        else:
            self.trouble.pop(name, None)
        with contextlib.suppress(FileNotFoundError):
            if self.folder.signature(name) == before:
                self.seen[name] = before
        return changed

    def refuse(self, name: str, err: Exception) -> None:
        """Remember why ``name`` could not be carried, and log it once."""
        sentence = str(err) if isinstance(err, AsdffsError) and err.path else f"{self.folder.path(name)}: {err}"
        if self.trouble.get(name) != sentence:
            logger.warning("%s", sentence)
        self.trouble[name] = sentence

    def _carry(self, name: str, before: Signature) -> bool:
        if name != self.main:
            return self._carry_block(name)
        text = self._text()
        if text in (b"", self._document.tree.text()) or self.folder.signature(name) != before:
            return False  # there is nothing to carry, or it was written while it was read
        self._announce(name, text)
        self._drafts.commit(text)
        return True

    def _text(self) -> bytes:
        """The tree of the directory with numbers for sources; empty while there is none to be carried.

        As it is where it cannot be read: its commit says why.  Raises ``NotPermittedError``, ``OSError``, and
        ``InvalidTreeError`` for a source that is not there yet.
        """
        try:
            raw = self._raw_text()
        except FileNotFoundError:
            return b""
        try:
            outline = read_outline(raw, self._document.dialect.is_ndarray)
        except InvalidTreeError:
            return raw
        return with_numbers(outline, self._number_of, self._document.dialect.is_ndarray)

    def _raw_text(self) -> bytes:
        """Header, comments and tree; all of a file of which nothing else is a tree."""
        with closing(self.folder.open(self.main, writable=False)) as store:
            size = store.size()
            whole = store.read_at(0, size)
            try:
                layout = drive(scan_layout(size), store.read_at)
            except AsdffsError:
                return whole
        if layout.first_block is not None:
            raise NotPermittedError(_OWN_BLOCKS)
        return whole if whole[layout.text_end :].strip(b"\0 \r\n") else whole[: layout.text_end]

    def _number_of(self, array: Ndarray) -> int | None:
        """The block that a source means: by the name of its file in the directory."""
        path = resolve(array.source, self.folder.path(self.main)) if isinstance(array.source, str) else None
        if path is None or os.path.dirname(path) != self.folder.directory:
            return None
        number = next(iter(numbered([os.path.basename(path)], self.stem)), None)
        if number is not None and number >= self._document.block_count:
            raise InvalidTreeError(f"{array.name}: there is no {os.path.basename(path)} yet", line=array.line)
        return number

    def _number(self, name: str) -> int:
        return next(iter(numbered([name], self.stem)))

    def _carry_block(self, name: str) -> bool:
        document, number = self._document, self._number(name)
        if number > document.block_count:
            raise NotPermittedError(f"the next block is number {document.block_count}; no number is left out")
        with closing(self._opened(name)) as other:
            self._announce(name, b"")
            changed = number == document.block_count
            if changed:
                document.append_block()
            for place, piece in self._differences(other, number):
                document.write_block(number, place, piece)
                changed = True
            if other.block_size(0) != document.block_size(number):
                document.truncate_block(number, other.block_size(0))
                changed = True
            changed = self._carry_compression(other, number) or changed
        if changed:
            document.settle_block(number, durable=True)
        return changed

    def _carry_compression(self, other: Document, number: int) -> bool:
        header, mine = other.block_header(0), self._document.block_header(number)
        if header.compression == mine.compression or mine.streamed:
            return False
        self._document.set_compression(number, name_of(header.compression))
        return True

    def _opened(self, name: str) -> Document:
        """The file of a block.  Raises ``AsdffsError``."""
        other = open_document(self.folder.path(name), writable=False)
        if not other.block_count:
            other.close()
            raise MissingFileError("has no block", path=self.folder.path(name))
        return other

    def _differences(self, other: Document, number: int) -> Iterator[tuple[int, bytes]]:
        """Offsets in block ``number``, and what ``other`` has there; not what the block has beyond it."""
        for place in range(0, other.block_size(0), _PIECE):
            new = read_bytes(other.read_block(0, place, _PIECE))
            old = read_bytes(self._document.read_block(number, place, _PIECE))
            same = min(len(old), len(new))
            if found := difference(old[:same], new[:same]):
                yield place + found[0], found[1]
            if new[same:]:
                yield place + same, new[same:]

    # -- out of the ASDF file ----------------------------------------------

    def look(self) -> bool:
        """See whether another program changed the ASDF file; if so carry that into the directory.

        Saves that were not carried yet are kept beside the file first.  Raises ``StaleFileError`` when the file was
        removed, and as ``Document.read_again``.
        """
        foreign = self._document.foreign()
        if foreign is Foreign.NO:
            return False
        if foreign is Foreign.REMOVED:
            sentence = "the file was removed; 'asdffs implode' makes another of what is in the directory"
            raise StaleFileError(sentence, path=self._document.path)
        uncarried = [name for name, now in self.signatures().items() if now != self.seen.get(name)]
        self._document.read_again()
        self.adopt(uncarried)
        return True

    def adopt(self, uncarried: Iterable[str]) -> None:
        """The ASDF file is right: write it into the directory; files ``uncarried`` are kept beside it first.

        What is saved meanwhile is kept as well.  Raises ``AsdffsError``, ``OSError``.
        """
        for _ in range(_PATIENCE):
            before = self.signatures()
            self._keep([name for name in uncarried if name in before and self._has_news(name)])
            uncarried = self._refresh(before)
            if not uncarried:
                return
        raise UnfinishedError("is being written all the time", path=self.folder.directory)

    def _has_news(self, name: str) -> bool:
        try:
            return self.differs(name)
        except (AsdffsError, OSError):
            return True

    def _keep(self, names: list[str]) -> None:
        """Keep files of the directory beside the ASDF file, before they are overwritten."""
        keeper = Keeper(self._document.path)
        for name in names:
            keeper.keep_conflict_file(self.folder.path(name))
        self._document.report.kept += keeper.kept
        for kept in keeper.kept:
            logger.warning("another program changed %s; what was saved is kept: %s", self._document.path, kept)
        if keeper.failures:
            raise UnfinishedError("; ".join(keeper.failures), path=self._document.path)

    def _refresh(self, before: dict[str, Signature]) -> list[str]:
        """Have the directory what the ASDF file has; names of files that are not what they were ``before``."""
        document = self._document
        numbers = {block_file_name(self.stem, number): number for number in range(document.block_count)}
        changed = []
        for name in (*numbers, self.main):
            if name in before and not self._has_news(name):
                continue
            if self.signatures().get(name) != before.get(name):
                changed.append(name)
            elif name == self.main:
                write_tree_file(document, self.folder, self.stem)
            else:
                write_block_file(document, self.folder, self.stem, numbers[name])
        for name, now in before.items():
            if name not in (*numbers, self.main) and self.seen.get(name) == now:
                self.folder.remove(name)  # of a block that the ASDF file had, and has no more
        self.trouble.clear()
        self.seen = {name: now for name, now in self.signatures().items() if name not in changed}
        return changed
