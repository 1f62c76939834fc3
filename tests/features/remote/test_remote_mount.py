"""Mounts of remote files: what they show, what they refuse, and that a bad server holds up nothing else."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.fits_files import DATA, DQ, write_fits
from support.mounts import LIMIT, asdffs, environment_in, run
from support.remote_files import arrays, make
from support.web_server import Answer, WebServer

pytestmark = pytest.mark.mount

SECRET = "?X-Signature=secret"


@pytest.fixture
def server() -> Iterator[WebServer]:
    with WebServer().running() as found:
        yield found


class Remote:
    """A mount of a URL; unmounted by ``umount``, or at the end."""

    def __init__(self, url: str, folder: Path, *options: str) -> None:
        self.point = folder / "mnt"
        self.point.mkdir()
        self.environment = {**environment_in(folder), "XDG_CACHE_HOME": str(folder / "cache")}
        start = [sys.executable, "-P", "-m", "asdffs"]  # a process of its own, which hides secrets
        done = run(*start, "mount", url, self.point, *options, env=self.environment)
        assert done.returncode == 0, done.stderr

    def umount(self) -> None:
        done = asdffs("umount", self.point, environment=self.environment)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def url(server: WebServer, tmp_path: Path) -> str:
    return server.put("/d/data.asdf", make(tmp_path / "data.asdf")) + SECRET


@pytest.mark.parametrize("local", [True, False])
def test_linked_files(server: WebServer, url: str, tmp_path: Path, local: bool) -> None:
    source = url.removesuffix(SECRET) if local else "data.asdf"
    array = f"{{source: '{source}', datatype: int32, byteorder: little, shape: [512, 512]}}"
    text = (
        f"#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\nx: !core/ndarray-1.1.0 {array}\n"
    )
    raw = f"{text}y: {{$ref: '{source}#/b'}}\n...\n".encode()
    file = tmp_path / "leading.asdf"
    file.write_bytes(raw)
    place = str(file) if local else server.put("/d/leading.asdf", raw)
    mount = Remote(place, tmp_path, *(("-o", f"follow={server.url.removeprefix('http://')}") if local else ()))
    try:
        for name, array in (("x", "a"), ("y", "b")):
            assert np.array_equal(np.load(mount.point / f"arrays/{name}.npy"), arrays()[array])
    finally:
        mount.umount()


def test_everything_is_there_and_read_only(server: WebServer, url: str, tmp_path: Path) -> None:
    mount = Remote(url, tmp_path)
    try:
        for name, array in arrays().items():
            assert np.array_equal(np.load(mount.point / f"arrays/{name}.npy"), array)
            assert np.array_equal(np.load(mount.point / f"arrays/{name}.npy", mmap_mode="r")[::7, 3], array[::7, 3])
        assert (mount.point / "blocks/0001.bin").read_bytes() == arrays()["b"].tobytes()
        assert b"observer: Ada" in (mount.point / "tree.yaml").read_bytes()
        for name in ("tree.yaml", "blocks/0000.bin", "arrays/a.npy"):
            with pytest.raises(OSError, match="Errno") as caught:
                (mount.point / name).open("r+b")
            assert caught.value.errno == errno.EROFS
        status = json.loads((mount.point / ".asdffs/status.json").read_text())
        assert status["file"] == url.partition("?")[0]
        assert status["remote"]["requests"] > 1
        assert status["remote"]["received"] > 2 << 20
        listed = asdffs("ls", "--json", environment=mount.environment).stdout
        for text in (listed, json.dumps(status), Path("/proc/mounts").read_text(), Path(status["log"]).read_text()):
            assert "secret" not in text
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # it has ended
                words = process.read_bytes()
                assert SECRET.encode() not in words or os.fsencode(mount.point) not in words
    finally:
        done = asdffs("umount", url, environment=mount.environment)
        assert (done.returncode, os.path.ismount(mount.point)) == (0, False), done.stderr


def test_a_listing_moves_no_data(server: WebServer, url: str, tmp_path: Path) -> None:
    mount = Remote(url, tmp_path)
    try:
        before = server.sent
        assert run("ls", "-lR", mount.point).returncode == 0
        assert run("find", mount.point, "-size", "+1k").returncode == 0
        assert server.sent - before <= 3 * (1 << 16)  # the headers of the blocks
    finally:
        mount.umount()


#: They run in a process of their own: numpy holds the lock of the interpreter that the server needs.
READ = "numpy.fromfile(sys.argv[1], '<f4', 30 * 4096, offset=128 + 1000 * 4096 * 4)"
MAP = "numpy.load(sys.argv[1], mmap_mode='r')[1000:1030]"


@pytest.mark.parametrize("read", [READ, MAP])
def test_a_cutout_fetches_little_more_than_its_rows(server: WebServer, tmp_path: Path, read: str) -> None:
    image = np.arange(2048 * 4096, dtype="<f4").reshape(2048, 4096)
    asdf.AsdfFile({"image": image}).write_to(tmp_path / "image.asdf")
    mount = Remote(server.put("/image.asdf", (tmp_path / "image.asdf").read_bytes()), tmp_path)
    try:
        before = server.sent
        code = f"import numpy, sys; print({read}.sum(dtype='f8'))"
        done = run(sys.executable, "-c", code, mount.point / "arrays/image.npy")
        assert float(done.stdout) == image[1000:1030].sum(dtype="f8"), done.stderr
        assert server.sent - before <= 1_000_000
    finally:
        mount.umount()


def test_a_hung_server_holds_up_nothing_else(server: WebServer, url: str, tmp_path: Path) -> None:
    """Other reads come, and the mount ends, while a read waits that would wait for longer than a command may take."""
    hang = threading.Event()
    mount = Remote(url, tmp_path, "-o", f"timeout={10 * LIMIT}")
    start = arrays()["a"].tobytes()[:100]
    with (mount.point / "blocks/0000.bin").open("rb", buffering=0) as file:
        assert os.pread(file.fileno(), 100, 0) == start  # block 1 is too far away to be fetched ahead
    server.fault = lambda request: Answer(wait=hang)
    count = len(server.requests)
    reader = subprocess.Popen(["cat", mount.point / "blocks/0001.bin"], stdout=subprocess.DEVNULL)
    try:
        server.await_requests(count + 1)
        (mount.point / "tree.yaml").read_bytes()
        with (mount.point / "blocks/0000.bin").open("rb", buffering=0) as file:
            assert os.pread(file.fileno(), 100, 0) == start
        assert reader.poll() is None, "it waits"
    finally:
        reader.kill()
        reader.wait(LIMIT)
        mount.umount()
        hang.set()


def test_errors_are_eio_and_estale_with_a_sentence(server: WebServer, url: str, tmp_path: Path) -> None:
    mount = Remote(url, tmp_path)
    try:
        server.fault = lambda request: Answer(status=403)
        with pytest.raises(OSError, match="Errno") as caught:
            (mount.point / "blocks/0001.bin").read_bytes()
        assert caught.value.errno == errno.EIO
        assert "access is denied" in (mount.point / ".asdffs/error").read_text()
        server.fault = lambda request: None
        assert (mount.point / "blocks/0001.bin").read_bytes() == arrays()["b"].tobytes()
    finally:
        mount.umount()


def test_a_change_is_estale_with_a_sentence(server: WebServer, url: str, tmp_path: Path) -> None:
    mount = Remote(url, tmp_path)
    try:
        raw = server.objects["/d/data.asdf"]
        server.objects["/d/data.asdf"] = raw.replace(b"Ada", b"Eve")
        with pytest.raises(OSError, match="Errno") as caught:
            (mount.point / "blocks/0001.bin").read_bytes()
        assert caught.value.errno == errno.ESTALE
        assert "changed on the server" in (mount.point / ".asdffs/error").read_text()
    finally:
        mount.umount()


def test_a_fits_file(server: WebServer, tmp_path: Path) -> None:
    path = tmp_path / "jw.fits"
    write_fits(path)
    mount = Remote(server.put("/jw.fits", path.read_bytes()), tmp_path)
    try:
        assert np.array_equal(np.load(mount.point / "arrays/data.npy"), DATA)
        assert np.array_equal(np.load(mount.point / "arrays/dq.npy"), DQ)
    finally:
        mount.umount()
