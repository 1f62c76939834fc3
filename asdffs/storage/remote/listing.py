"""Lists the objects below a prefix of an object store."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote

from asdffs.errors import MissingFileError, RemoteError, UsageError
from asdffs.storage.remote.options import RemoteOptions
from asdffs.storage.remote.stores import open_store
from asdffs.storage.remote.transport import Validator, as_request_error, validator_of
from asdffs.storage.remote.urls import Url, parse_url

#: A bucket without a path.
_BUCKET: Final = re.compile(r"(?:s3|gs|az)://[^/?#]+/*\Z", re.IGNORECASE)
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
        raise UsageError("a web server lists no files; give their URLs by --files-from", path=url.shown)
    return url.shown.rstrip("/")


def objects_below(prefix: str, endings: Sequence[str], options: RemoteOptions) -> Iterator[tuple[str, Validator]]:
    """Yield URL and version of each object below ``prefix`` whose name ends with one of ``endings``, in any case.

    ``prefix``: as ``prefix_of`` returns it.  A name that is no part of a URL is quoted.  Raises ``RemoteError``,
    ``MissingFileError``, ``NotSupportedError``.
    """
    import obstore

    scheme, _, rest = prefix.partition("://")
    bucket, _, path = rest.partition("/")
    url = Url(scheme.lower(), prefix, prefix, bucket, f"/{path}", prefix)
    store, _ = open_store(url, options, min(options.timeout, _SECONDS))
    try:
        for page in obstore.list(store, prefix=path or None):
            for found in page:
                name = str(found["path"])
                if name.lower().endswith(tuple(endings)) and not name.rpartition("/")[2].startswith("."):
                    yield f"{scheme.lower()}://{bucket}/{quote(name)}", validator_of(found)
    except Exception as err:  # obstore has an exception of its own for each kind of failure
        known = as_request_error(err)
        kind = MissingFileError if known.status in _GONE else RemoteError
        raise kind(f"the files cannot be listed: {known.sentence}", path=prefix) from err
