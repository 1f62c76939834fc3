"""The storage protocol on a remote file: reads come from the cache, and what is missing there is fetched.

Everything that would change the file raises ``OSError`` (EROFS).  Reads release the main lock while they wait.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import itertools
import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from asdffs.errors import Remedy, RemoteError
from asdffs.features.remote.cache import PAGE, CacheFile, Trimmer
from asdffs.features.remote.fetching import Counters, Fetcher
from asdffs.features.remote.object_stores import identity_of
from asdffs.features.remote.transport import (
    ONE_REQUEST,
    Head,
    RequestError,
    Transport,
    Validator,
    error_of,
    retried,
)
from asdffs.features.remote.web import WebTransport
from asdffs.scheduling import Scheduler
from asdffs.storage.backend import Access, Extent, RemoteFile, Signature, read_bytes
from asdffs.storage.urls import SCHEMES, RemoteOptions, Url, parse_url

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Bytes of the first request, which brings size, version and most trees.
_HEAD: Final = 1 << 16
_UNIT: Final = 4096
#: Errors if the cache cannot hold a file as large as the server says that it is.
_TOO_LARGE: Final = (errno.EFBIG, errno.ENOMEM)

#: It belongs to the process, as the cache belongs to the user.
_TRIMMER: Final = Trimmer()


class RemoteBackend(RemoteFile):
    """A remote file that is open.  See ``ReadBackend``, ``RemoteFile``.

    ``shown``: its URL without secrets; ``location``: all of it; ``fetcher`` and ``cache``: of this version of the
    file; ``counters``: of its requests.
    """

    def __init__(
        self,
        url: Url,
        validator: Validator,
        cache: CacheFile,
        fetcher: Fetcher | None,
        scheduler: Scheduler,
        counters: Counters,
        identity: str,
    ) -> None:
        """``fetcher`` is None if the whole file is in the cache.  ``counters``: what the requests were so far.

        ``identity``: as of ``identity_of``.
        """
        self.counters = counters
        self.name = url.name
        self.shown = url.shown
        self.location = url.text
        self.validator = validator
        self._cache = cache
        self._fetcher = fetcher
        self._scheduler = scheduler
        self._whole = cache.has(0, validator.size)
        mark = hashlib.sha256(repr((identity, validator)).encode()).digest()
        stamp = int((validator.modified or 0) * 1_000_000_000)
        self._signature = Signature(
            0,
            int.from_bytes(mark[:7], "big"),
            validator.size,
            stamp,
            stamp,
            Access(0o444, os.geteuid(), os.getegid()),
        )

    def size(self) -> int:
        """See ``ReadBackend``."""
        return self._signature.size

    def requests(self) -> dict[str, Any]:
        """See ``RemoteFile``."""
        whole = self._cache.has(0, self.validator.size)
        return {**self.counters.facts(), "cached": self._cache.held, "whole": whole}

    def read_at(self, offset: int, length: int) -> bytes:
        """See ``ReadBackend``.  Raises ``RemoteError``, ``StaleFileError``, ``AbandonedError``."""
        return read_bytes(self.extent(offset, length))

    def extent(self, offset: int, length: int) -> bytes | Extent:
        """Return the place of the bytes in the cache, once they are there.  Raises as ``read_at``."""
        length = max(0, min(length, self.validator.size - offset))
        if not length:
            return b""
        self._bring(offset, offset + length)
        return Extent(self._cache.fd, self._cache.base + offset, length)

    def fetch_ahead(self, parts: Sequence[tuple[int, int]]) -> None:
        """See ``RemoteFile``."""
        if self._fetcher is not None:
            for start, stop in parts:
                self._fetcher.fetch_ahead(start, min(stop, self.validator.size))

    def signature(self) -> Signature:
        """See ``ReadBackend``: made of URL and version."""
        return self._signature

    def unit(self) -> int:
        """See ``ReadBackend``."""
        return _UNIT

    def close(self) -> None:
        """Close the cache.  Requests that are under way end by themselves, in threads of their own."""
        if self._fetcher is not None:
            self._fetcher.close()
        self._cache.close()

    def _bring(self, start: int, stop: int) -> None:
        if self._whole:
            self.counters.hits += 1
        elif self._cache.has(start, stop):
            if self._fetcher is not None:
                self._fetcher.note_hit(start, stop)
        elif self._fetcher is None:
            raise RemoteError("the cache lost bytes of the file", path=self.shown)
        else:
            with self._scheduler.waiting() if self._scheduler.held else contextlib.nullcontext():
                self._fetcher.ensure(start, stop, lambda: self._scheduler.wanted and not self._scheduler.stopping)


class RemoteFolder:
    """The place of one remote file, as a ``ReadFolder``.  ``schemes``: of its URLs."""

    schemes = SCHEMES

    def __init__(self, text: str, options: RemoteOptions, scheduler: Scheduler) -> None:
        """``text``: the URL.  Raises ``UsageError``."""
        self._url = parse_url(text)
        self._options = options
        self._scheduler = scheduler
        self._open: RemoteBackend | None = None

    @property
    def name(self) -> str:
        """The name of the file."""
        return self._url.name

    def path(self, name: str) -> str:
        """Return the URL, without its secrets, for messages."""
        return self._url.shown

    def whereabouts(self) -> str:
        """Return the URL of the file, which has no directory."""
        return self._url.shown

    def open(self, name: str, *, writable: bool) -> RemoteBackend:
        """Open the file: one request for its head, unless the cache knows it, and one for its tail.

        Raises ``MissingFileError``, ``RemoteError``, ``NotSupportedError``, ``OSError``.
        """
        if writable:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        self._open = _opened(self._url, self._options, self._scheduler)
        return self._open

    def signature(self, name: str) -> Signature:
        """Return the signature of the version that is open: a remote file is not looked at again.

        Raises ``FileNotFoundError`` for other names.
        """
        if self._open is None or name != self._url.name:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self._open.signature()


def _opened(url: Url, options: RemoteOptions, scheduler: Scheduler) -> RemoteBackend:
    """Open a remote file.  Raises as ``RemoteFolder.open``."""
    transport, head = _patiently(functools.partial(_first_request, url, options), url, options)
    counters = Counters(requests=1, received=len(head.fetched.content))
    validator = head.fetched.validator
    lasting = head.sized and validator.is_lasting(time.time())
    if not head.sized:
        validator = validator._replace(size=options.whole_max)  # until the end of the download tells
    identity = identity_of(url, options)
    cache = _cache(identity, url, validator, kept=options.cache and lasting)
    try:
        stored = functools.partial(_TRIMMER.note, most=options.cache_max)
        cache.store(0, head.fetched.content)
        stored(len(head.fetched.content))
        fetcher = None
        if head.ranges:
            fetcher = Fetcher(
                url.shown, transport, cache, validator, timeout=options.timeout, counters=counters, stored=stored
            )
        elif not cache.has(0, validator.size):
            assert isinstance(transport, WebTransport)
            validator = _download(url, options, transport, validator, cache, counters, sized=head.sized)
        return RemoteBackend(url, validator, cache, fetcher, scheduler, counters, identity)
    except BaseException:
        cache.close()
        raise


def _first_request(url: Url, options: RemoteOptions, seconds: float) -> tuple[Transport, Head]:
    """Return the head of the file, and the transport for the rest.  Raises ``RequestError``, ``AsdffsError``."""
    longest = min(options.timeout, ONE_REQUEST)
    if url.is_web:
        web = WebTransport(url, longest, redirects=options.redirects)
        return web, web.head(_HEAD, seconds)
    from asdffs.features.remote.object_stores import StoreTransport  # obstore is slow to import

    store = StoreTransport(url, options, longest)
    return store, Head(store.first(0, _HEAD))  # some servers send fewer bytes than they are asked for


def _cache(identity: str, url: Url, validator: Validator, *, kept: bool) -> CacheFile:
    """Open the cache of a file.  Raises ``RemoteError`` if it cannot hold a file as large, ``OSError``."""
    try:
        return CacheFile.open(identity, url.shown, validator, kept=kept)
    except OSError as err:
        if err.errno not in _TOO_LARGE:
            raise
        sentence = f"has {validator.size} bytes, as the server says, which the cache cannot hold"
        raise RemoteError(sentence, path=url.shown) from err


def _download(
    url: Url,
    options: RemoteOptions,
    transport: WebTransport,
    validator: Validator,
    cache: CacheFile,
    counters: Counters,
    *,
    sized: bool,
) -> Validator:
    """Download the whole file into the cache, from a server that cannot send parts; return its version.

    ``sized``: whether the server told the size; if not, the end of its answer tells.  Raises ``RemoteError``.
    """
    if validator.size > options.whole_max:
        sentence = f"the server cannot send parts of the file, and it has {validator.size} bytes, so the file is not"
        raise RemoteError(f"{sentence} downloaded as a whole", path=url.shown, remedy=Remedy.WHOLE_MAX)
    counters.requests += 1

    def bring(seconds: float) -> Validator:
        writer = _Writer(cache, options.downloaded if sized else None)
        found = transport.whole(writer.write, validator.size)
        writer.end()
        return found

    found = _patiently(bring, url, options)
    counters.received += found.size
    if not found.is_same(validator if sized else validator._replace(size=found.size)):
        raise RemoteError("the file was changed on the server while it was downloaded", path=url.shown)
    return found


class _Writer:
    """Writes bytes that come in order into a cache."""

    def __init__(self, cache: CacheFile, downloaded: Callable[[int, int], None] | None) -> None:
        self._cache = cache
        self._downloaded = downloaded
        self._rest = b""
        self._place = 0

    def write(self, piece: memoryview) -> None:
        """Write ``piece``; what is less than a page waits for the next one."""
        whole = self._rest + bytes(piece)
        full = len(whole) // PAGE * PAGE
        self._cache.store(self._place, memoryview(whole)[:full])
        self._place, self._rest = self._place + full, whole[full:]
        if self._downloaded is not None:
            self._downloaded(self._place + len(self._rest), self._cache.size)

    def end(self) -> None:
        """Write what waits, and make the cache as long as the file is."""
        self._cache.shorten(self._place + len(self._rest))
        self._cache.store(self._place, memoryview(self._rest))


def _patiently(request: Callable[[float], T], url: Url, options: RemoteOptions) -> T:
    """Return ``request(seconds)``, asked again while the server is busy, until the time is over.

    Raises ``MissingFileError``, ``RemoteError``.
    """
    level = itertools.chain((logging.WARNING,), itertools.repeat(logging.INFO))  # it is told once

    def retry(err: RequestError, wait: float) -> None:
        sentence = "%s: %s; it is asked again for %g seconds"
        logger.log(next(level), sentence, url.shown, err.sentence, options.timeout)

    try:
        return retried(request, options.timeout, retry)
    except RequestError as err:
        raise error_of(err, url.shown) from err


PLUGIN = RemoteFolder
