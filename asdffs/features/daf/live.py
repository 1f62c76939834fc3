"""A mounted store: the directories and files that programs see, whether or not they are committed to the tree yet.

FilesDaf clients write the files of a property in any order.  So the directory may be inconsistent between two calls,
and no call is refused for that.  A file is *stored* (the tree has it; its bytes are rendered, or a window on a block)
or *loose* (in the spool).  A file that is created or resized is loose.  A write into a window goes directly into the
block.  ``committing`` turns loose files into nodes and blocks when their property is whole.

Invariants:

1. A change to names is in the log before the call returns, and stays there until the tree has it.
2. Only files that no program has open for writing are committed.
3. A block is freed only if neither the tree nor an open file uses it.

The caller holds the main lock.  Code that changes names or commits also holds ``LiveStore.lock``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Final

from asdffs.document.document import Document
from asdffs.errors import (
    AsdffsError,
    FailedFileError,
    LockedError,
    MissingFileError,
    StaleFileError,
    TreeChangedError,
)
from asdffs.features.daf.committing import Commit, Unit
from asdffs.features.daf.files import Bytes, Content, Files
from asdffs.features.daf.live_directory import LiveDirectory
from asdffs.features.daf.live_file import LiveFile
from asdffs.features.daf.loose import Loose, LooseFiles
from asdffs.features.daf.node_files import Stored
from asdffs.features.daf.nodes import KeptEntryError
from asdffs.features.daf.room import BlockRoom
from asdffs.features.daf.tree_files import TreeStore, read_store
from asdffs.scheduling import Rank, RankedLock, yielding

logger = logging.getLogger(__name__)

#: Delay in seconds between a change and the commit, and the least delay as a multiple of the last commit's duration.
_SOON: Final = 0.25
_PATIENCE: Final = 4
#: The most units that are committed one by one after a commit of all of them failed.
_MOST_ALONE: Final = 200
#: How often a commit is repeated because the tree changed, or because a mapping is in a form that must be rewritten.
_TRIES: Final = 5


class LiveStore:
    """The mounted store of ``document``.

    ``spool``: its loose files and their log, in the directory ``spool``; see ``LooseFiles`` for ``logged``.
    ``root``: its directory.  ``committed``: files that the tree has, by path.  ``held``: open files without a name.
    ``room``: its blocks.  ``tree``: the store as read from the tree.
    """

    def __init__(
        self, document: Document, spool: str, root: LiveDirectory | None = None, *, logged: bool = True
    ) -> None:
        self.document = document
        self.lock = RankedLock(document.scheduler, Rank.STORE)
        self._reading = RankedLock(document.scheduler, Rank.STORE_READING)
        self.root = LiveDirectory(None, "", self) if root is None else root
        self.committed: dict[str, LiveFile] = {}
        self.tree = TreeStore(Files(document.path), generation=document.tree.version)
        self.held: dict[LiveFile, None] = {}
        self.room = BlockRoom(document)
        self.spool = LooseFiles(spool, document, logged=logged)
        self._version = -1
        self.trouble: AsdffsError | None = None
        self._generation = document.generation
        self._has_store = False
        self._pending = False
        self._waking = False
        self._lasted = 0.0

    @property
    def has_store(self) -> bool:
        """Whether the file has a store."""
        self.refresh()
        return self._has_store

    def walk(self) -> tuple[dict[str, LiveFile], set[str]]:
        """Return all files by path, and the paths of all directories."""
        files: dict[str, LiveFile] = {}
        directories: set[str] = set()
        rest = [("", self.root)]
        while rest:
            above, directory = rest.pop()
            for name, entry in directory.entries.items():
                if isinstance(entry, LiveFile):
                    files[above + name] = entry
                else:
                    directories.add(above + name)
                    rest.append((f"{above}{name}/", entry))
        return files, directories

    # -- what the tree has ------------------------------------------------------

    def refresh(self) -> None:
        """Load the tree again if another commit changed it.  Raises ``OSError``."""
        if self._version == self.document.tree.version or self.lock.taken:
            return
        with self._reading.entered(patiently=True):  # other callers wait until the tree is read
            if self._version != self.document.tree.version and not self.lock.taken:
                self.load()

    def load(self) -> None:
        """Load the tree, and show its files.  The main lock is released while it is read.  Raises ``OSError``."""
        version = self.document.tree.version
        try:
            tree = read_store(self.document)
        except AsdffsError as err:
            self._has_store, self._version = False, version
            self.trouble = None if isinstance(err, MissingFileError) else err
            if not isinstance(err, MissingFileError):
                logger.warning("%s: the store cannot be shown: %s", self.document.path, err)
                return
            tree = TreeStore(Files(self.document.path), generation=version)
        else:
            self._has_store, self.trouble = True, None
        for fault in tree.faults:
            logger.warning("%s: %s: %s", self.document.path, fault.path, fault.sentence)
        self.adopt(tree, {})

    def adopt(self, tree: TreeStore, taken: Mapping[str, tuple[LiveFile, Loose | None]]) -> None:
        """Make ``tree`` the state that the files show.

        ``taken``: files that a commit wrote into this tree, by path, each with the loose bytes that were committed.
        """
        known, (before, gone), had = self.committed, self._before(), self.tree.files.directories
        self.committed, self.tree = {}, tree
        for directory in sorted(tree.files.directories - gone):
            self.root.make(directory)
        for path, content in yielding(self.document.scheduler, tree.files.contents.items()):
            file, loose = taken.get(path, (known.get(path), None))
            self._adopt_file(path, content, file, loose, taken=path in taken, removed=path in before)
        for path, file in known.items():
            if path not in tree.files.contents and file.loose is None and self.root.find(path) is file:
                self.root.displace(path)
        self._displace_stale()
        for directory in sorted(had - tree.files.directories, reverse=True):
            self.root.remove_empty(directory)
        self._version = tree.generation  # set last: a commit waits in ``refresh`` until then

    def _before(self) -> tuple[set[str], set[str]]:
        """Return the previous files of the tree, and its directories that were removed since.

        Both are empty if another program replaced the file: names removed from the old file exist in the new one.
        """
        if self._generation != self.document.generation:
            self._generation = self.document.generation
            return set(), set()
        gone = {path for path in self.tree.files.directories if self.root.find(path) is None}
        return set(self.tree.files.contents), gone

    def _adopt_file(
        self, path: str, content: Content, file: LiveFile | None, loose: Loose | None, *, taken: bool, removed: bool
    ) -> None:
        """Adopt ``content``, which the tree has at ``path``.

        ``file`` gets it if it is still at that path and its loose bytes are still ``loose``.  ``taken``: a commit of
        this store wrote it.  ``removed``: if there is no file at the path, it was removed here, and stays so.
        """
        now = self.root.find(path)
        if now is None and not removed:
            now = self.root.place(path, LiveFile(self, content))
            if now is not None:
                self.committed[path] = now
        elif isinstance(now, LiveFile) and now is file and now.loose is loose:
            now.become(content, same=taken or _same(now, content))
            self.committed[path] = now

    def _displace_stale(self) -> None:
        """Remove names whose bytes are lost because another program changed the ASDF file.

        They were given since the last commit, so the new tree does not have them.
        """
        for path, file in self.walk()[0].items():
            if isinstance(file.content, Stored) and file.content.stale:
                logger.warning("%s: %s is removed: another program changed its bytes", self.document.path, path)
                self.root.displace(path)

    def is_committed(self, path: str, file: LiveFile) -> bool:
        """Return whether the tree has the present content of ``file`` at ``path``."""
        return file.loose is None and self.committed.get(path) is file

    @property
    def is_stored(self) -> bool:
        """Whether the tree has exactly the files and directories of the mount."""
        files, directories = self.walk()
        same = files.keys() == self.tree.files.contents.keys() and directories == self.tree.files.directories
        return same and all(self.is_committed(path, file) for path, file in files.items())

    @property
    def held_blocks(self) -> set[int]:
        """Numbers of the blocks of open files that have no name."""
        return {block for file in self.held if (block := file.block) is not None}

    # -- changes ------------------------------------------------------------------

    def note(self, *operation: str) -> None:
        """Log a change to names and schedule a commit.  Raises ``OSError``."""
        self.spool.note(*operation)
        self.wake()

    def copy_to_spool(self, file: LiveFile, size: int) -> Loose:
        """Make a stored file loose, with a copy of its first ``size`` bytes.  Raises ``AsdffsError``, ``OSError``."""
        paths = file.paths
        loose = self.spool.create(paths[0] if paths else "unlinked")
        try:
            loose.fill(file.content, size)
            for path in paths[:1]:
                self.note("loose", path, loose.path)
            for path in paths[1:]:  # a replay starts with the tree, in which hard links are separate files
                self.note("unlink", path)
                self.note("link", paths[0], path)
        except (AsdffsError, OSError):
            loose.drop()
            raise
        self.released(file)
        file.become(loose, same=True)
        self.wake()
        return loose

    def new_file(self, path: str) -> LiveFile:
        """Return a new empty loose file for ``path``, and log it.  Raises ``OSError``."""
        loose = self.spool.create(path)
        self.note("loose", path, loose.path)
        return LiveFile(self, loose)

    def unnamed(self, file: LiveFile) -> None:
        """Hold a file that lost its last name while it is open; else forget it."""
        if file.opens:
            self.held[file] = None
        else:
            self.forget(file)

    def forget(self, file: LiveFile) -> None:
        """Release the bytes of a file that has neither names nor handles."""
        self.held.pop(file, None)
        if file.loose is not None:
            file.loose.drop()
            file.content = Bytes(b"")
        else:
            self.released(file)

    def released(self, file: LiveFile) -> None:
        """Schedule a commit to free the block that ``file`` no longer uses."""
        if file.block is not None:
            self.wake()

    # -- committing -----------------------------------------------------------------

    def wake(self) -> None:
        """Schedule a commit, unless one is scheduled already."""
        self._pending = True
        if not self._waking:
            self._waking = True
            self.document.scheduler.later(max(_SOON, _PATIENCE * self._lasted), self._commit_soon)

    def _commit_soon(self) -> None:
        self._waking = False
        try:
            self.commit(final=False)
        except (AsdffsError, OSError) as err:
            self.document.report.refuse(err)

    def commit(self, *, final: bool, forced: bool = False) -> None:
        """Commit whole properties to the tree.

        ``final``: commit everything; files that are not part of a whole property are kept as files.
        ``forced``: commit even if nothing is known to have changed.

        Raises ``AsdffsError``, ``OSError``; loose files stay loose then.
        """
        if not self.document.writable or not (self._pending or forced or (final and not self.is_stored)):
            return
        self.refresh()
        with self.lock.entered():
            started = time.monotonic()
            self._pending = False
            try:
                self._commit(final=final)
            except (AsdffsError, OSError):
                self._pending = True
                raise
            finally:
                self._lasted = time.monotonic() - started

    def _commit(self, *, final: bool) -> None:
        """Commit all units at once; on failure, one by one, so that a bad unit does not block the others."""
        together = Commit(self, final=final)
        try:
            self._run(together, final=final)
        except (FailedFileError, StaleFileError, LockedError):
            raise
        except (AsdffsError, OSError):
            units = together.loose_units
            if len(units) < 2:
                raise
            self._commit_each(units if final else units[:_MOST_ALONE], final=final)
            if not self.is_stored:
                raise

    def _commit_each(self, units: list[Unit], *, final: bool) -> None:
        failure: AsdffsError | OSError | None = None
        for unit in units:
            only = frozenset([unit])
            try:
                self._run(Commit(self, final=final, only=only), final=final, only=only)
            except (AsdffsError, OSError) as err:
                failure = failure or err
        if failure is not None:
            raise failure

    def _run(self, commit: Commit, *, final: bool, only: frozenset[Unit] | None = None) -> None:
        for _ in range(_TRIES):
            try:
                commit.run()
                return
            except KeptEntryError:  # a mapping is in a style that cannot be changed in place, such as flow style
                commit = Commit(self, final=final, anew=True, only=only)
            except TreeChangedError:
                self.load()
                commit = Commit(self, final=final, only=only)
        commit.run()

    def prepare_log(self, text: bytes, taken: set[str]) -> None:
        """Write the log of the tree ``text``, before that is committed.

        ``taken``: paths of the loose files that this tree has.  Replaying the log on the tree gives the present
        state.  Raises ``OSError``.
        """
        files, directories = self.walk()
        operations: list[tuple[str, ...]] = [("mkdir", path) for path in sorted(directories)]
        first: dict[LiveFile, str] = {}
        for path, file in sorted(files.items()):
            if file.loose is None or path in taken:
                continue
            if file in first:
                operations += [("unlink", path), ("link", first[file], path)]
            else:
                first[file] = path
                operations.append(("loose", path, file.loose.path))
        self.spool.prepare(text, operations)

    def sync(self) -> None:
        """Make loose files and the log durable.  Raises ``OSError``."""
        for file in self.walk()[0].values():
            loose = file.loose
            if loose is not None:
                loose.sync(self.document.scheduler)
        self.spool.sync()

    def loose_files(self) -> Iterator[tuple[str, str]]:
        """Yield the path in the store and the path in the spool of each loose file."""
        for path, file in self.walk()[0].items():
            if file.loose is not None:
                yield path, file.loose.path


def _same(file: LiveFile, content: Content) -> bool:
    """Return whether ``content``, from a new tree, is the same bytes as the stored ones of ``file``."""
    if isinstance(content, Stored) and isinstance(file.content, Stored):
        return content.is_same(file.content)
    return isinstance(content, Bytes) and content == file.content
