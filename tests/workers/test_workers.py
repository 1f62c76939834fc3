"""Worker processes and helper programs end with the process that started them, however that ends."""

from __future__ import annotations

import contextlib
import gc
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest
from support.mounts import LIMIT, environment_in
from support.processes import children_of, pids_with, until, wait_for
from support.samples import odd_file

from asdffs.allocator import COLLECTIONS
from asdffs.errors import StorageError
from asdffs.workers import lifeline
from asdffs.workers.helpers import helper, text_of
from asdffs.workers.pool import worker_processes

#: Computes in C for years, and never gives up the GIL.
FOREVER = ("(a+)+$", "a" * 60 + "b")
POOL = f"""
import re
from asdffs.workers.pool import worker_processes
if __name__ == "__main__":
    with worker_processes(2, complete=True) as pool:
        pool.submit(print, "begun", flush=True).result()
        for _ in range(2):
            pool.submit(re.match, *{FOREVER})
        print("started", flush=True)
        signal.pause()
"""
HELPER = f"""
from asdffs.workers.helpers import helper
with helper("import re; print('begun', flush=True); re.match(*{FOREVER})", flags=["-I", "-S"]) as process:
    print(process.stdout.readline().decode() + "started", flush=True)
    signal.pause()
"""
#: How a process may end; SIGINT: by an exception.
ENDS = [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT]


@contextlib.contextmanager
def started(folder: Path, script: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has printed ``started``.  The script is a file, as worker processes import it."""
    path = folder / "script.py"
    path.write_text("import signal\n" + script)
    process = subprocess.Popen(
        [sys.executable, path],
        env=environment_in(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line == "started\n":
            break
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("script", "end"),
    [*((HELPER, end) for end in ENDS), *((POOL, end) for end in ENDS if end != signal.SIGINT)],
)
def test_what_computes_forever_ends_with_the_process_that_started_it(
    tmp_path: Path, script: str, end: signal.Signals
) -> None:
    with started(tmp_path, script) as process:
        until(lambda: len(children_of(process.pid)) == (1 if script == HELPER else 3))
        children = children_of(process.pid)
        process.send_signal(end)
        for pid in children:
            wait_for(pid)


def test_a_process_whose_lifeline_was_cut_before_ends_at_once() -> None:
    code = f"exec({text_of(lifeline)!r})\nreader, writer = os.pipe(); os.close(writer); end_with(reader); print(1)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (1, b"")


def test_a_helper_ends_with_its_block() -> None:
    with helper("import time; print(1, flush=True); time.sleep(1000)", flags=["-I", "-S"]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
    assert process.returncode == -signal.SIGKILL


def test_calls_and_what_they_raise() -> None:
    with worker_processes(2, complete=False) as pool:
        assert list(pool.map(abs, range(-5, 0))) == [5, 4, 3, 2, 1]
        with pytest.raises(ZeroDivisionError) as caught:
            pool.submit(divmod, 1, 0).result()
        assert "In a worker process: Traceback" in "".join(caught.value.__notes__)


def test_a_worker_collects_garbage_as_seldom_as_a_command() -> None:
    with worker_processes(1, complete=False) as pool:
        assert pool.submit(gc.get_threshold).result()[:2] == COLLECTIONS[:2]  # 3.14 has no third one
        assert pool.submit(gc.get_freeze_count).result() > 0


def test_only_the_call_whose_process_is_killed_fails() -> None:
    with worker_processes(1, complete=False) as pool:
        killed, next_ = pool.submit(signal.raise_signal, signal.SIGKILL), pool.submit(abs, -1)
        with pytest.raises(StorageError, match="a worker process was killed"):
            killed.result()
        assert next_.result() == 1


@pytest.mark.parametrize("complete", [True, False])
def test_an_interrupt_begins_no_other_call(complete: bool, tmp_path: Path) -> None:
    """``complete``: the call that has begun ends when the file is there, which is made after the interrupt."""
    wait = "while not pathlib.Path({!r}).exists(): pathlib.Path({!r}).touch()"
    made, begun = tmp_path / "made", tmp_path / "begun"
    code = "import pathlib\n" + wait.format(str(made), str(begun))
    with pytest.raises(KeyboardInterrupt), worker_processes(1, complete=complete) as pool:  # noqa: PT012
        first, second = pool.submit(exec, code), pool.submit(abs, -1)
        until(begun.exists)
        second.add_done_callback(lambda _: made.touch() if complete else None)
        raise KeyboardInterrupt
    assert second.cancelled()
    with pytest.raises(CancelledError):
        second.result()
    if complete:
        assert first.result() is None
    else:
        assert isinstance(first.exception(), StorageError)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("words", ["index --jobs 2 --catalog c.db a", "set --jobs 2 value=3"])
def test_regression_workers_outlived_their_command(tmp_path: Path, words: str, end: signal.Signals) -> None:
    """A thousand files, so that the workers are at work when the signal comes."""
    (tmp_path / "a").mkdir()
    for number in range(1000):
        (tmp_path / f"a/{number}.asdf").write_bytes(odd_file())
    files = sorted(map(str, (tmp_path / "a").iterdir())) if words.startswith("set") else []
    mark = f"ASDFFS_TEST={tmp_path}"
    process = subprocess.Popen(
        [sys.executable, "-m", "asdffs", *words.split(), *files],
        cwd=tmp_path,
        env={**environment_in(tmp_path), "ASDFFS_TEST": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: len(pids_with(mark)) >= 4, "two workers, and what multiprocessing starts besides")
    process.send_signal(end)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == (130 if end == signal.SIGINT else -end)
    assert end == signal.SIGKILL or "Traceback" not in err  # a worker that is just starting says what it misses
    until(lambda: not pids_with(mark))
