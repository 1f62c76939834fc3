"""Keeps a directory with an exploded form and its ASDF file equal: saves in the directory are copied into the file.

| event                                  | action                                                                  |
|----------------------------------------|-------------------------------------------------------------------------|
| ``STEM.asdf`` was saved                | sources become numbers, then as a save of ``tree.yaml`` in a mount      |
| ``STEM.asdf`` is empty or missing      | none: the program is still saving it                                    |
| ``STEMNNNN.asdf`` of a block was saved | ``block_files`` copies the bytes and the compression that differ        |
| a file with the next number was saved  | a new block                                                             |
| ``STEMNNNN.asdf`` was removed          | none; the next watch writes it again                                    |
| another program changed the ASDF file  | it is copied into the directory; saves that are not in the file yet are |
|                                        | kept beside it as conflict copies                                       |

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
from asdffs.features.watch.mirrored_tree import MirroredTree
from asdffs.format.tree_extent import ends_with_tree
from asdffs.storage.backend import Access, Backend, Signature
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.new_file import mode_of_copy, write_new, write_over
from asdffs.workflows.block_files import BlockFiles
from asdffs.workflows.exploded_files import Fill, main_name, numbered, write_block_file, write_tree_file
from asdffs.workflows.exploded_names import block_file_name

logger = logging.getLogger(__name__)

#: The most attempts to write the directory while another program changes it, too.
_PATIENCE: Final = 100


class Mirror:
    """The exploded form of ``document`` in ``directory``, with names that begin with ``stem``.

    ``seen``: name -> signature of each file when it was equal to the ASDF file.  ``tried``: name -> signature of each
    file when it was refused.  ``trouble``: name -> the reason why a file could not be carried, as a sentence.
    ``owed``: whether the directory lacks a change by another program.  ``announce(name, text)`` is called before a
    file is carried; ``text`` is the new tree, or empty for a block.
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
        self.owed = False
        self._document = document
        self._drafts = drafts
        self._announce = announce
        self._blocks = BlockFiles(self.folder, stem, document)
        self._tree = MirroredTree(document, self.folder, stem)

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
                    found[name] = self._mark(name)
                else:
                    self.refuse(name, NotPermittedError("is not a regular file; put the file itself there"))
        for name in [name for name in self.trouble if name not in names]:
            del self.trouble[name]
        return found

    def _mark(self, name: str) -> Signature:
        """Return a signature that differs after a file was written or replaced."""
        return _unchanged(self.folder.signature(name))

    def waiting(self) -> dict[str, Signature]:
        """Return the files that may differ from the ASDF file, except for those refused in this state."""
        now = self.signatures()
        return {n: mark for n, mark in now.items() if mark not in (self.seen.get(n), self.tried.get(n))}

    def differs(self, name: str) -> bool:
        """Return whether a file differs from the ASDF file; not if its tree is missing or empty.

        Raises ``AsdffsError``, ``OSError``.
        """
        if name == self.main:
            return self._tree.text() not in (b"", self._document.tree.text())
        return self._blocks.differs(name)

    def is_whole(self, name: str) -> bool:
        """Return whether a file is complete: the tree has its end marker, a block all its stored bytes."""
        try:
            return ends_with_tree(self._tree.raw_text()) if name == self.main else self._blocks.is_whole(name)
        except (AsdffsError, OSError):
            return False

    # -- into the ASDF file ------------------------------------------------

    def carry(self, names: Iterable[str], *, last: bool = False) -> list[str]:
        """Carry the files ``names``, blocks first, and return the names of those that changed the ASDF file.

        A file that could not be carried is in ``trouble``.  It is tried again after another one was carried.
        ``last``: also commit a tree without an end marker, so that it is refused and kept.
        """
        wanted, carried = set(names), []
        for name in self.signatures():
            if name in wanted and self._carried(name, last=last):
                carried.append(name)
        waiting = set(self.trouble) - wanted
        return [*carried, *(self.carry(waiting, last=last) if carried and waiting else ())]

    def _carried(self, name: str, *, last: bool) -> bool:
        """Carry one file, and return whether that changed the ASDF file.  Errors go to ``trouble``."""
        changed, before = False, None
        try:
            before = self._settled(name)
            changed = self._carry(name, before, last=last)
            if self._mark(name) == before:
                self.seen[name] = before
            for known in (self.trouble, self.tried):
                known.pop(name, None)
        except FileNotFoundError:
            self.trouble.pop(name, None)
        except (StaleFileError, OSError) as err:  # the next try may succeed, so this is not in ``tried``
            self.refuse(name, err)
        except AsdffsError as err:
            self.refuse(name, err)
            if before is not None:
                self.tried[name] = before
        return changed

    def _settled(self, name: str) -> Signature:
        """Return the signature of a file after its dirty pages are clean, so that later mapped writes change it."""
        if name != self.main:
            with closing(self.folder.open(name, writable=False)) as backend:
                backend.sync()
        return self._mark(name)

    def refuse(self, name: str, err: Exception) -> None:
        """Remember why ``name`` could not be carried, and log it once."""
        text = err.strerror if isinstance(err, OSError) and err.strerror else self._document.report.tell(err)
        sentence = text if isinstance(err, AsdffsError) and err.path else f"{self.folder.path(name)}: {text}"
        if self.trouble.get(name) != sentence:
            logger.warning("%s", sentence)
        self.trouble[name] = sentence

    def _carry(self, name: str, before: Signature, *, last: bool) -> bool:
        if name != self.main:
            return self._blocks.carry(name, lambda: self._announce(name, b""))
        text = self._tree.text()
        if text in (b"", self._document.tree.text()) or self._mark(name) != before:
            return False  # nothing to carry, or the file changed while it was read
        if not last and not ends_with_tree(text):
            raise InvalidTreeError(MISSING_END)
        self._announce(name, text)
        self._drafts.commit(text, keep_stale=False)  # ``adopt`` keeps the file before it overwrites it
        return True

    # -- out of the ASDF file ----------------------------------------------

    def look(self) -> bool:
        """If another program changed the ASDF file, copy that into the directory; return whether this was done.

        Saves in the directory that were not carried are kept beside the file first.  Raises ``StaleFileError`` if the
        file was removed.  Otherwise raises as ``Document.read_again`` and ``adopt``, and ``owed`` stays set after the
        latter.
        """
        foreign = self._document.foreign()
        if foreign is Foreign.REMOVED:
            raise StaleFileError("the file was removed", path=self._document.path, remedy=Remedy.IMPLODE)
        if foreign is not Foreign.NO:
            self._document.read_again()
            self.owed = True
        if not self.owed:
            return False
        self.adopt({name: mark for name, mark in self.seen.items() if name not in self.trouble})
        return True

    def adopt(self, safe: dict[str, Signature]) -> None:
        """Write the state of the ASDF file into the directory.

        ``safe``: files that may be overwritten as long as they have these signatures.  Others that differ from the
        ASDF file are kept beside it first.  Raises ``AsdffsError``, ``OSError``.
        """
        self.owed = True
        for _ in range(_PATIENCE):
            before = self.signatures()
            self._keep([name for name, mark in before.items() if safe.get(name) != mark and self._has_news(name)])
            safe = before
            if not self._refresh(before):
                self.owed = False
                return
        raise UnfinishedError("other programs change it all the time; end them", path=self.folder.directory)

    def complete(self) -> None:
        """Write the files that are missing.  Raises ``AsdffsError``, ``OSError``."""
        there = {*self.signatures(), *self.trouble}
        for name in self._names():
            if name not in there:
                self._write(name, None)

    def _names(self) -> list[str]:
        """Return the names of all files of the exploded form of the ASDF file, the tree last."""
        return [*(block_file_name(self.stem, number) for number in range(len(self._document.blocks))), self.main]

    def _has_news(self, name: str) -> bool:
        try:
            return self.differs(name)
        except (AsdffsError, OSError):
            return True

    def keep_of_file(self, names: list[str]) -> None:
        """Keep what the ASDF file has for ``names`` beside it, before the directory's content replaces it.

        Raises ``UnfinishedError`` if that is not possible.
        """
        keeper = Keeper(self._document)
        for name in names:
            if name == self.main:
                write_tree_file(self._document, self.folder, self.stem, keeper.keep_conflict_content)
            elif (number := next(iter(numbered([name], self.stem)))) < len(self._document.blocks):
                write_block_file(self._document, self.folder, self.stem, number, keeper.keep_conflict_content)
        self._note_kept(keeper, "the directory replaces what %s had; that is kept: %s")

    def _keep(self, names: list[str]) -> None:
        """Keep files of the directory beside the ASDF file, before they are overwritten."""
        keeper = Keeper(self._document)
        for name in names:
            keeper.keep_conflict_file(self.folder.path(name))
        self._note_kept(keeper, "another program changed %s; the file that was saved here is kept as %s")

    def _note_kept(self, keeper: Keeper, sentence: str) -> None:
        self._document.report.note_kept(keeper.kept, [])
        for kept in keeper.kept:
            logger.warning(sentence, self._document.path, kept)
        if keeper.failures:
            raise UnfinishedError("; ".join(keeper.failures), path=self._document.path)

    def _refresh(self, before: dict[str, Signature]) -> bool:
        """Copy the ASDF file's state into the directory; return whether a file there had changed since ``before``."""
        names, changed = self._names(), False
        for name in names:
            if name in before and not self._is_empty(name) and not self._has_news(name):
                self.seen[name] = before[name]
            else:
                changed = not self._write(name, before.get(name)) or changed
        for name in before:
            if name not in names:  # its block is no longer in the ASDF file; it was carried or is kept
                changed = not self._remove(name, before[name]) or changed
        return changed

    def _is_empty(self, name: str) -> bool:
        return os.path.getsize(self.folder.path(name)) == 0

    def _write(self, name: str, before: Signature | None) -> bool:
        """Write a file anew if it still has the signature ``before``, and return whether it had it."""
        written: list[Signature] = []

        def check() -> None:
            if self._mark(name) != before:
                raise StaleFileError("was saved meanwhile", path=self.folder.path(name))

        def write(name: str, fill: Fill) -> None:
            def filled(new: Backend) -> None:
                fill(new)
                written.append(new.signature())  # before it has its name: a later save differs

            if before is None:
                mode = mode_of_copy([self._document.path], self.folder.directory)
                write_new(self.folder, name, filled, durable=False, mode=mode)
            else:
                write_over(self.folder, name, filled, check=check)

        try:
            if name == self.main:
                write_tree_file(self._document, self.folder, self.stem, write)
            else:
                number = next(iter(numbered([name], self.stem)))
                write_block_file(self._document, self.folder, self.stem, number, write)
        except (StaleFileError, NameExistsError, FileNotFoundError):
            return False
        self.seen[name] = _unchanged(written[-1])
        self.trouble.pop(name, None)
        return True

    def _remove(self, name: str, before: Signature) -> bool:
        if self._mark(name) != before:
            return False
        self.folder.remove(name)
        self.seen.pop(name, None)
        return True


def _unchanged(signature: Signature) -> Signature:
    """Return a signature without the parts that a rename, a chmod or a link changes."""
    return signature._replace(ctime_ns=0, access=Access())
