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
from collections.abc import Iterator, Mapping

from asdffs.document.document import Document
from asdffs.errors import AsdffsError, MissingFileError
from asdffs.features.daf.commits import Commits
from asdffs.features.daf.files import Bytes, Content, Files
from asdffs.features.daf.live_directory import LiveDirectory, RootDirectory
from asdffs.features.daf.live_file import LiveFile
from asdffs.features.daf.loose import Loose, LooseFiles
from asdffs.features.daf.node_files import Stored
from asdffs.features.daf.room import BlockRoom
from asdffs.features.daf.tree_files import TreeStore, read_store
from asdffs.scheduling import Rank, RankedLock, yielding

logger = logging.getLogger(__name__)


class LiveStore:
    """The mounted store of ``document``.

    ``root``: its directory.  ``committed``: files that the tree has, by path.  ``held``: open files without a name.
    ``room``: its blocks.  ``tree``: the store as read from the tree.
    """

    def __init__(self, document: Document, spool: LooseFiles, root: LiveDirectory | None = None) -> None:
        self.document = document
        self.lock = RankedLock(document.scheduler, Rank.STORE)
        self._reading = RankedLock(document.scheduler, Rank.STORE_READING)
        self.root = RootDirectory(self) if root is None else root
        self.committed: dict[str, LiveFile] = {}
        self.tree = TreeStore.empty(document)
        self.held: dict[LiveFile, None] = {}
        self.room = BlockRoom(document)
        self._spool = spool
        self._version = -1
        self._generation = document.generation
        self._carried = False
        self._commits = Commits(self)

    @property
    def carried(self) -> bool:
        """Whether the file has a store."""
        self.refresh()
        return self._carried

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
                self.take_up()

    def take_up(self) -> None:
        """Load the tree, and show its files.  The main lock is released while it is read.  Raises ``OSError``."""
        version = self.document.tree.version
        try:
            tree = read_store(self.document)
        except AsdffsError as err:
            self._carried, self._version = False, version
            if not isinstance(err, MissingFileError):
                logger.warning("%s: the store cannot be shown: %s", self.document.path, err)
                return
            tree = TreeStore(Files(self.document.path), generation=version)
        else:
            self._carried = True
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
        self._spool.note(*operation)
        self.wake()

    def loosen(self, file: LiveFile, size: int) -> Loose:
        """Make a stored file loose, with a copy of its first ``size`` bytes.  Raises ``AsdffsError``, ``OSError``."""
        paths = file.paths
        loose = self._spool.create(paths[0] if paths else "unlinked")
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

    def reopened(self, spooled: str) -> Loose | None:
        """Return the file ``spooled`` that a killed mount left in the spool; None if it was removed."""
        return self._spool.reopened(spooled)

    def new_file(self, path: str) -> LiveFile:
        """Return a new empty loose file for ``path``, and log it.  Raises ``OSError``."""
        loose = self._spool.create(path)
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
        """Schedule a commit."""
        self._commits.wake()

    def commit(self, *, final: bool, forced: bool = False) -> None:
        """Commit whole properties to the tree; see ``Commits.commit``."""
        self._commits.commit(final=final, forced=forced)

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
        self._spool.prepare(text, operations)

    def restart_log(self) -> None:
        """Make the prepared log the current one, after its tree was committed.  Raises ``OSError``."""
        self._spool.restart()

    def sync_log(self) -> None:
        """Make the log of changes to names durable.  Raises ``OSError``."""
        self._spool.sync(self.document.scheduler)

    def sync(self) -> None:
        """Make loose files and the log durable.  Raises ``OSError``."""
        for file in self.walk()[0].values():
            loose = file.loose
            if loose is not None:
                loose.sync(self.document.scheduler)
        self.sync_log()

    def loose_files(self) -> Iterator[tuple[str, str]]:
        """Yield the path in the store and the path in the spool of each loose file."""
        for path, file in self.walk()[0].items():
            if file.loose is not None:
                yield path, file.loose.path

    def close(self) -> None:
        """Close the log and the file descriptors of loose files."""
        self._spool.close()


def _same(file: LiveFile, content: Content) -> bool:
    """Return whether ``content``, from a new tree, is the same bytes as the stored ones of ``file``."""
    if isinstance(content, Stored) and isinstance(file.content, Stored):
        return content.is_same(file.content)
    return isinstance(content, Bytes) and content == file.content
