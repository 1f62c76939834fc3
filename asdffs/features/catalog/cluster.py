"""Reads the files of a catalogue on a dask cluster: the workers read chunks of files, and this process writes.

The workers need asdffs, and must see the same files under the same names.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Final

from asdffs.errors import NotSupportedError, RemoteError
from asdffs.features.catalog.indexing import Way

if TYPE_CHECKING:
    from asdffs.storage.remote_options import RemoteOptions

#: How often a chunk is read again after its worker died or raised an error.
_RETRIES: Final = 3
#: Seconds within which the scheduler must answer.
_PATIENCE: Final = 10


@contextlib.contextmanager
def cluster_way(address: str, remote: RemoteOptions | None) -> Iterator[Way]:
    """Connect to the dask scheduler at ``address``, such as ``tcp://host:8786``; yield how to read files there.

    A chunk whose worker dies is read by another one.  Raises ``NotSupportedError`` if distributed is not installed,
    ``RemoteError`` if the scheduler does not answer or has no workers.
    """
    if importlib.util.find_spec("distributed") is None:
        raise NotSupportedError("--dask needs distributed, which is not installed: pip install 'asdffs[cluster]'")
    client = _client(address)
    with client:
        threads = sum(client.nthreads().values())
        if not threads:
            raise RemoteError("the dask scheduler has no workers", path=address)
        with _failures(address):
            yield Way(threads, remote, functools.partial(_executor, client))


def _client(address: str) -> Any:
    import distributed

    connect: Any = distributed.Client
    try:
        return connect(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as err:
        raise RemoteError(f"the dask scheduler does not answer: {err}", path=address) from err


@contextlib.contextmanager
def _executor(client: Any) -> Iterator[Executor]:
    with client.get_executor(pure=False, retries=_RETRIES) as pool:
        yield pool


@contextlib.contextmanager
def _failures(address: str) -> Iterator[None]:
    """Turn what a cluster fails with into ``RemoteError``."""
    from distributed import CancelledError, KilledWorker

    again = "start the index again, it goes on"
    try:
        yield
    except (KilledWorker, CancelledError) as err:
        raise RemoteError(f"the workers died while they read files ({err}); {again}", path=address) from err
    except ImportError as err:
        raise RemoteError(f"the workers cannot read files ({err}); install asdffs there", path=address) from err
