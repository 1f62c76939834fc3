"""The event loop of a mount, and its scheduler: slow requests do not block others.

One thread at a time *leads*: it takes requests from the kernel and answers them.  A callback that must wait
(``Loop.waiting``) releases the main lock.  After its thread has been busy for a tick, an idle thread takes the lead.
The old leader becomes idle when it is done.  So usually there is one thread, because threads make a Python file
system slower, and a second one works only while the first waits.

Rules:

1. Callbacks, posted calls and ``resumed`` sections hold the main lock, which is a fair lock.
2. One thread leads; only the leader receives requests.
3. ``alone`` is true for a leader while no other thread answers a request.  Only then may an answer refer to bytes of
   the file (an extent), because nothing can move them before it is sent.

"""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from asdffs import interrupts
from asdffs.mount.caller import is_dying
from asdffs.mount.protocol import Opcode
from asdffs.mount.session import SIGNALS, RequestBuffer, RequestQueue, Session

logger = logging.getLogger(__name__)

#: While a callback waits, another thread takes the lead from a leader that is busy for longer than this, in seconds.
_TICK: Final = 0.005
#: A time in the distant past: a leader that is busy since then is replaced at once.
_LONG_AGO: Final = 1e-9
#: How often a thread checks whether the program that made its request is still alive, in seconds.
_LOOK: Final = 0.2
#: More idle threads than this end.
_SPARES: Final = 4
#: The interpreter's switch interval, in seconds: how long a request waits, several times, for a computing thread.
#: Python interrupts a thread only while another one waits, so a short interval costs nothing otherwise.
_SWITCH: Final = 0.0002


class FairLock:
    """A first-in, first-out lock: no thread starves.  It takes one call in C if no other thread wants it.

    Each waiting thread waits at a lock of its own.  Who leaves the fair lock releases that of the first in the queue.
    Only the thread that holds ``_lock`` takes from the queue.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        if not self._queue and self._lock.acquire(blocking=False):
            return
        mine = threading.Lock()
        mine.acquire()
        self._queue.append(mine)
        self._wake_first()  # nobody may hold it any more, and then nobody else would wake this thread
        mine.acquire()

    def __exit__(self, *_: object) -> None:
        if self._queue:
            self._queue.popleft().release()  # it stays locked, for the next one
            return
        self._lock.release()
        if self._queue:  # a thread came after the question above, and before the release
            self._wake_first()

    def _wake_first(self) -> None:
        """Give a free lock to the first thread of the queue.  The holder of a taken one does that on leaving."""
        while self._queue and self._lock.acquire(blocking=False):
            if self._queue:
                self._queue.popleft().release()
                return
            self._lock.release()


class _Resumed:
    """The main lock, taken again for a moment by a thread that waits (``Loop.resumed``).

    Decoders enter it for every few bytes of a block; a generator would take longer.
    """

    def __init__(self, lock: FairLock, parked: Counter[int]) -> None:
        self._lock = lock
        self._parked = parked

    def __enter__(self) -> None:
        self._lock.__enter__()
        self._parked[threading.get_ident()] -= 1

    def __exit__(self, *_: object) -> None:
        self._parked[threading.get_ident()] += 1
        self._lock.__exit__()


class Worker(Protocol):
    """Answers the requests of one thread (``answering``)."""

    def answer(self, request: RequestBuffer) -> None:
        """Answer a request."""

    def close(self) -> None:
        """Free resources, because no more requests come."""


class Loop:
    """Serves one session.  Implements ``asdffs.scheduling.Scheduler``."""

    def __init__(self) -> None:
        self.lock = FairLock()
        self._state = threading.Condition(threading.Lock())
        self._session: Session | None = None
        self._leader = 0
        self._busy_since = 0.0
        self._waiting = 0
        self._parked: Counter[int] = Counter()
        self._resumed = _Resumed(self.lock, self._parked)
        self._idle = 0
        self._answering: dict[int, RequestBuffer] = {}
        self._threads: list[threading.Thread] = []
        self._calls: deque[Callable[[], object]] = deque()
        self._queue: RequestQueue | None = None
        self._stopping = False
        self._posting = 0
        self._looked: dict[int, float] = {}
        self._new_worker: Callable[[], Worker]

    @property
    def alone(self) -> bool:
        """Whether no other thread works on a request, or can start one before this thread's answer is sent."""
        return len(self._answering) <= 1 and not self._posting and self._leader == threading.get_ident()

    def interrupt(self, unique: int) -> None:
        """Record that the program of a request got a signal: its thread soon asks whether the program is dying.

        A request that is not being answered is ignored.  A signal that does not kill changes nothing.
        """
        for buffer in list(self._answering.values()):
            if buffer.header.unique == unique:
                buffer.interrupted = True

    def forget_attributes(self, node: int) -> bool:
        """See ``Session``.  Never called by a thread of the loop, which the kernel may be waiting for."""
        session = self._session
        return session is not None and session.forget_attributes(node)

    @property
    def device(self) -> int:
        """The file descriptor of /dev/fuse; -1 before and after it serves."""
        return -1 if self._session is None else self._session.fd

    def held_up(self, before: float) -> list[int]:
        """Return the threads that began to answer ``before``, are not done, and do not let others work.

        ``before``: by ``time.monotonic``.  Any thread may call it.
        """
        answering = list(self._answering.items())
        return [thread for thread, buffer in answering if buffer.since < before and not self._parked[thread]]

    @property
    def oldest(self) -> float:
        """Seconds since the oldest request came that other threads have not answered; 0 without one."""
        me = threading.get_ident()
        begun = [buffer.since for thread, buffer in list(self._answering.items()) if thread != me]
        return max(0.0, time.monotonic() - min(begun)) if begun else 0.0

    def post(self, call: Callable[[], object]) -> None:
        """Let ``call`` run between requests, with the main lock held.  Any thread may call this."""
        self._calls.append(call)
        self._nudge()

    def stop(self) -> None:
        """Complete the current requests and serve no more.  Any thread and signal handlers may call it."""
        self._stopping = True
        if self._queue is not None:
            self._queue.end()

    # -- Scheduler -------------------------------------------------------------

    @property
    def held(self) -> bool:
        """See ``Scheduler``: code that answers a request or was posted holds the main lock, except while it waits."""
        return not self._parked[threading.get_ident()]

    def entered(self) -> contextlib.AbstractContextManager[None]:
        """See ``Scheduler``."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def waiting(self, *, soon: bool = False) -> Iterator[None]:
        """See ``Scheduler``.  ``soon``: let another thread lead at once, because the wait depends on the loop."""
        if self._session is None:  # before the first request and after the last
            yield
            return
        me = threading.get_ident()
        self._parked[me] += 1
        self._change_waiting(1, soon=soon)
        self.lock.__exit__()
        try:
            yield
        finally:
            self.lock.__enter__()
            self._change_waiting(-1)
            self._parked[me] -= 1

    def resumed(self) -> contextlib.AbstractContextManager[None]:
        """See ``Scheduler``."""
        return contextlib.nullcontext() if self._session is None else self._resumed

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """See ``Scheduler``."""
        timer = threading.Timer(seconds, self.post, (call,))
        timer.daemon = True
        timer.start()

    @property
    def stopping(self) -> bool:
        """See ``Scheduler``: no program waits for the answers to requests that are under way at the end."""
        return self._stopping and self._session is not None

    @property
    def wanted(self) -> bool:
        """See ``Scheduler``: false if the program that made the request is dead or dying, or the loop ends."""
        me = threading.get_ident()
        if self.stopping:
            return False
        now, request = time.monotonic(), self._answering.get(me)
        if request is None or (now - self._looked.setdefault(me, now) < _LOOK and not request.interrupted):
            return True
        self._looked[me], request.interrupted = now, False
        return not is_dying(request.header.process)

    def _change_waiting(self, change: int, *, soon: bool = False) -> None:
        with self._state:
            self._waiting += change
            if soon and self._leader == threading.get_ident():
                self._busy_since = _LONG_AGO
            if soon or (self._waiting == 1 and change == 1):
                self._have_a_spare()
                self._state.notify_all()

    # -- serving ------------------------------------------------------------

    def serve(self, session: Session, new_worker: Callable[[], Worker]) -> None:
        """Serve until the mount is gone or a signal ends it.  Runs in the main thread.

        ``new_worker``: makes a ``Worker`` for one thread.
        """
        self._new_worker = new_worker
        self._queue = RequestQueue(session)
        self._session = session
        interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH)
        with self._queue.ended_by_signals(self.stop):
            if interrupts.is_noted():  # a signal came during the set-up of the mount
                self.stop()
            try:
                self._work(self._queue)
            finally:
                self._end_threads()
                self._session = None
                sys.setswitchinterval(interval)

    def _work(self, queue: RequestQueue) -> None:
        """Lead or be idle, until the end.  Each thread runs this."""
        poller, me, busy, buffer = queue.poller(), threading.get_ident(), False, RequestBuffer()
        with contextlib.closing(self._new_worker()) as worker:
            while self._lead(me):
                if self._calls:
                    self._run_calls()
                elif queue.take(buffer, busy=busy):
                    self._answer(buffer, worker, me)
                    busy = True
                elif queue.session.gone:
                    self.stop()
                else:
                    busy = False
                    if not queue.wait(poller):
                        self.stop()

    def _answer(self, buffer: RequestBuffer, worker: Worker, me: int) -> None:
        self._busy_since = buffer.since = time.monotonic()
        self._answering[me] = buffer
        try:
            worker.answer(buffer)
        finally:
            del self._answering[me]
            if self._looked:
                self._looked.pop(me, None)

    def _lead(self, me: int) -> bool:
        """Become or stay the leader, and wait for that as an idle thread.  Return False if the thread should end."""
        if self._leader == me and not self._answering and not self._stopping:
            self._busy_since = 0.0
            # Asked last and in this order: another thread takes the lead only while ``_waiting`` stays above 0.
            if not self._waiting and self._leader == me:
                return True
        with self._state:
            self._idle += 1
            try:
                while not self._stopping:
                    if self._leader in (0, me) or self._is_overdue():
                        self._take_lead(me)
                        return True
                    if self._idle > _SPARES and threading.current_thread() is not threading.main_thread():
                        return False
                    self._state.wait(_TICK if self._waiting else None)
            finally:
                self._idle -= 1
            self._state.notify_all()
        return False

    def _is_overdue(self) -> bool:
        """Return whether the leader's request takes so long that others may be queueing behind it."""
        if not self._waiting or not 0 < self._busy_since < time.monotonic() - _TICK:
            return False
        return not self._is_writing()

    def _is_writing(self) -> bool:
        """Return whether the leader is at a write and does not wait in it: a later read must not overtake it."""
        buffer = self._answering.get(self._leader)
        if buffer is None or self._parked[self._leader]:
            return False
        return buffer.header.opcode == Opcode.WRITE

    def _take_lead(self, me: int) -> None:
        """Make this thread the leader, which keeps the lead until it is busy.  The caller holds ``_state``."""
        self._leader = me
        self._busy_since = 0.0
        if self._waiting:
            self._have_a_spare(least=2)  # this thread still counts as idle

    def _have_a_spare(self, least: int = 1) -> None:
        if self._idle < least and not self._stopping:
            thread = threading.Thread(target=self._work_quietly, name="scheduler", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no more threads: other requests wait until this one is done
                logger.warning("cannot start another thread; other requests wait")
                return
            self._threads = [*(known for known in self._threads if known.is_alive()), thread]

    def _work_quietly(self) -> None:
        """Run ``_work`` with signals blocked, so that the main thread gets them."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        if self._queue is not None:
            self._work(self._queue)

    def _end_threads(self) -> None:
        self.stop()
        with self._state:
            self._state.notify_all()
        for thread in self._threads:
            thread.join()

    def _run_calls(self) -> None:
        while self._calls:
            call = self._calls.popleft()
            self._busy_since = time.monotonic()
            self._posting += 1
            try:
                with self.lock:
                    call()
            finally:
                self._posting -= 1

    def _nudge(self) -> None:
        if self._queue is not None:
            self._queue.wake()
