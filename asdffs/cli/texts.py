"""Reads the trees of many files, for commands that only look at values.

Remote files are asked for at the same time, because each of them costs at least one round trip to its server.  Local
files are read one after the other.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from asdffs.document.scanning import read_text
from asdffs.storage.remote.options import RemoteOptions
from asdffs.storage.remote.urls import is_remote

if TYPE_CHECKING:
    from concurrent.futures import Future

#: Number of remote files that are read at the same time.
_AT_ONCE: Final = 32

Read = Callable[[], bytes]


def texts(files: Sequence[str], remote: RemoteOptions) -> Iterator[tuple[str, Read]]:
    """Yield each file, in order, with a function that returns its text, or raises as ``read_text``.

    ``remote``: settings for remote files.  The function of a remote file waits for what a thread reads ahead.
    """
    ahead = deque[tuple[str, Read]]()
    for file in files:
        ahead.append((file, _asked(file, remote) if is_remote(file) else functools.partial(read_text, file)))
        if len(ahead) >= _AT_ONCE:
            yield ahead.popleft()
    yield from ahead


def _asked(file: str, remote: RemoteOptions) -> Read:
    """Begin to read a remote file, in a thread that does not outlive the process; return what waits for it."""
    from concurrent.futures import Future

    future: Future[bytes] = Future()
    threading.Thread(target=_answer, args=(future, file, remote), daemon=True).start()
    return future.result


def _answer(future: Future[bytes], file: str, remote: RemoteOptions) -> None:
    try:
        future.set_result(read_text(file, remote))
    except BaseException as err:  # noqa: BLE001  # it is raised where the result is asked for
        future.set_exception(err)
