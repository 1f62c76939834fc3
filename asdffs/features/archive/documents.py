"""The documents of an archive: opened when a program first looks into them, closed when they are not needed.

``a.asdf.d`` beside ``a.asdf`` is the *directory* of a document; paths are those in the mount, and begin with ``/``.

Invariants:

1. A file is opened once.  A request that comes while its document is opened or closed waits (``_Entry.lock``).
2. A document with an open file, with scratch, with a draft, or with a request under way is not closed.
3. Nor is one whose changes cannot be written, because the disk is full: that is tried again, until the mount ends.
4. A closed document was finished as at the end of a mount, and its lock is released.

The caller holds the main lock.
"""

from __future__ import annotations

import gc
import logging
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from asdffs.document.blocks.transaction import Foreign
from asdffs.document.report import Outcome
from asdffs.errors import AsdffsError, CutBlockError, NoSuchNameError, NotPermittedError
from asdffs.format.constants import FILE_ENDINGS
from asdffs.scheduling import Rank, RankedLock, Scheduler
from asdffs.storage.beneath import Beneath
from asdffs.storage.descriptors import descriptor_limit
from asdffs.storage.file_backend import FileFolder
from asdffs.vfs.inodes import Item
from asdffs.vfs.namespace import number_of, number_on
from asdffs.vfs.served_file import ServedFile
from asdffs.vfs.vfs import Vfs

logger = logging.getLogger(__name__)

#: Suffix of the directory of a document.
SUFFIX: Final = ".d"
_DIRECTORIES: Final = tuple(ending + SUFFIX for ending in FILE_ENDINGS)
#: How often idle documents are looked for: so many times in the time after which a document is idle.
_LOOKS: Final = 4
#: Bytes of memory that documents which nobody uses may take; what one takes without its tree, and for each byte of
#: the text of its tree (measured).
_MEMORY: Final = 128 << 20
_DOCUMENT: Final = 256 << 10
_TEXT: Final = 8
#: So many stay open whatever they weigh: to read a large tree again for each request would cost more.
_FEWEST: Final = 8
#: A document takes about four file descriptors; half of them stay for what is in documents.
_DESCRIPTORS: Final = 8
#: Seconds without a request after which trees are checked.  So a program that looks into many files does not wait.
_QUIET: Final = 1.0
#: Bytes of memory of closed documents after which the cyclic garbage collector runs; it also comes now and then.  A
#: document is a cycle of objects, half a MiB of them, and ``mount/daemon`` makes full collections very rare.
_CLOSED: Final = 64 << 20


class OutsideItem(Item):
    """A file or directory of the archive, or the directory of a document (``is_document``).

    ``identity``: its inode number and kind; another one means that the name leads to something else now.
    """

    __slots__ = ("identity", "is_document", "place")

    def __init__(self, place: str, identity: object, *, is_document: bool) -> None:
        self.inode = 0
        self.place = place
        self.identity = identity
        self.is_document = is_document

    @property
    def path(self) -> str:
        """The path in the archive, such as ``/night/a.asdf.d``; empty for the root."""
        return self.place


class _Entry:
    """A document that is open, being opened or being closed.

    ``users``: requests about paths in it.  ``since`` and ``used``: when it was opened, and used last.  ``weight``:
    bytes of memory that it takes, about.
    """

    __slots__ = ("gone", "lock", "opened", "since", "used", "users", "weight")

    def __init__(self, scheduler: Scheduler) -> None:
        self.lock = RankedLock(scheduler, Rank.DOCUMENT)
        self.opened: ServedFile | None = None
        self.users = 0
        self.since = time.monotonic()
        self.used = 0.0
        self.weight = 0
        self.gone = False


class OpenDocuments:
    """The documents of the archive in ``files``.

    ``open_file(folder, name, directory, number)``: opens a file; ``directory`` is that of the document, and
    ``number`` is the inode number of it.  ``most``: how many stay open; None: as many as a share of the memory takes.
    ``idle``: seconds after which a document that no request was about is closed.

    ``ending(directory, vfs)`` is called before a document is closed.  ``error``: the last refusal.  ``outcome``: what
    the user must know of documents that are closed by now.
    """

    def __init__(
        self,
        files: Beneath,
        open_file: Callable[[FileFolder, str, str, int], ServedFile],
        scheduler: Scheduler,
        *,
        most: int | None,
        idle: float,
    ) -> None:
        self.ending: Callable[[str, Vfs], object] = lambda directory, vfs: None
        self.error = ""
        self.outcome = Outcome([], [], [], [], [])
        self._files = files
        self._open_file = open_file
        self._scheduler = scheduler
        self._most = most
        self._idle = idle
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._left: dict[int, int] = {}
        self._weight = 0
        self._sweeping = False
        self._uncollected = 0
        self._used = 0.0  # when any document was used last

    # -- which document ---------------------------------------------------------

    def directory_of(self, item: Item) -> str:
        """See ``areas.Documents``."""
        return item.path if isinstance(item, OutsideItem) and item.is_document else ""

    def is_open(self, directory: str) -> bool:
        """See ``areas.Documents``."""
        return directory in self._entries

    def file_of(self, directory: str) -> os.stat_result | None:
        """Return the status of the file whose document has ``directory``; None if it is no such directory.

        A real file or directory of that name is itself.
        """
        if not directory.lower().endswith(_DIRECTORIES):
            return None
        try:
            found = self._files.status(directory[: -len(SUFFIX)])
            return found if stat.S_ISREG(found.st_mode) and not self._files.has(directory) else None
        except (OSError, NotPermittedError):
            return None

    # -- requests -----------------------------------------------------------------

    def enter(self, directory: str) -> Vfs:
        """See ``areas.Documents``.  Raises as ``open_document``, and ``NoSuchNameError`` if the file is gone."""
        while True:
            entry = self._entries.setdefault(directory, _Entry(self._scheduler))
            entry.users += 1
            try:
                with entry.lock.entered():
                    if not entry.gone:
                        return self._vfs_of(directory, entry)
            except BaseException:
                self.leave(directory, entry)
                raise
            entry.users -= 1

    def _vfs_of(self, directory: str, entry: _Entry) -> Vfs:
        vfs = (entry.opened or self._open(directory, entry)).vfs
        self._entries.move_to_end(directory)
        entry.used = self._used = time.monotonic()
        vfs.foreign.look()
        if vfs.is_idle and vfs.document.foreign() is Foreign.REMOVED and not vfs.document.pending:
            raise NoSuchNameError("the file was removed", path=directory)
        return vfs

    def _open(self, directory: str, entry: _Entry) -> ServedFile:
        path = directory[: -len(SUFFIX)]
        status = self.file_of(directory)
        if status is None:
            entry.gone = True
            self._entries.pop(directory, None)
            raise NoSuchNameError("no such file in the archive", path=directory)
        try:
            opened = entry.opened = self._open_file(*self._files.place(path), directory, number_of_directory(status))
        except BaseException:
            entry.gone = True  # who waits tries it again
            self._entries.pop(directory, None)
            raise
        entry.weight = _DOCUMENT + _TEXT * opened.document.tree.size
        self._weight += entry.weight
        before = self._left.pop(hash(directory), None)
        if before is not None and before != self._signature(path):
            opened.vfs.foreign.renew()  # the kernel may have pages of what it was
        self._sweep_later()
        return opened

    def leave(self, directory: str, entry: _Entry | None = None) -> None:
        """See ``areas.Documents``."""
        entry = entry or self._entries[directory]
        entry.users -= 1
        if self._too_many():
            self._close_idle(self._too_many)

    def _too_many(self) -> bool:
        """Return whether more documents are open than should stay."""
        limit = descriptor_limit() // _DESCRIPTORS
        most = limit if self._most is None else min(self._most, limit)
        heavy = self._most is None and self._weight > _MEMORY and len(self._entries) > _FEWEST
        return len(self._entries) > most or heavy

    def note_refusal(self, sentence: str) -> None:
        """See ``areas.Documents``."""
        self.error = sentence

    def open_now(self) -> list[Vfs]:
        """Return the open documents, the one that was used last at the end."""
        return [entry.opened.vfs for entry in self._entries.values() if entry.opened is not None]

    # -- the end of documents -------------------------------------------------------

    def finish_all(self) -> None:
        """Finish all open documents; raise the first error after all others are finished."""
        refused: Exception | None = None
        for directory, entry in list(self._entries.items()):
            if entry.opened is None or entry.gone:
                continue
            entry.users += 1
            try:
                entry.opened.vfs.finish()
            except (AsdffsError, OSError) as err:
                logger.warning("%s: %s", directory, err)
                refused = refused or err
            finally:
                entry.users -= 1
        if refused is not None:
            raise refused

    def end(self) -> None:
        """Close all documents, because the mount is gone."""
        for directory, entry in list(self._entries.items()):
            self._close(directory, entry)

    def _close_idle(self, wanted: Callable[[], bool], *, unused_since: float | None = None) -> None:
        """Close documents that may be closed while that is ``wanted``, those first that were not used for longest."""
        for directory, entry in list(self._entries.items()):
            if not wanted():
                return
            late = unused_since is not None and entry.used > unused_since
            if not late and self._may_close(entry) and self._finish(directory, entry) and self._may_close(entry):
                self._close(directory, entry)

    @staticmethod
    def _may_close(entry: _Entry) -> bool:
        opened = entry.opened
        busy = opened is None or entry.users or entry.lock.taken
        return not busy and opened is not None and opened.vfs.is_idle

    def _finish(self, directory: str, entry: _Entry) -> bool:
        """Finish a document; return whether it may be closed.

        If it cannot be finished, it stays open, and the next try comes after the time for idle documents.  After a
        conflict or a failed write nothing more can be written: that is told when it is closed.
        """
        if entry.opened is None:
            return False
        document = entry.opened.vfs.document
        if document.mode.conflict or document.mode.failure:
            return True
        entry.users += 1
        try:
            entry.opened.vfs.finish()
        except CutBlockError:  # the file is finished; the mount's end tells of it
            return True
        except (AsdffsError, OSError) as err:
            if document.mode.conflict or document.mode.failure:
                return True
            entry.used = time.monotonic()
            entry.opened.vfs.refuse(err)
            self.note_refusal(f"{directory}: {document.report.error}")
            return False
        finally:
            entry.users -= 1
        return True

    def _close(self, directory: str, entry: _Entry) -> None:
        with entry.lock.entered():
            opened, entry.gone = entry.opened, True
            if opened is None:
                return
            self.ending(directory, opened.vfs)
            try:
                self._note(directory, opened.end())
            except (AsdffsError, OSError) as err:
                logger.error("%s could not be finished: %s", directory, err)
                self.outcome.failures.append(str(err))
            finally:
                opened.close()
                entry.opened = None
                self._weight -= entry.weight
                self._entries.pop(directory, None)
        now = self._signature(directory[: -len(SUFFIX)])
        if now:
            self._left[hash(directory)] = now
        self._uncollected += entry.weight
        if self._uncollected > _CLOSED:
            self._collect()

    def _collect(self) -> None:
        if self._uncollected:
            self._uncollected = 0
            gc.collect()

    def _signature(self, path: str) -> int:
        """Return a number that is another one if the file at ``path`` changed; 0 without a file."""
        try:
            now = self._files.status(path)
        except (OSError, NotPermittedError):
            return 0
        return hash((now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)) or 1

    def _note(self, directory: str, outcome: Outcome) -> None:
        self.outcome.kept.extend(outcome.kept)
        self.outcome.superseded.extend(outcome.superseded)
        for known, more in zip(self.outcome, outcome, strict=True):
            if known is not self.outcome.kept and known is not self.outcome.superseded:
                known.extend(f"{directory}: {sentence}" for sentence in more)

    def _sweep_later(self) -> None:
        if not self._sweeping:
            self._sweeping = True
            self._scheduler.later(self._idle / _LOOKS, self._sweep)

    def _sweep(self) -> None:
        """Check trees, close documents that were not used for a while; come again as long as some are open."""
        self._sweeping = False
        self._check_trees()
        self._close_idle(lambda: True, unused_since=time.monotonic() - self._idle)
        self._collect()
        if self._entries:
            self._sweep_later()

    def _check_trees(self) -> None:
        """Check the trees of documents in use; of those that were only looked into, when no request comes."""
        short = min(_QUIET, self._idle / 2)
        for entry in list(self._entries.values()):
            opened, quiet = entry.opened, time.monotonic() - self._used > short
            if opened is not None and opened.unchecked and (quiet or entry.used - entry.since > short):
                entry.users += 1  # it is not closed meanwhile
                try:
                    opened.look_at_tree()
                finally:
                    entry.users -= 1
                    entry.used = time.monotonic()  # its status shows for a while what was found


def number_of_directory(status: os.stat_result) -> int:
    """Return the inode number of the directory of a document, whose file has this status."""
    return number_of(number_on(status.st_dev, status.st_ino), SUFFIX)
