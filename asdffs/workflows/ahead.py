"""Reads many files, one after the other: local files when they are asked for, and remote ones ahead.

Remote files are asked for at the same time, because each of them costs at least one round trip to its server.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from asdffs.document.scanning import read_text
from asdffs.storage.urls import RemoteOptions, is_remote

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

#: Number of remote files that are read at the same time.
_AT_ONCE: Final = 32


def looks_at_texts(
    files: Sequence[str], remote: RemoteOptions, look: Callable[[bytes], T]
) -> Iterator[tuple[str, Callable[[], T]]]:
    """Yield each file, in order, with a function that returns ``look(text)``, or raises as it and ``read_text``.

    ``remote``: settings for remote files.
    """
    for file, read in read_ahead(files, lambda file: read_text(file, remote)):
        yield file, functools.partial(_look, read, look)


def _look(read: Callable[[], bytes], look: Callable[[bytes], T]) -> T:
    return look(read())


def read_ahead(files: Sequence[str], read: Callable[[str], T]) -> Iterator[tuple[str, Callable[[], T]]]:
    """Yield each file, in order, with a function that returns ``read(file)``.

    A thread reads a remote file ahead; its function waits for that.  An error of ``read`` is raised by the function.
    """
    ahead = deque[tuple[str, Callable[[], T]]]()
    for file in files:
        ahead.append((file, _asked(file, read) if is_remote(file) else functools.partial(read, file)))
        if len(ahead) >= _AT_ONCE:
            yield ahead.popleft()
    yield from ahead


def _asked(file: str, read: Callable[[str], T]) -> Callable[[], T]:
    """Begin to read a remote file, in a thread that does not outlive the process; return what waits for it."""
    from concurrent.futures import Future

    future: Future[T] = Future()
    threading.Thread(target=_answer, args=(future, file, read), daemon=True).start()
    return future.result


def _answer(future: Future[T], file: str, read: Callable[[str], T]) -> None:
    try:
        future.set_result(read(file))
    except BaseException as err:  # noqa: BLE001  # it is raised where the result is asked for
        future.set_exception(err)
