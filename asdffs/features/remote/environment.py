"""What the environment of this process states about servers: endpoints, credentials, proxies.

It has the names that the tools of the providers use.  No other module of remote files reads it: a program that opens
a URL has no command line that could state these.
"""

from __future__ import annotations

import os
from typing import Final

#: Variables that tell endpoints and credentials of object stores begin with these.
_STATED: Final = ("AWS_", "GOOGLE_", "AZURE_")
_ENDPOINTS: Final = {"s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), "az": ("AZURE_STORAGE_ENDPOINT",)}


def store_variables() -> list[tuple[str, str]]:
    """Return the variables by which obstore chooses and asks object stores."""
    return [item for item in sorted(os.environ.items()) if item[0].startswith(_STATED)]


def stated_endpoint(scheme: str) -> str | None:
    """Return the endpoint of the object stores of ``scheme``; None for that of the provider."""
    return next((os.environ[name] for name in _ENDPOINTS.get(scheme, ()) if os.environ.get(name)), None)


def stated_region() -> str | None:
    """Return the region of buckets of S3; None if it is not stated."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def has_profile() -> bool:
    """Return whether credentials of S3 are in a profile, and none are stated beside it."""
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return False
    files = (os.environ.get("AWS_SHARED_CREDENTIALS_FILE"), os.path.expanduser("~/.aws/credentials"))
    return bool(os.environ.get("AWS_PROFILE")) or any(name and os.path.exists(name) for name in files)


def proxy_to(scheme: str, server: str) -> str | None:
    """Return the URL of the proxy to ``server``; None for none."""
    if f"{scheme}_proxy" not in map(str.lower, os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass  # slow to import, and seldom needed

    stated = getproxies().get(scheme)
    if not stated or proxy_bypass(server):
        return None
    return stated if "://" in stated else f"http://{stated}"
