"""Brings a catalogue up to date: reads the files that are new or changed, in several processes; one writes.

Each chunk is written as soon as it is read.  So the work goes on where it was when it was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib.util
import logging
import os
import stat
import time
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from asdffs.errors import InUseError, NotSupportedError, RemoteError, WorkerKilledError
from asdffs.features.catalog.catalog import Catalog
from asdffs.features.catalog.chunks import FILES, WEIGHT
from asdffs.features.catalog.reading import Chunk, identity_of, read_chunk, unread_chunk
from asdffs.features.catalog.store import WritableCatalog
from asdffs.features.catalog.walking import Walk
from asdffs.printable import numbered
from asdffs.storage.changed_files import changed_files
from asdffs.workers.pool import worker_processes

if TYPE_CHECKING:
    from asdffs.storage.urls import RemoteOptions

logger = logging.getLogger(__name__)

#: How often a part that a cluster could not read is read again.
_AGAIN: Final = 2
#: Fewer files than this are read by this process: to start others takes longer.
_FEW: Final = 50


class Indexed(NamedTuple):
    """The result of an index: how many files it found, read, could not read, and removed from the catalogue.

    ``moved``: how many it knew under another name, and did not read again.  ``kept``: how many it did not find, and
    kept, because they may still be there.  ``absent``: how many places are not there, of which the catalogue knew
    nothing.
    """

    found: int
    read: int
    unread: int
    removed: int
    kept: int
    absent: int
    moved: int = 0


class Part(NamedTuple):
    """The files that one of ``total`` machines indexes: part ``number``, from 1.

    A file belongs to the same part on every machine, whatever other files there are.
    """

    number: int
    total: int

    def of(self, files: Iterable[tuple[bytes, str]]) -> dict[bytes, str]:
        """Return path -> identity of those of ``files`` that belong to this part."""
        if self.total == 1:
            return dict(files)
        return {path: identity for path, identity in files if zlib.crc32(path) % self.total == self.number - 1}


#: All files.
WHOLE: Final = Part(1, 1)


class Way(NamedTuple):
    """How files are read.

    ``jobs``: how many chunks are read at a time.  ``remote``: settings for remote files.  ``executor``: makes what
    reads the chunks; None: processes of this machine.
    """

    jobs: int
    remote: RemoteOptions | None = None
    executor: Callable[[], AbstractContextManager[Executor]] | None = None


def update(
    catalog: WritableCatalog,
    roots: Sequence[bytes],
    way: Way,
    note: Callable[[int, int], None],
    part: Part = WHOLE,
    *,
    forget: bool = False,
) -> Indexed:
    """Read what is new or changed below ``roots``, as far as it belongs to ``part``, and remove what is gone.

    ``note(done, total)`` is called with the number of files that were read.  ``forget``: as of ``Walk.is_gone``.

    Raises ``InUseError`` if another process writes the catalogue, ``StorageError``, ``RemoteError``, ``OSError``.
    """
    begun = time.time()
    with writing(catalog.path):
        known = part.of(one for root in roots for one in catalog.known(root).items())
        walk = Walk(roots, way.remote, catalog.excluded)
        found = part.of(walk.files())
        moved = _moved(catalog, walk, known, found)
        todo = [path for path, identity in found.items() if not identity or known.get(path) != identity]
        read = unread = done = 0
        note(0, len(todo))
        with contextlib.closing(_chunks(todo, way)) as chunks:
            for chunk in chunks:
                catalog.add(chunk.rows, chunk.packed)
                read += len(chunk.rows)
                unread += sum(bool(row.error) for row in chunk.rows)
                done += chunk.asked
                note(done, len(todo))
        absent = sorted(root for root in walk.absent if not catalog.known(root))
        missing = known.keys() - found.keys()
        gone = {path for path in missing if walk.is_gone(path, known[path], forget=forget)}
        removed = catalog.remove(gone) if gone else 0
        compact(catalog)
        if part == WHOLE and missing == gone and not absent:
            catalog.note_look(filter(os.path.isdir, roots), begun)
    _tell_kept(catalog.path, sorted(missing - gone))
    for root in absent:
        logger.warning("%s: there is no such file or directory", os.fsdecode(root))
    return Indexed(len(found), read, unread, removed, len(missing) - len(gone), len(absent), moved)


def changed_since(catalog: Catalog, roots: Sequence[bytes]) -> list[bytes]:
    """Return the files below ``roots`` (all without roots) that asdffs changed since the catalogue read them."""
    starts = tuple(os.path.join(root, b"") for root in roots)
    inside = [path for path in changed_files() if not roots or path in roots or path.startswith(starts)]
    found = []
    for one in inside:
        for path, identity in catalog.known(one).items():
            with contextlib.suppress(OSError):
                if identity_of(os.stat(path)) != identity:
                    found.append(path)
    return found


def _moved(catalog: WritableCatalog, walk: Walk, known: dict[bytes, str], found: dict[bytes, str]) -> int:
    """Give the files of renamed directories their new names; return how many these are.

    It is the same file if its whole identity is the same, ctime included: an inode that is used again, and a mtime
    that was put back, do not make another file the same one.  The rename of a file itself changes its ctime, so it is
    read again.  ``known`` has the new names afterwards.
    """
    gone = {identity: path for path, identity in known.items() if path not in found and identity}
    count = 0
    for path, identity in found.items() if gone else ():
        old = gone.get(identity) if path not in known else None
        if old is None or not walk.is_gone(old, known[old], forget=True):
            continue
        if catalog.move(old, path, identity):
            del gone[identity], known[old]
            known[path] = identity
            count += 1
    return count


def _tell_kept(catalog: str, kept: Sequence[bytes]) -> None:
    if kept:
        told = f"{numbered(len(kept), 'file')} not found, and kept, such as {os.fsdecode(kept[0])}"
        logger.warning("%s: %s: the directory cannot be read, or is empty, as without a mount", catalog, told)


def _chunks(todo: Sequence[bytes], way: Way) -> Generator[Chunk]:
    """Yield the chunks of the files ``todo``.  What a chunk had no room for is read for another one."""
    here = way.executor is None and (len(todo) < _FEW or way.jobs < 2)
    size = FILES if here else min(FILES, -(-len(todo) // way.jobs)) or 1
    parts = deque(todo[start : start + size] for start in range(0, len(todo), size))
    if here:
        while parts:
            part = parts.popleft()
            yield _without_rest(read_chunk(part, way.remote), part, parts)
        return
    waiting: deque[tuple[Future[Chunk], Sequence[bytes]]] = deque()
    # what they log would be printed as it is; the rows have the reasons
    begin = functools.partial(logging.disable, logging.WARNING)
    with (way.executor or functools.partial(worker_processes, way.jobs, complete=False, begin=begin))() as pool:
        while parts or waiting:
            while parts and len(waiting) < way.jobs + 1:
                part = parts.popleft()
                waiting.append((pool.submit(read_chunk, part, way.remote), part))
            future, part = waiting.popleft()
            try:
                chunk = _result(pool, future, part, way)
            except WorkerKilledError as err:
                if len(part) > 1:  # nobody knows by which file: each half is read by itself
                    parts.extendleft((part[len(part) // 2 :], part[: len(part) // 2]))
                    continue
                chunk = unread_chunk(part[0], err)
            yield _without_rest(chunk, part, parts)


def _without_rest(chunk: Chunk, part: Sequence[bytes], parts: deque[Sequence[bytes]]) -> Chunk:
    """Return ``chunk``, and put what it does not have of ``part`` back to the other parts."""
    if chunk.asked < len(part):
        parts.appendleft(part[chunk.asked :])
    return chunk


def _result(pool: Executor, future: Future[Chunk], part: Sequence[bytes], way: Way) -> Chunk:
    """Return what ``future`` read.  A part that a cluster could not read is read again."""
    for _ in range(_AGAIN if way.executor is not None else 0):
        try:
            return future.result()
        except Exception as err:  # noqa: BLE001  # a worker that dies ends its work in many ways
            logger.warning("%s read again: %s", numbered(len(part), "file"), err or type(err).__name__)
            future = pool.submit(read_chunk, part, way.remote)
    return future.result()


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Be the only process that writes the catalogue at ``path`` inside the block.

    Whoever may write the catalogue may lock it, whatever the umask was.  Raises ``InUseError``, ``OSError``.
    """
    fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        own, write = os.fstat(fd), os.stat(path).st_mode & 0o222
        if own.st_uid == os.geteuid() and stat.S_IMODE(own.st_mode) != (write | write << 1):
            os.fchmod(fd, write | write << 1)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            raise InUseError("is being written by another process", path=path) from err
        yield
    finally:
        os.close(fd)


# -- a dask cluster: its workers need asdffs, and must see the same files under the same names --

#: How often a chunk is read again after its worker died or raised an error.
_RETRIES: Final = 3
#: Seconds within which the scheduler must answer.
_PATIENCE: Final = 10


@contextlib.contextmanager
def cluster_way(address: str, remote: RemoteOptions | None) -> Iterator[Way]:
    """Connect to the dask scheduler at ``address``, such as ``tcp://host:8786``; yield how to read files there.

    A chunk whose worker dies is read by another one.  Raises ``NotSupportedError`` if distributed is not installed,
    ``RemoteError`` if the scheduler does not answer or has no workers.
    """
    if importlib.util.find_spec("distributed") is None:
        raise NotSupportedError("--dask needs distributed, which is not installed: pip install 'asdffs[cluster]'")
    client = _client(address)
    with client:
        threads = sum(client.nthreads().values())
        if not threads:
            raise RemoteError("the dask scheduler has no workers", path=address)
        with _failures(address):
            yield Way(threads, remote, functools.partial(client.get_executor, pure=False, retries=_RETRIES))


def _client(address: str) -> Any:
    import distributed

    connect: Any = distributed.Client
    try:
        return connect(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as err:
        raise RemoteError(f"the dask scheduler does not answer: {err}", path=address) from err


@contextlib.contextmanager
def _failures(address: str) -> Iterator[None]:
    """Turn what a cluster fails with into ``RemoteError``."""
    from distributed import CancelledError, KilledWorker

    again = "start the index again, it goes on"
    try:
        yield
    except (KilledWorker, CancelledError) as err:
        raise RemoteError(f"the workers died while they read files ({err}); {again}", path=address) from err
    except ImportError as err:
        raise RemoteError(f"the workers cannot read files ({err}); install asdffs there", path=address) from err


# -- chunks of which many places are not in use any more --

#: A chunk is packed with others if at most this part of ``FILES`` is in use.
_HALF: Final = 0.5


def compact(catalog: WritableCatalog) -> int:
    """Join chunks that are at most half full, as many as fit into one; return how many were joined.

    One that is left over is packed by itself if at most half of its places are in use.  Each join is one transaction.
    """
    few = [one for one in catalog.use_of_chunks() if one[2] <= FILES * _HALF]
    groups: list[list[int]] = []
    count, heavy = FILES, 0
    for chunk, _, used, weight in few:
        if count + used > FILES or heavy + weight > WEIGHT:
            groups.append([])
            count = heavy = 0
        groups[-1].append(chunk)
        count += used
        heavy += weight
    sparse = {chunk for chunk, places, used, _ in few if used <= places * _HALF}
    wanted = [group for group in groups if len(group) > 1 or sparse.issuperset(group)]
    for group in wanted:
        catalog.join(group)
    catalog.forget_paths()
    return sum(map(len, wanted))
