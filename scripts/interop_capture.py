"""A plug-in of pytest that keeps a copy of each ASDF file that tests write or open, for ``scripts/interop``.

``pytest -p scripts.interop_capture --asdf-capture DIRECTORY`` wraps calls of the asdf library and of astropy.  Each
content is kept once, as ``DIRECTORY/HASH/NAME``, with the files beside it that its text names.  ``files.json`` lists
them with the first test of each, and counts what could not be kept.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

#: The largest file that is kept, in bytes.
LARGEST = 50_000_000
#: A name in the text of a file that may be that of a file beside it.
_NAMED = re.compile(rb"[\w.+-]+\.(?:asdf|yaml)\b")
#: How much of a file is searched for names, in bytes.
_SEARCHED = 100_000


class Kept:
    """The copies in a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.test = ""
        self.files: dict[str, dict[str, str]] = {}
        self.skipped: dict[str, int] = {}
        #: The files of the current test, as far as they have a path: the directory of the copy, and the original.
        self.current: list[tuple[Path, Path]] = []
        #: Files that can be read only when the test has closed them.
        self.open: list[tuple[Path, str]] = []

    def keep(self, content: bytes, origin: Path | None, suffix: str, verb: str) -> None:
        if len(content) > LARGEST:
            self.skipped["too large"] = self.skipped.get("too large", 0) + 1
            return
        number = hashlib.sha256(content).hexdigest()[:16]
        name = origin.name if origin else f"stream{suffix}"
        copy = self.folder / number
        if number not in self.files:
            copy.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes(content)
            self.files[number] = {"file": f"{number}/{name}", "test": self.test, "verb": verb}
        if origin:
            self.current.append((copy, origin))
            _copy_named(copy, origin)

    def end_test(self) -> None:
        for path, verb in self.open:
            if path.is_file():
                self.keep(path.read_bytes(), path, path.suffix, verb)
        self.open.clear()
        for copy, origin in self.current:
            _copy_named(copy, origin)
        self.current.clear()


def _copy_named(copy: Path, origin: Path) -> None:
    """Copy the files beside ``origin`` that the text of its copy names."""
    for one in list(copy.iterdir()):
        for name in set(_NAMED.findall(one.read_bytes()[:_SEARCHED])):
            other = origin.parent / name.decode()
            if other.is_file() and not (copy / other.name).exists() and other.stat().st_size <= LARGEST:
                shutil.copyfile(other, copy / other.name)


def _content(place: Any, start: int | None) -> tuple[bytes, Path | None] | None:
    """Return the bytes of a file that a test named, and its path if it has one; None if it cannot be read again."""
    if isinstance(place, str) and place.startswith("file://"):
        place = place.removeprefix("file://")
    if isinstance(place, str | Path):
        path = Path(place)
        return (path.read_bytes(), path) if path.is_file() else None
    if isinstance(place, io.BytesIO):
        return place.getvalue()[start or 0 :], None
    inner = getattr(place, "_fd", None)  # of the library's own objects, and of temporary files
    if inner is not None and inner is not place:
        return _content(inner, start)
    name = getattr(place, "name", None)
    if isinstance(name, str) and Path(name).is_file():
        if getattr(place, "mode", "") not in ("rb", "r") and hasattr(place, "flush"):
            place.flush()
        return Path(name).read_bytes()[start or 0 :], Path(name)
    return None


def _where(place: Any) -> int | None:
    try:
        return int(place.tell())
    except (AttributeError, OSError, TypeError, ValueError):
        return None


def _take(kept: Kept, place: Any, start: int | None, suffix: str, verb: str) -> None:
    try:
        found = _content(place, start)
    except (OSError, ValueError):
        return
    uri = str(getattr(place, "_uri", ""))
    if found is None and uri.startswith("file://"):
        kept.open.append((Path(uri.removeprefix("file://")), verb))
    elif found is None:
        what = f"{verb}: {type(place).__name__}"
        kept.skipped[what] = kept.skipped.get(what, 0) + 1
    elif suffix == ".fits" or (found[0].startswith(b"#ASDF") and b"source: fits:" not in found[0]):
        kept.keep(*found, suffix, verb)  # a part of a FITS file is kept with the whole


def _after(kept: Kept, call: Callable[..., Any], suffix: str = ".asdf") -> Callable[..., Any]:
    """Wrap a method that writes to its first argument."""

    @functools.wraps(call)
    def wrapped(self: Any, place: Any, *args: Any, **kwargs: Any) -> Any:
        start = _where(place)
        answer = call(self, place, *args, **kwargs)
        if suffix != ".fits" or any(one.name == "ASDF" for one in self):
            _take(kept, place, start, suffix, "written")
        return answer

    return wrapped


def _after_update(kept: Kept, call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = call(self, *args, **kwargs)
        under = getattr(self._fd, "_fd", None)
        _take(kept, under if under is not None else self.uri, 0, ".asdf", "written")
        return answer

    return wrapped


def _before(kept: Kept, call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that opens its first argument."""

    @functools.wraps(call)
    def wrapped(fd: Any, *args: Any, **kwargs: Any) -> Any:
        _take(kept, fd, _where(fd), ".asdf", "opened")
        return call(fd, *args, **kwargs)

    return wrapped


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--asdf-capture", type=Path, required=True, help="the directory for the files")


def pytest_configure(config: pytest.Config) -> None:
    import asdf
    from astropy.io import fits

    kept = Kept(config.getoption("--asdf-capture").resolve())
    config.pluginmanager.register(_Hooks(kept), "asdf-capture")
    asdf.AsdfFile.write_to = _after(kept, asdf.AsdfFile.write_to)
    asdf.AsdfFile.update = _after_update(kept, asdf.AsdfFile.update)
    asdf.open = _before(kept, asdf.open)
    fits.HDUList.writeto = _after(kept, fits.HDUList.writeto, ".fits")


class _Hooks:
    def __init__(self, kept: Kept) -> None:
        self.kept = kept

    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        self.kept.test = item.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        self.kept.end_test()

    def pytest_sessionfinish(self) -> None:
        self.kept.folder.mkdir(parents=True, exist_ok=True)
        found = {"files": list(self.kept.files.values()), "skipped": self.kept.skipped}
        (self.kept.folder / "files.json").write_text(json.dumps(found, indent=1))
