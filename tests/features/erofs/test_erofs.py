"""Images of EROFS: mounted by the kernel, checked by fsck.erofs, and compared with the files themselves."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asdf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.commands import command
from support.fits_files import DATA, write_fits
from support.mounts import NOBODY, as_user, environment_in

from asdffs.errors import AsdffsError
from asdffs.features.erofs import is_image
from asdffs.features.erofs.image import (
    BLOCK,
    Copied,
    Device,
    Directory,
    Placed,
    _chunk_of,
    read_attributes,
    write_image,
)
from asdffs.features.erofs.mounting import changes, mount_at, mount_image
from asdffs.storage.backend import Access

pytestmark = pytest.mark.long

CHANCE = np.random.default_rng(8)


def why_no_mount() -> str:
    """Return why this machine cannot mount an image; empty if it can."""
    release = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
    if os.geteuid():
        return "only root mounts images"
    if release < (6, 12):
        return "Linux mounts images from 6.12 on"
    return "" if "erofs" in Path("/proc/filesystems").read_text() else "the kernel has no EROFS"


needs_kernel = pytest.mark.skipif(bool(why_no_mount()), reason=why_no_mount())
needs_fsck = pytest.mark.skipif(not shutil.which("fsck.erofs"), reason="erofs-utils is not installed")


def export(tmp_path: Path, *files: Path, code: int = 0) -> tuple[Path, str]:
    image = tmp_path / "image.erofs"
    done = command("export", "--force", "--erofs", image, *files, environment=environment_in(tmp_path))
    assert done.code == code, done.err
    return image, done.err


@contextmanager
def mounted(image: Path) -> Iterator[Path]:
    """The image at a mount point, by the kernel."""
    point = image.parent / "image-mnt"
    point.mkdir(exist_ok=True)
    mount_image(str(image), str(point))
    try:
        yield point
    finally:
        subprocess.run(["umount", point], check=True)


def check(image: Path, *devices: Path) -> None:
    """fsck.erofs reads all of it, and finds nothing."""
    options = [f"--device={device}" for device in devices]
    done = subprocess.run(["fsck.erofs", *options, "--extract", image], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip().replace("No errors found", "")) in [(0, ""), (0, "<I> erofs: ")], (
        done
    )


def write(path: Path) -> dict[str, Any]:
    tree = {
        "roman": {
            "data": CHANCE.normal(size=(200, 300)).astype(">f4"),
            "dq": CHANCE.integers(0, 9, (200, 300), "u4"),
        },
        "columns": np.asfortranarray(CHANCE.normal(size=(90, 70))),
        "records": np.array([(n, n / 7) for n in range(5000)], [("a", "<i4"), ("b", "f8")]),
        "empty": np.zeros((0, 3)),
        "scalar": np.array(5.5),
        "inline": np.arange(3),
        "scattered": CHANCE.normal(size=(300, 300))[:, ::2],
    }
    file = asdf.AsdfFile(tree)
    file.set_array_storage(tree["inline"], "inline")
    file.set_array_save_base(tree["scattered"], True)
    file.write_to(path)
    return {"roman/data": tree["roman"]["data"], "roman/dq": tree["roman"]["dq"], **tree}


@needs_kernel
@needs_fsck
def test_what_an_image_shows(tmp_path: Path) -> None:
    """Arrays through numpy, with and without mmap; the tree; small blocks; what is left out is told."""
    arrays = write(tmp_path / "a.asdf")
    image, told = export(tmp_path, tmp_path / "a.asdf")
    assert "arrays/scattered.npy is left out: its elements do not lie together" in told
    assert "blocks/0000.bin is left out: its data begin at byte" in told
    check(image, tmp_path / "a.asdf")
    assert image.stat().st_size < 400_000
    with mounted(image) as point:
        found = {str(path.relative_to(point / "arrays"))[:-4] for path in (point / "arrays").rglob("*.npy")}
        assert found == set(arrays) - {"roman", "scattered"}
        for name in found:
            for mode in ("r", None):
                shown = np.load(point / f"arrays/{name}.npy", mmap_mode=mode if arrays[name].size else None)
                assert np.array_equal(shown, arrays[name]), name
                assert (shown.dtype, shown.flags.fnc) == (arrays[name].dtype, arrays[name].flags.fnc)
        with asdf.open(tmp_path / "a.asdf") as file:
            assert (point / "tree.yaml").read_bytes() in (tmp_path / "a.asdf").read_bytes()
            assert file["scalar"] == np.load(point / "arrays/scalar.npy")
        assert (point / "arrays/roman/data.npy").stat().st_mtime_ns == (tmp_path / "a.asdf").stat().st_mtime_ns
        with pytest.raises(OSError, match="Read-only"):
            (point / "tree.yaml").write_text("x")


@needs_kernel
@needs_fsck
def test_aligned_blocks_and_several_files(tmp_path: Path) -> None:
    """Of several files each has a directory, and blocks that are aligned are there."""
    for name in ("a", "b"):
        write(tmp_path / f"{name}.asdf")
        options = ("--align", "4096", "--compression", "none")
        assert command("repack", *options, tmp_path / f"{name}.asdf", environment=environment_in(tmp_path)).code == 0
    write_fits(tmp_path / "cal.fits")
    files = [tmp_path / "a.asdf", tmp_path / "b.asdf", tmp_path / "cal.fits"]
    image, told = export(tmp_path, *files)
    assert "begin at byte" not in told.replace("cal.fits: blocks", "")
    check(image, *files)
    with mounted(image) as point:
        assert sorted(os.listdir(point)) == ["a.asdf.d", "b.asdf.d", "cal.fits.d"]
        assert np.array_equal(np.load(point / "cal.fits.d/arrays/data.npy"), DATA)
        for name in "ab":
            raw = (tmp_path / f"{name}.asdf").read_bytes()
            for path in (point / f"{name}.asdf.d/blocks").iterdir():
                assert path.read_bytes() in raw
            with asdf.open(tmp_path / f"{name}.asdf") as file:
                assert np.array_equal(np.load(point / f"{name}.asdf.d/arrays/roman/dq.npy"), file["roman"]["dq"])


@needs_kernel
@needs_fsck
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_any_files_and_places(tmp_path: Path, data: st.DataObject) -> None:
    """Sizes and offsets around blocks and chunks, deep and wide directories: the kernel shows what was put."""
    content = CHANCE.bytes(data.draw(st.integers(1, 300_000)))
    (tmp_path / "device").write_bytes(content)
    device = Device(
        "device",
        len(content),
        10**18 + 5,
        Access(0o640, 7, 8),
        lambda offset, length: content[offset : offset + length],
    )
    root: Directory = {}
    expected: dict[str, bytes] = {}
    for number in range(data.draw(st.integers(1, 6))):
        offset = data.draw(st.integers(0, len(content) - 1))
        length = data.draw(st.one_of(st.just(len(content) - offset), st.integers(1, len(content) - offset)))
        head = CHANCE.bytes(offset % BLOCK + BLOCK * data.draw(st.integers(0, 2 if offset >= 2 * BLOCK else 0)))
        folder: Directory = root
        parts = data.draw(st.lists(st.sampled_from(["a", "b" * 255, "ü☃"]), max_size=3))
        for part in parts:
            folder = folder.setdefault(part, {})  # type: ignore[assignment]
        folder[f"{number}.bin"] = Placed(head, 0, offset, length)
        expected["/".join([*parts, f"{number}.bin"])] = head + content[offset : offset + length]
    for number in range(data.draw(st.sampled_from([0, 1, 400]))):
        small = CHANCE.bytes(number % 5)
        root[f"{number:06d}{'n' * (number % 200)}"] = Copied(small, 0)
        expected[f"{number:06d}{'n' * (number % 200)}"] = small
    image = tmp_path / "image"
    with open(image, "wb") as file:
        size = write_image(root, [device], {"note": b"x" * 300}, lambda at, raw: os.pwrite(file.fileno(), raw, at))
    assert image.stat().st_size == size
    check(image, tmp_path / "device")
    point = tmp_path / "mnt"
    point.mkdir(exist_ok=True)
    mount_at(str(image), str(point), [str(tmp_path / "device")])
    try:
        found = {str(path.relative_to(point)): path.read_bytes() for path in point.rglob("*") if path.is_file()}
        assert found == expected
        modes = {(path.stat().st_mode & 0o7777, path.stat().st_uid, path.is_dir()) for path in point.rglob("*")}
        assert modes <= {(0o440, 7, False), (0o550, 7, True)}
        assert os.getxattr(point, "user.note") == b"x" * 300
    finally:
        subprocess.run(["umount", point], check=True)
    assert read_attributes(lambda at, length: image.read_bytes()[at : at + length]) == {"note": b"x" * 300}


@pytest.mark.parametrize("change", ["grow", "touch", "head", "gone"])
def test_a_changed_file_is_refused(tmp_path: Path, change: str) -> None:
    file = tmp_path / "a.asdf"
    write(file)
    image, _ = export(tmp_path, file)
    assert dict(changes(str(image))) == {str(file): ""}
    status = file.stat()
    if change == "grow":
        file.write_bytes(file.read_bytes() + b" ")
    elif change == "head":
        file.write_bytes(file.read_bytes().replace(b"scalar", b"scalbr"))
    elif change == "gone":
        file.unlink()
    if change != "gone":
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + (change == "touch")))
    expected = {"grow": "bytes, and had", "touch": "another time", "head": "another tree", "gone": "cannot be opened"}
    environment = environment_in(tmp_path)
    done = command("mount", image, tmp_path, environment=environment)
    assert done.code == 8
    assert expected[change] in done.err
    assert "asdffs export --force --erofs" in done.err
    done = command("export", "--check", image, environment=environment)
    assert (done.code, expected[change] in done.out) == (1, True)


@needs_kernel
def test_the_command_mounts_it_also_elsewhere(tmp_path: Path) -> None:
    """Image and file may move together."""
    write(tmp_path / "a.asdf")
    image, _ = export(tmp_path, tmp_path / "a.asdf")
    other = tmp_path / "other"
    other.mkdir()
    for path in (image, tmp_path / "a.asdf"):
        path.rename(other / path.name)
    point = tmp_path / "mnt"
    point.mkdir()
    environment = environment_in(tmp_path)
    done = command("mount", "-o", "ro", other / image.name, point, environment=environment)
    try:
        assert (done.code, done.out) == (0, f"{other / image.name} is mounted; 'umount {point}' ends it\n")
        assert np.load(point / "arrays/scalar.npy") == 5.5
    finally:
        subprocess.run(["umount", point], check=True)
    assert command("export", "--check", other / image.name, environment=environment).code == 0


def test_what_is_refused(tmp_path: Path) -> None:
    environment = environment_in(tmp_path)
    write(tmp_path / "a.asdf")
    image, _ = export(tmp_path, tmp_path / "a.asdf")
    assert is_image(str(image))
    assert not is_image(str(tmp_path / "a.asdf"))
    assert not is_image(str(tmp_path))
    again = command("export", "--erofs", image, tmp_path / "a.asdf", environment=environment)
    assert (again.code, "exists" in again.err) == (2, True)
    assert command("export", "--erofs", tmp_path / "x", tmp_path / "none.asdf", environment=environment).code == 3
    assert "is no directory" in command("mount", "-o", "ro", image, tmp_path / "none", environment=environment).err
    done = command("mount", "-o", "allow_other", image, tmp_path, environment=environment)
    assert (done.code, "without the option allow_other" in done.err) == (2, True)
    for odd in (image.read_bytes()[:2000], image.read_bytes().replace(b"asdffs.0", b"asdffs.1")):
        (tmp_path / "odd").write_bytes(odd)
        done = command("export", "--check", tmp_path / "odd", environment=environment)
        assert (done.code, "is no image that asdffs made" in done.err) == (4, True)
    (tmp_path / "a,b.asdf").write_bytes((tmp_path / "a.asdf").read_bytes())
    image, _ = export(tmp_path, tmp_path / "a,b.asdf")
    assert "comma" in command("mount", image, tmp_path, environment=environment).err
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a.asdf").write_bytes((tmp_path / "a.asdf").read_bytes())
    twice = command(
        "export", "--erofs", tmp_path / "x", tmp_path / "a.asdf", tmp_path / "d/a.asdf", environment=environment
    )
    assert (twice.code, "two files have this name" in twice.err) == (2, True)


@needs_kernel
@pytest.mark.parametrize("size", [6_000, 30_000, 200_000])
@pytest.mark.parametrize("where", [1, 54, 127, 128, 4095])
def test_headers_that_are_longer_than_a_chunk(tmp_path: Path, size: int, where: int) -> None:
    """Data just behind the beginning of a block, as with ``pad_blocks``; many columns."""
    values = np.arange(size, dtype="f8")
    records = np.zeros(300, [(f"column{number}", "f8") for number in range(150)])
    asdf.AsdfFile({"v": values, "r": records, "text": ""}).write_to(tmp_path / "a.asdf", pad_blocks=True)
    raw = (tmp_path / "a.asdf").read_bytes()
    start = raw.index(b"\xd3BLK")
    padding = (where - start - 54) % BLOCK
    (tmp_path / "a.asdf").write_bytes(raw[:start] + bytes(padding) + raw[start : raw.rindex(b"#ASDF BLOCK INDEX")])
    image, _ = export(tmp_path, tmp_path / "a.asdf")
    with mounted(image) as point:
        assert np.array_equal(np.load(point / "arrays/v.npy"), values)
        assert np.array_equal(np.load(point / "arrays/r.npy"), records)
        shown = next(line for line in Path("/proc/mounts").read_text().splitlines() if str(point) in line)
        assert {"nosuid", "nodev", "noexec", "ro"} <= set(shown.split()[3].split(","))


def test_headers_that_numpy_does_not_read(tmp_path: Path) -> None:
    """They are left out, and told; other arrays are there."""
    for fields in (300, 2700):
        wide = np.zeros(8000 if fields == 300 else 10, [(f"field{number:05d}", "f8") for number in range(fields)])
        asdf.AsdfFile({"wide": wide, "other": np.arange(9)}).write_to(tmp_path / "a.asdf")
        _, told = export(tmp_path, tmp_path / "a.asdf")
        assert "other" not in told
        assert fields == 300 or "arrays/wide.npy is left out: its header would be longer than numpy reads" in told


def test_nothing_but_an_image_is_replaced(tmp_path: Path) -> None:
    """A file that was meant to be exported stays, also with --force; an image is replaced, and no more open."""
    for name, mode in (("pub", 0o644), ("priv", 0o600)):
        write(tmp_path / f"{name}.asdf")
        os.chmod(tmp_path / f"{name}.asdf", mode)
    before = (tmp_path / "pub.asdf").read_bytes()
    environment = environment_in(tmp_path)
    for words in (("pub.asdf", "pub.asdf"), ("pub.asdf", "priv.asdf")):
        files = [tmp_path / word for word in words]
        done = command("export", "--force", "--erofs", *files, environment=environment)
        assert (done.code, "is no image" in done.err) == (2, True)
    assert (tmp_path / "pub.asdf").read_bytes() == before
    image, _ = export(tmp_path, tmp_path / "pub.asdf")
    os.chmod(image, 0o644)
    export(tmp_path, tmp_path / "priv.asdf")
    assert image.stat().st_mode & 0o777 == 0o600


def test_images_that_somebody_made(tmp_path: Path) -> None:
    """Odd paths and numbers in the attributes are no image of ours."""
    write(tmp_path / "a.asdf")
    image, _ = export(tmp_path, tmp_path / "a.asdf")
    raw, environment = image.read_bytes(), environment_in(tmp_path)
    for old, new in (
        (b"a.asdf", b"\\u0000"),
        (b"a.asdf", b"\\ud800"),
        (b'"size": 1', b'"size":-1'),
        (b'"md5"', b'"md6"'),
    ):
        (tmp_path / "odd").write_bytes(raw.replace(old, new))
        done = command("export", "--check", tmp_path / "odd", environment=environment)
        assert done.code in (1, 4), done
        assert "odd" in done.out + done.err
        assert "cannot be read (" not in done.err
    with pytest.raises(AsdffsError, match="make several"):
        write_image(
            {}, [Device("d", 0, 0, Access(), lambda at, length: b"")], {f"{n}": bytes(60_000) for n in range(5)}, _no
        )


def _no(at: int, raw: bytes) -> None:
    raise AssertionError("nothing is written")


@needs_kernel
def test_an_image_is_no_more_open_than_its_files(tmp_path: Path) -> None:
    """A private file stays private in an image, beside one that everybody may read; a stranger's image is refused."""
    write(tmp_path / "mine.asdf")
    write(tmp_path / "all.asdf")
    os.chown(tmp_path / "mine.asdf", NOBODY, NOBODY)
    os.chmod(tmp_path / "mine.asdf", 0o600)
    os.chmod(tmp_path / "all.asdf", 0o644)
    image, _ = export(tmp_path, tmp_path / "mine.asdf", tmp_path / "all.asdf")
    with mounted(image) as point:
        for name, mode, owner in (("mine", 0o400, NOBODY), ("all", 0o444, 0)):
            for path in (point / f"{name}.asdf.d").rglob("*.npy"):
                assert (path.stat().st_mode & 0o7777, path.stat().st_uid) == (mode, owner)
        assert (point / "mine.asdf.d").stat().st_mode & 0o7777 == 0o500
        assert point.stat().st_mode & 0o7777 == 0o555
    os.chown(image, NOBODY, NOBODY)
    with pytest.raises(AsdffsError, match="others may have written it"):
        mount_image(str(image), str(tmp_path))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_is_told_what_to_do() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        write(Path(folder) / "a.asdf")
        image, _ = export(Path(folder), Path(folder) / "a.asdf")
        os.chmod(image, 0o644)
        with as_user(NOBODY), pytest.raises(AsdffsError, match="only root may mount an image; with erofsfuse"):
            mount_image(str(image), "/tmp")


@given(st.integers(1, 1 << 45))
def test_chunks_make_small_images(size: int) -> None:
    """No other chunk makes an image much smaller."""

    def cost(chunk: int) -> int:
        return min(chunk, size) + 8 * -(-size // chunk)

    chunk = _chunk_of(size)
    assert chunk in (chunks := [BLOCK << bits for bits in range(9)])
    assert cost(chunk) <= 2 * min(map(cost, chunks))


def test_attributes_of_what_is_no_image() -> None:
    """Short or strange bytes are no image, and never an exception."""
    for raw in (b"", bytes(5000), CHANCE.bytes(5000), bytes(1024) + bytes.fromhex("e2e1f5e0") + b"\xff" * 200):
        assert read_attributes(lambda at, length, raw=raw: raw[at : at + length]) in (None, {})  # type: ignore[misc]


@needs_kernel
@pytest.mark.skipif(not shutil.which("erofsfuse"), reason="erofsfuse is not installed")
def test_erofsfuse(tmp_path: Path) -> None:
    """It shows the same without the kernel's driver."""
    write(tmp_path / "a.asdf")
    image, _ = export(tmp_path, tmp_path / "a.asdf")
    point = tmp_path / "mnt"
    point.mkdir()
    subprocess.run(["erofsfuse", f"--device={tmp_path / 'a.asdf'}", image, point], check=True)
    try:
        assert np.load(point / "arrays/scalar.npy") == 5.5
    finally:
        subprocess.run(["umount", point], check=True)
