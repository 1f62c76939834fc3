"""The watch on a directory: it is stopped at any moment, and leaves no thread of its own behind."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from support.mounts import LIMIT

from asdffs.storage.watch import DirectoryWatch


def own_threads() -> list[str]:
    import watchdog.observers.api as api

    return [
        thread.name
        for thread in threading.enumerate()
        if thread.name == "watch" or isinstance(thread, api.BaseObserver | api.EventEmitter)
    ]


@pytest.mark.parametrize("begun", [False, True])
def test_regression_threads_of_a_stopped_watch_outlived_the_command(tmp_path: Path, *, begun: bool) -> None:
    """``asdffs watch`` ended with SIGSEGV once: a thread was importing while the interpreter ended."""
    names: list[str] = []
    ready = threading.Event()

    def noticed(name: str) -> None:
        names.append(name)
        ready.set()

    watch = DirectoryWatch(str(tmp_path), noticed)
    watch.start()
    if begun:
        assert ready.wait(LIMIT)
    watch.stop()
    watch.join()
    assert own_threads() == []
    before = len(names)
    (tmp_path / "late").write_bytes(b"")
    assert len(names) == before


def test_a_watch_that_never_started_is_stopped(tmp_path: Path) -> None:
    watch = DirectoryWatch(str(tmp_path), lambda _: None)
    watch.stop()
    watch.join()
    assert own_threads() == []
