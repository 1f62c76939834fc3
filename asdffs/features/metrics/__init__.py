"""What mounts do, in the text format of Prometheus: ``-o metrics=`` of a mount serves it, ``asdffs ls`` prints it.

The numbers are the counters of ``status.json`` (``mount/counters``); docs/operating.md lists the metrics.  Needs the
extra ``metrics`` (prometheus-client).
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, Final, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from asdffs.errors import MountError, NotSupportedError, reason_of
from asdffs.mount.session import SIGNALS
from asdffs.printable import printable

logger = logging.getLogger(__name__)

#: Key of the counters -> name of the metric and what it is; first those that only grow, then the others.
_TOTALS: Final = {
    "read": ("asdffs_read_bytes", "Bytes that programs got by read requests"),
    "written": ("asdffs_written_bytes", "Bytes that programs wrote"),
    "errors": ("asdffs_errors", "Requests that were refused, without everyday answers such as no such file"),
    "refusals": ("asdffs_refusals", "Saves that were refused, because the tree was not valid"),
}
_LEVELS: Final = {
    "open_documents": ("asdffs_open_documents", "ASDF files that are open"),
    "open_files": ("asdffs_open_files", "Files and directories of the mount that programs have open"),
    "spool": ("asdffs_spool_bytes", "Bytes of decoded blocks on the disk"),
    "cache": ("asdffs_cache_bytes", "Bytes of remote files in the cache"),
    "oldest_request": ("asdffs_oldest_request_seconds", "Age of the oldest request without an answer"),
}
_LABELS: Final = ["mountpoint", "file"]
_OPERATION: Final = re.compile(r"[A-Z0-9_]{1,40}")
#: Seconds that a client may take for its whole request, and for each part of the answer that it takes.
_PATIENCE: Final = 5.0
_LEAST: Final = 0.001
#: Bytes of the longest request.
_LONGEST: Final = 1 << 16


def text_of(mounts: Iterable[Mapping[str, Any]]) -> str:
    """Return the metrics of ``mounts``: objects as ``asdffs ls --json`` prints them.

    A mount that cannot be asked has ``asdffs_up`` 0 and nothing else.  Raises ``NotSupportedError``.
    """
    return _encoded(mounts).decode()


@contextlib.contextmanager
def served(host: str, port: int, facts: Callable[[], Mapping[str, Any]]) -> Iterator[str]:
    """Serve the metrics of one mount at ``http://host:port/metrics`` while the body runs; yield the address.

    ``facts()``: an object as of ``text_of``; another thread calls it.  One request is answered at a time: the server
    of prometheus-client has a thread for each client, and waits for it without end.

    Raises ``NotSupportedError``, and ``MountError`` if nothing can listen there.
    """
    _check_available()

    def answer(environment: Any, begin: Callable[..., Any]) -> list[bytes]:
        known = environment["PATH_INFO"] in ("/", "/metrics")
        body = _encoded([facts()]) if known else b"the metrics are at /metrics\n"
        headers = [("Content-Type", "text/plain; version=0.0.4; charset=utf-8"), ("Content-Length", str(len(body)))]
        begin("200 OK" if known else "404 Not Found", headers)
        return [body]

    try:
        server = make_server(host, port, answer, _Server6 if ":" in host else _Server, _Handler)
    except (OSError, OverflowError) as err:
        why = reason_of(err) if isinstance(err, OSError) else str(err)
        raise MountError(f"no metrics can be served at {host}:{port}: {why}") from err
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # those are for the main thread
    thread.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()


class _Server(WSGIServer):
    """Answers one client after the other."""

    def handle_error(self, *_: object) -> None:
        """Log what went wrong with a client, who may have gone away."""
        logger.info("a client of the metrics was not answered: %s", sys.exc_info()[1])


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    """Answers one client, who has ``_PATIENCE`` seconds for its whole request, however slowly it sends it."""

    timeout = _PATIENCE

    def handle(self) -> None:
        """Read the request, then answer it.  Raises ``OSError``."""
        end, received = time.monotonic() + _PATIENCE, b""
        while b"\r\n\r\n" not in received and len(received) < _LONGEST:
            self.connection.settimeout(max(_LEAST, end - time.monotonic()))
            piece = self.connection.recv(_LONGEST)
            if not piece or time.monotonic() > end:
                return
            received += piece
        self.connection.settimeout(_PATIENCE)
        self.rfile = io.BufferedReader(io.BytesIO(received))
        super().handle()

    def log_message(self, *_: object) -> None:
        """See ``http.server``: nothing is logged."""


def _check_available() -> None:
    if find_spec("prometheus_client") is None:
        raise NotSupportedError(
            "metrics need prometheus-client, which is not installed: pip install 'asdffs[metrics]'"
        )


def _encoded(mounts: Iterable[Mapping[str, Any]]) -> bytes:
    _check_available()
    from prometheus_client import generate_latest

    return generate_latest(cast(Any, SimpleNamespace(collect=lambda: _families(mounts))))


def _families(found: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
    """Yield each metric with its values for all mounts."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    mounts = [([_shown(one["mountpoint"]), _shown(one["file"])], one) for one in found]
    up = GaugeMetricFamily("asdffs_up", "Whether the mount answers", labels=_LABELS)
    requests = CounterMetricFamily(
        "asdffs_requests", "Requests of the kernel, by operation", labels=[*_LABELS, "operation"]
    )
    others: dict[str, Any] = {key: CounterMetricFamily(*names, labels=_LABELS) for key, names in _TOTALS.items()}
    others |= {key: GaugeMetricFamily(*names, labels=_LABELS) for key, names in _LEVELS.items()}
    for labels, mount in {tuple(labels): (labels, mount) for labels, mount in mounts}.values():
        up.add_metric(labels, float(mount["state"] == "serving"))
        counters = mount.get("counters") or {}
        for operation, count in counters.get("requests", {}).items():
            if _OPERATION.fullmatch(operation):  # another user's mount may say anything, and two of the same
                requests.add_metric([*labels, operation], count)
        for key, metric in others.items():
            if key in counters:
                metric.add_metric(labels, counters[key])
    yield from (up, requests, *others.values())


def _shown(name: str) -> str:
    """Return a name in UTF-8: other bytes and controls are escaped."""
    return printable(name, terminal=True)
