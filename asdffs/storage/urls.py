"""URLs of remote files, and settings for reading them.

``https://``, ``http://``, ``s3://``, ``gs://``, ``az://`` are remote; ``file://`` is local.  Query and user may be
secret: a presigned URL is a key.  Messages show a URL without them.  Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from asdffs.errors import UsageError

#: Schemes of remote files.
SCHEMES: Final = ("https", "http", "s3", "gs", "az")
#: Schemes of web servers; those of object stores have a bucket instead of a host.
WEB: Final = ("https", "http")
_FILE: Final = "file:"


class Url(NamedTuple):
    """A URL.  ``text``: all of it; ``shown``: without its secrets; ``host``: the host, or the bucket; ``path``."""

    scheme: str
    text: str
    shown: str
    host: str
    path: str

    @property
    def name(self) -> str:
        """The last part of the path, or the host."""
        return self.path.rstrip("/").rpartition("/")[2] or self.host

    @property
    def server(self) -> str:
        """The host, and its port where the URL states one, or the bucket; in lower case."""
        return self.shown.partition("://")[2].partition("/")[0]

    @property
    def is_web(self) -> bool:
        """Whether it is on a web server, not in an object store."""
        return self.scheme in WEB


def is_remote(path: str) -> bool:
    """Return whether ``path`` is the URL of a remote file."""
    scheme, colon, _ = path.partition("://")
    return bool(colon) and scheme.lower() in SCHEMES


def shown_name(file: str) -> str:
    """Return the name of a file as the user typed it, but a URL without its secrets."""
    return shown_url(file) if is_remote(file) else file


def shown_url(text: str) -> str:
    """Return a URL without its secrets, as messages show it; all of it is gone that does not look like a place."""
    try:
        return parse_url(text).shown
    except UsageError as err:
        return err.path or _cut(text)


def parse_url(text: str) -> Url:
    """Return the parts of the URL of a remote file.  Raises ``UsageError``."""
    from urllib.parse import urlsplit, urlunsplit  # not above: every command asks ``is_remote``

    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        netloc = f"[{host}]" if ":" in host else host
        netloc += "" if parts.port is None else f":{parts.port}"
    except ValueError as err:
        raise UsageError(f"the URL is not valid: {err}", path=_cut(text)) from err
    shown = urlunsplit((parts.scheme.lower(), netloc, parts.path, "", ""))
    if not host or not parts.path.strip("/"):
        place = "host" if parts.scheme.lower() in WEB else "bucket"
        raise UsageError(f"the URL has no {place} or no path; write SCHEME://{place.upper()}/PATH", path=shown)
    if min(text) <= " ":
        raise UsageError("the URL has spaces or control characters; encode them, a space is %20", path=shown)
    return Url(parts.scheme.lower(), text.partition("#")[0], shown, host, parts.path)


def _cut(text: str) -> str:
    """Return the text of a URL that cannot be parsed without what may be its query or user."""
    scheme, _, rest = text.partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"


def joined_url(base: str, reference: str) -> str:
    """Return the URL to which ``reference`` in the file at the URL ``base`` leads.  Raises ``ValueError``."""
    from urllib.parse import urljoin, urlsplit

    if urlsplit(reference).scheme:
        return reference
    scheme, _, rest = base.partition("://")
    return scheme + urljoin(f"http://{rest}", reference).removeprefix("http")  # ``urljoin`` knows few schemes


def local_path(path: str) -> str:
    """Return the path of a ``file://`` URL, and other paths as they are.  Raises ``UsageError``."""
    if path[: len(_FILE)].lower() != _FILE or not path[len(_FILE) :].startswith("/"):
        return path
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(path)
    if parts.netloc not in ("", "localhost"):
        raise UsageError("a file: URL with a host is not a file on this machine", path=path)
    return unquote(parts.path)


#: Bytes that the cache may use by default.
CACHE_MAX: Final = 10 << 30
#: Largest file that is downloaded as a whole by default, in bytes, if the server cannot send parts of it.
WHOLE_MAX: Final = 1 << 30
#: Seconds after which a read gives up by default.
TIMEOUT: Final = 60.0


class RemoteOptions(NamedTuple):
    """Settings for remote files.

    ``anonymous``: send no credentials.  ``endpoint``: the URL of the object store, None for the provider's.
    ``region``: of a bucket.  ``timeout``: seconds after which a read gives up, retries included.  ``cache``: whether
    bytes are kept for later runs.  ``cache_max``: most bytes of the cache.  ``whole_max``: the largest file, in
    bytes, that is downloaded as a whole if the server cannot send parts of it.  ``downloaded(done, total)`` is called
    while that happens, with bytes.  ``follow``: the servers, ``HOST`` or ``HOST:PORT``, to which sources and
    references of local files may lead.  ``redirects``: whether a redirect to another server is followed.
    """

    anonymous: bool = False
    endpoint: str | None = None
    region: str | None = None
    timeout: float = TIMEOUT
    cache: bool = True
    cache_max: int = CACHE_MAX
    whole_max: int = WHOLE_MAX
    downloaded: Callable[[int, int], None] | None = None
    follow: tuple[str, ...] = ()
    redirects: bool = True


#: The settings that users write as text, and how their values are written; and those that are flags.
SETTINGS: Final = {
    "endpoint": "URL",
    "region": "NAME",
    "timeout": "SECONDS",
    "cache_max": "SIZE",
    "whole_max": "SIZE",
    "follow": "HOST[:PORT]",
}
_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:[0-9]{1,5})?")
FLAGS: Final[dict[str, dict[str, Any]]] = {"anonymous": {"anonymous": True}, "nocache": {"cache": False}}


def with_setting(options: RemoteOptions, name: str, text: str) -> RemoteOptions:
    """Return ``options`` with a setting as a user wrote it: ``-o timeout=30``, ``--whole-max 2G``.

    Raises ``UsageError``.
    """
    value: Any = text
    if name == "follow":
        value = (*options.follow, text.lower())
        if not _SERVER.fullmatch(text):
            raise UsageError(f"{name} {text}: give the name of a server, or HOST:PORT")
    elif SETTINGS[name] == "SECONDS":
        value = parse_seconds(text)
    elif SETTINGS[name] == "SIZE":
        from asdffs.format.layout import parse_size  # not above: every command imports this module

        value = parse_size(text)
        if value is None:
            raise UsageError(f"{name} {text}: give bytes such as 20G")
    return options._replace(**{name: value})


def parse_seconds(text: str) -> float:
    """Return a time in seconds, at least one.  Raises ``UsageError``."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 86400:
        raise UsageError(f"timeout {text}: give seconds, 1 to 86400")
    return seconds
