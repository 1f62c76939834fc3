"""Tells systemd that a mount is ready: sd_notify(3) sends ``READY=1`` to the socket named by ``NOTIFY_SOCKET``.

Does nothing if that is not set.
"""

from __future__ import annotations

import logging
import os

logger = logging.getLogger(__name__)


def notify(*lines: str) -> None:
    """Send ``lines``, such as ``READY=1``."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    import socket  # only systemd wants it

    if address.startswith("@"):  # in the abstract namespace
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.connect(address)
            channel.send("\n".join(lines).encode("utf-8", "surrogateescape"))
    except OSError as err:
        logger.warning("systemd could not be told %s: %s", lines[0], err.strerror or err)
