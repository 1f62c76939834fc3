"""The main lock: one thread at a time has it, and no thread waits for ever."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator

import pytest
from support.mounts import LIMIT
from support.processes import until

from asdffs.mount.loop import FairLock

Happens = Callable[[], object]


@pytest.fixture(autouse=True)
def often_interrupted() -> Iterator[None]:
    """Let Python switch between threads as often as it can, to meet every race."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_one_thread_at_a_time_and_none_is_forgotten() -> None:
    lock, inside, most = FairLock(), 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(3000):
            with lock:
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert [thread.is_alive() for thread in threads] == [False] * 6
    assert most == 1


class Interrupted(deque[threading.Lock]):
    """A queue that lets something happen once, in the middle of the lock's work: ``asked`` or before ``added``."""

    def __init__(
        self, *, asked: Callable[[], object] | None = None, added: Callable[[], object] | None = None
    ) -> None:
        super().__init__()
        self.asked, self.added = asked, added

    def __bool__(self) -> bool:
        answer = len(self) > 0
        happens, self.asked = self.asked, None
        if happens is not None:
            happens()
        return answer

    def append(self, item: threading.Lock) -> None:
        if self.added is not None:
            self.added()
        super().append(item)


def test_a_thread_that_comes_while_another_leaves_is_woken() -> None:
    lock = FairLock()
    thread = threading.Thread(target=lock.__enter__, daemon=True)

    def come() -> None:
        thread.start()
        until(lambda: len(lock._queue) == 1)

    with lock:
        lock._queue = Interrupted(asked=come)
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_a_thread_that_queues_up_when_nobody_has_the_lock_any_more_is_woken() -> None:
    lock = FairLock()
    came, left = threading.Event(), threading.Event()
    thread = threading.Thread(target=lock.__enter__, daemon=True)
    with lock:
        lock._queue = Interrupted(added=lambda: (came.set(), left.wait(LIMIT)))
        thread.start()
        assert came.wait(LIMIT)
    left.set()
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_first_come_first_served() -> None:
    lock, came, served = FairLock(), [], []

    def work(number: int) -> None:
        came.append(number)
        with lock:
            served.append(number)

    with lock:
        threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(8)]
        for number, thread in enumerate(threads, 1):
            thread.start()
            until(lambda number=number: len(lock._queue) == number)
        assert served == []
    for thread in threads:
        thread.join(LIMIT)
    assert served == came
    with lock:  # nobody left it locked
        assert not lock._queue
