"""Reading over http from a server that tells what it was asked for, and that does everything wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asdf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.calls import calls
from support.mounts import LIMIT
from support.remote_files import arrays, make, ranges, refusing
from support.web_server import Answer, Request, WebServer

from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document
from asdffs.document.scanning import read_text
from asdffs.errors import AsdffsError, MissingFileError, RemoteError, StaleFileError
from asdffs.features.remote import fetching, transport
from asdffs.features.remote.backends.remote import RemoteFolder
from asdffs.features.remote.cache import PAGE, CacheFile, used
from asdffs.scheduling import SerialCalls, SingleThread
from asdffs.storage.backend import Extent, read_bytes
from asdffs.storage.urls import RemoteOptions

SECRET = "?X-Signature=secret"
PATIENT = RemoteOptions(timeout=LIMIT)


@pytest.fixture
def server() -> Iterator[WebServer]:
    with WebServer().running() as found:
        yield found


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class Clock:
    """The module ``time`` of who asks a server again: only pauses take time, and they are over at once.

    ``pauses``: in seconds.
    """

    time = staticmethod(time.time)

    def __init__(self) -> None:
        self.pauses = list[float]()

    def monotonic(self) -> float:
        return sum(self.pauses)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (fetching, transport):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def url(server: WebServer, tmp_path: Path) -> str:
    return server.put("/d/data.asdf", make(tmp_path / "data.asdf")) + SECRET


def opened(url: str, remote: RemoteOptions = PATIENT) -> Document:
    return open_document(url, writable=False, settings=Settings(scheduler=SerialCalls(), remote=remote))


def test_an_open_makes_few_calls(server: WebServer, url: str) -> None:
    """A second file of a server that is known: calls of asdffs, without those of the HTTP client."""
    opened(url).close()
    second = server.put("/d/second.asdf", server.objects["/d/data.asdf"]) + SECRET
    documents: list[Document] = []
    found = calls(lambda: documents.append(opened(second)))
    documents[0].close()
    assert len([name for name in found if name[0] not in "/<"]) <= 350


def test_few_right_requests(server: WebServer, url: str) -> None:
    size = len(server.objects["/d/data.asdf"])
    assert b"observer: Ada" in read_text(url, PATIENT)
    assert ranges(server) == [(0, 1 << 16)]
    with opened(url) as document:
        asked = ranges(server)
        assert (len(asked), asked[0]) == (2, (0, 1 << 16))
        assert sum(min(stop, size) - start for start, stop in asked) <= 128 << 10
        assert sorted(document.arrays) == ["a", "b", "c"]
        assert ranges(server) == []
        assert np.array_equal(document.arrays["b"][100:130, 200:230], arrays()["b"][100:130, 200:230])
        assert sum(stop - start for start, stop in ranges(server)) < 1 << 20
        for name, array in arrays().items():
            assert np.array_equal(document.arrays[name], array)
    ranges(server)
    with opened(url) as document:  # all of it was kept
        for name, array in arrays().items():
            assert np.array_equal(document.arrays[name], array)
    assert ranges(server) == [(0, 1 << 16)]


def test_nothing_is_kept_without_a_cache(server: WebServer, url: str) -> None:
    with opened(url, RemoteOptions(cache=False)) as document:
        assert np.array_equal(document.arrays["a"], arrays()["a"])
    assert used() == (0, 0)


def test_any_reads(server: WebServer, tmp_path_factory: pytest.TempPathFactory) -> None:
    raw = np.random.default_rng(3).integers(0, 256, 700_003, np.uint8).tobytes()
    url = server.put("/r", raw)

    @given(st.lists(st.tuples(st.integers(0, len(raw) + 5), st.integers(0, 200_000)), max_size=8))
    def check(reads: list[tuple[int, int]]) -> None:
        folder = RemoteFolder(url, RemoteOptions(cache=False), SingleThread())
        backend = folder.open(folder.name, writable=False)
        for offset, length in reads:
            assert backend.read_at(offset, length) == raw[offset : offset + length]
        backend.close()

    check()


def test_threads_that_read_the_same_and_other_parts(server: WebServer) -> None:
    raw = np.random.default_rng(4).integers(0, 256, 6_000_000, np.uint8).tobytes()
    folder = RemoteFolder(server.put("/r", raw), PATIENT, SingleThread())
    backend = folder.open(folder.name, writable=False)
    wrong = list[int]()

    def read(number: int) -> None:
        rng = np.random.default_rng(number % 4)
        for offset in rng.integers(0, len(raw) - 70_000, 60).tolist():
            if read_bytes(backend.extent(offset, 70_000)) != raw[offset : offset + 70_000]:
                wrong.append(offset)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert server.sent <= 2.5 * len(raw)  # what is on its way is not asked for again
    backend.close()


def test_a_sequential_read_looks_ahead(server: WebServer) -> None:
    raw = bytes(8_000_000)
    folder = RemoteFolder(server.put("/r", raw), PATIENT, SingleThread())
    backend = folder.open(folder.name, writable=False)
    for offset in range(0, len(raw), 1 << 17):
        backend.extent(offset, 1 << 17)
    assert len(server.requests) < 25  # of 62 reads
    assert server.sent <= len(raw) + (1 << 16)
    backend.close()


def test_scattered_parts_are_asked_for_at_the_same_time(server: WebServer, tmp_path: Path) -> None:
    """No answer comes before all parts of a column through a cube were asked for."""
    cube = np.random.default_rng(5).integers(0, 9, (20, 200, 200)).astype("<i4")
    asdf.AsdfFile({"cube": cube}).write_to(tmp_path / "cube.asdf")
    url = server.put("/cube.asdf", (tmp_path / "cube.asdf").read_bytes())
    all_asked = threading.Event()
    with opened(url) as document:
        ranges(server)

        def fault(request: Request) -> Answer:
            if len(server.requests) == 18:  # the first plane came with the head, as far as it is asked for
                all_asked.set()
            return Answer(wait=all_asked)

        server.fault = fault
        assert np.array_equal(document.arrays["cube"][:, 10, 10:20], cube[:, 10, 10:20])
    assert all_asked.is_set()
    assert sum(stop - start for start, stop in ranges(server)) <= 19 * 2 * PAGE


def test_what_was_fetched_is_synced_when_nothing_more_is_asked_for(
    server: WebServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = threading.Event()
    keep = CacheFile.keep

    def noted(file: CacheFile) -> None:
        keep(file)
        synced.set()

    monkeypatch.setattr(CacheFile, "keep", noted)
    monkeypatch.setattr("asdffs.features.remote.fetching._IDLE", 0.05)
    with opened(url) as document:
        assert np.array_equal(document.arrays["a"], arrays()["a"])
        assert synced.wait(LIMIT)


#: Between requests while the server is busy, until the time that a read may take is over.
PAUSES = [0.2, 0.4, 0.8, 1.6, 3.2, *[5] * 22]
#: By name: what the server does, what is said about it, and the pauses before it is asked again.
FAULTS: dict[str, tuple[Callable[[], Any], str, list[float]]] = {
    "403": (lambda: refusing(403, 99), "access is denied", []),
    "416": (lambda: refusing(416, 99), "fewer bytes than it said", []),
    "cut": (lambda: lambda request: Answer(cut=10), "the connection ended", PAUSES),
    "other bytes": (
        lambda: lambda request: Answer(headers={"Content-Range": "bytes 0-9/9999999"}, body=b"0123456789"),
        "other bytes",
        PAUSES,
    ),
    "503": (lambda: refusing(503, 999), "status 503", PAUSES),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_stays_wrong_is_a_sentence_without_secrets(server: WebServer, url: str, clock: Clock, name: str) -> None:
    fault, words, pauses = FAULTS[name]
    with opened(url, RemoteOptions(timeout=LIMIT, cache=False)) as document:
        server.fault = fault()
        before = len(server.requests)
        with pytest.raises(AsdffsError) as caught:
            document.arrays["a"][...]
        assert clock.pauses == pauses
        assert len(server.requests) - before == 1 + len(pauses)
        assert words in str(caught.value)
        assert "/d/data.asdf" in str(caught.value)
        assert "secret" not in str(caught.value)
        server.fault = lambda request: None
        if not isinstance(caught.value, StaleFileError):
            assert np.array_equal(document.arrays["a"], arrays()["a"])  # it recovers by itself


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_passes_is_tried_again(server: WebServer, url: str, clock: Clock, status: int) -> None:
    server.fault = refusing(status, 2)  # type: ignore[assignment]
    with opened(url) as document:
        server.fault = refusing(status, 3)  # type: ignore[assignment]
        assert np.array_equal(document.arrays["a"], arrays()["a"])
    assert clock.pauses == [0.2, 0.4, 0.2, 0.4, 0.8]


def test_the_server_says_when_to_come_back(server: WebServer, url: str, clock: Clock) -> None:
    def fault(request: Request) -> Answer | None:
        return Answer(status=429, headers={"Retry-After": "1"}) if request.number == 0 else None

    server.fault = fault
    opened(url).close()
    assert clock.pauses == [1]


def test_the_server_says_when_to_come_back_to_a_part(server: WebServer, url: str, clock: Clock) -> None:
    with opened(url) as document:
        count = len(server.requests)

        def fault(request: Request) -> Answer | None:
            again = request.number - count
            return Answer(status=503, headers={"Retry-After": "2"}) if again < 2 else None

        server.fault = fault
        assert np.array_equal(document.arrays["a"][300:303], arrays()["a"][300:303])
        assert clock.pauses == [2, 2]
        assert {request.headers["if-match"] for request in server.requests[count:]} == {
            server.tag(server.objects["/d/data.asdf"])
        }


@pytest.mark.parametrize(("status", "kind"), [(404, MissingFileError), (403, RemoteError), (401, RemoteError)])
def test_a_file_that_cannot_be_opened(server: WebServer, url: str, status: int, kind: type[AsdffsError]) -> None:
    server.fault = refusing(status, 9)  # type: ignore[assignment]
    with pytest.raises(kind, match=f"({status})") as caught:
        opened(url)
    assert "secret" not in str(caught.value)
    assert len(server.requests) == 1


def test_no_server_and_no_name(clock: Clock) -> None:
    for place in ("127.0.0.1:9", "name.invalid"):
        with pytest.raises(RemoteError):
            opened(f"http://{place}/a.asdf", RemoteOptions(timeout=1))


@pytest.mark.parametrize("strong", [True, False])
def test_a_change_is_told_and_never_mixed(server: WebServer, url: str, tmp_path: Path, *, strong: bool) -> None:
    server.strong = strong
    with opened(url) as document:
        document.arrays["a"][0, 0]
        raw = server.objects["/d/data.asdf"]
        server.objects["/d/data.asdf"] = raw.replace(b"Ada", b"Eve")
        for _ in range(2):
            with pytest.raises(StaleFileError, match="changed on the server"):
                document.arrays["b"][...]
    with opened(url) as document:
        assert document.values["meta"]["observer"] == "Eve"


def test_without_a_tag_the_date_counts(server: WebServer, url: str) -> None:
    server.fault = lambda request: Answer(headers={"ETag": ""})
    with opened(url) as document:
        server.changed += 100
        with pytest.raises(StaleFileError):
            document.arrays["b"][...]


def test_what_cannot_be_told_apart_is_not_kept(server: WebServer, url: str) -> None:
    server.fault = lambda request: Answer(headers={"ETag": ""})
    server.changed = time.time()
    opened(url).close()
    assert used() == (0, 0)


def test_a_server_without_ranges(server: WebServer, url: str) -> None:
    server.fault = lambda request: Answer(ranges=False)
    with opened(url) as document:
        for name, array in arrays().items():
            assert np.array_equal(document.arrays[name], array)
    assert len(server.requests) == 2
    opened(url).close()
    assert len(server.requests) == 3  # it is in the cache
    with pytest.raises(RemoteError, match="not downloaded as a whole"):
        opened(url + "2", RemoteOptions(whole_max=1 << 20, cache=False))


@pytest.mark.parametrize("framing", ["chunked", "closed"])
def test_regression_a_whole_file_without_a_length(server: WebServer, url: str, framing: str) -> None:
    """Its end tells the size (RFC 9112, 6.3); nothing is kept, because the size is not known before."""
    server.fault = lambda request: Answer(ranges=False, framing=framing)
    for _ in range(2):
        with opened(url) as document:
            for name, array in arrays().items():
                assert np.array_equal(document.arrays[name], array)
    assert (len(server.requests), used()) == (4, (0, 0))
    with pytest.raises(RemoteError, match="more than 100000 bytes, and does not say how many"):
        opened(url, PATIENT._replace(whole_max=100_000))


@pytest.mark.parametrize("later", [False, True])
def test_regression_a_range_without_the_size_of_the_file(server: WebServer, url: str, *, later: bool) -> None:
    """The first answer makes the file come as a whole; for others the size is known."""
    size = len(server.objects["/d/data.asdf"])

    def fault(request: Request) -> Answer | None:
        if request.first is None or request.last is None or bool(request.first) != later:
            return None
        return Answer(headers={"Content-Range": f"bytes {request.first}-{min(request.last, size - 1)}/*"})

    server.fault = fault
    with opened(url, RemoteOptions(cache=False, timeout=LIMIT)) as document:
        for name, array in arrays().items():
            assert np.array_equal(document.arrays[name], array)
    assert [request.first for request in server.requests].count(None) == (not later)


def test_a_connection_that_the_server_closed_is_replaced(server: WebServer, url: str) -> None:
    server.fault = lambda request: Answer(closed=True)  # without saying so
    with opened(url) as document:
        assert np.array_equal(document.arrays["a"], arrays()["a"])


def test_a_proxy_of_the_environment(server: WebServer, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the whole URL of plain http, and its own login."""
    monkeypatch.setenv("http_proxy", server.url.replace("http://", "http://me:word@"))
    monkeypatch.setenv("no_proxy", "")
    server.objects["http://host.invalid/d/data.asdf"] = server.objects["/d/data.asdf"]
    with opened(f"http://host.invalid/d/data.asdf{SECRET}") as document:
        assert np.array_equal(document.arrays["a"], arrays()["a"])
    assert {request.headers["host"] for request in server.requests} == {"host.invalid"}
    assert {request.headers["proxy-authorization"] for request in server.requests} == {"Basic bWU6d29yZA=="}


def test_regression_no_request_tells_the_url_of_another_one(server: WebServer, url: str) -> None:
    """Also not one that is redirected later."""
    with WebServer().running() as other, opened(url) as document:
        other.objects = server.objects
        server.fault = lambda request: Answer(307, {"Location": f"{other.url}/d/data.asdf"})
        assert np.array_equal(document.arrays["a"], arrays()["a"])
        assert other.requests
        for request in other.requests:
            assert "secret" not in str(request)
            assert "referer" not in request.headers


def test_regression_a_map_of_15_terabytes_takes_no_memory(server: WebServer, url: str) -> None:
    server.fault = lambda request: Answer(headers={"Content-Range": f"bytes 0-65535/{15 * 10**12}"})
    folder = RemoteFolder(url, RemoteOptions(timeout=LIMIT), SingleThread())
    before = Path("/proc/self/statm").read_text().split()[1]
    backend = folder.open(folder.name, writable=False)
    assert backend.size() == 15 * 10**12
    assert len(backend.read_at(0, 100)) == 100
    assert (int(Path("/proc/self/statm").read_text().split()[1]) - int(before)) << 12 < 64 << 20
    backend.close()


def test_redirects_are_followed_without_secrets(server: WebServer, url: str) -> None:
    with WebServer().running() as other:
        other.objects = server.objects
        target = other.url.replace("127.0.0.1", "localhost") + "/d/data.asdf?other=1"
        server.fault = lambda request: Answer(302, {"Location": target})
        with opened(url.replace("http://", "http://me:word@")) as document:
            assert np.array_equal(document.arrays["a"], arrays()["a"])
        assert len(server.requests) == 1
        assert "authorization" in server.requests[0].headers
        for request in other.requests:
            assert "secret" not in str(request)
            assert "authorization" not in request.headers


def test_a_redirect_that_expires_is_followed_again(server: WebServer, url: str) -> None:
    with WebServer().running() as other:
        other.objects = server.objects
        server.fault = lambda request: Answer(302, {"Location": f"{other.url}/d/data.asdf?n={request.number}"})
        with opened(url) as document:
            other.fault = lambda request: Answer(status=403) if "n=0" in request.path else None
            assert np.array_equal(document.arrays["a"], arrays()["a"])


def test_user_and_password_go_to_every_request(server: WebServer, url: str) -> None:
    with opened(url.replace("http://", "http://me:word@")) as document:
        assert np.array_equal(document.arrays["a"], arrays()["a"])
        assert "word" not in document.path
    assert {request.headers.get("authorization") for request in server.requests} == {"Basic bWU6d29yZA=="}


def test_a_page_cannot_be_taken_for_there(server: WebServer, url: str) -> None:
    """What is not fetched is a hole in the cache, which reads as zeros."""
    with opened(url, RemoteOptions(cache=False)) as document:
        assert document.descriptor() == -1
        found = document.blocks[1].read_extent(5 * PAGE, 10)
        assert isinstance(found, Extent)
        assert read_bytes(found) == arrays()["b"].tobytes()[5 * PAGE : 5 * PAGE + 10]


def _read_in_vain(document: Document) -> None:
    with pytest.raises(AsdffsError):
        document.arrays["a"][...]


def test_a_close_does_not_wait_for_a_server_that_hangs(server: WebServer, url: str) -> None:
    """The read ends as well, long before its own time is over."""
    hang = threading.Event()
    try:
        document = opened(url, RemoteOptions(timeout=10 * LIMIT))
        server.fault = lambda request: Answer(wait=hang)
        reader = threading.Thread(target=_read_in_vain, args=(document,))
        reader.start()
        server.await_requests(3)
        document._transaction.backend.close()
        reader.join(LIMIT)
        assert not reader.is_alive(), "it waits for the server"
    finally:
        hang.set()
