"""Links that another user may have put into a directory lead a command to no other files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asdf
import pytest
from support.commands import Done, command
from support.mounts import environment_in

from asdffs.features.catalog.walking import Walk

OTHER = 65534


@pytest.fixture
def place() -> Iterator[Path]:
    """``data`` with a file, and a file outside of it to which links lead."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "data/inner").mkdir(parents=True)
        for name in ("data/own.asdf", "data/inner/deep.asdf", "outside.asdf"):
            asdf.AsdfFile({"v": 1}).write_to(place / name)
        yield place


def asdffs(place: Path, *words: object) -> Done:
    environment = environment_in(place) | {"XDG_CACHE_HOME": str(place / "cache")}
    return command(*words, environment=environment)


def value(path: Path) -> int:
    with asdf.open(path) as file:
        return int(file["v"])


def test_regression_set_in_a_directory_changes_nothing_outside(place: Path) -> None:
    (place / "data/link.asdf").symlink_to(place / "outside.asdf")
    (place / "data/inner/near.asdf").symlink_to(place / "data/own.asdf")
    done = asdffs(place, "set", "--where", "v == 1", "v=2", place / "data")
    assert (done.code, "leads to" in done.err, "name the file itself" in done.err) == (2, True, True)
    assert (value(place / "outside.asdf"), value(place / "data/own.asdf")) == (1, 2)
    assert value(place / "data/inner/deep.asdf") == 2
    done = asdffs(place, "set", "--where", "v == 1", "v=3", place / "data", place / "data/link.asdf")
    assert (done.code, value(place / "outside.asdf")) == (0, 3), "it was named"


@pytest.mark.skipif(os.geteuid() != 0, reason="to be another user needs root")
def test_regression_links_of_another_user_lead_to_no_private_file(place: Path) -> None:
    for name in ("private", "public", "of-root"):
        asdf.AsdfFile({"v": 1}).write_to(place / f"{name}.asdf")
        (place / f"{name}.asdf").chmod(0o644 if name == "public" else 0o600)
        (place / "data" / f"{name}.asdf").symlink_to(place / f"{name}.asdf")
        if name != "of-root":
            os.chown(place / "data" / f"{name}.asdf", OTHER, OTHER, follow_symlinks=False)
    found = [os.path.basename(path) for path, _ in Walk([os.fsencode(place / "data")]).files()]
    assert found == [b"of-root.asdf", b"own.asdf", b"public.asdf", b"deep.asdf"]


def test_regression_a_directory_that_becomes_a_link_is_left_out(place: Path) -> None:
    (place / "data/second").mkdir()
    (place / "elsewhere").mkdir()
    asdf.AsdfFile({"v": 1}).write_to(place / "elsewhere/x.asdf")
    found = Walk([os.fsencode(place / "data")]).files()
    assert next(found)[0].endswith(b"/own.asdf")
    for name in ("second", "inner"):
        (place / "data" / name).rename(place / f"moved-{name}")
        (place / "data" / name).symlink_to(place / "elsewhere")
    assert list(found) == []


def test_a_directory_that_is_replaced_meanwhile_leads_to_nothing_else(place: Path) -> None:
    found = Walk([os.fsencode(place / "data")]).files()
    next(found)
    (place / "data").rename(place / "moved")
    (place / "elsewhere/inner").mkdir(parents=True)
    asdf.AsdfFile({"v": 1}).write_to(place / "elsewhere/inner/x.asdf")
    (place / "data").symlink_to(place / "elsewhere")
    assert list(found) == []
