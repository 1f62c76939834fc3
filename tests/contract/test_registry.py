"""The registry reads entry points as ``importlib.metadata`` does, and imports what is asked for."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from unittest import mock

import pytest
from support.plugins import install

from asdffs import registry

ROOT = Path(registry.__file__).parents[1]


@pytest.fixture(autouse=True)
def _read_anew() -> Iterator[None]:
    """Entry points are read once in a process."""
    registry._entry_points.cache_clear()
    yield
    registry._entry_points.cache_clear()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, before the others."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def describe(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}-1.dist-info").mkdir()
    (folder / f"{name}-1.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (folder / f"{name}-1.dist-info/entry_points.txt").write_text(text)


ODD = """\
[console_scripts]
x = y:z

# [asdffs.views]
[asdffs.views]
# a = b:c
one=first:A
two.2 = second.part : B.C [extra]

[asdffs.views.more]
three = third:D
"""


def test_entry_points_are_those_of_the_library(place: Path) -> None:
    describe(place, "odd", ODD)
    expected = {point.name: (point.module, point.attr) for point in metadata.entry_points(group="asdffs.views")}
    found = registry.foreign("views")
    assert {name: registry.parse_target(value) for name, value in found.items()} == expected
    assert set(expected) == {"one", "two.2"}


def test_the_first_on_the_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, target in (("later", "second:A"), ("sooner", "first:A")):
        (tmp_path / folder).mkdir()
        describe(tmp_path / folder, "same", f"[asdffs.codecs]\nx = {target}\n")
        monkeypatch.syspath_prepend(str(tmp_path / folder))
    assert registry.foreign("codecs") == {"x": "first:A"}


def test_packages_in_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("packed-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: packed\nVersion: 1\n")
        packed.writestr("packed-1.dist-info/entry_points.txt", "[asdffs.codecs]\nx = packed:A\n")
    monkeypatch.syspath_prepend(str(archive))
    assert registry.foreign("codecs") == {"x": "packed:A"}


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        (
            "asdffs.cli.commands.mount",
            {"numpy", "asdf", "rich", "watchdog", "importlib.metadata", "asdffs.codecs.lz4"},
        ),
        ("asdffs.cli.main", {"numpy", "asdf", "rich", "watchdog", "ctypes", "yaml"}),
        ("asdffs.cli.arguments", {"numpy", "yaml", "asdffs.document", "asdffs.mount", "rich"}),
    ],
)
def test_what_is_not_imported_at_the_start(module: str, unwanted: set[str]) -> None:
    script = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not unwanted & set(done.stdout.split())


def test_an_error_that_may_pass_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that cannot be listed just now is not one without plug-ins."""
    registry._own.cache_clear()
    registry.own_names.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(registry.os, "listdir", mock.Mock(side_effect=OSError(errno.EIO, "Input/output error")))
        with pytest.raises(OSError, match="Input/output"):
            registry.own_names("codecs")
    assert "zlib" in registry.own_names("codecs")


CUT_OFF = ["[asdffs.codecs]\nx = packed:A\n[", "[", "[asdffs.\n", "[asdffs.views]", "asdffs.\n["]


@pytest.mark.parametrize("text", CUT_OFF)
def test_entry_points_that_are_cut_off(place: Path, text: str) -> None:
    describe(place, "cut", text)
    assert set(registry.foreign("codecs")) <= {"x"}


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        ("raise RuntimeError('50% broken')", "the command odd cannot be loaded: RuntimeError: 50% broken"),
        ("PLUGIN = 5", "it lacks SUMMARY, arguments or run"),
    ],
)
def test_a_command_of_another_package_that_fails(tmp_path: Path, module: str, sentence: str) -> None:
    install(tmp_path, "oddities", module, {"commands": "odd"})
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    for words, code in ((["--help"], 0), (["odd"], 2), (["get", "--help"], 0)):
        done = subprocess.run(
            [sys.executable, "-m", "asdffs", *words], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        assert (sentence in done.stderr) == (words == ["odd"]), done.stderr


def test_a_command_of_another_package(tmp_path: Path) -> None:
    module = "SUMMARY = 'count to 100%'\ndef arguments(parser):\n    parser.add_argument('n')\n"
    module += "def run(arguments):\n    print(arguments.n)\n    return 0\n"
    install(tmp_path, "counting", module, {"commands": "count"}, plugin="")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    for words, said in (
        (["--help"], "count to 100%"),
        (["count", "7"], "7\n"),
        (["count", "--help"], "count to 100%"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "asdffs", *words], env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, said in done.stdout) == (0, True), done.stderr


def test_threads_that_ask_at_once_read_each_package_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen threads that opened files at once each read the descriptions of all packages: a second of work."""
    describe(place, "some", "[asdffs.codecs]\nx = first:A\n")
    read: list[str] = []
    usual = registry._sections
    monkeypatch.setattr(registry, "_sections", lambda path: read.append(path) or usual(path))
    together = threading.Barrier(16)

    def ask(_: int) -> dict[str, str]:
        together.wait()
        return dict(registry.foreign("codecs"))

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(ask, range(16))) == [{"x": "first:A"}] * 16
    assert read.count(str(place / "some-1.dist-info/entry_points.txt")) == 1


def test_lines_of_windows_and_bytes_that_are_no_text(place: Path) -> None:
    (place / "some-1.dist-info").mkdir()
    (place / "some-1.dist-info/entry_points.txt").write_bytes(
        b"[asdffs.codecs]\r\nx = first:A\r\n\r\n[\xff]\r\ny = b:c\r\n"
    )
    assert registry.foreign("codecs") == {"x": "first:A"}
