"""The network goes away while a remote file is mounted, and comes back."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.mounts import asdffs, environment_in, run
from support.processes import until
from support.remote_files import arrays, make

pytestmark = [
    pytest.mark.long,
    pytest.mark.mount,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="network namespaces need root and ip(8)"),
]

DEEP = bool(os.environ.get("ASDFFS_DEEP"))
TIMEOUT = 3
SERVER = """
import sys
from pathlib import Path
from support.web_server import WebServer
with WebServer(sys.argv[1]).running() as server:
    print(server.put("/data.asdf", Path(sys.argv[2]).read_bytes()), flush=True)
    sys.stdin.read()
"""


class Network:
    """A client and a server, each in a network namespace of its own, with a cable.  ``url``: of the server's file."""

    def __init__(self, folder: Path) -> None:
        self.near, self.far = f"asdffs{os.getpid()}near", f"asdffs{os.getpid()}far"
        self._folder = folder
        self.url = ""

    def run(self) -> Iterator[Network]:
        for name in (self.near, self.far):
            ip("netns", "add", name)
        try:
            ip("-n", self.near, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", self.far)
            for name, address in ((self.near, "192.0.2.1/30"), (self.far, "192.0.2.2/30")):
                ip("-n", name, "address", "add", address, "dev", "cable")
                ip("-n", name, "link", "set", "cable", "up")
            command = [*inside(self.far), sys.executable, "-c", SERVER, "192.0.2.2"]
            tests = str(Path(__file__).parents[2])
            with subprocess.Popen(
                [*command, str(self._folder / "data.asdf")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": tests},
            ) as process:
                assert process.stdout is not None
                self.url = process.stdout.readline().strip()
                try:
                    yield self
                finally:
                    process.communicate()
        finally:
            for name in (self.near, self.far):
                ip("netns", "delete", name)

    def set(self, state: str) -> None:
        """Plug the cable in (``up``) or out (``down``) at the far end: the near one sees nothing but silence."""
        ip("-n", self.far, "link", "set", "cable", state)


def inside(namespace: str) -> list[str]:
    return ["nsenter", f"--net=/run/netns/{namespace}"]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    make(tmp_path / "data.asdf")
    yield from Network(tmp_path).run()


def is_read(path: Path) -> bool:
    try:
        return bool(path.read_bytes())
    except OSError:
        return False


def test_it_goes_away_and_comes_back(network: Network, tmp_path: Path) -> None:
    point = tmp_path / "mnt"
    point.mkdir()
    environment = {**environment_in(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = ["mount", network.url, point, "-o", f"timeout={TIMEOUT}"]
    done = run(*inside(network.near), sys.executable, "-P", "-m", "asdffs", *words, env=environment)
    assert done.returncode == 0, done.stderr
    try:
        head = arrays()["a"].tobytes()[:1000]
        with (point / "blocks/0000.bin").open("rb", buffering=0) as file:
            assert file.read(1000) == head  # block 1 is too far away to be fetched ahead
        network.set("down")
        began = time.monotonic()
        with pytest.raises(OSError, match="Errno") as caught:
            (point / "blocks/0001.bin").read_bytes()
        assert caught.value.errno == errno.EIO
        assert not DEEP or time.monotonic() - began < TIMEOUT + 3
        assert "data.asdf: the server " in (point / ".asdffs/error").read_text()
        with (point / "blocks/0000.bin").open("rb", buffering=0) as file:
            assert file.read(1000) == head, "what was fetched is served"
        network.set("up")
        until(lambda: is_read(point / "blocks/0001.bin"))
        for name, array in arrays().items():
            assert np.array_equal(np.load(point / f"arrays/{name}.npy"), array)
        network.set("down")
        began = time.monotonic()
    finally:
        done = asdffs("umount", point, environment=environment)
    assert done.returncode == 0, done.stderr
    assert not DEEP or time.monotonic() - began < 5
