"""Keeps a directory with an exploded form and its ASDF file equal: saves in the directory are copied into the file.

| event                                  | action                                                                |
|----------------------------------------|-----------------------------------------------------------------------|
| ``STEM.asdf`` was saved                | sources become numbers, then as a save of ``tree.yaml`` in a mount    |
| ``STEM.asdf`` is empty or missing      | none: the program is still saving it                                  |
| ``STEMNNNN.asdf`` of a block was saved | ``block_files`` copies the bytes and the compression that differ      |
| a file with the next number was saved  | a new block                                                           |
| ``STEMNNNN.asdf`` was removed          | none; the next watch writes it again                                  |
| another program changed the ASDF file  | it is copied into the directory, unless a save there is not in it yet |
| both were changed                      | none: the watch ends, and both stay as they are                       |

Blocks are copied before the tree that may refer to them.  A file that changes while it is read is read again.  After
another program has changed the ASDF file, nothing is copied into it until the directory has that change.

"Carry" means: copy a file of the directory into the ASDF file.  For one thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Final

from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.outline import read_outline
from asdffs.arrays.sources import Wanted, checked_sources, resolve
from asdffs.arrays.validation import MISSING_END
from asdffs.document.document import Document, Foreign
from asdffs.document.saves.drafts import Drafts
from asdffs.document.saves.keeping import Keeper
from asdffs.errors import (
    AsdffsError,
    InvalidTreeError,
    NameExistsError,
    NotPermittedError,
    Remedy,
    StaleFileError,
    UnfinishedError,
)
from asdffs.features.watch.block_files import BlockFiles
from asdffs.format.block_scan import drive
from asdffs.format.scanner import scan_layout
from asdffs.format.text import ends_with_tree
from asdffs.storage.backend import Access, Signature, WriteBackend
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.new_file import mode_of_copy, write_new, write_over
from asdffs.tree.paths import Path
from asdffs.workflows.exploded_files import Fill, fill_of_block, fill_of_tree, main_name, numbered
from asdffs.workflows.exploded_names import block_file_name
from asdffs.workflows.exploding import exploded_sources, moved_source, written_outline

logger = logging.getLogger(__name__)

_OWN_BLOCKS: Final = (
    "has blocks of its own; in a watched directory each block is a separate file, "
    "so save it with all_array_storage='external'"
)


class Mirror:
    """The exploded form of ``document`` in ``directory``, with names that begin with ``stem``.

    ``seen``: name -> signature of each file when it was equal to the ASDF file.  ``tried``: name -> signature of each
    file when it was refused.  ``trouble``: name -> the reason why a file could not be carried, as a sentence.
    ``behind``: whether the directory lacks a change by another program.  ``conflict``: names of files that were saved
    while it lacked that change; the watch ends then.  ``announce(name, text)`` is called before a file is carried;
    ``text`` is the new tree, or empty for a block.
    """

    def __init__(
        self, directory: str, stem: str, document: Document, drafts: Drafts, announce: Callable[[str, bytes], None]
    ) -> None:
        self.folder = FileFolder(directory)
        self.stem = stem
        self.main = main_name(stem)
        self.seen: dict[str, Signature] = {}
        self.tried: dict[str, Signature] = {}
        self.trouble: dict[str, str] = {}
        self.behind = False
        self.conflict: list[str] = []
        self._document = document
        self._drafts = drafts
        self._announce = announce
        self._blocks = BlockFiles(self.folder, stem, document)

    # -- the state of the directory ---------------------------------------

    def signatures(self) -> dict[str, Signature]:
        """Return the signatures of all regular files of the exploded form: blocks by number, then the tree.

        Raises ``OSError`` if the directory cannot be read.
        """
        os.stat(self.folder.directory)  # the folder would still find a directory that was renamed
        names = self.folder.names()
        found: dict[str, Signature] = {}
        for name in (*numbered(names, self.stem).values(), self.main):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile, or missing
                if stat.S_ISREG(os.lstat(self.folder.path(name)).st_mode):
                    found[name] = self._signature(name)
                else:
                    self._refuse(name, NotPermittedError("is not a regular file; put the file itself there"))
        for name in [name for name in self.trouble if name not in names]:
            del self.trouble[name]
        return found

    def _signature(self, name: str) -> Signature:
        """Return a signature that differs after a file was written or replaced."""
        return _unchanged(self.folder.signature(name))

    def waiting(self) -> dict[str, Signature]:
        """Return the files that may differ from the ASDF file, except for those refused in this state."""
        now = self.signatures()
        return {
            name: found for name, found in now.items() if found not in (self.seen.get(name), self.tried.get(name))
        }

    def differs(self, name: str) -> bool:
        """Return whether a file differs from the ASDF file, or cannot be read; an empty or missing tree does not."""
        try:
            if name == self.main:
                return self._tree_text() not in (b"", self._document.tree.text())
            return self._blocks.differs(name)
        except (AsdffsError, OSError):
            return True

    def is_whole(self, name: str) -> bool:
        """Return whether a file is complete: the tree has its end marker, a block all its stored bytes."""
        try:
            return ends_with_tree(self._raw_text()) if name == self.main else self._blocks.is_whole(name)
        except (AsdffsError, OSError):
            return False

    # -- into the ASDF file ------------------------------------------------

    def carry(self, names: Iterable[str], *, last: bool = False) -> list[str]:
        """Carry the files ``names``, blocks first, and return the names of those that changed the ASDF file.

        A file that could not be carried is in ``trouble``.  It is tried again after another one was carried.
        ``last``: also commit a tree without an end marker, so that it is refused and kept.
        """
        due, carried = set(names), []
        for name in self.signatures():
            if name in due and self._carried(name, last=last):
                carried.append(name)
        waiting = set(self.trouble) - due
        return [*carried, *(self.carry(waiting, last=last) if carried and waiting else ())]

    def _carried(self, name: str, *, last: bool) -> bool:
        """Carry one file, and return whether that changed the ASDF file.  Errors go to ``trouble``."""
        changed, before = False, None
        try:
            before = self._settled(name)
            changed = self._carry(name, before, last=last)
            if self._signature(name) == before:
                self.seen[name] = before
            for known in (self.trouble, self.tried):
                known.pop(name, None)
        except FileNotFoundError:
            self.trouble.pop(name, None)
        except (StaleFileError, OSError) as err:  # the next try may succeed, so this is not in ``tried``
            self._refuse(name, err)
        except AsdffsError as err:
            self._refuse(name, err)
            if before is not None:
                self.tried[name] = before
        return changed

    def _settled(self, name: str) -> Signature:
        """Return the signature of a file after its dirty pages are clean, so that later mapped writes change it."""
        if name != self.main:
            with closing(self.folder.open(name, writable=False)) as backend:
                backend.sync()
        return self._signature(name)

    def _refuse(self, name: str, err: Exception) -> None:
        """Remember why ``name`` could not be carried, and log it once.  Nobody has its content but the directory."""
        self.seen.pop(name, None)
        text = err.strerror if isinstance(err, OSError) and err.strerror else self._document.report.tell(err)
        sentence = text if isinstance(err, AsdffsError) and err.path else f"{self.folder.path(name)}: {text}"
        if self.trouble.get(name) != sentence:
            logger.warning("%s", sentence)
        self.trouble[name] = sentence

    def _carry(self, name: str, before: Signature, *, last: bool) -> bool:
        if name != self.main:
            return self._blocks.carry(name, lambda: self._announce(name, b""))
        text = self._tree_text()
        if text in (b"", self._document.tree.text()) or self._signature(name) != before:
            return False  # nothing to carry, or the file changed while it was read
        if not last and not ends_with_tree(text):
            raise InvalidTreeError(MISSING_END)
        self._announce(name, text)
        self._drafts.commit(text, keep_stale=False)  # the text is in the directory, and stays there
        return True

    # -- out of the ASDF file ----------------------------------------------

    def look(self) -> bool:
        """Copy a change of the ASDF file by another program into the directory; return whether there was one.

        If files were saved in the directory as well, they become ``conflict``, and nothing is copied.  Raises
        ``StaleFileError`` if the ASDF file was removed; otherwise as ``Document.read_again`` and ``refresh``.
        """
        foreign = self._document.foreign()
        if foreign is Foreign.REMOVED:
            raise StaleFileError("the file was removed", path=self._document.path, remedy=Remedy.IMPLODE)
        if foreign is not Foreign.NO:
            self._document.read_again()
            self.behind = True
        if self.behind:
            now = self.signatures()
            self.conflict = [name for name in now if now[name] != self.seen.get(name) and self.differs(name)]
            for name in self.conflict:
                self.trouble.pop(name, None)
            if not self.conflict:
                self.refresh(now)
                return True
        return False

    def refresh(self, before: dict[str, Signature]) -> None:
        """Copy the state of the ASDF file over the files of the directory, as long as they have these signatures.

        Raises ``UnfinishedError`` if a file was saved meanwhile, ``AsdffsError``, ``OSError``; ``behind`` stays set.
        """
        self.behind = True
        names = self._names()
        for name in names:
            if name in before and os.path.getsize(self.folder.path(name)) and not self.differs(name):
                self.seen[name] = before[name]
            else:
                self._write(name, before.get(name))
        for name in before:
            if name not in names:  # its block is no longer in the ASDF file
                self._check_unchanged(name, before[name])
                self.folder.remove(name)
                self.seen.pop(name, None)
        self.behind = False

    def complete(self) -> None:
        """Write the files that are missing.  Raises ``AsdffsError``, ``OSError``."""
        there = {*self.signatures(), *self.trouble}
        for name in self._names():
            if name not in there:
                with contextlib.suppress(NameExistsError):  # it was saved meanwhile
                    self._write(name, None)

    def _names(self) -> list[str]:
        """Return the names of all files of the exploded form of the ASDF file, the tree last."""
        return [*(block_file_name(self.stem, number) for number in range(len(self._document.blocks))), self.main]

    def _write(self, name: str, before: Signature | None) -> None:
        """Write a file anew, if it has the signature ``before``, or is missing."""
        fill, written = self._content_of(name), list[Signature]()

        def filled(new: WriteBackend) -> None:
            fill(new)
            written.append(new.signature())  # before it has its name: a later save differs

        if before is None:
            mode = mode_of_copy([self._document.path], self.folder.directory)
            write_new(self.folder, name, filled, durable=False, mode=mode)
        else:
            write_over(self.folder, name, filled, check=lambda: self._check_unchanged(name, before))
        self.seen[name] = _unchanged(written[-1])
        self.trouble.pop(name, None)

    def _check_unchanged(self, name: str, before: Signature) -> None:
        if self._signature(name) != before:
            raise UnfinishedError("was saved meanwhile", path=self.folder.path(name))

    def _content_of(self, name: str) -> Fill:
        """Return the function that writes what the ASDF file has for one of ``_names``."""
        if name == self.main:
            return fill_of_tree(self._document, self.folder.directory, self.stem)
        return fill_of_block(self._document, self.folder, next(iter(numbered([name], self.stem))))

    # -- the tree ----------------------------------------------------------

    def _tree_text(self) -> bytes:
        """Return the tree of the directory with the sources of the ASDF file; empty if the file is missing or empty.

        A tree that cannot be read is returned unchanged; its commit raises the reason.  Raises ``NotPermittedError``
        if the file has blocks, ``InvalidTreeError`` for a source whose block file does not exist yet, ``OSError``.
        """
        try:
            raw = self._raw_text()
        except FileNotFoundError:
            return b""
        try:
            outline = read_outline(raw, self._document.dialect)
        except InvalidTreeError:
            return raw
        return checked_sources(outline, self._sources(), self._document.dialect)

    def _raw_text(self) -> bytes:
        """Return header, comments and tree; the whole file if no tree is found, or if other bytes follow it.

        Raises ``NotPermittedError`` if the file has blocks, ``OSError``.
        """
        with closing(self.folder.open(self.main, writable=False)) as backend:
            size = backend.size()
            whole = backend.read_at(0, size)
            try:
                layout = drive(scan_layout(size, lambda header: self._document.dialect.rules), backend.read_at)
            except AsdffsError:
                return whole
        if layout.first_block is not None:
            raise NotPermittedError(_OWN_BLOCKS)
        return whole if whole[layout.text_end :].strip(b"\0 \r\n") else whole[: layout.text_end]

    def _sources(self) -> Wanted:
        """Return the function that gives the source in the ASDF file for a source of the directory.

        If the source is unchanged, this is the text that the ASDF file has.
        """
        document, here = self._document, self.folder.path(self.main)
        outline = written_outline(document)
        exploded = exploded_sources(self.stem, len(document.blocks), document.path, self.folder.directory)
        written: dict[Path, tuple[str | None, str]] = {}
        for branch in outline.arrays:
            if branch.array is not None and branch.source is not None:
                start, stop = branch.source
                written[branch.path] = exploded(branch.array), outline.text[start:stop]

        def new_source(array: Ndarray) -> str | None:
            then, text = written.get(array.path, (None, ""))
            if then is not None and then.strip('"') == array.source:
                return text
            number = self._number_of(array, here)
            return moved_source(array.source, here, os.path.dirname(document.path)) if number is None else str(number)

        return new_source

    def _number_of(self, array: Ndarray, here: str) -> int | None:
        """Return the number of the block for a source, from the name of its file; None for other files.

        Raises ``InvalidTreeError`` if the ASDF file does not have that block yet.
        """
        path = resolve(array.source, here) if isinstance(array.source, str) else None
        if path is None or os.path.dirname(path) != self.folder.directory:
            return None
        number = next(iter(numbered([os.path.basename(path)], self.stem)), None)
        if number is not None and number >= len(self._document.blocks):
            raise InvalidTreeError(f"{array.name}: there is no {os.path.basename(path)} yet", line=array.line)
        return number

    # -- beside the ASDF file ------------------------------------------------

    def keep_of_file(self, names: list[str]) -> None:
        """Keep what the ASDF file has for ``names`` beside it, before the directory's content replaces it.

        Raises ``UnfinishedError`` if that is not possible.
        """
        keeper, known = Keeper(self._document), self._names()
        for name in names:
            if name in known:
                keeper.keep_conflict_content(name, self._content_of(name))
        self._note_kept(keeper, "the directory replaces what %s had; that is kept: %s")

    def keep_of_directory(self, names: list[str]) -> None:
        """Keep files of the directory beside the ASDF file, before its content replaces them.

        Raises ``UnfinishedError`` if that is not possible.
        """
        keeper = Keeper(self._document)
        for name in names:
            keeper.keep_conflict_file(self.folder.path(name))
        self._note_kept(keeper, "%s replaces a file of the directory; that is kept: %s")

    def _note_kept(self, keeper: Keeper, sentence: str) -> None:
        self._document.report.note_kept(keeper.kept, [])
        for kept in keeper.kept:
            logger.warning(sentence, self._document.path, kept)
        if keeper.failures:
            raise UnfinishedError("; ".join(keeper.failures), path=self._document.path)


def _unchanged(signature: Signature) -> Signature:
    """Return a signature without the parts that a rename, a chmod or a link changes."""
    return signature._replace(ctime_ns=0, access=Access())
