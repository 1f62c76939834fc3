"""What an answer says about the file and about itself, checked against what was asked.

Everything that a server states passes here before it is used, whichever client made the request:

* A length is a number without a sign, of at most 15 digits; a file has at most ``LARGEST`` bytes.
* A part begins where it was asked to begin, and ends within the file.  ``Content-Length``, if there is one, is the
  length of that part.  ``Content-Range: bytes FIRST-LAST/*`` does not tell the size: for the first answer it is not
  known, and for others it is that of the version that was opened.
* Of an answer that is longer than what was asked for, only what was asked for is read.
* An ETag has at most ``_LONGEST_TAG`` characters and no control characters; a date lies between 1970 and 2262.
  Others count as not stated: they could not be sent back, or kept.

Pure: reads no bytes.
"""

from __future__ import annotations

import re
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

from asdffs.features.remote.transport import CUT, NO_PARTS, OTHER_BYTES, Fetched, RequestError, Trouble, Validator

#: The largest size of a remote file that is believed, in bytes; object stores allow 50 TB.
LARGEST: Final = 1 << 46
#: Characters of the longest ETag that is believed.
_LONGEST_TAG: Final = 1024
#: Times in nanoseconds have 63 bits: until 2262.
_LAST_DATE: Final = (1 << 63) / 1e9
_NUMBER: Final = re.compile(r"[0-9]{1,15}")
_RANGE: Final = re.compile(r"bytes ([0-9]{1,15})-([0-9]{1,15})/([0-9]{1,15}|\*)")
_TAG: Final = re.compile(r"[\x20-\x7e\x80-\xff]+")
_SENTENCE: Final = "the server states a length that is not a number, or above 64 TiB"


class Stated(NamedTuple):
    """What an answer with the bytes ``start`` to ``stop`` says.  ``stop`` and ``size`` are None if it does not.

    ``part``: whether it is an answer to a request for a part.
    """

    start: int
    stop: int | None
    size: int | None
    tag: str | None
    modified: float | None
    part: bool

    def validator(self, known: Validator | None = None) -> Validator:
        """Return the version.  Its size, if it is not stated, is that of ``known``, else 0."""
        size = self.size if self.size is not None else known.size if known is not None else 0
        return Validator(size, self.tag, self.modified)


def stated(status: int, headers: Message, start: int) -> Stated:
    """Return what the answer of a web server to a request for the bytes from ``start`` says.

    ``status``: 200 or 206.  Raises ``RequestError``.
    """
    length = None if "chunked" in headers.get("Transfer-Encoding", "").lower() else _length(headers)
    about = tag_of(headers.get("ETag")), date_of(headers.get("Last-Modified"))
    if status != 206:
        return Stated(0, length, length, *about, part=False)
    found = _RANGE.fullmatch(headers.get("Content-Range", "").strip())
    if found is None:
        raise _other()
    first, stop = int(found[1]), int(found[2]) + 1
    size = None if found[3] == "*" else int(found[3])
    if max(size or 0, stop) > LARGEST:
        raise RequestError(Trouble.REFUSED, _SENTENCE)
    if first != start or not first < stop <= (stop if size is None else size) or length not in (None, stop - first):
        raise _other()
    return Stated(first, stop, size, *about, part=True)


def wanted_of(found: Stated, start: int, stop: int, known: Validator | None) -> int:
    """Return how many bytes of the answer to read: those from ``start`` to ``stop``, or to the end of the file.

    Raises ``RequestError`` if the answer has fewer, or is no part.
    """
    if not found.part or found.stop is None:
        raise RequestError(Trouble.NO_RANGES, NO_PARTS)
    wanted = min(stop, found.validator(known).size)
    if found.stop < wanted:
        raise _other()
    return wanted - start


def checked(fetched: Fetched, start: int, stop: int) -> Fetched:
    """Return ``fetched`` if it has the bytes from ``start`` to ``stop``, fewer at the end of the file.

    Raises ``RequestError`` otherwise: every answer passes here before its bytes are used.
    """
    if not 0 <= fetched.validator.size <= LARGEST:
        raise RequestError(Trouble.REFUSED, _SENTENCE)
    if fetched.start != start or len(fetched.content) != max(0, min(stop, fetched.validator.size) - start):
        raise _other()
    return fetched


def tag_of(text: str | None) -> str | None:
    """Return an ETag, None without one that can be sent back."""
    return text if text and len(text) <= _LONGEST_TAG and _TAG.fullmatch(text) else None


def date_of(text: str | None) -> float | None:
    """Return the seconds since 1970 of a date, None without one that counts."""
    try:
        stamp = parsedate_to_datetime(text or "").timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return stamp if 0 < stamp < _LAST_DATE else None


def seconds_of(text: str | None) -> float | None:
    """Return the seconds of a ``Retry-After`` header; None without one.  A date counts as no statement."""
    stripped = (text or "").strip()
    return float(stripped) if stripped.isdecimal() else None


def check_whole(found: Stated, count: int, most: int, *, ended: bool) -> None:
    """Raise ``RequestError`` unless ``count`` bytes of a whole file are as many as the answer says, at most ``most``.

    ``ended``: whether no more come.
    """
    if found.part:
        raise _other()
    if found.stop is not None and ended and count < found.stop:
        raise RequestError(Trouble.BUSY, CUT)
    if count > (most if found.stop is None else found.stop):
        end = "and does not say how many; allow more by whole_max" if found.stop is None else "as it said"
        raise RequestError(Trouble.REFUSED, f"the server sends more than {found.stop or most} bytes, {end}")


def _length(headers: Message) -> int | None:
    text = headers.get("Content-Length")
    if text is None:
        return None
    found = _NUMBER.fullmatch(text.strip())
    if found is None or int(found[0]) > LARGEST:
        raise RequestError(Trouble.REFUSED, _SENTENCE)
    return int(found[0])


def _other() -> RequestError:
    return RequestError(Trouble.BUSY, OTHER_BYTES)
