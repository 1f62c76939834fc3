"""Another program changed the ASDF file: what a mount makes of it.

| nothing of ours is pending | the file is read again; nodes show it                                        |
| something is, file changed | drafts are kept as conflict copies, blocks are read again, changes get ESTALE|
| something is, file replaced| drafts and written blocks are kept as conflict copies, the file that was open|
| or removed                 | goes on being served, changes get ESTALE                                     |

Nothing is ever written over the other program's change.  Bytes written into a block before the
other program rewrote the same file in place are its to keep or lose: they were in the file.
One thread at a time.
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

_ADVICE = "nothing was written over it: compare, then unmount and mount again"
_SENTENCES = {
    Foreign.CHANGED: f"another program changed the file; {_ADVICE}",
    Foreign.REPLACED: f"another program replaced the file; {_ADVICE}",
    Foreign.REMOVED: "the file was removed; what it was is still here: copy what you need before you unmount",
}


class ForeignChanges:
    """Looks after one document; ``root`` is the mount's."""

    def __init__(self, document: Document, staging: Staging, root: DirectoryNode, coherence: Coherence) -> None:
        self._coherence = coherence
        self._document = document
        self._staging = staging
        self._root = root
        self._unreadable = False
        self._refused: tuple[int, ...] | None = None

    def look(self) -> bool:
        """See whether another program changed the file, and do what the table says; False: not now, look again."""
        document = self._document
        try:
            foreign = document.foreign()
        except OSError as err:  # the directory cannot be read any more: commits will say so
            logger.warning("%s cannot be looked at: %s", document.path, err.strerror)
            return True
        if foreign is Foreign.NO or (foreign is Foreign.CHANGED and document.failed):
            return True  # what a failed change left looks foreign, and is for recovery
        if document.busy:
            return False
        if document.conflict or not self._pending:
            if foreign is Foreign.CHANGED or (foreign is Foreign.REPLACED and not document.conflict):
                self._read_again()
            return True
        self._conflict(foreign)
        return True

    def _conflict(self, foreign: Foreign) -> None:
        document = self._document
        document.note_conflict(_SENTENCES[foreign])
        # changed in place, the file has what was written to it; not what is only in the spool
        in_place = foreign is Foreign.CHANGED
        failures = self._keep(document.uncommitted_blocks if in_place else document.written_blocks)
        if in_place and not failures:  # else what was written is still here, and is kept at the end
            self._read_again()
        kept = "; ".join((*failures, *document.report.conflict)) or "nothing had to be kept"
        document.report.refuse(AsdffsError(f"{document.conflict} (kept: {kept})", path=document.path))

    @property
    def _pending(self) -> bool:
        return self._document.pending or self._staging.state is not DraftState.CLEAN or self._staging.node is None

    def _read_again(self) -> None:
        document = self._document
        if self._unreadable and self._refused == _signature_of(document.path):
            return  # to have looked at it is news for the watch, too
        try:
            document.read_again()
        except (AsdffsError, OSError) as err:  # what is there now cannot be served: go on with what was
            document.report.refuse(err)
            self._unreadable, self._refused = True, _signature_of(document.path)
            return
        if self._unreadable:
            self._unreadable = False
            document.report.note_served_again(document.conflict)
        self._coherence.note_all()
        now = time.time_ns()
        for node in (self._root, *self._root.fixed.values()):
            node.mtime_ns = max(now, node.mtime_ns + 1)
            if isinstance(node, DirectoryNode):
                node.forget()

    def _keep(self, blocks: tuple[int, ...]) -> list[str]:
        """Copy drafts and ``blocks`` beside the file; what failed of the blocks, a sentence each."""
        document, keeper = self._document, Keeper(self._document.path)
        with document.scheduler.waiting():
            for draft in distinct(self._staging.unsaved(), b""):
                keeper.keep_conflict(draft)
        drafts = len(keeper.failures)
        for number in blocks:
            if not keeper.keep_conflict_block(number, document):
                document.report.unkept.append(number)
        document.report.conflict += keeper.kept
        document.report.note_kept(keeper.kept, keeper.failures[:drafts])
        return keeper.failures[drafts:]


def _signature_of(path: str) -> tuple[int, ...] | None:
    """What tells whether the file of that name is another one, or was changed."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
