"""One request to the server of a remote file, by obstore; and the errors that it may end with.

A ``Transport`` makes no second try and keeps nothing: ``fetching`` does.  It may be used by several threads.  obstore
does not survive a fork, so it is imported, and the transport made, in the process that uses it.
"""

from __future__ import annotations

import datetime
import enum
import re
from typing import Any, Final, NamedTuple, Protocol

from asdffs.storage.remote.options import RemoteOptions
from asdffs.storage.remote.stores import check_installed, open_store
from asdffs.storage.remote.urls import Url

NO_ANSWER: Final = "the server does not answer"
NOT_REACHED: Final = "the server cannot be reached"
_STATUS: Final = re.compile(r"status code: (\d{3})")
_BUSY: Final = (408, 425, 429, 500, 502, 503, 504)
#: A date of a version is new for so many seconds.
_NEW: Final = 60.0
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


def checked(fetched: Fetched, start: int, stop: int) -> Fetched:
    """Return ``fetched`` if it has the bytes from ``start`` to ``stop``, fewer at the end of the file.

    Raises ``RequestError`` otherwise: every answer passes here before its bytes are used.
    """
    if fetched.start != start or len(fetched.content) != min(stop, fetched.validator.size) - start:
        raise RequestError(Trouble.BUSY, "the server sends other bytes than it was asked for")
    return fetched


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
    """Requests of one remote file."""

    def get(self, start: int, stop: int, known: Validator | None) -> Fetched:
        """Return the bytes from ``start`` to ``stop``, fewer at the end of the file.  Raises ``RequestError``.

        ``known``: the version that is wanted; the answer may still be of another one.
        """

    def get_again(self, start: int, stop: int, known: Validator | None) -> Fetched:
        """Do as ``get``, after it failed.  May take longer, and knows when the server wants to be asked again."""

    def get_whole(self, write: Any) -> Validator:
        """Call ``write(bytes)`` for all bytes in order; return the version."""


class StoreTransport:
    """A ``Transport`` by obstore.  ``url``: the file; ``seconds``: the longest time that one request may take.

    ``login``: the header with user and password for a web server, or None.

    Raises ``NotSupportedError`` if obstore is not installed, ``RemoteError`` if the settings do not fit.
    """

    def __init__(self, url: Url, options: RemoteOptions, seconds: float, *, login: str | None = None) -> None:
        check_installed(url)
        import obstore

        self._library: Any = obstore
        self._store, self._path = open_store(url, options, seconds, login=login)

    def get(self, start: int, stop: int, known: Validator | None) -> Fetched:
        """See ``Transport``."""
        options: dict[str, Any] = {"range": (start, stop)}
        if known is not None and known.is_strong:
            options["if_match"] = known.tag
        elif known is not None and known.modified is not None:
            options["if_unmodified_since"] = datetime.datetime.fromtimestamp(known.modified, datetime.UTC)
        return self._fetch(options)

    #: obstore does not tell the headers of a refusal, so this knows no more.
    get_again = get

    def get_whole(self, write: Any) -> Validator:
        """See ``Transport``."""
        try:
            found = self._library.get(self._store, self._path)
            pieces = iter(found.stream(min_chunk_size=1 << 20))
        except Exception as err:  # as in _fetch
            raise as_request_error(err) from err
        while (piece := _next(pieces)) is not None:
            write(memoryview(piece))
        return validator_of(found.meta)

    def _fetch(self, options: dict[str, Any]) -> Fetched:
        try:
            found = self._library.get(self._store, self._path, options=options)
            return Fetched(found.range[0], memoryview(found.bytes()), validator_of(found.meta))
        except Exception as err:  # obstore raises classes of its own; all become RequestError
            raise as_request_error(err) from err


def _next(pieces: Any) -> Any:
    """Return the next piece of a download; None at its end.  Raises ``RequestError``."""
    try:
        return next(pieces, None)
    except Exception as err:
        raise as_request_error(err) from err


def validator_of(meta: Any) -> Validator:
    """Return the version that obstore tells of an object."""
    modified = meta.get("last_modified")
    stamp = modified.timestamp() if modified is not None and modified.year > 1970 else None
    return Validator(int(meta["size"]), meta.get("e_tag") or None, stamp)


def as_request_error(error: Exception) -> RequestError:
    """Return what an error of obstore means.  Its own text has the whole URL, so it is never shown."""
    kind, text = type(error).__name__, str(error)
    found = _STATUS.search(text)
    status = int(found.group(1)) if found else None
    if kind == "NotSupportedError":
        return RequestError(Trouble.NO_RANGES, "the server cannot send parts of the file")
    if kind in ("PreconditionError", "NotModifiedError"):
        return RequestError(Trouble.CHANGED, "the file was changed on the server", status=412)
    if "kind: Timeout" in text:
        return RequestError(Trouble.BUSY, NO_ANSWER)
    if status is not None:
        return refusal_of(status)
    if "UnexpectedRange" in text or "ContentRange" in text:
        return RequestError(Trouble.BUSY, "the server sends other bytes than it was asked for")
    if "IncompleteBody" in text or "kind: Body" in text or "Interrupted" in text:
        return RequestError(Trouble.BUSY, "the connection ended before all bytes were sent")
    if "kind: Connect" in text or "dns error" in text:
        return RequestError(Trouble.BUSY, NOT_REACHED)
    return RequestError(Trouble.BUSY, f"the request failed ({kind})")


def refusal_of(status: int, wait: float | None = None) -> RequestError:
    """Return what an answer with the HTTP status ``status`` means.  ``wait``: as of ``RequestError``."""
    if status == 412:
        return RequestError(Trouble.CHANGED, "the file was changed on the server", status=status)
    sentence = _MEANINGS.get(status, f"the server answers with status {status}")
    return RequestError(Trouble.BUSY if status in _BUSY else Trouble.REFUSED, sentence, wait=wait, status=status)
