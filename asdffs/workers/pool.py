"""Worker processes: they carry out calls, each in a process of its own.

A worker process gets one call at a time from a thread of this process.  ``ProcessPoolExecutor`` is not used: when its
processes are killed, its threads may wait forever for the rest of a message.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

from asdffs.allocator import COLLECTIONS
from asdffs.errors import StorageError, WorkerKilledError
from asdffs.workers import lifeline

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

P = ParamSpec("P")
T = TypeVar("T")

#: Signals that worker processes hold back.  Ctrl-C goes to all processes of a terminal, but this one decides.
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def worker_processes(count: int, *, complete: bool, begin: Callable[[], object] | None = None) -> Iterator[Executor]:
    """Yield an executor of at most ``count`` processes, which end with the block.  Each calls ``begin`` first.

    After an exception, such as an interrupt, no call is begun.  Calls under way are completed if ``complete`` is
    True, else their processes are killed.  A call whose process is killed raises ``WorkerKilledError``.
    """
    pool = _Pool(count, begin)
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=complete, cancel_futures=True)
        raise
    finally:
        pool.kill()


class _Pool(Executor):
    """Hands calls to worker processes; each has a thread that feeds it."""

    def __init__(self, count: int, begin: Callable[[], object] | None) -> None:
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()  # it changes which signals a thread holds back; see ``_feed``
        self._count = count
        self._begin = begin
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._workers: list[tuple[_Worker, threading.Thread]] = []

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue a call; start one more process unless there are enough."""
        future: Future[T] = Future()
        self._calls.put((future, functools.partial(function, *args, **kwargs)))
        if len(self._workers) < self._count:
            worker = _Worker(self._begin)
            thread = threading.Thread(target=self._feed, args=(worker,), name=f"worker-{len(self._workers)}")
            self._workers.append((worker, thread))
            thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  # given
        """See ``concurrent.futures.Executor``."""
        with contextlib.suppress(queue.Empty):
            while cancel_futures:
                if (queued := self._calls.get_nowait()) is not None:
                    queued[0].cancel()
        for _ in self._workers:
            self._calls.put(None)
        for _, thread in self._workers if wait else ():
            thread.join()

    def kill(self) -> None:
        """End all processes now.  ``shutdown`` was called, so no other is started."""
        for worker, _ in self._workers:
            worker.kill()
        self.shutdown()

    def _feed(self, worker: _Worker) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # processes inherit it from the thread that starts them
        while (queued := self._calls.get()) is not None:
            future, call = queued
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(worker.carry_out(call))
                except BaseException as err:  # noqa: BLE001  # raised where somebody waits for the result
                    future.set_exception(err)
        worker.end()


class _Worker:
    """A worker process.  It is started for its first call, and for the next one after it was killed."""

    def __init__(self, begin: Callable[[], object] | None) -> None:
        self._begin = begin
        self._opened = contextlib.ExitStack()
        self._process: SpawnProcess | None = None
        self._connection: Connection[Any, Any] | None = None
        self._unwanted = False

    def carry_out(self, call: Callable[[], T]) -> T:
        """Return what ``call()`` returns in the process, or raise what it raises.

        Raises ``WorkerKilledError`` if the process is killed meanwhile, ``StorageError`` if it cannot be started.
        """
        try:
            connection = self._connection or self._start()
        except OSError as err:
            self.end()
            raise StorageError("a worker process cannot be started; give the command again") from err
        try:
            connection.send(call)
            result, error = connection.recv()
        except (EOFError, OSError) as err:
            self.end()
            raise WorkerKilledError("a worker process was killed; give the command again") from err
        if error is not None:
            raise error
        return cast("T", result)

    def _start(self) -> Connection[Any, Any]:
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        read_end, write_end = context.Pipe(duplex=False)
        here, there = context.Pipe()
        self._opened.enter_context(write_end)
        self._connection = self._opened.enter_context(here)
        process = context.Process(target=_work, args=(there, read_end, self._begin))
        with read_end, there:  # so that no other process has them
            process.start()
        self._process = process
        self._opened.callback(process.join)
        if self._unwanted:
            process.kill()
        return here

    def kill(self) -> None:
        """End the process now, or as soon as it is started."""
        self._unwanted = True
        if self._process is not None:
            self._process.kill()

    def end(self) -> None:
        """Tell the process that there are no more calls, and wait for its end."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._opened.close()


def _work(calls: Connection[Any, Any], line: Connection[Any, Any], begin: Callable[[], object] | None) -> None:
    """Answer calls in a worker process, until there are no more."""
    lifeline.end_with(line.fileno())
    gc.freeze()  # what was imported lives until the process ends, so the collector need not look at it
    gc.set_threshold(*COLLECTIONS)
    if begin is not None:
        begin()
    with contextlib.suppress(EOFError):
        while True:
            calls.send(_answer(calls.recv()))


def _answer(call: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    try:
        return call(), None
    except Exception as err:  # noqa: BLE001  # raised again where the result is waited for
        err.add_note(f"In a worker process: {traceback.format_exc()}")
        return None, err
