"""Object stores, by obstore: requests of an object, the objects below a prefix, and which file a URL is.

obstore does not survive a fork, so it is imported, and a store made, in the process that uses it.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import importlib.util
import os
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, unquote

from asdffs.errors import NotSupportedError, RemoteError, UsageError
from asdffs.features.remote.environment import has_profile, stated_endpoint, stated_region, store_variables
from asdffs.features.remote.transport import (
    CUT,
    LARGEST,
    NO_ANSWER,
    NO_PARTS,
    NOT_REACHED,
    OTHER_BYTES,
    Fetched,
    RequestError,
    Trouble,
    Validator,
    checked,
    error_of,
    refusal_of,
    tag_of,
)
from asdffs.storage.urls import RemoteOptions, Url, parse_url

#: The largest number of buckets whose stores are kept.
_MOST: Final = 16
#: Variables of credentials that pass have these in their names.
_PASSING: Final = re.compile("ACCESS_KEY|TOKEN|EXPIRATION")
_STATUS: Final = re.compile(r"status code: (\d{3})")
#: Bytes of an answer that obstore hands over at a time.
_PIECE: Final = 1 << 18
#: A bucket without a path.
_BUCKET: Final = re.compile(r"(?:s3|gs|az)://[^/?#]+/*\Z", re.IGNORECASE)
#: The most objects of a prefix that are listed.
MOST_OBJECTS: Final = 1 << 22
#: Seconds that one request may take, and to wait for the next objects of a listing.
_SECONDS: Final = 60.0


def identity_of(url: Url, options: RemoteOptions) -> str:
    """Return which file ``url`` is, for the cache: a hash of all that chooses the server, and the file on it.

    The whole URL counts: any parameter may choose the file.  Credentials of object stores that are new each hour do
    not: who asks does not change what an object is.
    """
    if url.is_web:
        return _hashed(url.text)
    return _hashed(
        url.text,
        options.endpoint,
        options.region,
        *(item for item in store_variables() if not _PASSING.search(item[0])),
    )


def _hashed(*facts: object) -> str:
    return hashlib.sha256(repr(facts).encode("utf-8", "surrogateescape")).hexdigest()


def open_store(url: Url, options: RemoteOptions, seconds: float) -> tuple[Any, str]:
    """Return the obstore store of ``url``, and the path of the file in it.

    ``seconds``: the longest time that one request may take.  Files of one bucket share a store, and so its
    connections.

    Raises ``NotSupportedError`` if obstore is not installed, ``RemoteError`` if the settings do not fit.
    """
    if importlib.util.find_spec("obstore") is None:
        sentence = "object stores need obstore, which is not installed: pip install 'asdffs[remote]'"
        raise NotSupportedError(sentence, path=url.shown)
    try:
        store = _store(os.getpid(), url.scheme, url.host, options, seconds, tuple(store_variables()))
    except Exception as err:  # obstore has an exception of its own for each kind of store
        sentence = str(err).partition("\n")[0][:120]
        raise RemoteError(f"the object store cannot be used: {sentence}", path=url.shown) from err
    return store, key_of(url)


def key_of(url: Url) -> str:
    """Return the key of an object.  Raises ``UsageError`` if it begins with a slash, which obstore cannot ask for."""
    key = unquote(url.path).removeprefix("/")
    if key.startswith("/"):
        raise UsageError("names of objects that begin with a slash cannot be asked for", path=url.shown)
    return key


@functools.lru_cache(_MOST)
def _store(
    process: int,
    scheme: str,
    bucket: str,
    options: RemoteOptions,
    seconds: float,
    stated: tuple[tuple[str, str], ...],
) -> Any:
    """Return a store of ``process``; ``stated``: the environment that it depends on."""
    from obstore import store

    client: dict[str, Any] = {"timeout": f"{max(1, round(seconds * 1000))}ms", "connect_timeout": "10s"}
    common: dict[str, Any] = {"retry_config": {"max_retries": 0}, "client_options": client}
    endpoint = options.endpoint or stated_endpoint(scheme)
    if (endpoint or "").lower().startswith("http:"):  # else obstore follows no redirect to http
        client["allow_http"] = True
    if endpoint is not None:
        common["base_url" if scheme == "gs" else "endpoint"] = endpoint
    if options.anonymous:
        common["skip_signature"] = True
    if scheme == "s3":
        return store.S3Store(
            bucket, **common, region=options.region or stated_region() or "us-east-1", **_profile(options)
        )
    if scheme == "gs":
        return store.GCSStore(bucket, **common)
    return store.AzureStore(bucket, **common)


def _profile(options: RemoteOptions) -> dict[str, Any]:
    """Return a provider of the credentials of a profile, by boto3, if there are none in the environment."""
    if options.anonymous or not has_profile():
        return {}
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as err:
        raise RuntimeError("profiles need boto3, which is not installed: pip install boto3") from err
    return {"credential_provider": Boto3CredentialProvider()}


class StoreTransport:
    """A ``Transport`` by obstore.  ``url``: the file; ``seconds``: the longest time that one request may take.

    Raises ``NotSupportedError`` if obstore is not installed, ``RemoteError`` if the settings do not fit.
    """

    def __init__(self, url: Url, options: RemoteOptions, seconds: float) -> None:
        self._store, self._path = open_store(url, options, seconds)
        import obstore

        self._library: Any = obstore

    def get(self, start: int, stop: int, known: Validator | None) -> Fetched:
        """See ``Transport``."""
        return checked(self.first(start, stop, known), start, stop)

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
            raise error_of(err, self.shown, f"{what}: ") from err
