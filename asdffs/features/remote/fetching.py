"""Decides which requests a remote file needs, makes them in threads, and waits for their answers.

* Pages that are in the cache need no request.  Missing runs that lie close together become one request; a long one is
  cut into parts that are fetched at the same time.
* Reads that follow each other are a *stream*: what comes next is fetched before it is asked for.  A short stream,
  which may be a cutout, fetches little ahead.  The window of a longer one doubles with each read, and grows further
  if reads still have to wait.  Other reads fetch what they ask for, in pages.
* A failed request is made again, later and later, until ``timeout`` has passed.
* Every answer is compared with the version that was opened.  A difference is final: nothing is read any more.

Threads: any; the main lock must not be held in ``ensure``, which waits.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from asdffs.errors import AbandonedError, RemoteError, StaleFileError
from asdffs.features.remote.cache import CacheFile
from asdffs.features.remote.transport import (
    NO_ANSWER,
    NOT_REACHED,
    Fetched,
    RequestError,
    Transport,
    Trouble,
    Validator,
    retried,
)

logger = logging.getLogger(__name__)

#: Missing runs with at most so many bytes between them are fetched by one request.
_NEAR: Final = 128 << 10
#: The largest request, in bytes.
_PART: Final = 2 << 20
#: A stream of fewer bytes may be a cutout, such as thirty rows of a detector.
_LONG: Final = 1 << 20
#: A short stream fetches ahead up to so many bytes from its start.
_CUTOUT: Final = 768 << 10
#: The first window of a longer stream, in bytes.
_FIRST_WINDOW: Final = 2 << 20
#: The largest window, and that of a stream whose reader still has to wait: the server is fast, but far away.
_LARGEST_WINDOW: Final = 16 << 20
_WIDEST_WINDOW: Final = 64 << 20
#: A read continues a stream if it begins at most so many bytes before or after its end.
_TOLERANCE: Final = 512 << 10
#: ... and if it has at least one in so many bytes on the way.  The kernel's reads of 128 KiB may come out of order.
_DENSE: Final = 5
_STREAMS: Final = 8
_WORKERS: Final = 32
#: For so many seconds after a server was silent for the whole time, nothing is asked: the kernel tries a failed read
#: again at once, and its program would wait twice as long.
_SILENCE: Final = 0.5
#: Seconds without a request after which the cache is synced.
_IDLE: Final = 5.0
#: Seconds between two looks whether the reader is still wanted.
_LOOK: Final = 0.1

_CHANGED: Final = "the file was changed on the server since it was opened; open or mount it again to read the new one"


@dataclass
class Counters:
    """What the requests of a remote file were.  ``seconds``: the time that all answers took together."""

    requests: int = 0
    received: int = 0
    hits: int = 0
    retries: int = 0
    seconds: float = 0.0
    fetching: int = 0

    def facts(self) -> dict[str, int | float]:
        """Return them as JSON has them; ``latency``: seconds per answer."""
        known = {name: getattr(self, name) for name in ("requests", "received", "hits", "retries", "fetching")}
        return {**known, "latency": round(self.seconds / max(1, self.requests - self.retries), 4)}


@dataclass
class _Job:
    """A request for ``start`` to ``stop``, with its end: ``failure`` or nothing."""

    start: int
    stop: int
    done: threading.Event = field(default_factory=threading.Event)
    failure: Exception | None = None


@dataclass
class _Stream:
    """Reads that follow each other: where they began and end, how far is fetched, and how far ahead to fetch."""

    start: int
    end: int
    fetched: int
    window: int = 0


class Fetcher:
    """Brings pages of one version of a remote file into its cache.

    ``shown``: the URL for messages; ``timeout``: seconds after which a read gives up; ``counters``: go on with
    these; ``stored(count)`` is called when so many bytes were stored, in any thread.
    """

    def __init__(
        self,
        shown: str,
        transport: Transport,
        cache: CacheFile,
        validator: Validator,
        *,
        timeout: float,
        counters: Counters,
        stored: Callable[[int], None],
    ) -> None:
        self.counters = counters
        self._shown = shown
        self._transport = transport
        self._cache = cache
        self._validator = validator
        self._timeout = timeout
        self._stored = stored
        self._lock = threading.Lock()
        self._jobs: list[_Job] = []
        self._streams: list[_Stream] = []
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._workers = 0
        self._unkept = False
        self._last_failure = ""
        self._silent_until = 0.0
        self._closed = False
        self._stale = False

    def ensure(self, start: int, stop: int, wanted: Callable[[], bool]) -> None:
        """Return when all bytes from ``start`` to ``stop`` are in the cache.

        ``wanted()`` returns whether somebody still waits for them; it is asked now and then.

        Raises ``RemoteError`` if the server does not send them in time, ``StaleFileError`` if it has another version,
        ``AbandonedError`` if nobody waits any more, ``OSError`` if the cache cannot be written.
        """
        if self._stale:
            raise StaleFileError(_CHANGED, path=self._shown)
        if time.monotonic() < self._silent_until:
            raise RemoteError(self._last_failure, path=self._shown)
        jobs = self._submit(start, stop)
        deadline = time.monotonic() + self._timeout + _LOOK
        for job in jobs:
            while not job.done.wait(_LOOK):
                if not wanted() or self._closed:
                    raise AbandonedError("the read was abandoned", path=self._shown)
                if time.monotonic() > deadline:
                    raise RemoteError(NO_ANSWER, path=self._shown)
            if job.failure is not None:
                raise job.failure

    def fetch_ahead(self, start: int, stop: int) -> None:
        """Ask for what is missing from ``start`` to ``stop``, and wait for nothing."""
        with self._lock:
            self._queue_missing(start, stop)

    def note_hit(self, start: int, stop: int) -> None:
        """Note that a read found all of its bytes in the cache; its stream goes on."""
        self.counters.hits += 1
        stream = self._stream_at(start)
        if stream is not None:
            with self._lock:
                self._advance(stream, start, stop, _LARGEST_WINDOW)

    def close(self) -> None:
        """End the threads, as soon as their requests have ended.  Waits for nothing."""
        with self._lock:
            self._closed = True
            for _ in range(self._workers):
                self._queue.put(None)

    # -- which requests ---------------------------------------------------

    def _submit(self, start: int, stop: int) -> list[_Job]:
        """Queue requests for what is missing; return those that the bytes from ``start`` to ``stop`` wait for."""
        stream = self._stream_at(start)
        with self._lock:
            if stream is None:
                self._streams = [*self._streams[-_STREAMS + 1 :], _Stream(start, stop, stop)]
            self._queue_missing(start, stop)
            if stream is not None:
                self._advance(stream, start, stop, _WIDEST_WINDOW)
            return [job for job in self._jobs if job.start < stop and job.stop > start]

    def _stream_at(self, start: int) -> _Stream | None:
        near = (one for one in self._streams if one.end - _TOLERANCE <= start <= one.end + _TOLERANCE)
        return next(near, None)

    def _advance(self, stream: _Stream, start: int, stop: int, most: int) -> None:
        """Note a read of ``stream`` from ``start`` to ``stop``, and fetch what probably follows.  The lock is held.

        ``most``: the window grows up to so many bytes.  Small reads far from each other, such as those of a column
        through planes, fetch nothing more.
        """
        if stop <= stream.end:
            return
        if _DENSE * (stop - start) < stop - stream.end:
            stream.start, stream.end, stream.fetched = start, stop, max(stop, stream.fetched)
            return
        stream.end, stream.fetched = stop, max(stream.fetched, stop)
        read = stop - stream.start
        if read < _LONG:
            stream.window = max(0, min(2 * read, _CUTOUT - read))
        elif stream.window < most:
            stream.window = max(_FIRST_WINDOW, 2 * stream.window)
        ahead = min(stop + stream.window, self._cache.size)
        if ahead - stream.fetched >= min(stream.window // 2, _PART) or ahead == self._cache.size > stream.fetched:
            self._queue_missing(stream.fetched, ahead)
            stream.fetched = ahead

    def _queue_missing(self, start: int, stop: int) -> None:
        """Queue requests for the pages from ``start`` to ``stop`` that are neither here nor on their way."""
        for low, high in _merged(self._cache.missing(start, stop)):
            for first, last in self._gaps(low, high):
                for part in range(first, last, _PART):
                    self._add(_Job(part, min(part + _PART, last)))

    def _gaps(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the parts of ``start`` to ``stop`` that no queued request brings."""
        gaps = list[tuple[int, int]]()
        for job in sorted(self._jobs, key=lambda job: job.start):
            if job.stop <= start or job.start >= stop:
                continue
            if job.start > start:
                gaps.append((start, job.start))
            start = max(start, job.stop)
        return [*gaps, (start, stop)] if start < stop else gaps

    def _add(self, job: _Job) -> None:
        self._jobs.append(job)
        self.counters.fetching += job.stop - job.start
        if len(self._jobs) > self._workers < _WORKERS:
            self._workers += 1
            threading.Thread(target=self._work, name="asdffs-fetch", daemon=True).start()
        self._queue.put(job)

    # -- requests ---------------------------------------------------------

    def _work(self) -> None:
        """Make requests until ``close``.  A thread of its own."""
        while (job := self._next()) is not None:
            try:
                if not self._closed:
                    self._fetch(job)
            except Exception as err:  # noqa: BLE001  # it is raised where the reader waits
                job.failure = err
            with self._lock:
                self._jobs.remove(job)
                self.counters.fetching -= job.stop - job.start
            job.done.set()

    def _next(self) -> _Job | None:
        """Return the next request, None at the end.  While there is none, the cache is synced, once."""
        while self._unkept:
            try:
                return self._queue.get(timeout=_IDLE)
            except queue.Empty:
                with self._lock:
                    mine, self._unkept = self._unkept, False
                if mine:
                    with contextlib.suppress(OSError):  # then it counts until the next start of the machine only
                        self._cache.keep()
        return self._queue.get()

    def _fetch(self, job: _Job) -> None:
        """Make the request until it works.  Raises as ``ensure``."""
        try:
            fetched = retried(lambda _: self._request(job), self._timeout, self._note_retry)
        except RequestError as err:
            self._check(err.trouble is not Trouble.CHANGED)
            if err.sentence in (NO_ANSWER, NOT_REACHED):  # no byte of an answer came
                self._last_failure, self._silent_until = err.sentence, time.monotonic() + _SILENCE
            raise RemoteError(err.sentence, path=self._shown) from err
        self._silent_until = 0.0
        self._cache.store(fetched.start, fetched.content)
        self._unkept = True
        self._stored(len(fetched.content))

    def _note_retry(self, err: RequestError, wait: float) -> None:
        """Note that a request is made again.  Raises ``err`` if nobody waits for it any more."""
        if self._closed:
            raise err
        logger.info("%s: %s; asked again in %.1f s", self._shown, err.sentence, wait)
        self.counters.retries += 1

    def _request(self, job: _Job) -> Fetched:
        """Return the answer to one request.  Raises ``RequestError``, ``StaleFileError``."""
        began = time.monotonic()
        self.counters.requests += 1
        fetched = self._transport.get(job.start, job.stop, self._validator)
        self.counters.seconds += time.monotonic() - began
        self.counters.received += len(fetched.content)
        self._check(fetched.validator.is_same(self._validator))
        return fetched

    def _check(self, same: bool) -> None:  # noqa: FBT001
        """Raise ``StaleFileError``, now and for good, unless it is the ``same`` version."""
        if not same:
            self._stale = True
            raise StaleFileError(_CHANGED, path=self._shown)


def _merged(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join runs that lie close together."""
    joined: list[tuple[int, int]] = []
    for start, stop in runs:
        if joined and start - joined[-1][1] <= _NEAR:
            joined[-1] = joined[-1][0], stop
        else:
            joined.append((start, stop))
    return joined
