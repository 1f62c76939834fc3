"""What the options of a command say about remote files."""

from __future__ import annotations

import argparse

from asdffs.errors import UsageError
from asdffs.format.layout import parse_size
from asdffs.storage.remote_options import RemoteOptions, parse_seconds


def remote_of(arguments: argparse.Namespace) -> RemoteOptions:
    """Return the settings for remote files.  Raises ``UsageError``."""
    chosen = RemoteOptions(
        anonymous=arguments.anonymous,
        endpoint=arguments.endpoint,
        region=arguments.region,
        cache=not arguments.no_cache,
    )
    return with_limits(chosen, timeout=arguments.timeout, whole_max=arguments.whole_max)


def with_limits(chosen: RemoteOptions, *, timeout: str | None = None, whole_max: str | None = None) -> RemoteOptions:
    """Return ``chosen`` with the limits as the user wrote them; None leaves a limit.  Raises ``UsageError``."""
    if timeout is not None:
        chosen = chosen._replace(timeout=parse_seconds(timeout))
    if whole_max is not None:
        size = parse_size(whole_max)
        if size is None:
            raise UsageError(f"--whole-max {whole_max}: give bytes such as 2G")
        chosen = chosen._replace(whole_max=size)
    return chosen
