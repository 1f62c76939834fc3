"""A mounted store: directories and files as programs see them now, whatever of it the tree has by now.

FilesDaf clients write a property file by file, in an order of their own, so the directory is inconsistent between two
calls, and nothing is refused for that.  A file is *stored* (the tree has it; its bytes are rendered, or a window on a
block) or *loose* (in the spool).  What is created, or changes its size, is loose; what is written into a window is in
the block at once.  ``committing`` makes nodes and blocks of loose files when a property is whole.

Invariants.  1. What was done to names is in the log before the call returns, until the tree has it.  2. Only files
that nobody has open for writing are committed.  3. A block is freed when neither the tree nor an open file has it.
The caller holds the main lock; ``turn`` is held by who changes names,
or commits.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from asdffs.daf.commits import Commits
from asdffs.daf.files import Bytes, Content, Files
from asdffs.daf.live_directory import LiveDirectory, RootDirectory
from asdffs.daf.live_file import LiveFile
from asdffs.daf.loose import Loose, LooseFiles
from asdffs.daf.room import BlockRoom
from asdffs.daf.stored import Stored
from asdffs.daf.tree_files import TreeStore, read_store
from asdffs.document.document import Document
from asdffs.errors import AsdffsError, MissingFileError
from asdffs.scheduling import Rank, RankedLock, yielding

logger = logging.getLogger(__name__)


class LiveStore:
    """The store of ``document``; ``root``: its directory.  ``committed``: files that the tree has, by path.

    ``held``: files without a name that are open; ``room``: its blocks; ``tree``: what the tree has.
    """

    def __init__(
        self, document: Document, root: LiveDirectory | None = None, spool: LooseFiles | None = None
    ) -> None:
        self.document = document
        self.lock = RankedLock(document.scheduler, Rank.STORE)
        self._reading = RankedLock(document.scheduler, Rank.STORE_READING)
        self.root = RootDirectory(self) if root is None else root
        self.committed: dict[str, LiveFile] = {}
        self.tree = TreeStore.empty(document)
        self.held: dict[LiveFile, None] = {}
        self.room = BlockRoom(document)
        self._spool = spool or LooseFiles(document.contents.spool, lambda: document.tree.text())
        self._version = -1
        self._generation = document.generation
        self._carried = False
        self._commits = Commits(self)

    @property
    def carried(self) -> bool:
        """Whether the file carries a store."""
        self.refresh()
        return self._carried

    def walk(self) -> tuple[dict[str, LiveFile], set[str]]:
        """All files by path, and all directories."""
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
        """Take up what a commit that is not ours has changed.  Raises ``OSError``."""
        if self._version == self.document.tree.version or self.lock.taken:
            return
        with self._reading.entered(patiently=True):  # who comes meanwhile waits for what is read
            if self._version != self.document.tree.version and not self.lock.taken:
                self.take_up()

    def take_up(self) -> None:
        """Show what the tree has now; others are served while it is read.  Raises ``OSError``."""
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
        """Files are what ``tree`` has from now on.

        ``taken``: the files that a commit has put there, by path, and the loose bytes that they had.
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
        self._version = tree.generation  # now: until then a commit waits in ``refresh``

    def _before(self) -> tuple[set[str], set[str]]:
        """Files that the tree had, and directories of it that were removed since.

        None, when this is a file of another program: what that has was not removed from it.
        """
        if self._generation != self.document.generation:
            self._generation = self.document.generation
            return set(), set()
        gone = {path for path in self.tree.files.directories if self.root.find(path) is None}
        return set(self.tree.files.contents), gone

    def _adopt_file(
        self, path: str, content: Content, file: LiveFile | None, loose: Loose | None, *, taken: bool, removed: bool
    ) -> None:
        """The tree has ``content`` at ``path``, which is that of ``file`` when that has ``loose`` still.

        ``taken``: by a commit; ``removed``: when nothing is there, that was removed, and the tree has it for now.
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
        """Names given since the last commit to bytes of a file that another program has changed."""
        for path, file in self.walk()[0].items():
            if isinstance(file.content, Stored) and file.content.stale:
                logger.warning("%s: %s was there, and its bytes are gone", self.document.path, path)
                self.root.displace(path)

    def is_committed(self, path: str, file: LiveFile) -> bool:
        """Whether the tree has ``file`` at ``path``, as it is."""
        return file.loose is None and self.committed.get(path) is file

    @property
    def is_stored(self) -> bool:
        """Whether the tree has all there is, and no more."""
        files, directories = self.walk()
        same = files.keys() == self.tree.files.contents.keys() and directories == self.tree.files.directories
        return same and all(self.is_committed(path, file) for path, file in files.items())

    @property
    def held_blocks(self) -> set[int]:
        """Numbers of the blocks of files without a name that are open."""
        return {block for file in self.held if (block := file.block) is not None}

    # -- changes ------------------------------------------------------------------

    def note(self, *operation: str) -> None:
        """Something was done to names.  Raises ``OSError``."""
        self._spool.note(*operation)
        self.wake()

    def loosen(self, file: LiveFile, size: int) -> Loose:
        """Give a stored file bytes of its own, the first ``size`` of those that it has.  Raises ``OSError``."""
        paths = file.paths
        loose = self._spool.create(paths[0] if paths else "unlinked")
        try:
            loose.fill(file.content, size)
            for path in paths[:1]:
                self.note("loose", path, loose.path)
            for path in paths[1:]:  # read from a tree, names of one file are files of their own
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
        """The file ``spooled``, which a killed mount left; None when it was removed."""
        return self._spool.reopened(spooled)

    def new_file(self, path: str) -> LiveFile:
        """An empty file that is to be at ``path``.  Raises ``OSError``."""
        loose = self._spool.create(path)
        self.note("loose", path, loose.path)
        return LiveFile(self, loose)

    def unnamed(self, file: LiveFile) -> None:
        """A file has lost its last name."""
        if file.opens:
            self.held[file] = None
        else:
            self.forget(file)

    def forget(self, file: LiveFile) -> None:
        """A file is gone."""
        self.held.pop(file, None)
        if file.loose is not None:
            file.loose.drop()
            file.content = Bytes(b"")
        else:
            self.released(file)

    def released(self, file: LiveFile) -> None:
        """It is not the file any more that has its block: the next commit may free it."""
        if file.block is not None:
            self.wake()

    # -- committing -----------------------------------------------------------------

    def wake(self) -> None:
        """Something is to be committed, soon."""
        self._commits.wake()

    def commit(self, *, final: bool, forced: bool = False) -> None:
        """Have the tree have what is whole, as ``Commits.commit``."""
        self._commits.commit(final=final, forced=forced)

    def prepare_log(self, text: bytes, taken: set[str]) -> None:
        """Before ``text`` is committed, which has the loose files at the paths ``taken``: the log that goes with it.

        It tells what to do to that tree so that it is what is here.  Raises ``OSError``.
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
        """The text that was prepared for is the tree.  Raises ``OSError``."""
        self._spool.restart()

    def sync_log(self) -> None:
        """Make it durable what was done to names.  Raises ``OSError``."""
        self._spool.sync(self.document.scheduler)

    def sync(self) -> None:
        """Make durable what is loose.  Raises ``OSError``."""
        for file in self.walk()[0].values():
            loose = file.loose
            if loose is not None:
                loose.sync(self.document.scheduler)
        self.sync_log()

    def loose_files(self) -> Iterator[tuple[str, str]]:
        """Path in the store, and path in the spool, of each loose file."""
        for path, file in self.walk()[0].items():
            if file.loose is not None:
                yield path, file.loose.path

    def close(self) -> None:
        """Close the log."""
        self._spool.close()


def _same(file: LiveFile, content: Content) -> bool:
    """Whether what a tree has in the place of stored bytes is the same bytes."""
    if isinstance(content, Stored) and isinstance(file.content, Stored):
        return content.is_same(file.content)
    return isinstance(content, Bytes) and content == file.content
