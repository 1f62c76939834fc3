"""Nothing waits for the kernel while the kernel waits for us: notifications, and a mount that nobody can serve."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.fake_kernel import FUSE_GETATTR, FUSE_OPEN, FUSE_WRITE, LOOKUP, FakeKernel
from support.mounts import LIMIT
from support.processes import until
from support.samples import block_bytes

from asdffs.document.opening import Settings, open_document
from asdffs.document.saves.places import Places
from asdffs.mount import invalidate
from asdffs.mount.dropper import PageDropper
from asdffs.mount.invalidate import Invalidator
from asdffs.mount.loop import Loop
from asdffs.mount.notifications import Notifications
from asdffs.mount.operations import Operations
from asdffs.mount.watchdog import Watchdog
from asdffs.vfs.areas import Areas
from asdffs.vfs.vfs import Vfs

ARRAY = "!core/ndarray-1.0.0"
BODY = f"""a: {ARRAY} {{source: 0, datatype: uint8, byteorder: big, shape: [9]}}
b: {ARRAY} {{source: 1, datatype: uint8, byteorder: big, shape: [9]}}
"""
VIEWS = ["/blocks/0000.bin", "/blocks/0001.bin", "/arrays/a.npy", "/arrays/b.npy", "/exploded/data0000.asdf"]


class Mount:
    """A mount whose kernel is a fake one."""

    def __init__(self, folder: Path) -> None:
        path = folder / "data.asdf"
        blocks = [block_bytes(bytes(range(9))), block_bytes(bytes(range(9)))]
        path.write_bytes(tree_file(BODY, blocks, padding=b" " * 900))
        (folder / "spool").mkdir()
        self.loop = Loop()
        self.kernel = FakeKernel(self.loop)
        self.notifications = Notifications(self.loop.forget_inode)
        settings = Settings(spool=str(folder / "spool"), scheduler=self.loop)
        self.document = open_document(str(path), writable=True, settings=settings)
        told = Invalidator(self.loop, self.notifications, str(folder / "mnt"), PageDropper())
        self.vfs = Vfs(self.document, Places(str(folder / "spool"), str(folder / "spool")), kernel=told)
        self.operations = Operations(
            Areas(self.vfs), self.loop, is_helper=lambda pid: False, ready=lambda: None, ended=lambda: None
        )

    def end(self) -> None:
        self.notifications.stop()
        self.document.close()

    def getattr(self, path: str, opcode: int) -> None:
        self.kernel.ask(opcode, path, lambda: self.operations.getattr(path, None))

    def open(self, path: str) -> int:
        how = os.O_RDONLY if "exploded" in path else os.O_RDWR
        handle: int = self.kernel.ask(FUSE_OPEN, path, lambda: self.operations.open(path, how))
        return handle

    def write(self, path: str, handle: int, at: int, payload: bytes) -> None:
        def work() -> None:
            if not self.operations.overwrite(handle, at, memoryview(payload)):
                self.operations.write(None, memoryview(payload), at, handle)

        self.kernel.ask(FUSE_WRITE, path, work)

    def close(self, path: str, handle: int) -> None:
        self.kernel.ask(FUSE_GETATTR, path, lambda: self.operations.flush(None, handle))
        self.kernel.ask(FUSE_GETATTR, path, lambda: self.operations.release(None, handle))


@pytest.mark.parametrize("seed", range(8))
def test_no_thread_of_the_loop_notifies(tmp_path: Path, seed: int) -> None:
    mount = Mount(tmp_path)
    rng = random.Random(seed)
    handles: dict[int, str] = {}

    def save(number: int) -> None:
        """Give the arrays other shapes, so that there are new nodes at their paths."""
        handle = mount.open("/tree.yaml")
        text = mount.document.tree.text()
        shape = b"[9]" if b"[ 9]" in text else b"[ 9]"
        text = text.replace(b"[ 9]", b"[9]").replace(b"[9]", shape) if rng.random() < 0.8 else text
        mount.kernel.ask(FUSE_WRITE, "/tree.yaml", lambda: mount.operations.truncate(None, 0, handle))
        mount.write("/tree.yaml", handle, 0, text)
        mount.close("/tree.yaml", handle)

    def program() -> None:
        for number in range(120):
            path = rng.choice(VIEWS)
            step = rng.random()
            if step < 0.3:
                mount.getattr(path, rng.choice([LOOKUP, FUSE_GETATTR]))
            elif step < 0.5 and len(handles) < 3:
                handles[mount.open(path)] = path
            elif step < 0.8 and handles:
                handle = rng.choice(list(handles))
                if "exploded" not in handles[handle]:
                    at = 131 if handles[handle].endswith("npy") else 3  # the header of .npy takes 128 bytes
                    mount.write(handles[handle], handle, at, bytes([number]))
            elif step < 0.9 and handles:
                handle = rng.choice(list(handles))
                mount.close(handles.pop(handle), handle)
            else:
                save(number)

    try:
        mount.kernel.serve(program)
    finally:
        mount.end()
    assert mount.kernel.faults == []
    assert mount.kernel.notified


def test_others_are_answered_while_a_notification_hangs() -> None:
    hangs, entered = threading.Event(), threading.Event()

    def send(inode: int) -> None:
        entered.set()
        assert hangs.wait(LIMIT)

    notifications = Notifications(send)
    first = notifications.tell([1])
    assert entered.wait(LIMIT)
    assert not notifications.wait(first, 0)
    assert notifications.since > 0
    second = notifications.tell([2, 3])
    hangs.set()
    assert notifications.wait(second, LIMIT)
    assert notifications.since == 0
    notifications.stop()
    assert notifications.wait(notifications.tell([4]), LIMIT), "nothing is sent any more, or waited for"


def test_an_answer_waits_for_its_notification_and_others_go_on_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel waits, in the notification, for the answer to another request."""
    monkeypatch.setattr(invalidate, "_LONGEST", LIMIT)
    mount = Mount(tmp_path)
    send = mount.loop.forget_inode

    def send_later(inode: int) -> bool:
        mount.getattr(VIEWS[1], FUSE_GETATTR)
        return send(inode)

    mount.notifications._send = send_later

    def program() -> None:
        handle = mount.open(VIEWS[0])
        mount.getattr(VIEWS[2], FUSE_GETATTR)
        mount.write(VIEWS[0], handle, 3, b"x")
        assert mount.kernel.notified
        mount.close(VIEWS[0], handle)

    try:
        mount.kernel.serve(program)
    finally:
        mount.end()
    assert mount.kernel.faults == []


class Stuck:
    """A loop whose only thread waits for the kernel, in a call to a device that never answers."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.device = self.reader
        self.thread = threading.Thread(target=lambda: os.read(self.reader, 1))
        self.thread.start()

    def held_up(self, before: float) -> list[int]:
        return [self.thread.ident or 0]

    def end(self) -> None:
        os.write(self.writer, b".")
        self.thread.join(LIMIT)
        os.close(self.reader)
        os.close(self.writer)


def test_stacks_are_logged_once_and_who_waits_for_the_kernel_is_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loop = Stuck()
    watchdog = Watchdog(loop, Notifications(lambda inode: True), str(tmp_path), limit=0.0)
    try:
        until(lambda: watchdog._waits_for_kernel(loop.held_up(0)[0]))
        assert not watchdog._waits_for_kernel(threading.get_ident())
        watchdog.look()
        watchdog.look()
    finally:
        loop.end()
    told = [record.getMessage() for record in caplog.records]
    assert len([text for text in told if "takes longer than" in text]) == 1
    assert any("os.read(self.reader, 1)" in text for text in told)
    assert not watchdog.aborted, "there is no mount at that place"
