"""The cache: no page is served that is not there, whoever shares it, whatever was killed, and it stays bounded."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asdffs.features.remote import cache as module
from asdffs.features.remote.cache import PAGE, CacheFile, trim, used
from asdffs.features.remote.transport import Validator
from asdffs.storage.own_files import cache_folder

URL = "https://host/a.asdf"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def opened(size: int = 10 * PAGE + 5, tag: str = '"1"', *, kept: bool = True) -> CacheFile:
    return CacheFile.open(URL, URL, Validator(size, tag, None), kept=kept)


def content(size: int) -> memoryview:
    return memoryview(os.urandom(size))


@given(st.integers(0, 5 * PAGE + 7), st.data())
def test_any_pieces(size: int, data: st.DataObject) -> None:
    """Against a model: a set of pages."""
    raw, file, pages = content(size), opened(size, kept=False), set[int]()
    for _ in range(6):
        start = data.draw(st.integers(0, size))
        stop = data.draw(st.integers(start, size))
        file.store(start, raw[start:stop])
        pages |= {
            page for page in range(-(-size // PAGE)) if start <= page * PAGE and min(size, (page + 1) * PAGE) <= stop
        }
        low = data.draw(st.integers(0, size))
        high = data.draw(st.integers(low, size))
        touched = set(range(low // PAGE, -(-high // PAGE)))
        assert file.has(low, high) == (touched <= pages)
        missing = {page for first, last in file.missing(low, high) for page in range(first // PAGE, -(-last // PAGE))}
        assert missing == touched - pages
    for page in pages:
        assert os.pread(file.fd, PAGE, file.base + page * PAGE) == raw[page * PAGE : (page + 1) * PAGE]
    file.close()
    file.close()


def test_it_is_there_for_the_next_one_and_for_others_now() -> None:
    one, raw = opened(), content(10 * PAGE + 5)
    two = opened()
    one.store(0, raw[: 2 * PAGE])
    assert two.has(0, 2 * PAGE)
    assert os.pread(two.fd, 100, two.base + PAGE) == raw[PAGE : PAGE + 100]
    assert not two.has(0, 2 * PAGE + 1)
    assert 2 * PAGE <= two.held < 10 * PAGE
    one.close()
    two.close()
    assert two.held == 0
    assert opened().has(0, 2 * PAGE)


def test_another_version_or_url_has_nothing() -> None:
    opened().store(0, content(PAGE))
    assert not opened(tag='"2"').has(0, 1)
    assert not opened(10 * PAGE + 6).has(0, 1)
    assert not CacheFile.open(URL + "?id=2", URL, Validator(10 * PAGE + 5, '"1"', None), kept=True).has(0, 1)


def test_after_a_crash_of_the_system_only_synced_pages_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, raw = opened(), content(10 * PAGE + 5)
    file.store(0, raw[: 2 * PAGE])
    file.keep()
    file.store(2 * PAGE, raw[2 * PAGE : 4 * PAGE])
    file.close()
    (tmp_path / "boot").write_text("another boot\n")
    monkeypatch.setattr(module, "_BOOT", str(tmp_path / "boot"))
    again = opened()
    assert (again.has(0, 2 * PAGE), again.has(2 * PAGE, 2 * PAGE + 1)) == (True, False)
    assert os.pread(again.fd, 2 * PAGE, again.base + 0) == raw[: 2 * PAGE]


def test_pages_that_come_during_a_sync_stay_and_do_not_count_as_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, raw, sync = opened(), content(10 * PAGE + 5), os.fdatasync
    file.store(0, raw[:PAGE])

    def slow(fd: int) -> None:
        sync(fd)
        file.store(3 * PAGE, raw[3 * PAGE : 4 * PAGE])
        file.close()

    monkeypatch.setattr(os, "fdatasync", slow)
    file.keep()
    assert file.has(0, PAGE)
    assert file.has(3 * PAGE, 4 * PAGE)
    file.keep()  # closed: nothing is synced, and nothing counts as synced
    (tmp_path / "boot").write_text("another boot\n")
    monkeypatch.setattr(module, "_BOOT", str(tmp_path / "boot"))
    again = opened()
    assert (again.has(0, PAGE), again.has(3 * PAGE, 4 * PAGE)) == (True, False)


@pytest.mark.parametrize("damage", [b"", b"x", b"x" * 10000])
def test_a_damaged_file_is_begun_anew(damage: bytes) -> None:
    opened().store(0, content(PAGE))
    (path,) = os.listdir(cache_folder())
    Path(cache_folder(), path).write_bytes(damage)
    assert not opened().has(0, 1)


def test_it_is_bounded_and_what_is_open_stays() -> None:
    files = [opened(tag=f'"{number}"') for number in range(4)]
    for number, file in enumerate(files):
        file.store(0, content(10 * PAGE + 5))
        os.utime(file.fd, (number, number))
    assert used()[0] == 4
    for file in files[1:]:
        file.close()
    left = trim(25 * PAGE)
    assert left <= 36 * PAGE  # the oldest one is open
    assert used()[0] == 2
    assert os.pread(files[0].fd, 1, files[0].base + 0) is not None
    files[0].close()
    assert trim(0) == 0
    assert used() == (0, 0)


def test_without_a_cache_nothing_is_left() -> None:
    file = opened(kept=False)
    file.store(0, content(PAGE))
    assert file.has(0, PAGE)
    assert not os.path.exists(cache_folder())


def _write_for_ever(started: multiprocessing.synchronize.Event) -> None:
    file = opened(400 * PAGE)
    page = 0
    while True:
        file.store(page * PAGE, memoryview(bytes([page % 255 + 1]) * PAGE))
        page = (page + 7) % 400
        started.set()


def test_a_kill_leaves_no_page_that_is_not_there() -> None:
    context = multiprocessing.get_context("spawn")
    for _ in range(5):
        started = context.Event()
        process = context.Process(target=_write_for_ever, args=(started,))
        process.start()
        assert started.wait(60)
        process.kill()
        process.join()
        file = opened(400 * PAGE)
        for page in range(400):
            if file.has(page * PAGE, (page + 1) * PAGE):
                assert os.pread(file.fd, PAGE, file.base + page * PAGE) == bytes([page % 255 + 1]) * PAGE
        file.close()
