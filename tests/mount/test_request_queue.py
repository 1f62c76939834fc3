"""How the threads of a mount sleep and are woken.  A pipe that stays empty stands for the kernel's queue."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest
from support.mounts import LIMIT

from asdffs.mount.session import SIGNALS, RequestQueue, Session


class Empty:
    """The part of a session that a queue asks when it sleeps."""

    def __init__(self, fd: int) -> None:
        self.fd = fd


@pytest.fixture
def queue() -> Iterator[RequestQueue]:
    reader, writer = os.pipe()
    session: Session = Empty(reader)  # type: ignore[assignment]
    yield RequestQueue(session)
    os.close(reader)
    os.close(writer)


def sleepers(queue: RequestQueue, count: int) -> list[threading.Thread]:
    threads = [threading.Thread(target=queue.wait, args=(queue.poller(),), daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_regression_the_end_wakes_every_thread(queue: RequestQueue) -> None:
    """The wake of a stop was consumed by one thread; another one slept on, and the mount did not end."""
    before = sleepers(queue, 5)
    queue.end()
    after = sleepers(queue, 5)
    for thread in [*before, *after]:
        thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in [*before, *after])


@pytest.mark.parametrize("number", SIGNALS)
def test_regression_a_signal_that_does_not_interrupt_the_sleep_ends_it(
    queue: RequestQueue, number: signal.Signals
) -> None:
    """As one that comes just before the main thread sleeps; here another thread gets the signal."""
    stopped: list[bool] = []
    rescue = threading.Timer(LIMIT, queue.end)
    rescue.start()
    with queue.ended_by_signals(lambda: stopped.append(True)):
        threads = sleepers(queue, 3)
        threading.Timer(0.01, lambda: signal.pthread_kill(threading.get_ident(), number)).start()
        assert queue.wait(queue.poller()) is False
        for thread in threads:
            thread.join(LIMIT)
    assert rescue.is_alive(), "it slept until the test ended it"
    rescue.cancel()
    assert not any(thread.is_alive() for thread in threads)
    assert stopped == [True]


def test_a_wake_is_consumed(queue: RequestQueue) -> None:
    queue.wake()
    assert queue.wait(queue.poller()) is True
    assert queue.poller().poll(0) == [], "another thread would sleep"
    (asleep,) = sleepers(queue, 1)
    queue.wake()
    asleep.join(LIMIT)
    assert not asleep.is_alive()
