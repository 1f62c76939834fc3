"""Counters of mounts: in ``status.json``, ``asdffs ls`` and as Prometheus reads them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.mounts import asdffs, environment_in, mounted
from support.processes import until
from support.samples import write_sample

from asdffs.cli.mounts import is_status
from asdffs.features import metrics
from asdffs.features.metrics import served, text_of
from asdffs.mount import daemon
from asdffs.mount.loop import Loop
from asdffs.mount.session import RequestBuffer

SCHEMAS = Path(__file__).parents[3] / "docs/schemas"


def values_of(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """The samples of an exposition, by name and the values of their labels."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def get(address: object) -> str:
    with urllib.request.urlopen(str(address)) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return str(answer.read().decode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "archive").mkdir()
    for name in "ab":
        write_sample(tmp_path / "archive" / f"{name}.asdf")
    return tmp_path / "archive"


def read_and_write(place: Path) -> tuple[int, int]:
    """Read a block, write into it, and save a tree that is refused; return the bytes that were read and written."""
    block = place / "blocks/0000.bin"
    content = block.read_bytes()
    with open(block, "r+b") as file:
        file.write(b"mine")
    with pytest.raises(OSError, match="Bad message"):
        (place / "tree.yaml").write_bytes(b"nonsense")
    return len(content), len(b"mine") + len(b"nonsense")


@pytest.mark.mount
@pytest.mark.parametrize("kind", ["file", "archive"])
def test_what_a_mount_did_is_counted(folder: Path, kind: str) -> None:
    environment = environment_in(folder.parent)
    what = folder if kind == "archive" else folder / "a.asdf"
    with mounted(what, "-o", "metrics=0,idle=0.2", code=7, environment=environment) as mount:
        inside = mount.point / "a.asdf.d" if kind == "archive" else mount.point
        read, written = read_and_write(inside)
        status = mount.status
        jsonschema.validate(status, json.loads((SCHEMAS / "status.json").read_text()))
        counters = status["counters"]
        assert isinstance(counters, dict)
        assert counters["written"] == written
        assert counters["read"] >= read
        assert (counters["errors"], counters["refusals"], counters["open_documents"]) == (1, 1, 1)
        assert counters["requests"]["WRITE"] == 2
        assert counters["oldest_request"] == 0
        found = values_of(get(status["metrics"]))
        labels = str(mount.file), str(mount.point)
        assert found["asdffs_up"] == {labels: 1}
        assert found["asdffs_written_bytes_total"] == {labels: written}
        assert found["asdffs_refusals_total"] == {labels: 1}
        assert found["asdffs_requests_total"][*labels, "WRITE"] == 2
        said = asdffs("ls", "--prometheus", environment=environment)
        assert values_of(said.stdout)["asdffs_written_bytes_total"][labels] == written
        listed = asdffs("ls", "--json", environment=environment)
        ours = next(one for one in json.loads(listed.stdout) if one["mountpoint"] == str(mount.point))
        assert ours["counters"]["written"] == written
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(str(status["metrics"]).replace("/metrics", "/other"))
        (inside / "tree.yaml").write_bytes((inside / ".asdffs/committed.yaml").read_bytes())
    with pytest.raises(urllib.error.URLError):
        get(status["metrics"])


@pytest.mark.mount
def test_a_mount_that_does_not_answer_is_down(folder: Path) -> None:
    with mounted(folder / "a.asdf", code=None) as mount:
        os.kill(mount.pid, signal.SIGSTOP)
        try:
            found = values_of(asdffs("ls", "--prometheus", environment=mount.environment).stdout)
        finally:
            os.kill(mount.pid, signal.SIGCONT)
        down = {labels: value for labels, value in found["asdffs_up"].items() if str(mount.point) in labels}
        assert [*down.values()] == [0]
        assert not any(str(mount.point) in labels for labels in found.get("asdffs_read_bytes_total", {}))


def test_a_slow_client_holds_up_neither_others_nor_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that sends a byte now and then has as long as one that sends nothing."""
    monkeypatch.setattr(metrics, "_PATIENCE", 0.3)
    over = threading.Event()

    def drip(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as client, contextlib.suppress(OSError):
            for _ in range(1000):
                client.send(b"X")
                if over.wait(0.05):
                    return

    facts = {"file": "/a", "mountpoint": "/m", "state": "serving", "counters": {}}
    with served("127.0.0.1", 0, lambda: facts) as address:
        slow = [threading.Thread(target=drip, args=(int(address.split(":")[2].split("/")[0]),)) for _ in range(3)]
        for one in slow:
            one.start()
        assert values_of(get(address))["asdffs_up"] == {("/a", "/m"): 1}
    over.set()
    for one in slow:
        one.join()


@pytest.mark.mount
def test_a_client_that_says_nothing_does_not_keep_a_mount(folder: Path) -> None:
    with mounted(folder / "a.asdf", "-o", "metrics=127.0.0.1:0") as mount:
        port = int(str(mount.status["metrics"]).split(":")[2].split("/")[0])
        client = socket.create_connection(("127.0.0.1", port))
        client.send(b"GET /metrics HT")
        assert (mount.point / "tree.yaml").read_bytes().startswith(b"#ASDF")
    client.close()
    assert mount.umount is not None
    assert mount.umount.returncode == 0


def test_an_address_of_ipv6() -> None:
    with served("::1", 0, lambda: {"file": "/a", "mountpoint": "/m", "state": "serving"}) as address:
        assert address.startswith("http://[::1]:")
        assert values_of(get(address))["asdffs_up"] == {("/a", "/m"): 1}


def test_a_loop_that_does_not_get_on_tells_the_age_of_its_oldest_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "_PATIENCE", 0.01)
    loop = Loop()
    loop._answering[1] = RequestBuffer()
    loop._answering[1].since = time.monotonic() - 50
    content = SimpleNamespace(path="/a", counters=dict)
    facts = daemon.live_facts(content, SimpleNamespace(loop=loop, mountpoint="/m"))  # type: ignore[arg-type]
    assert facts["state"] == "not answering"
    assert 50 <= facts["counters"]["oldest_request"] < 60
    found = values_of(text_of([facts]))
    assert found["asdffs_up"] == {("/a", "/m"): 0}
    assert found["asdffs_oldest_request_seconds"][("/a", "/m")] >= 50


def test_two_mounts_or_operations_that_are_written_alike_spoil_nothing() -> None:
    """Prometheus takes none of the samples if two have the same labels."""
    one = {
        "file": "/a\x01",
        "mountpoint": "/m",
        "state": "serving",
        "counters": {"requests": {"A\x01": 1, "A\\x01": 2, "READ": 3}},
    }
    text = text_of([one, {**one, "file": "/a\\x01"}])
    lines = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) == len({*lines})
    assert [*values_of(text)["asdffs_requests_total"].values()] == [3]


@pytest.mark.mount
@pytest.mark.parametrize(
    ("option", "code", "sentence"),
    [
        ("metrics=x", 2, "metrics=x: give HOST:PORT, such as 127.0.0.1:9101, or PORT of this machine alone"),
        ("metrics=70000", 2, "give HOST:PORT"),
        ("metrics=192.0.2.1:0", 6, "no metrics can be served at 192.0.2.1:0: Cannot assign requested address"),
    ],
)
def test_what_is_refused(folder: Path, option: str, code: int, sentence: str) -> None:
    point = folder.parent / "point"
    point.mkdir()
    done = asdffs("mount", folder, point, "-o", option, environment=environment_in(folder.parent))
    assert (done.returncode, sentence in done.stderr) == (code, True), done.stderr
    assert not os.path.ismount(point)


@pytest.mark.mount
def test_a_port_in_use_is_refused_before_the_mount(folder: Path, tmp_path: Path) -> None:
    with mounted(folder / "a.asdf", "-o", "metrics=0") as mount:
        port = str(mount.status["metrics"]).split(":")[2].split("/")[0]
        point = tmp_path / "other"
        point.mkdir()
        done = asdffs("mount", "-o", f"metrics={port}", folder / "b.asdf", point, environment=mount.environment)
        assert (done.returncode, "Address already in use" in done.stderr) == (6, True), done.stderr


def test_names_that_are_not_text_and_mounts_without_counters() -> None:
    odd = {"file": "/data/\udcff\n.asdf", "mountpoint": '/mnt/"x"', "state": "serving", "counters": {"read": 5}}
    dead = {"file": "/data/a.asdf", "mountpoint": "/mnt/y", "state": "not answering", "counters": None}
    found = values_of(text_of([odd, dead]))
    assert found["asdffs_up"] == {("/data/\\xff\\n.asdf", '/mnt/"x"'): 1, ("/data/a.asdf", "/mnt/y"): 0}
    assert [*found["asdffs_read_bytes_total"].values()] == [5]


@pytest.mark.parametrize(
    "counters",
    [[], {"read": -1}, {"read": "x"}, {"read": True, "x": []}, {"r": float("nan")}, {str(n): 0 for n in range(101)}],
)
def test_counters_of_a_hostile_mount_are_not_taken(counters: object) -> None:
    status = {"file": "/a", "report": "", "log": "", "pid": 5, "progress": []}
    assert is_status(status | {"counters": {"read": 5, "requests": {"READ": 2}}})
    assert not is_status(status | {"counters": counters})


def test_the_facts_are_asked_for_at_each_request() -> None:
    asked = []

    def facts() -> dict[str, object]:
        asked.append(1)
        return {"file": "/a", "mountpoint": "/m", "state": "serving", "counters": {"read": len(asked)}}

    with served("127.0.0.1", 0, facts) as address:
        for count in (1, 2):
            assert [*values_of(get(address))["asdffs_read_bytes_total"].values()] == [count]
    until(lambda: len(asked) == 2)


def test_the_age_of_the_oldest_request_that_others_answer() -> None:
    loop = Loop()
    assert loop.oldest == 0
    for thread, age in ((threading.get_ident(), 60.0), (1, 20.0), (2, 40.0)):
        loop._answering[thread] = RequestBuffer()
        loop._answering[thread].since = time.monotonic() - age
    assert 40 <= loop.oldest < 60


@pytest.mark.mount
@pytest.mark.parametrize("kind", ["file", "archive"])
def test_regression_counters_made_status_json_change_while_it_was_read(folder: Path, kind: str) -> None:
    """By size or time, which tar(1) takes for a change.  Each open has the numbers of that moment."""
    with mounted(folder if kind == "archive" else folder / "a.asdf") as mount:
        status = mount.point / ".asdffs/status.json"
        before, seen = status.stat(), []
        for _ in range(3):
            seen.append(mount.status["counters"]["requests"]["OPEN"])  # type: ignore[index]
            (mount.point / ("a.asdf" if kind == "archive" else "tree.yaml")).read_bytes()
        after = status.stat()
        assert (after.st_size, after.st_mtime_ns, after.st_ctime_ns) == (
            before.st_size,
            before.st_mtime_ns,
            before.st_ctime_ns,
        )
        assert seen == sorted({*seen})
        assert len({*seen}) == 3
