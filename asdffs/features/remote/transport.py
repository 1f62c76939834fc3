"""What a transport of a remote file does, and what its requests may end with.

A transport makes one request at a time and keeps nothing: ``fetching`` asks again and stores.  ``web_transport`` asks
web servers, ``store_transport`` object stores.
"""

from __future__ import annotations

import enum
import time
from typing import Final, NamedTuple, Protocol

NO_ANSWER: Final = "the server does not answer"
NOT_REACHED: Final = "the server cannot be reached"
CUT: Final = "the connection ended before all bytes were sent"
OTHER_BYTES: Final = "the server sends other bytes than it was asked for"
NO_PARTS: Final = "the server cannot send parts of the file"
_BUSY: Final = (408, 425, 429, 500, 502, 503, 504)
#: A date of a version is new for so many seconds.
_NEW: Final = 60.0
#: Seconds before the first repetition of a request, and the longest time between two.
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 5.0
#: Seconds that one request may take without a byte of an answer; then it is made again.
ONE_REQUEST: Final = 30.0
#: Seconds that the last repetition may take, however little time is left.
_LAST_REQUEST: Final = 1.0
#: What a refusal means, by status.
_MEANINGS: Final = {
    400: "the server does not accept the request (400)",
    401: "the server asks for credentials (401)",
    403: "access is denied (403); the credentials may lack the right, or the URL may have expired",
    404: "does not exist (404)",
    410: "does not exist any more (410)",
    416: "the server has fewer bytes than it said (416)",
}


class Validator(NamedTuple):
    """What tells one version of a remote file from another.

    ``size``: bytes; ``tag``: the ETag, with its quotes; ``modified``: seconds since 1970.  None if not stated.
    """

    size: int
    tag: str | None
    modified: float | None

    def is_lasting(self, now: float) -> bool:
        """Return whether another version would have another validator, so that bytes can be kept for later runs.

        ``now``: seconds since 1970.  Dates have whole seconds, so a new date says little.
        """
        return self.tag is not None or (self.modified is not None and now - self.modified > _NEW)

    @property
    def is_strong(self) -> bool:
        """Whether equal tags mean equal bytes (RFC 9110, 8.8.1)."""
        return self.tag is not None and not self.tag.startswith("W/")


class Fetched(NamedTuple):
    """An answer: ``content`` are the bytes of the file from ``start`` on."""

    start: int
    content: memoryview
    validator: Validator


class Head(NamedTuple):
    """The answer to the first request.

    ``ranges``: whether the server sends parts of the file.  If not, ``fetched`` may have no bytes.
    ``sized``: whether the server tells the size; if not, ``fetched.validator.size`` is 0.
    """

    fetched: Fetched
    ranges: bool = True
    sized: bool = True


class Trouble(enum.Enum):
    """What kind of failure a request ended with."""

    REFUSED = "refused"  # again would be refused again
    BUSY = "busy"  # may work later
    CHANGED = "changed"  # another version is there now
    NO_RANGES = "no ranges"  # the server sends only whole files


class RequestError(Exception):
    """A request failed.  ``wait``: seconds after which the server wants to be asked again; None if it did not say."""

    def __init__(
        self, trouble: Trouble, sentence: str, *, wait: float | None = None, status: int | None = None
    ) -> None:
        super().__init__(sentence)
        self.trouble = trouble
        self.sentence = sentence
        self.wait = wait
        self.status = status

    @property
    def is_silence(self) -> bool:
        """Whether no byte of an answer came."""
        return self.sentence in (NO_ANSWER, NOT_REACHED)


class Transport(Protocol):
    """Requests of one remote file.  Several threads may use it."""

    def get(self, start: int, stop: int, known: Validator | None) -> Fetched:
        """Return the bytes from ``start`` to ``stop``, fewer at the end of the file.  Raises ``RequestError``.

        ``known``: the version that is wanted; the answer may still be of another one.
        """


class Patience:
    """When a request that failed is made again: later and later, until ``seconds`` are over."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._pause = _FIRST_PAUSE

    def for_one(self) -> float:
        """Return the seconds that the next request may take."""
        return min(ONE_REQUEST, max(_LAST_REQUEST, self._deadline - time.monotonic()))

    def pause_after(self, error: RequestError) -> float | None:
        """Return the seconds until the request is made again; None if it is not."""
        wait = self._pause if error.wait is None else error.wait
        if error.trouble is not Trouble.BUSY or time.monotonic() + wait > self._deadline:
            return None
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return wait


def refusal_of(status: int, wait: float | None = None) -> RequestError:
    """Return what an answer with the HTTP status ``status`` means.  ``wait``: as of ``RequestError``."""
    if status == 412:
        return RequestError(Trouble.CHANGED, "the file was changed on the server", status=status)
    sentence = _MEANINGS.get(status, f"the server answers with status {status}")
    return RequestError(Trouble.BUSY if status in _BUSY else Trouble.REFUSED, sentence, wait=wait, status=status)
