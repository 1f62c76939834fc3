"""The directory of an archive: shown as it is, read-only, with a directory ``.d`` beside each ASDF file.

That directory is found by its name, and left out of listings unless the mount says otherwise (``-o explode``): what
walks over an archive opens no file.

Only what the kernel knows is remembered, by its path and its identity: each request looks at the disk, so what
appears or vanishes there is seen at once.  Only attributes of directories may be as old as the kernel keeps them
(``mount/options.KEPT_SECONDS``), because find(1) asks for those of each.  No request opens an ASDF file but one that
reads it.  ``.asdffs`` in the root tells the state of the mount.  The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from asdffs.errors import (
    AsdffsError,
    FileExpectedError,
    GoneError,
    NameRefusedError,
    NoAttributeError,
    NoSuchNameError,
    NotDirectoryError,
    NotPermittedError,
    ReadOnlyError,
)
from asdffs.features.archive.documents import SUFFIX, OpenDocuments, OutsideItem, number_of_directory
from asdffs.format.constants import FILE_ENDINGS
from asdffs.mount.options import Explode
from asdffs.scheduling import Scheduler
from asdffs.storage.backend import Extent
from asdffs.storage.beneath import Beneath
from asdffs.storage.file_backend import FileFolder
from asdffs.vfs.areas import Area
from asdffs.vfs.attributes import KINDS, Attributes, Entry, Shown, attributes_of
from asdffs.vfs.handles import new_handle
from asdffs.vfs.inodes import Item
from asdffs.vfs.namespace import ROOT_NUMBER, DirectoryNode, FileNode, Node, Owner, number_of, number_on
from asdffs.views.base import ViewDirectory

logger = logging.getLogger(__name__)

#: The directory of the root that tells the state of the mount.
STATUS: Final = ".asdffs"
_KINDS: Final = {bits: kind for kind, bits in KINDS.items()}
#: Permission bits that are shown: nothing can be written.
_SHOWN_BITS: Final = 0o7555
_SUFFIX: Final = os.fsencode(SUFFIX)
_ENDINGS: Final = tuple(map(str.encode, FILE_ENDINGS))
Found = tuple[Item, Attributes]


@dataclass(slots=True)
class _OpenFile:
    """An open file of the disk, or the text of a file in ``.asdffs``."""

    fd: int = -1
    text: bytes = b""


@dataclass(slots=True)
class _Listing:
    """An open directory, with the entries that it had when a program began to list it.

    ``folder``: the directory of the disk; None in ``.asdffs``.
    """

    item: Item
    folder: FileFolder | None
    entries: list[Entry] = field(default_factory=list)


class ArchiveDirectory(Area):
    """The directory of an archive; an ``Area``.

    ``files``: the directory.  ``status``: the content of ``.asdffs``.  ``explode``: see ``MountOptions``.
    ``root``: see ``Area``.
    """

    def __init__(
        self,
        files: Beneath,
        documents: OpenDocuments,
        status: ViewDirectory,
        shown: Shown,
        scheduler: Scheduler,
        explode: Explode = "named",
    ) -> None:
        self._files = files
        self._documents = documents
        self._shown = shown
        self._scheduler = scheduler
        self._explode = explode
        self._opened: dict[int, _OpenFile] = {}
        self._listings: dict[int, _Listing] = {}
        self._items: dict[str, OutsideItem] = {}
        self._root = OutsideItem("", None, is_document=False)
        now = files.status("/")
        uid, gid = self._owner(now)
        number, at = number_of(ROOT_NUMBER, STATUS), now.st_mtime_ns
        self._status = DirectoryNode(Owner(0o555, uid, gid, at), view=status, born_ns=at, number=number)

    @property
    def root(self) -> Item:
        """See ``Area``."""
        return self._root

    # -- reports --------------------------------------------------------------------

    def refuse(self, error: Exception) -> None:
        """See ``Area``."""
        self._documents.note_refusal(str(error))
        logger.warning("refused: %s", error)

    def tell_changes(self, locked: Any = None, *, wait: bool) -> None:
        """Do nothing: the kernel caches no attributes of this area."""

    @property
    def stored_in(self) -> str:
        """See ``Area``."""
        return self._files.root

    # -- attributes -------------------------------------------------------------------

    def lookup(self, folder: Item, name: str) -> Found:
        """See ``Area``.  Raises ``NoSuchNameError``, ``OSError``."""
        if isinstance(folder, Node) or (folder is self.root and name == STATUS):
            return self._status_entry(folder, name)
        path = f"{folder.path}/{name}"
        shown, is_document = self._look_at(path)
        return self._item(path, shown, is_document=is_document), shown

    def _status_entry(self, folder: Item, name: str) -> Found:
        try:
            node = folder.find(name) if isinstance(folder, DirectoryNode) else self._status
        except KeyError:
            raise NoSuchNameError("no such file in the mount", path=name) from None
        return node, attributes_of(node)._replace(steady=False)

    def _item(self, path: str, shown: Attributes, *, is_document: bool) -> OutsideItem:
        """Return the item that the kernel knows, or a new one if it is another file by now."""
        identity = shown.number, shown.kind
        item = self._items.get(path)
        if item is None or item.identity != identity:
            item = self._items[path] = OutsideItem(path, identity, is_document=is_document)
        return item

    def forget(self, item: Item) -> bool:
        """See ``Area``."""
        if self._items.get(item.path) is item:
            del self._items[item.path]
        return True

    def attributes(self, item: Item, handle: int | None = None) -> Attributes:
        """See ``Area``.  Raises ``NoSuchNameError``, ``GoneError``, ``OSError``."""
        opened = self._opened.get(handle) if handle is not None else None
        if opened is not None and opened.fd >= 0:
            return self._attributes(os.fstat(opened.fd))
        if isinstance(item, Node):
            return attributes_of(item)._replace(steady=False)
        shown, _ = self._look_at(item.path)
        self._check(item, shown)
        return shown

    def _check(self, item: Item, shown: Attributes) -> None:
        """Raise ``GoneError`` if the name of ``item`` leads to another file by now."""
        if isinstance(item, OutsideItem) and item.identity not in (None, (shown.number, shown.kind)):
            raise GoneError("is another file now", path=item.path)

    def _look_at(self, path: str) -> tuple[Attributes, bool]:
        """Return the attributes of ``path``, and whether it is the directory of a document."""
        try:
            return self._attributes(self._files.status(path or "/"), root=not path), False
        except (FileNotFoundError, NotADirectoryError):
            pass
        found = self._documents.file_of(path) if self._explode != "never" else None
        if found is not None:
            return self._attributes_of_document(found, number_of_directory(found)), True
        if (link := self._link_of(path)) is not None:
            shown = self._attributes(self._files.status(path[: -len(SUFFIX)]))
            return shown._replace(size=len(os.fsencode(link)), number=number_of(shown.number, SUFFIX)), False
        raise NoSuchNameError("no such file in the archive", path=path)

    def _attributes(self, found: os.stat_result, *, root: bool = False) -> Attributes:
        uid, gid = self._owner(found)
        kind = _KINDS[stat.S_IFMT(found.st_mode)]
        return Attributes(
            kind,
            found.st_mode & (0o7777 if kind == "link" else _SHOWN_BITS & ~self._shown.umask),
            0 if kind == "directory" else found.st_size,
            found.st_mtime_ns,
            found.st_atime_ns,
            uid,
            gid,
            1 if kind == "directory" else found.st_nlink,
            found.st_ctime_ns,
            ROOT_NUMBER if root else number_on(found.st_dev, found.st_ino),
            steady=kind == "directory",
        )

    def _attributes_of_document(self, file: os.stat_result, number: int) -> Attributes:
        """Return the attributes of the directory of a document that is not open."""
        mode = file.st_mode & _SHOWN_BITS & ~self._shown.umask
        times = file.st_mtime_ns, file.st_atime_ns
        mode |= (mode & 0o444) >> 2
        return Attributes("directory", mode, 0, *times, *self._owner(file), 1, file.st_ctime_ns, number)

    def _owner(self, found: os.stat_result) -> tuple[int, int]:
        uid, gid = self._shown.uid, self._shown.gid
        return found.st_uid if uid is None else uid, found.st_gid if gid is None else gid

    # -- links ------------------------------------------------------------------------

    def readlink(self, item: Item) -> str:
        """See ``Area``.  Raises ``NameRefusedError``, ``OSError``."""
        path = item.path
        link = self._link_of(path)
        if link is not None:
            return link
        try:
            return self._files.link(path)
        except OSError as err:
            raise NameRefusedError("is not a symbolic link", path=path) from err

    def _link_of(self, path: str) -> str | None:
        """Return the target of ``a.asdf.d`` if ``a.asdf`` is a symbolic link: the directory of that file."""
        if self._explode == "never" or not path.lower().endswith(tuple(ending + SUFFIX for ending in FILE_ENDINGS)):
            return None
        try:
            target = self._files.link(path[: -len(SUFFIX)])
            return None if self._files.has(path) or self._is_directory(path, target) else target + SUFFIX
        except OSError:
            return None

    def _is_directory(self, path: str, target: str) -> bool:
        """Return whether a link beside ``path`` leads to a directory in the archive.

        Nothing is followed: a link may lead into this mount, which would wait for itself.
        """
        place = os.path.normpath(os.path.join(os.path.dirname(path), target))
        with contextlib.suppress(OSError, NotPermittedError):
            return not os.path.isabs(target) and stat.S_ISDIR(self._files.status(place).st_mode)
        return False

    def xattr(self, item: Item, name: str) -> bytes:
        """See ``Area``.  Raises ``NoAttributeError``."""
        raise NoAttributeError(f"no attribute {name!r} here", path=item.path)

    # -- directories --------------------------------------------------------------------

    def opendir(self, item: Item) -> int:
        """See ``Area``.  Raises ``NoSuchNameError``, ``NotDirectoryError``, ``OSError``."""
        if self.attributes(item).kind != "directory":
            raise NotDirectoryError("is a file", path=item.path)
        folder = None if isinstance(item, Node) else self._files.directory(item.path or "/")
        handle = new_handle()
        self._listings[handle] = _Listing(item, folder)
        return handle

    def entry(self, handle: int, name: str) -> Found | None:
        """See ``Area``.  A program that asks for an entry that vanished, or is hidden, gets the error then."""
        opened = self._listings[handle]
        if opened.folder is None:
            return None
        try:
            self._files.check(f"{opened.item.path}/{name}")
            return self.lookup(opened.item, name)
        except (OSError, AsdffsError):
            return None

    def entries_from(self, handle: int, start: int) -> Iterator[Entry]:
        """See ``Area``.  The entries are read at entry 0.  Raises ``OSError``."""
        opened = self._listings[handle]
        if start == 0:
            opened.entries = [*((name, stat.S_IFDIR, 0) for name in (b".", b"..")), *self._listed(opened)]
        return map(opened.entries.__getitem__, range(start, len(opened.entries)))

    def _listed(self, opened: _Listing) -> Iterable[Entry]:
        if opened.folder is None:
            return self._entries_in(opened.item) if isinstance(opened.item, DirectoryNode) else ()
        with self._scheduler.waiting():  # it may have 100,000 entries
            listed = self._entries_of(opened.folder, opened.item.path)
        if opened.item is not self.root:
            return listed
        own = os.fsencode(STATUS)
        return [(own, stat.S_IFDIR, self._status.number), *(entry for entry in listed if entry[0] != own)]

    def _entries_in(self, directory: DirectoryNode) -> Iterator[Entry]:
        """Yield what is in ``.asdffs``."""
        for name in directory.entries():
            node = directory.find(name)
            yield os.fsencode(name), stat.S_IFREG if isinstance(node, FileNode) else stat.S_IFDIR, node.number

    def _entries_of(self, directory: FileFolder, path: str) -> list[Entry]:
        """Return the entries of a directory of the disk, and if they are listed, the directory of each document.

        ``path``: that of the directory in the archive.
        """
        with directory.readable() as fd:
            device = os.fstat(fd).st_dev
            with os.scandir(fd) as found:
                listed = [(os.fsencode(it.name), _kind_of(it), number_on(device, it.inode())) for it in found]
        return [*listed, *self._documents_in(listed, path)] if self._explode == "always" else listed

    def _documents_in(self, listed: list[Entry], path: str) -> Iterator[Entry]:
        """Yield the directories of documents that a listing has besides the files themselves."""
        names = {name for name, _, _ in listed}
        for name, kind, number in listed:
            beside = name + _SUFFIX
            if name.lower().endswith(_ENDINGS) and beside not in names and kind in (stat.S_IFREG, stat.S_IFLNK):
                if kind == stat.S_IFLNK and self._link_of(f"{path}/{os.fsdecode(beside)}") is None:
                    continue
                yield beside, stat.S_IFDIR if kind == stat.S_IFREG else stat.S_IFLNK, number_of(number, SUFFIX)

    def is_root(self, handle: int) -> bool:
        """See ``Area``."""
        return self._listings[handle].item is self.root

    def closedir(self, handle: int) -> None:
        """See ``Area``."""
        del self._listings[handle]

    # -- files ----------------------------------------------------------------------------

    def open(self, item: Item, *, write: bool, truncate: bool) -> int:
        """See ``Area``.

        Raises ``ReadOnlyError``, ``FileExpectedError``, ``NotPermittedError``, ``GoneError``, ``OSError``.
        """
        path = item.path
        if write or truncate:
            raise ReadOnlyError("the archive is shown read-only; change the file in its directory '.d'", path=path)
        if isinstance(item, FileNode):
            return self._add(_OpenFile(text=item.file.snapshot() or b""))
        if isinstance(item, Node):
            raise FileExpectedError("is a directory", path=path)
        fd = self._files.open(path)
        try:
            self._check(item, self._attributes(os.fstat(fd)))  # the kernel checked the permissions of that file
        except BaseException:
            os.close(fd)
            raise
        return self._add(_OpenFile(fd))

    def read(self, handle: int, offset: int, length: int) -> bytes | Extent:
        """See ``Area``.  Raises ``OSError``."""
        opened = self._opened[handle]
        if opened.fd < 0:
            return opened.text[offset : offset + length]
        return Extent(opened.fd, offset, max(0, min(length, os.fstat(opened.fd).st_size - offset)))

    def is_direct(self, handle: int) -> bool:
        """See ``Area``: the state of the mount has another text at each open."""
        return self._opened[handle].fd < 0

    def whole(self, handle: int) -> int | None:
        """See ``Area``."""
        opened = self._opened[handle]
        return opened.fd if opened.fd >= 0 else None

    def flush(self, handle: int, *, killed: bool) -> None:
        """Do nothing: nothing is written here."""

    def fsync(self, handle: int) -> None:
        """Do nothing: nothing is written here."""

    def release(self, handle: int) -> None:
        """See ``Area``."""
        opened = self._opened.pop(handle)
        if opened.fd >= 0:
            os.close(opened.fd)

    def finish(self) -> None:
        """Finish all documents.  Raises as ``OpenDocuments.finish_all``."""
        self._documents.finish_all()

    def _add(self, opened: _OpenFile) -> int:
        handle = new_handle()
        self._opened[handle] = opened
        return handle


def _kind_of(entry: os.DirEntry[str]) -> int:
    """Return the type bits of an entry, without a system call for files, directories and links."""
    if entry.is_file(follow_symlinks=False):
        return stat.S_IFREG
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    if entry.is_symlink():
        return stat.S_IFLNK
    try:
        return stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)
    except OSError:  # it is gone
        return 0
