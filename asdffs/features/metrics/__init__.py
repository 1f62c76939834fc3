"""What mounts do, in the text format of Prometheus: ``-o metrics=`` of a mount serves it, ``asdffs ls`` prints it.

The numbers are the counters of ``status.json`` (``mount/counters``); docs/operating.md lists the metrics.  Needs the
extra ``metrics`` (prometheus-client).
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, make_server

from asdffs.errors import MountError, NotSupportedError, reason_of
from asdffs.mount.session import SIGNALS
from asdffs.printable import printable

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
#: Seconds that a client may take for its request and for the answer.
_PATIENCE: Final = 5.0


def text_of(mounts: Iterable[Mapping[str, Any]]) -> str:
    """Return the metrics of ``mounts``: objects as ``asdffs ls --json`` prints them.

    A mount that cannot be asked has ``asdffs_up`` 0 and nothing else.  Raises ``NotSupportedError``.
    """
    return _encoded(lambda: mounts).decode()


@contextlib.contextmanager
def served(host: str, port: int, facts: Callable[[], Mapping[str, Any]]) -> Iterator[str]:
    """Serve the metrics of one mount at ``http://host:port/metrics`` while the body runs; yield the address.

    ``facts()``: an object as of ``text_of``; another thread calls it.  One request is answered at a time.

    Raises ``NotSupportedError``, and ``MountError`` if nothing can listen there.
    """
    _check_available()

    def answer(environment: Any, begin: Callable[..., Any]) -> list[bytes]:
        known = environment["PATH_INFO"] in ("/", "/metrics")
        body = _encoded(lambda: [facts()]) if known else b"the metrics are at /metrics\n"
        headers = [("Content-Type", "text/plain; version=0.0.4; charset=utf-8"), ("Content-Length", str(len(body)))]
        begin("200 OK" if known else "404 Not Found", headers)
        return [body]

    try:
        server = make_server(host, port, answer, handler_class=_Handler)
    except (OSError, OverflowError) as err:
        why = reason_of(err) if isinstance(err, OSError) else str(err)
        raise MountError(f"no metrics can be served at {host}:{port}: {why}") from err
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # those are for the main thread
    thread.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield f"http://{host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(WSGIRequestHandler):
    """Answers one client, and logs nothing."""

    timeout = _PATIENCE

    def log_message(self, *_: object) -> None:
        """See ``http.server``."""


def _check_available() -> None:
    if find_spec("prometheus_client") is None:
        raise NotSupportedError(
            "metrics need prometheus-client, which is not installed: pip install 'asdffs[metrics]'"
        )


def _encoded(mounts: Callable[[], Iterable[Mapping[str, Any]]]) -> bytes:
    _check_available()
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(mounts))
    return generate_latest(registry)


class _Collector:
    """Makes the metrics when they are asked for (``prometheus_client.registry.Collector``)."""

    def __init__(self, mounts: Callable[[], Iterable[Mapping[str, Any]]]) -> None:
        self._mounts = mounts

    def describe(self) -> list[Any]:
        """Return nothing: the registry need not look for equal names."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield each metric with its values for all mounts."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        mounts = [([_shown(one["mountpoint"]), _shown(one["file"])], one) for one in self._mounts()]
        up = GaugeMetricFamily("asdffs_up", "Whether the mount answers", labels=_LABELS)
        requests = CounterMetricFamily(
            "asdffs_requests", "Requests of the kernel, by operation", labels=[*_LABELS, "operation"]
        )
        others: dict[str, Any] = {key: CounterMetricFamily(*names, labels=_LABELS) for key, names in _TOTALS.items()}
        others |= {key: GaugeMetricFamily(*names, labels=_LABELS) for key, names in _LEVELS.items()}
        for labels, mount in mounts:
            up.add_metric(labels, float(mount["state"] == "serving"))
            counters = mount.get("counters") or {}
            for operation, count in counters.get("requests", {}).items():
                requests.add_metric([*labels, _shown(operation)], count)
            for key, metric in others.items():
                if key in counters:
                    metric.add_metric(labels, counters[key])
        yield from (up, requests, *others.values())


def _shown(name: str) -> str:
    """Return a name in UTF-8: other bytes and controls are escaped."""
    return printable(name, terminal=True)
