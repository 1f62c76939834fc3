"""Changes of the ASDF file by another program, and how a mount reacts to them.

| situation                                 | reaction                                                             |
|-------------------------------------------|----------------------------------------------------------------------|
| we have no pending changes                | read the file again and show it                                      |
| pending changes, file changed in place    | keep drafts and uncommitted blocks as conflict copies, read the file |
|                                           | again, refuse changes with ESTALE                                    |
| pending changes, file replaced or removed | keep drafts and written blocks as conflict copies, go on serving the |
|                                           | old file, refuse changes with ESTALE                                 |

A mount never overwrites the other program's change.  Block bytes that were already in the file when the other program
rewrote it in place are not kept: the other program had them and decided what becomes of them.  The caller holds the
main lock.
"""

from __future__ import annotations

import logging
import os
import time

from asdffs.document.document import Document, Foreign
from asdffs.document.saves.keeping import Keeper, distinct
from asdffs.errors import AsdffsError
from asdffs.vfs.coherence import Coherence
from asdffs.vfs.namespace import DirectoryNode
from asdffs.vfs.staging import DraftState, Staging

logger = logging.getLogger(__name__)

_ADVICE = "its version was not overwritten: compare the two; the next mount shows its version"
_SENTENCES = {
    Foreign.CHANGED: f"another program changed the file; {_ADVICE}",
    Foreign.REPLACED: f"another program replaced the file; {_ADVICE}",
    Foreign.REMOVED: "the file was removed; the mount still shows its content: copy what you need before you unmount",
}


class ForeignChanges:
    """Watches one document for changes by other programs.  ``root``: the root node of the mount."""

    def __init__(self, document: Document, staging: Staging, root: DirectoryNode, coherence: Coherence) -> None:
        self._coherence = coherence
        self._document = document
        self._staging = staging
        self._root = root
        self._unreadable = False
        self._keeping = False
        self._refused: tuple[int, ...] | None = None

    def look(self) -> bool:
        """Check whether another program changed the file, and react as the table says.

        Returns False if a change of ours is under way: the caller must look again later.
        """
        document = self._document
        try:
            foreign = document.foreign()
        except OSError as err:  # the directory is unreadable; the next commit will fail and report it
            logger.warning("cannot check %s for changes by other programs: %s", document.path, err.strerror)
            return True
        if foreign is Foreign.NO or (foreign is Foreign.CHANGED and document.mode.failure):
            return True  # a failed change of ours looks foreign, too; recovery deals with it
        if document.busy or self._keeping:
            return False
        if document.mode.conflict or not self._pending:
            if foreign is Foreign.CHANGED or (foreign is Foreign.REPLACED and not document.mode.conflict):
                self._read_again()
            return True
        self._conflict(foreign)
        return True

    def _conflict(self, foreign: Foreign) -> None:
        document = self._document
        document.mode.note_conflict(_SENTENCES[foreign])
        # a file that was changed in place had our written blocks; it never had those that are only in the spool
        in_place = foreign is Foreign.CHANGED
        if in_place:
            for number in document.contents.compressed.dirty:  # the file has other bytes now
                document.contents.detach(number)
        failures = self._keep(document.contents.compressed.dirty if in_place else document.contents.written)
        if in_place and not failures:  # else the spool has the only copy, which the end of the mount tries to keep
            self._read_again()
        kept = "; ".join((*failures, *document.report.conflict)) or "nothing had to be kept"
        document.report.refuse(AsdffsError(f"{document.mode.conflict} (kept: {kept})", path=document.path))

    @property
    def _pending(self) -> bool:
        return self._document.pending or self._staging.state is not DraftState.CLEAN

    def _read_again(self) -> None:
        document = self._document
        signature = _signature_of(document.path)  # before it is read: it may become readable meanwhile
        if self._unreadable and self._refused == signature:
            return  # our own look triggers the watch again: do not try the same bad file in a loop
        try:
            document.read_again()
        except (AsdffsError, OSError) as err:  # the new file cannot be served: go on with the old content
            document.report.refuse(err)
            self._unreadable, self._refused = True, signature
            return
        if self._unreadable:
            self._unreadable = False
            document.report.error = document.mode.conflict
        self.renew()

    def renew(self) -> None:
        """Make the kernel drop what it has of all nodes: the file may have other bytes than before."""
        self._coherence.note_all()
        now = time.time_ns()
        for node in (self._root, *self._root.fixed.values()):
            node.mtime_ns = max(now, node.mtime_ns + 1)
            if isinstance(node, DirectoryNode):
                node.forget()

    def _keep(self, blocks: tuple[int, ...]) -> list[str]:
        """Copy the drafts and ``blocks`` beside the file; return a sentence for each block that could not be kept."""
        document, keeper = self._document, Keeper(self._document)
        with document.scheduler.waiting():
            for draft in distinct(self._staging.unsaved(), b""):
                keeper.keep_conflict(draft)
        drafts = len(keeper.failures)
        self._keeping = True  # a copy lets other requests run, and the file must not be read again meanwhile
        try:
            for number in blocks:
                if not keeper.keep_block(number, document, "conflict"):
                    document.report.unkept.append(number)
        finally:
            self._keeping = False
        document.report.conflict += keeper.kept
        document.report.note_kept(keeper.kept, keeper.failures[:drafts])
        return keeper.failures[drafts:]


def _signature_of(path: str) -> tuple[int, ...] | None:
    """Return numbers that differ if ``path`` leads to another file or the file changed; None without a file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
