"""Mirrors an exploded form of real files and one ASDF file: saves in the form are written into the file.

| in the directory                     | what is done                                                              |
|--------------------------------------|---------------------------------------------------------------------------|
| ``STEM.asdf`` was saved              | sources become numbers, then as a save of ``tree.yaml`` in a mount        |
| it is empty, or gone                 | nothing: the save follows                                                 |
| ``STEMNNNN.asdf`` of a block         | ``block_files``: what differs is carried; its compression, if it differs  |
| the next number                      | a new block                                                               |
| it is gone                           | nothing; the next watch writes it again                                   |
| the ASDF file was changed by others  | it is carried into the directory; a save that was not carried yet is kept |
|                                      | beside the file as a conflict copy                                        |

Blocks are carried before the tree that may refer to them.  A file that changes while it is read is read again.  Once
another program has changed the ASDF file, nothing is carried before the directory has that.  One thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Final

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
from asdffs.format.tree_extent import ends_with_tree
from asdffs.storage.backend import Access, Backend, Signature
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.new_file import default_mode, write_new, write_over
from asdffs.tree.validation import MISSING_END
from asdffs.workflows.block_files import BlockFiles
from asdffs.workflows.exploded_files import Fill, main_name, numbered, write_block_file, write_tree_file
from asdffs.workflows.exploding import block_file_name
from asdffs.workflows.mirrored_tree import MirroredTree

logger = logging.getLogger(__name__)

#: How often the directory is written anew while somebody else writes it too.
_PATIENCE: Final = 100


class Mirror:
    """The exploded form of ``stem`` in ``directory``, of ``document``.

    ``seen``: the signature of each file there as it was when it was the same as in the ASDF file; ``tried``: of those
    that were refused; ``trouble``: why, a sentence for each name.  ``owed``: whether another program's change is not
    in the directory yet.  ``announce(name, text)`` is called before a file is carried; ``text``: the new tree, empty
    for a block.
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

    # -- what there is ----------------------------------------------------

    def signatures(self) -> dict[str, Signature]:
        """Of all regular files of the exploded form that are there: blocks by their numbers, then the tree.

        Raises ``OSError`` when the directory cannot be read.
        """
        names = self.folder.names()
        found: dict[str, Signature] = {}
        for name in (*numbered(names, self.stem).values(), self.main):
            with contextlib.suppress(FileNotFoundError):  # gone meanwhile, or not there
                if stat.S_ISREG(os.lstat(self.folder.path(name)).st_mode):
                    found[name] = self._mark(name)
                else:
                    self.refuse(name, NotPermittedError("is no regular file; put the file itself there"))
        for name in [name for name in self.trouble if name not in names]:
            del self.trouble[name]
        return found

    def _mark(self, name: str) -> Signature:
        """What tells whether a file was written or replaced."""
        return _unchanged(self.folder.signature(name))

    def waiting(self) -> dict[str, Signature]:
        """Files that may not be the same as in the ASDF file, and were not refused as they are now."""
        now = self.signatures()
        return {n: mark for n, mark in now.items() if mark not in (self.seen.get(n), self.tried.get(n))}

    def differs(self, name: str) -> bool:
        """Whether a file has something that the ASDF file has not.  Raises ``AsdffsError``, ``OSError``."""
        if name == self.main:
            return self._tree.text() not in (b"", self._document.tree.text())
        return self._blocks.differs(name)

    def is_whole(self, name: str) -> bool:
        """Whether a file has all that it says it has: its end marker, or its stored bytes."""
        try:
            return ends_with_tree(self._tree.raw_text()) if name == self.main else self._blocks.is_whole(name)
        except (AsdffsError, OSError):
            return False

    # -- into the ASDF file ------------------------------------------------

    def carry(self, names: Iterable[str], *, last: bool = False) -> list[str]:
        """Carry the files ``names``, blocks first; those that changed the ASDF file.

        What could not be carried is in ``trouble``, and is tried again when something else was.  ``last``: also a
        tree without an end, to be refused and kept.
        """
        wanted, carried = set(names), []
        for name in self.signatures():
            if name in wanted and self._carried(name, last=last):
                carried.append(name)
        waiting = set(self.trouble) - wanted
        return [*carried, *(self.carry(waiting, last=last) if carried and waiting else ())]

    def _carried(self, name: str, *, last: bool) -> bool:
        """Whether that changed the ASDF file."""
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
        except (StaleFileError, OSError) as err:  # it is looked at first, or there may be room later
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
            return False  # there is nothing to carry, or it was written while it was read
        if not last and not ends_with_tree(text):
            raise InvalidTreeError(MISSING_END)
        self._announce(name, text)
        self._drafts.commit(text)
        return True

    # -- out of the ASDF file ----------------------------------------------

    def look(self) -> bool:
        """See whether another program changed the ASDF file; if so carry that into the directory.

        What was saved there and not carried is kept beside the file first.  Raises ``StaleFileError`` when the file
        was removed, else as ``Document.read_again`` and ``adopt``: then it is still ``owed``.
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
        """The ASDF file is right: write it into the directory.

        ``safe``: files that may be overwritten as long as they have these signatures; others are kept beside the ASDF
        file first, as far as they have what it has not.  Raises ``AsdffsError``, ``OSError``.
        """
        self.owed = True
        for _ in range(_PATIENCE):
            before = self.signatures()
            self._keep([name for name, mark in before.items() if safe.get(name) != mark and self._has_news(name)])
            safe = before
            if not self._refresh(before):
                self.owed = False
                return
        raise UnfinishedError("is being written all the time", path=self.folder.directory)

    def complete(self) -> None:
        """Write files that are not there.  Raises ``AsdffsError``, ``OSError``."""
        there = {*self.signatures(), *self.trouble}
        for name in self._names():
            if name not in there:
                self._write(name, None)

    def _names(self) -> list[str]:
        """Of all files that the ASDF file makes."""
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
        keeper = Keeper(self._document.path)
        for name in names:
            if name == self.main:
                write_tree_file(self._document, self.folder, self.stem, keeper.keep_conflict_content)
            elif (number := next(iter(numbered([name], self.stem)))) < len(self._document.blocks):
                write_block_file(self._document, self.folder, self.stem, number, keeper.keep_conflict_content)
        self._note_kept(keeper, "the directory replaces what %s had; that is kept: %s")

    def _keep(self, names: list[str]) -> None:
        """Keep files of the directory beside the ASDF file, before they are overwritten."""
        keeper = Keeper(self._document.path)
        for name in names:
            keeper.keep_conflict_file(self.folder.path(name))
        self._note_kept(keeper, "another program changed %s; what was saved is kept: %s")

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
            if name not in names:  # of a block that the ASDF file has not: it was carried, or is kept
                changed = not self._remove(name, before[name]) or changed
        return changed

    def _is_empty(self, name: str) -> bool:
        return os.path.getsize(self.folder.path(name)) == 0

    def _write(self, name: str, before: Signature | None) -> bool:
        """Write a file anew, unless it is not what it was ``before``; whether it was."""
        written: list[Signature] = []

        def check() -> None:
            if self._mark(name) != before:
                raise StaleFileError("it was saved meanwhile", path=self.folder.path(name))

        def write(name: str, fill: Fill) -> None:
            def filled(new: Backend) -> None:
                fill(new)
                written.append(new.signature())  # before it has its name, and so before anybody saves it

            if before is None:
                write_new(self.folder, name, filled, durable=False, mode=default_mode())
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
    """Without what a rename, a chmod or a link changes."""
    return signature._replace(ctime_ns=0, access=Access())
