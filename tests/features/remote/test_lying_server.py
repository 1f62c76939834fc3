"""A server that answers at random: a read gives the right bytes or one sentence, in bounded memory, and it ends."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.lying_server import LyingServer
from support.mounts import LIMIT

from asdffs.errors import AsdffsError, StaleFileError
from asdffs.features.remote import transport
from asdffs.features.remote.backends.remote import RemoteFolder
from asdffs.scheduling import SingleThread
from asdffs.storage.urls import RemoteOptions

RAW = random.Random(1).randbytes(3_000_007)
#: Readers at the same time.
READERS = 16
#: Seconds that an answer may take, and all of its repetitions.
PATIENCE = 1.5
#: What all readers together may hold, in bytes: each a few parts, however much the server sends.
MOST = 128 << 20


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LyingServer]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(transport, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(transport, "_LAST_REQUEST", PATIENCE)
    with LyingServer(RAW).running() as found:
        yield found


def read(url: str, seed: int, options: RemoteOptions) -> str:
    """Read a few parts of the object; return how it ended."""
    rng = random.Random(seed)
    try:
        folder = RemoteFolder(url, options, SingleThread())
        backend = folder.open(folder.name, writable=False)
        try:
            for _ in range(4):
                start = rng.randrange(len(RAW))
                length = rng.choice([10, 40_000, 1_000_000, len(RAW)])
                found = backend.read_at(start, length)
                told = max(0, min(length, backend.size() - start))
                assert len(found) == told if backend.size() <= len(RAW) else len(found) >= min(told, len(RAW) - start)
                right = memoryview(found)[: len(RAW) - start]  # no copies: what is held is counted
                assert RAW.startswith(right, start)
        finally:
            backend.close()
    except (AsdffsError, StaleFileError) as err:
        sentence = str(err)
        assert url.partition("?")[0] in sentence
        assert "\n" not in sentence
        assert "\x1b" not in sentence
        assert "secret" not in sentence
        return sentence.replace(url.partition("?")[0], "")
    return "right"


@pytest.mark.parametrize("scheme", ["http", "s3"])
@pytest.mark.parametrize("first", [1000, pytest.param(10_000, marks=pytest.mark.long)])
def test_right_bytes_or_a_sentence(server: LyingServer, scheme: str, first: int) -> None:
    seeds = range(first, first + (400 if first == 1000 else 5000))
    options = RemoteOptions(timeout=PATIENCE, whole_max=8 << 20)
    if scheme == "s3":
        options = options._replace(endpoint=server.url, anonymous=True)
        seeds = seeds[: len(seeds) // 2]
    place = "s3://bucket" if scheme == "s3" else server.url
    query = "?secret=1" if scheme == "http" else ""
    tracemalloc.start()
    try:
        with ThreadPoolExecutor(READERS) as readers:
            ends = [readers.submit(read, f"{place}/{seed}/x.asdf{query}", seed, options) for seed in seeds]
            found = Counter(end.result(LIMIT * 10) for end in ends)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found["right"]
    assert len(found) > 1
    assert peak < MOST
    assert scheme == "s3" or server.referrers == []
