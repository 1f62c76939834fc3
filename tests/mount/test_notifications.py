"""Nothing waits for the kernel while the kernel waits for us: notifications, and a mount that nobody can serve."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.fake_kernel import FakeKernel
from support.mounts import LIMIT
from support.processes import until
from support.samples import block_bytes

from asdffs.document.opening import Settings, open_document
from asdffs.document.saves.history import Places
from asdffs.mount import invalidate
from asdffs.mount.answers import OPENED
from asdffs.mount.dropper import PageDropper
from asdffs.mount.invalidate import Invalidator, Notifications
from asdffs.mount.loop import Loop
from asdffs.mount.protocol import GetAttributes, Handle, Opcode, Open, SetAttributes, SetFlag, Write
from asdffs.mount.watchdog import Watchdog
from asdffs.vfs.areas import Areas
from asdffs.vfs.inodes import ROOT
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
        self.notifications = Notifications(self.loop.forget_attributes)
        settings = Settings(spool=str(folder / "spool"), scheduler=self.loop)
        self.document = open_document(str(path), writable=True, settings=settings)
        told = Invalidator(self.loop, self.notifications, str(folder / "mnt"), PageDropper())
        vfs = Vfs(self.document, Places(str(folder / "spool"), str(folder / "spool")), kernel=told)
        self.areas = Areas(vfs)

    def serve(self, program: Callable[[], None]) -> None:
        try:
            self.kernel.serve(self.areas, program)
        finally:
            self.notifications.stop()
            self.document.close()

    def getattr(self, path: str) -> None:
        self.kernel.ask(Opcode.GETATTR, self.kernel.node(path), GetAttributes(0, 0))

    def open(self, path: str) -> int:
        how = os.O_RDONLY if "exploded" in path else os.O_RDWR
        opened = self.kernel.ask(Opcode.OPEN, self.kernel.node(path), Open(how, 0))
        return int(OPENED.unpack_from(opened)[0])

    def write(self, handle: int, at: int, payload: bytes) -> None:
        self.kernel.ask(Opcode.WRITE, ROOT, Write(handle, at, len(payload), 0, memoryview(payload)))

    def close(self, handle: int) -> None:
        self.kernel.ask(Opcode.FLUSH, ROOT, Handle(handle))
        self.kernel.ask(Opcode.RELEASE, ROOT, Handle(handle))


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
        cut = SetAttributes(SetFlag.SIZE | SetFlag.HANDLE, handle, 0, 0, 0, 0, 0, 0, 0, 0)
        mount.kernel.ask(Opcode.SETATTR, mount.kernel.node("/tree.yaml"), cut)
        mount.write(handle, 0, text)
        mount.close(handle)

    def program() -> None:
        for number in range(120):
            path = rng.choice(VIEWS)
            step = rng.random()
            if step < 0.3:
                mount.getattr(path)
            elif step < 0.5 and len(handles) < 3:
                handles[mount.open(path)] = path
            elif step < 0.8 and handles:
                handle = rng.choice(list(handles))
                if "exploded" not in handles[handle]:
                    at = 131 if handles[handle].endswith("npy") else 3  # the header of .npy takes 128 bytes
                    mount.write(handle, at, bytes([number]))
            elif step < 0.9 and handles:
                handle = rng.choice(list(handles))
                del handles[handle]
                mount.close(handle)
            else:
                save(number)

    mount.serve(program)
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
    send = mount.loop.forget_attributes

    def send_later(inode: int) -> bool:
        mount.getattr(VIEWS[1])
        return send(inode)

    mount.notifications._send = send_later

    def program() -> None:
        handle = mount.open(VIEWS[0])
        mount.getattr(VIEWS[2])
        mount.write(handle, 3, b"x")
        assert mount.kernel.notified
        mount.close(handle)

    mount.serve(program)
    assert mount.kernel.faults == []


def test_a_change_is_not_answered_before_others_are_told_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another request took the list of what is to be told, and its notification hangs."""
    monkeypatch.setattr(invalidate, "_LONGEST", LIMIT)
    mount, hangs = Mount(tmp_path), threading.Event()
    mount.notifications._send = lambda inode: hangs.wait(LIMIT)
    vfs = mount.areas.root
    assert isinstance(vfs, Vfs)
    block, other = (vfs.names.walk(path) for path in (VIEWS[0], VIEWS[2]))
    other.inode = 77
    vfs.attributes(other)
    handle = vfs.open(block, write=True, truncate=False)
    vfs.write(handle, 3, b"x")
    others = [threading.Thread(target=vfs.tell_changes, kwargs={"wait": True}) for _ in range(2)]
    for number, thread in enumerate(others):
        thread.start()
        until(lambda: mount.notifications.since > 0)
        thread.join(0 if number == 0 else 0.1)
    assert [thread.is_alive() for thread in others] == [True, True]
    hangs.set()
    for thread in others:
        thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in others)
    mount.notifications.stop()
    mount.document.close()


class Stuck(Loop):
    """A loop whose only thread waits for the kernel, in a call to a device that never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.reader, self.writer = os.pipe()
        self.thread = threading.Thread(target=lambda: os.read(self.reader, 1))
        self.thread.start()

    @property
    def device(self) -> int:
        return self.reader

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
