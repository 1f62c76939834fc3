"""A prefix of an object store: lists, writes and removes the objects below it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from asdffs.errors import MissingFileError, RemoteError, UsageError
from asdffs.features.remote.store_transport import failures, validator_of
from asdffs.features.remote.stores import open_store
from asdffs.features.remote.transport import NO_ANSWER, RequestError, Trouble, Validator
from asdffs.storage.remote_options import RemoteOptions
from asdffs.storage.urls import Url, parse_url

#: A bucket without a path.
_BUCKET: Final = re.compile(r"(?:s3|gs|az)://[^/?#]+/*\Z", re.IGNORECASE)
#: The most objects of a prefix that are listed.
MOST_OBJECTS: Final = 1 << 22
#: Seconds that one request may take, and to wait for the next objects of a listing.
_SECONDS: Final = 60.0
_GONE: Final = (404, 410)


def prefix_of(text: str) -> str:
    """Return the URL of a bucket or of a prefix in it, without a slash at its end.

    Raises ``UsageError`` for a web server, which lists no files.
    """
    if _BUCKET.match(text):
        return text.rstrip("/")
    url = parse_url(text)
    if url.is_web:
        raise UsageError("is on a web server, which lists no files; only object stores do", path=url.shown)
    return url.shown.rstrip("/")


def _in_time(pages: Any, seconds: float) -> Iterator[Any]:
    """Yield the objects of a listing, some at a time.  Raises ``RequestError`` if none come for ``seconds``.

    A server may send pages without objects for ever, each of them in time.
    """
    import asyncio  # slow to import, and only a listing has no other end

    async def following() -> Any:
        return await asyncio.wait_for(anext(pages, None), seconds)

    loop = asyncio.new_event_loop()
    try:
        while (found := loop.run_until_complete(following())) is not None:
            yield found
    except TimeoutError as err:
        raise RequestError(Trouble.BUSY, NO_ANSWER) from err
    finally:
        loop.close()


class Prefix:
    """The objects below the URL ``text``.  ``shown``: the URL for messages.

    The methods raise ``RemoteError``, ``MissingFileError``.

    Raises as ``prefix_of`` and ``open_store``.
    """

    def __init__(self, text: str, options: RemoteOptions) -> None:
        self.shown = prefix_of(text)
        scheme, _, rest = self.shown.partition("://")
        bucket, _, path = rest.partition("/")
        url = Url(scheme.lower(), self.shown, self.shown, bucket, f"/{path}")
        self._seconds = min(options.timeout, _SECONDS)
        self._store, self._path = open_store(url, options, self._seconds)

    def objects(self) -> Iterator[tuple[str, Validator]]:
        """Yield the name of each object, relative to the prefix, and its version."""
        import obstore

        start, count = f"{self._path}/" if self._path else "", 0
        with self._failures("the files cannot be listed"):
            for page in _in_time(obstore.list(self._store, prefix=self._path or None), self._seconds):
                if (count := count + len(page)) > MOST_OBJECTS:
                    raise RequestError(Trouble.REFUSED, f"there are more than {MOST_OBJECTS}; give a longer prefix")
                for found in page:
                    yield str(found["path"]).removeprefix(start), validator_of(found)

    def url_of(self, name: str) -> str:
        """Return the URL of an object."""
        return f"{self.shown}/{quote(name)}"

    def put(self, name: str, content: bytes) -> None:
        """Store an object."""
        import obstore

        with self._failures(f"{name} cannot be written"):
            obstore.put(self._store, self._key(name), content)

    def remove(self, name: str) -> None:
        """Remove an object."""
        import obstore

        with self._failures(f"{name} cannot be removed"):
            obstore.delete(self._store, self._key(name))

    def _key(self, name: str) -> str:
        return f"{self._path}/{name}".lstrip("/")

    @contextlib.contextmanager
    def _failures(self, what: str) -> Iterator[None]:
        try:
            with failures():
                yield
        except RequestError as err:
            kind: Any = MissingFileError if err.status in _GONE else RemoteError
            raise kind(f"{what}: {err.sentence}", path=self.shown) from err
