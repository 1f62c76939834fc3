"""Finds out what a file is: its directory and name, container, layout, dialect and text, without opening a document.

Light on purpose: commands that only read values import nothing more.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, cast

from asdffs import registry
from asdffs.dialects.base import Dialect
from asdffs.errors import AsdffsError, MissingFileError, NotAsdfError, ReadOnlyError, Remedy, UsageError
from asdffs.format.block_header import BlockRules
from asdffs.format.block_scan import FIRST_PIECE, drive
from asdffs.format.layout import Layout
from asdffs.format.scanner import scan_layout, scan_text_end
from asdffs.format.text import MAX_HEADER_LINE, Header, parse_header
from asdffs.scheduling import Scheduler, SingleThread
from asdffs.storage.backend import MovableBackend, ReadBackend, ReadFolder, WindowBackend
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.sidecars import has_journal
from asdffs.storage.urls import SCHEMES, is_remote, local_path, shown_url

if TYPE_CHECKING:
    from asdffs.arrays.scalars import Scalars
    from asdffs.format.container import Container, Embedded
    from asdffs.storage.urls import RemoteOptions

#: Bytes by which the format of a file is known.
_HEAD: Final = 80


def resolve(path: str) -> tuple[str, str]:
    """Return the directory and the name of the regular file at ``path``, without symbolic links.

    Raises ``MissingFileError``, ``UsageError`` if ``path`` is empty, ``ReadOnlyError`` for the URL of a remote file:
    who needs a directory writes there.
    """
    if not path:
        raise UsageError("the name of the file is empty")
    if is_remote(path):
        raise ReadOnlyError(
            "is a remote file, which cannot be changed", path=shown_url(path), remedy=Remedy.MAKE_LOCAL
        )
    path = local_path(path)
    real = os.path.realpath(path)
    try:
        mode = os.stat(real).st_mode
    except OSError as err:
        scheme, colon, _ = path.partition("://")
        if colon and scheme.isalnum():
            known = ", ".join(f"{one}://" for one in (*SCHEMES, "file"))
            raise UsageError(f"{scheme}:// is none of {known}", path=path) from err
        raise MissingFileError(f"cannot be opened: {err.strerror}", path=path) from err
    if not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
        raise MissingFileError(f"is {kind}; give the file itself", path=path)
    directory, name = os.path.split(real)
    return directory, name


def place_of(path: str, remote: RemoteOptions | None, scheduler: Scheduler) -> tuple[ReadFolder, str]:
    """Return the folder and the name of the file at ``path``, which may be the URL of a remote file.

    ``remote``: settings for remote files, None for the defaults.  Raises as ``resolve``.
    """
    if is_remote(path):
        from asdffs.storage.urls import RemoteOptions

        registry.needed_feature("remote")
        scheme = path.partition("://")[0].lower()
        opener = next((one for one in registry.each("backends") if scheme in one.schemes), None)
        if opener is None:
            raise UsageError(f"no backend of this installation opens {scheme}:// files", path=shown_url(path))
        folder = opener(path, remote or RemoteOptions(), scheduler)
        return folder, folder.name
    directory, name = resolve(path)
    return FileFolder(directory), name


def footprint_in(text: bytes) -> str:
    """Return where on the sky the file with this text of header, comments and tree is (``arrays/footprints``)."""
    from asdffs.arrays.footprints import footprint_of

    return footprint_of(scalars_in(text))


def scalars_in(text: bytes) -> Scalars:
    """Return the scalars and arrays of this text of header, comments and tree.  Raises ``InvalidTreeError``."""
    from asdffs.arrays.scalars import read_scalars

    return read_scalars(text, _find_dialect(parse_header(text[:MAX_HEADER_LINE])))


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Add the path of the file to errors inside the block that have none."""
    try:
        yield
    except AsdffsError as err:
        err.path = err.path or path
        raise


def read_text(path: str, remote: RemoteOptions | None = None) -> bytes:
    """Return the header, comments and tree of the ASDF file at ``path``, or at a URL.

    ``remote``: settings for remote files.

    After an interrupted change it is the text that a recovery would leave.  Raises ``MissingFileError``,
    ``NotAsdfError``, ``DamagedFileError``, ``OSError``.
    """
    folder, name = place_of(path, remote, SingleThread())
    with naming(folder.path(name) if is_remote(path) else path):
        backend = with_pending_record(folder, folder.open(name, writable=False))
        try:
            head = backend.read_at(0, FIRST_PIECE)  # it has the text of most files
            embedded = find_embedded(backend, head)
            part = window_of(backend, embedded)
            read_at = part.read_at if embedded is not None else _with_head(head, part.read_at)
            end = drive(scan_text_end(part.size(), _rules_of), read_at)
            return read_at(0, end)
        finally:
            backend.close()


def _with_head(head: bytes, read_at: Callable[[int, int], bytes]) -> Callable[[int, int], bytes]:
    """Return ``read_at`` for a file whose first bytes are ``head``."""
    return lambda at, size: head[at : at + size] if at + size <= len(head) else read_at(at, size)


def find_embedded(backend: ReadBackend, head: bytes = b"") -> Embedded | None:
    """Return the ASDF file inside the file ``backend``; None if the file itself is one, or of no known format.

    ``head``: the beginning of the file, if it was read.

    Raises ``NotAsdfError`` if a file of a known format has no ASDF file inside, ``DamagedFileError``, ``OSError``.
    """
    head = head[:_HEAD] or backend.read_at(0, _HEAD)
    if head.startswith(b"#ASDF"):
        return None
    for name in registry.names("containers"):
        found: Container | None = registry.find("containers", name)
        if found is not None and _is_claimed(name, found, head):
            return found.find(backend.read_at, backend.size())
    return None


def window_of(backend: ReadBackend, embedded: Embedded | None) -> ReadBackend:
    """Return the ASDF file inside the file ``backend`` as a backend; ``backend`` itself if it has no other file."""
    return backend if embedded is None else WindowBackend(backend, embedded.start, embedded.size)


def scan(backend: ReadBackend, *, trusting: bool = False) -> tuple[Layout, Dialect]:
    """Return the layout and the dialect of a file.  ``trusting``: as of ``scan_layout``.

    Raises ``NotAsdfError``, ``DamagedFileError``, ``OSError``.
    """
    steps = scan_layout(backend.size(), _rules_of, trusting=trusting)
    layout = drive(steps, backend.read_at)
    return layout, _find_dialect(layout.header)


def with_pending_record(folder: ReadFolder, backend: ReadBackend) -> ReadBackend:
    """Return the backend of a file that is only read, with the pending record of a journal as an overlay.

    Without the lock, the journal must not be replayed into the file.
    """
    if not has_journal(folder, backend.name):
        return backend
    from asdffs.storage.journal import read_trusted
    from asdffs.storage.sidecars import open_payload
    from asdffs.storage.unfinished import as_recovered, belongs

    record = read_trusted(folder, backend.name)
    file = cast(MovableBackend, backend)  # only a file on a disk has a journal
    if record is None or not belongs(file, record):
        return backend
    payload = open_payload(folder, backend.name, record.fill) if record.fill is not None else None
    return as_recovered(file, record, payload).backend


def _claims(name: str, dialect: Dialect, header: Header) -> bool:
    return registry.answer("dialects", name, lambda: dialect.claims(header), otherwise=False)


def _is_claimed(name: str, container: Container, head: bytes) -> bool:
    return registry.answer("containers", name, lambda: container.claims(head), otherwise=False)


@functools.lru_cache(maxsize=8)
def _rules_of(header: Header) -> BlockRules:
    return _find_dialect(header).rules


def _find_dialect(header: Header) -> Dialect:
    for name in registry.names("dialects"):
        found = registry.find("dialects", name)
        if found is not None and not isinstance(found, Dialect):
            registry.note_trouble("dialects", name, "it is no subclass of asdffs.dialects.base.Dialect")
        elif found is not None and _claims(name, found, header):
            return found
    version = ".".join(map(str, header.version))
    token = header.token.decode()
    raise NotAsdfError(f"begins with '{token} {version}', a version that asdffs does not know", offset=0)
