"""Requests of an object in an object store, by obstore; and what its errors mean.

obstore does not survive a fork, so it is imported, and the transport made, in the process that uses it.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Iterator
from typing import Any, Final

from asdffs.features.remote.answers import LARGEST, checked, tag_of
from asdffs.features.remote.stores import check_installed, open_store
from asdffs.features.remote.transport import (
    CUT,
    NO_ANSWER,
    NO_PARTS,
    NOT_REACHED,
    OTHER_BYTES,
    Fetched,
    RequestError,
    Trouble,
    Validator,
    refusal_of,
)
from asdffs.storage.remote_options import RemoteOptions
from asdffs.storage.urls import Url

_STATUS: Final = re.compile(r"status code: (\d{3})")
#: Bytes of an answer that obstore hands over at a time.
_PIECE: Final = 1 << 18


class StoreTransport:
    """A ``Transport`` by obstore.  ``url``: the file; ``seconds``: the longest time that one request may take.

    Raises ``NotSupportedError`` if obstore is not installed, ``RemoteError`` if the settings do not fit.
    """

    def __init__(self, url: Url, options: RemoteOptions, seconds: float) -> None:
        check_installed(url)
        import obstore

        self._library: Any = obstore
        self._store, self._path = open_store(url, options, seconds)

    def get(self, start: int, stop: int, known: Validator | None) -> Fetched:
        """See ``Transport``."""
        fetched = self.first(start, stop, known)
        return checked(fetched, start, stop)

    def first(self, start: int, stop: int, known: Validator | None = None) -> Fetched:
        """Do as ``get``, but return fewer bytes if the server sends fewer."""
        options: dict[str, Any] = {"range": (start, stop)}
        if known is not None and known.is_strong:
            options["if_match"] = known.tag
        elif known is not None and known.modified is not None:
            options["if_unmodified_since"] = datetime.datetime.fromtimestamp(known.modified, datetime.UTC)
        with failures():
            found = self._library.get(self._store, self._path, options=options)
            content, validator = bytearray(), validator_of(found.meta)
            for piece in found.stream(min_chunk_size=_PIECE):
                content += memoryview(piece)
                if len(content) > stop - start:
                    raise RequestError(Trouble.BUSY, OTHER_BYTES)
            return checked(Fetched(found.range[0], memoryview(content), validator), start, start + len(content))


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Turn what obstore raises in the block into ``RequestError``.

    It has a class of its own for each kind of failure.  A panic of the library is no ``Exception`` (pyo3).
    """
    try:
        yield
    except RequestError:
        raise
    except BaseException as err:
        if not isinstance(err, Exception) and type(err).__name__ != "PanicException":
            raise
        raise as_request_error(err) from err


def validator_of(meta: Any) -> Validator:
    """Return the version that obstore tells of an object."""
    modified = meta.get("last_modified")
    stamp = modified.timestamp() if modified is not None and 1970 < modified.year < 2262 else None
    size = int(meta["size"])
    return Validator(min(size, LARGEST + 1), tag_of(meta.get("e_tag")), stamp)


def as_request_error(error: BaseException) -> RequestError:
    """Return what an error of obstore means.  Its own text has the whole URL, so it is never shown."""
    kind, text = type(error).__name__, str(error)
    found = _STATUS.search(text)
    status = int(found.group(1)) if found else None
    if kind == "NotSupportedError":
        return RequestError(Trouble.NO_RANGES, NO_PARTS)
    if kind in ("PreconditionError", "NotModifiedError"):
        return RequestError(Trouble.CHANGED, "the file was changed on the server", status=412)
    if "kind: Timeout" in text:
        return RequestError(Trouble.BUSY, NO_ANSWER)
    if status is not None:
        return refusal_of(status)
    if "UnexpectedRange" in text or "ContentRange" in text:
        return RequestError(Trouble.BUSY, OTHER_BYTES)
    if "IncompleteBody" in text or "kind: Body" in text or "Interrupted" in text:
        return RequestError(Trouble.BUSY, CUT)
    if "kind: Connect" in text or "dns error" in text:
        return RequestError(Trouble.BUSY, NOT_REACHED)
    return RequestError(Trouble.BUSY, f"the request failed ({kind})")
