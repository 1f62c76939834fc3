"""What a transport of a remote file does, what its requests may end with, and when they are made again.

A transport makes one request at a time and keeps nothing: ``fetching`` asks again and stores.  ``web`` asks web
servers, ``object_stores`` object stores.  Every answer passes ``checked`` before its bytes are used.
"""

from __future__ import annotations

import enum
import re
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeVar

from asdffs.errors import AsdffsError, MissingFileError, RemoteError

T = TypeVar("T")
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
#: The largest size of a remote file that is believed, in bytes; object stores allow 50 TB.
LARGEST: Final = 1 << 46
#: Characters of the longest ETag that is believed.
_LONGEST_TAG: Final = 1024
_TAG: Final = re.compile(r"[\x20-\x7e\x80-\xff]+")
TOO_LONG: Final = "the server states a length that is not a number, or above 64 TiB"
_GONE: Final = (404, 410)
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

    def is_same(self, other: Validator) -> bool:
        """Return whether two answers are of the same version, as far as they tell."""
        if self.size != other.size:
            return False
        if self.tag is not None and other.tag is not None:
            return self.tag == other.tag
        return self.modified == other.modified or None in (self.modified, other.modified)

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


class Transport(Protocol):
    """Requests of one remote file.  Several threads may use it."""

    def get(self, start: int, stop: int, known: Validator | None) -> Fetched:
        """Return the bytes from ``start`` to ``stop``, fewer at the end of the file.  Raises ``RequestError``.

        ``known``: the version that is wanted; the answer may still be of another one.
        """


def retried(request: Callable[[float], T], seconds: float, retry: Callable[[RequestError, float], None]) -> T:
    """Return ``request(most)``, made again later and later while the server is busy, until ``seconds`` are over.

    ``most``: the seconds that the request may take.  ``retry(error, wait)`` is called before each pause of ``wait``
    seconds.  Raises the last ``RequestError``.
    """
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while True:
        try:
            return request(min(ONE_REQUEST, max(_LAST_REQUEST, deadline - time.monotonic())))
        except RequestError as err:
            wait = pause if err.wait is None else err.wait
            if err.trouble is not Trouble.BUSY or time.monotonic() + wait > deadline:
                raise
            retry(err, wait)
        pause = min(2 * pause, _LONGEST_PAUSE)
        time.sleep(wait)


def checked(fetched: Fetched, start: int, stop: int) -> Fetched:
    """Return ``fetched`` if it has the bytes from ``start`` to ``stop``, fewer at the end of the file.

    Raises ``RequestError`` otherwise: every answer passes here before its bytes are used.
    """
    if not 0 <= fetched.validator.size <= LARGEST:
        raise RequestError(Trouble.REFUSED, TOO_LONG)
    if fetched.start != start or len(fetched.content) != max(0, min(stop, fetched.validator.size) - start):
        raise RequestError(Trouble.BUSY, OTHER_BYTES)
    return fetched


def tag_of(text: str | None) -> str | None:
    """Return an ETag; None without one that can be sent back: at most 1,024 characters, none of control."""
    return text if text and len(text) <= _LONGEST_TAG and _TAG.fullmatch(text) else None


def error_of(err: RequestError, shown: str, what: str = "") -> AsdffsError:
    """Return the error for the user of the URL ``shown``; ``what`` failed, such as "x cannot be removed: "."""
    kind = MissingFileError if err.status in _GONE else RemoteError
    return kind(f"{what}{err.sentence}", path=shown)


def refusal_of(status: int, wait: float | None = None) -> RequestError:
    """Return what an answer with the HTTP status ``status`` means.  ``wait``: as of ``RequestError``."""
    if status == 412:
        return RequestError(Trouble.CHANGED, "the file was changed on the server", status=status)
    sentence = _MEANINGS.get(status, f"the server answers with status {status}")
    return RequestError(Trouble.BUSY if status in _BUSY else Trouble.REFUSED, sentence, wait=wait, status=status)
