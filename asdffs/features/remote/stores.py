"""Opens the object store of a URL by obstore, and tells which file a URL is.

obstore does not survive a fork, so it is imported, and a store made, in the process that uses it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from typing import Any, Final
from urllib.parse import unquote

from asdffs.errors import NotSupportedError, RemoteError
from asdffs.storage.remote_options import RemoteOptions
from asdffs.storage.urls import Url

#: The largest number of buckets whose stores are kept.
_MOST: Final = 16
#: Variables of the environment that tell endpoints and credentials begin with these.
_STATED: Final = ("AWS_", "GOOGLE_", "AZURE_")
#: ... and those of credentials that pass have these in their names.
_PASSING: Final = re.compile("ACCESS_KEY|TOKEN|EXPIRATION")
#: The stores of this process, by process, scheme, bucket and settings.
_stores: Final[dict[Any, Any]] = {}


def identity_of(url: Url, options: RemoteOptions) -> str:
    """Return which file ``url`` is, for the cache: a hash of all that chooses the server, and the file on it.

    The whole URL counts: any parameter may choose the file.  Credentials of object stores that are new each hour do
    not: who asks does not change what an object is.
    """
    if url.is_web:
        return _hashed(url.text)
    return _hashed(
        url.text, options.endpoint, options.region, *(item for item in _stated() if not _PASSING.search(item[0]))
    )


def _hashed(*facts: object) -> str:
    return hashlib.sha256(repr(facts).encode("utf-8", "surrogateescape")).hexdigest()


def _stated() -> list[tuple[str, str]]:
    """Return the variables of the environment by which obstore chooses and asks object stores."""
    return [item for item in sorted(os.environ.items()) if item[0].startswith(_STATED)]


def check_installed(url: Url) -> None:
    """Raise ``NotSupportedError`` if obstore is not installed, which makes the requests.  ``url``: for the error."""
    if importlib.util.find_spec("obstore") is None:
        raise NotSupportedError(
            "object stores need obstore, which is not installed: pip install 'asdffs[remote]'", path=url.shown
        )


def open_store(url: Url, options: RemoteOptions, seconds: float) -> tuple[Any, str]:
    """Return the obstore store of ``url``, and the path of the file in it.

    ``seconds``: the longest time that one request may take.  Files of one bucket share a store, and so its
    connections.

    Raises ``NotSupportedError`` if obstore is not installed, ``RemoteError`` if the settings do not fit.
    """
    check_installed(url)
    path = unquote(url.path).lstrip("/")
    key = os.getpid(), url.scheme, url.host, options, round(seconds), *_stated()
    store = _stores.get(key) or _made(url, options, seconds)
    _stores[key] = store
    while len(_stores) > _MOST:
        _stores.pop(next(iter(_stores)), None)
    return store, path


def _made(url: Url, options: RemoteOptions, seconds: float) -> Any:
    try:
        return _made_store(url, options, seconds)
    except Exception as err:  # obstore has an exception of its own for each kind of store
        raise RemoteError(f"the object store cannot be used: {_first_line(err)}", path=url.shown) from err


def _made_store(url: Url, options: RemoteOptions, seconds: float) -> Any:
    from obstore import store

    client: dict[str, Any] = {"timeout": f"{max(1, round(seconds * 1000))}ms", "connect_timeout": "10s"}
    common: dict[str, Any] = {"retry_config": {"max_retries": 0}, "client_options": client}
    endpoint = options.endpoint or _stated_endpoint(url.scheme)
    if (endpoint or "").lower().startswith("http:"):  # else obstore follows no redirect to http
        client["allow_http"] = True
    if endpoint is not None:
        common["base_url" if url.scheme == "gs" else "endpoint"] = endpoint
    if options.anonymous:
        common["skip_signature"] = True
    if url.scheme == "s3":
        return store.S3Store(url.host, **common, **_region(options), **_profile(options))
    if url.scheme == "gs":
        return store.GCSStore(url.host, **common)
    return store.AzureStore(url.host, **common)


def _stated_endpoint(scheme: str) -> str | None:
    """Return the endpoint in the environment, as the tools of the provider read it."""
    names = {"s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), "az": ("AZURE_STORAGE_ENDPOINT",)}
    return next((os.environ[name] for name in names.get(scheme, ()) if os.environ.get(name)), None)


def _region(options: RemoteOptions) -> dict[str, Any]:
    region = options.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return {"region": region or "us-east-1"}


def _profile(options: RemoteOptions) -> dict[str, Any]:
    """Return a provider of the credentials of a profile, by boto3, if there are none in the environment."""
    if options.anonymous or os.environ.get("AWS_ACCESS_KEY_ID"):
        return {}
    files = (os.environ.get("AWS_SHARED_CREDENTIALS_FILE"), os.path.expanduser("~/.aws/credentials"))
    if not os.environ.get("AWS_PROFILE") and not any(name and os.path.exists(name) for name in files):
        return {}
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as err:
        raise RuntimeError("profiles need boto3, which is not installed: pip install boto3") from err
    return {"credential_provider": Boto3CredentialProvider()}


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:120]
