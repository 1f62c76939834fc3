"""FilesDaf stores on real mounts: as a plain directory, whatever clients do, and nothing is lost."""

from __future__ import annotations

import errno
import functools
import json
import mmap
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.daf_clients import Julia, packed, script
from support.daf_stores import differences, generated, sample, tree_of
from support.mounts import Mounted, asdffs, environment_in, lazily_unmount, mounted, run
from support.processes import until, wait_for

pytestmark = pytest.mark.mount

STORE = ("--layout", "daf")
#: Properties of the test that counts requests.
COUNT = 50


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A file with an empty store."""
    path = tmp_path / "x.asdf"
    assert asdffs("daf", "init", "--format", "1.1", path, environment=environment_in(tmp_path)).returncode == 0
    return path


def until_committed(mount: Mounted, path: str = "daf.json") -> None:
    """Have the mount commit what is whole."""
    fd = os.open(mount.point, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def checked(file: Path) -> None:
    done = asdffs("check", "--deep", "--schema", file, environment=environment_in(file.parent))
    assert done.stdout.endswith("nothing wrong\n"), done.stdout + done.stderr
    with asdf.open(file) as opened:
        assert "daf" in opened


@pytest.mark.parametrize("name", ["full_v1.0", "minimal", "generated"])
def test_the_view_is_the_store(name: str, tmp_path: Path) -> None:
    store = generated(tmp_path / "s.daf") if name == "generated" else sample(name, tmp_path)
    file = tmp_path / "x.asdf"
    assert asdffs("daf", "pack", store, file, environment=environment_in(tmp_path)).returncode == 0
    before = file.read_bytes()
    with mounted(file, *STORE) as mount:
        assert differences(store, mount.point) == ""
    with mounted(file) as mount:
        assert set(os.listdir(mount.point)) == {"arrays", "blocks", "daf", "exploded", "tree.yaml", ".asdffs"}
        assert differences(store, mount.point / "daf") == ""
        assert tree_of(store) == tree_of(mount.point / "daf")
    assert file.read_bytes() == before


def test_a_file_without_a_store(sample: Path) -> None:
    with mounted(sample) as mount:
        assert not (mount.point / "daf").exists()
        mount.tree.write_bytes(mount.tree.read_bytes().replace(b"\n...", b"\ndaf: {version: [1, 0]}\n..."))
        assert (mount.point / "daf" / "daf.json").read_bytes() == b'{"version":[1,0]}\n'
        assert "daf" in os.listdir(mount.point)
    other = sample.parent / "other.asdf"
    asdf.AsdfFile({"a": 1}).write_to(other)
    point = sample.parent / "m"
    point.mkdir()
    done = asdffs("mount", *STORE, other, point, environment=environment_in(sample.parent))
    assert done.returncode == 6
    assert f"'asdffs daf init {other}' makes an empty one" in done.stderr


@pytest.mark.long
def test_clients_find_a_plain_directory(empty: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    script(plain)
    with mounted(empty, *STORE) as mount:
        script(mount.point)
        assert differences(plain, mount.point) == ""
        until_committed(mount)
        assert differences(plain, mount.point) == ""
    checked(empty)
    with mounted(empty, *STORE) as mount:
        assert tree_of(plain) == tree_of(mount.point)
    back = tmp_path / "back"
    assert asdffs("daf", "unpack", empty, back, environment=environment_in(tmp_path)).returncode == 0
    assert differences(plain, back) == ""


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_random_operations(seed: int, empty: Path, tmp_path: Path) -> None:
    rng = random.Random(seed)
    plain = tmp_path / "plain"
    plain.mkdir()
    Julia(plain)
    with mounted(empty, *STORE) as mount:
        Julia(mount.point)
        for number in range(150):
            step = rng.choice(STEPS)
            choices = rng.getrandbits(64)
            outcomes = [outcome(step, root, random.Random(choices)) for root in (plain, mount.point)]
            assert outcomes[0] == outcomes[1], (number, step)
            if number % 40 == 39:
                until_committed(mount)
        assert tree_of(plain) == tree_of(mount.point)
    with mounted(empty, *STORE) as mount:
        assert tree_of(plain) == tree_of(mount.point)
    checked(empty)


def refusal(call: Callable[[], object]) -> int | None:
    """The errno of a call that is refused."""
    try:
        call()
    except OSError as err:
        return err.errno
    return None


def outcome(step: object, root: Path, rng: random.Random) -> object:
    """What a step returns, or its errno."""
    try:
        return step(root, rng)  # type: ignore[operator]
    except OSError as err:
        return err.errno


NAMES = [f"vectors/cell/{name}.{part}" for name in "ab" for part in ("json", "data", "txt")]
NAMES += ["axes/cell.txt", "scalars/s.json", "loose", "vectors/cell", "vectors", "more/x"]


def some(rng: random.Random) -> bytes:
    return rng.choice(
        [
            *(b"", b"a\nb\n", b"c\nd\ne\n", bytes(range(8)), bytes(12), b"{"),
            *(b'{"format":"dense","eltype":"Int32"}\n', b'{"format":"dense","eltype":"String"}\n'),
            b'{"type":"Int8","value":1}\n',
        ]
    )


def write(root: Path, rng: random.Random) -> None:
    (root / rng.choice(NAMES)).write_bytes(some(rng))


def append(root: Path, rng: random.Random) -> None:
    with open(root / rng.choice(NAMES), "ab") as file:
        file.write(some(rng))


def truncate(root: Path, rng: random.Random) -> None:
    os.truncate(root / rng.choice(NAMES), rng.choice([0, 3, 8, 12]))


def patch(root: Path, rng: random.Random) -> None:
    with open(root / rng.choice(NAMES), "r+b") as file:
        file.seek(rng.choice([0, 2, 7, 20]))
        file.write(some(rng))


def store_mapped(root: Path, rng: random.Random) -> None:
    with open(root / rng.choice(NAMES), "r+b") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return
        with mmap.mmap(file.fileno(), 0) as mapped:
            mapped[rng.randrange(len(mapped))] = rng.randrange(256)


def unlink(root: Path, rng: random.Random) -> None:
    os.unlink(root / rng.choice(NAMES))


def rename(root: Path, rng: random.Random) -> None:
    os.rename(root / rng.choice(NAMES), root / rng.choice(NAMES))


def link(root: Path, rng: random.Random) -> None:
    os.link(root / rng.choice(NAMES), root / rng.choice(NAMES))


def make(root: Path, rng: random.Random) -> None:
    os.mkdir(root / rng.choice(["more", "vectors/cell", "vectors/gene", "axes/sub"]))


def remove(root: Path, rng: random.Random) -> None:
    os.rmdir(root / rng.choice(["more", "vectors/cell", "vectors/gene", "axes/sub"]))


def unlinked_while_open(root: Path, rng: random.Random) -> bytes:
    with open(root / rng.choice(NAMES), "r+b") as file:
        os.unlink(file.name)
        file.seek(0, os.SEEK_END)
        file.write(b"more")
        file.seek(0)
        return file.read()


def look(root: Path, rng: random.Random) -> object:
    path = root / rng.choice(NAMES)
    return path.read_bytes() if path.is_file() else sorted(os.listdir(path))


STEPS = [write, write, write, append, truncate, patch, store_mapped, unlink, rename, link, make, make, remove]
STEPS += [unlinked_while_open, look, look]


def put_half_of_it(root: Path, moment: str) -> None:
    script(root)
    if moment == "half a property":
        (root / "vectors/cell/half.data").write_bytes(bytes(11))
        os.unlink(root / "vectors/cell/age.json")


def sync_and_go_on(point: Path, roots: tuple[Path, Path]) -> None:
    fd = os.open(point, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    for root in roots:
        os.unlink(root / "vectors/cell/odd.json")  # no client reads on with it
        Julia(root).set_dense("vectors/cell/last", "Int8", [1, 2, 3, 4, 5, 6])
        Julia(root).delete("vectors/cell/batch")


@pytest.mark.parametrize("moment", ["at once", "after a commit", "half a property"])
def test_a_killed_daemon_loses_nothing(moment: str, empty: Path, tmp_path: Path) -> None:
    plain, point = tmp_path / "plain", tmp_path / "m"
    plain.mkdir()
    point.mkdir()
    environment = environment_in(tmp_path)
    assert asdffs("mount", *STORE, empty, point, environment=environment).returncode == 0
    pid = int(json.loads((point / ".asdffs" / "status.json").read_text())["pid"])
    try:
        for root in (plain, point):
            put_half_of_it(root, moment)
        if moment == "after a commit":
            sync_and_go_on(point, (plain, point))
    finally:
        os.kill(pid, 9)
        wait_for(pid)
        lazily_unmount(point)
    with asdf.open(empty) as file:
        assert file["daf"]["version"] == [1, 1]
    done = asdffs("mount", *STORE, empty, point, environment=environment)
    assert "its changes to the FilesDaf store are in the file now" in done.stderr
    try:
        assert tree_of(plain) == tree_of(point)
    finally:
        assert asdffs("umount", point, environment=environment).returncode == 0
    assert not list(tmp_path.glob("*.leftover"))
    with mounted(empty, *STORE) as mount:
        assert tree_of(plain) == tree_of(mount.point)


def rewritten(file: Path, other: Path) -> None:
    """Another program replaces the ASDF file by one with other blocks."""
    assert asdffs("daf", "init", other, environment=environment_in(file.parent)).returncode == 0
    with mounted(other, *STORE) as mount:
        julia = Julia(mount.point)
        julia.add_axis("cell", ["a", "b"])
        julia.set_dense("vectors/cell/before", "Int32", [7, 7])
        julia.set_dense("vectors/cell/x", "Int32", [8, 8])
    os.replace(other, file)


@pytest.mark.long
@pytest.mark.parametrize("committed", [False, True])
def test_regression_open_and_moved_files_had_the_bytes_of_another(
    committed: bool, empty: Path, tmp_path: Path
) -> None:
    """A foreign program replaces the file."""
    with mounted(empty, *STORE) as mount:
        julia = Julia(mount.point)
        julia.add_axis("cell", ["a", "b"])
        julia.set_dense("vectors/cell/x", "Int32", [-1, -2])
        until_committed(mount)
        held = os.open(mount.point / "vectors/cell/x.data", os.O_RDONLY)
        os.rename(mount.point / "vectors/cell/x.data", mount.point / "moved")
        os.unlink(mount.point / "vectors/cell/x.json")
        if committed:
            until_committed(mount)
        rewritten(empty, tmp_path / "other.asdf")
        until(lambda: (mount.point / "vectors/cell/before.data").exists())
        assert refusal(lambda: os.pread(held, 8, 0)) == errno.ESTALE
        os.close(held)
        assert not (mount.point / "moved").exists()
        assert (mount.point / "vectors/cell/x.data").read_bytes() == packed("Int32", [8, 8])
    checked(empty)


def test_what_the_file_cannot_have_is_kept_beside_it(empty: Path, tmp_path: Path) -> None:
    """Whatever it is called: another program has broken the ASDF file."""
    log = tmp_path / "asdffs.log"
    with mounted(empty, *STORE, "-o", f"log={log}", code=7) as mount:
        (mount.point / ".reorder.backup").mkdir()
        (mount.point / ".reorder.backup/x.data").write_bytes(b"12345")
        broken = tmp_path / "broken"
        broken.write_bytes(b"no ASDF file\n")
        os.replace(broken, empty)
        until(lambda: mount.error != "")
        for _ in range(50):  # each open looks at the file
            (mount.point / ".reorder.backup/x.data").read_bytes()
    assert empty.read_bytes() == b"no ASDF file\n"
    kept = [path for path in tmp_path.glob("x.asdf.leftover*/**/*") if path.is_file()]
    assert [(path.name, path.read_bytes()) for path in kept] == [("x.data", b"12345")]
    assert len(log.read_text().splitlines()) < 20


def test_half_a_property_is_kept_at_unmount(empty: Path) -> None:
    with mounted(empty, *STORE) as mount:
        (mount.point / "vectors/cell").mkdir()
        (mount.point / "vectors/cell/x.data").write_bytes(b"12345")
        (mount.point / "vectors/cell/y.json").write_bytes(b'{"format":')
    with mounted(empty, *STORE) as mount:
        assert (mount.point / "vectors/cell/x.data").read_bytes() == b"12345"
        (mount.point / "axes/cell.txt").write_text("a\nb\nc\nd\ne\n")
        (mount.point / "vectors/cell/x.json").write_text('{"format":"dense","eltype":"Int8"}\n')
        until_committed(mount)
    with asdf.open(empty) as file:
        assert file["daf"]["vectors"]["cell"]["x"].tolist() == [49, 50, 51, 52, 53]
        assert list(file["daf"]["files"]["verbatim"]) == ["vectors/cell/y.json"]


@pytest.mark.long
def test_what_is_deleted_gives_its_room_back(empty: Path) -> None:
    with mounted(empty, *STORE) as mount:
        julia = Julia(mount.point)
        julia.add_axis("cell", [str(n) for n in range(1000)])
        for number in range(30):
            base = f"vectors/cell/v{number % 3}"
            julia.delete(base)
            julia.set_dense(base, "Float64", [float(number)] * 1000)
            until_committed(mount)
        assert len(os.listdir(mount.point)) == 6
    assert empty.stat().st_size < 8 * 8000
    checked(empty)


def test_an_entry_that_did_not_change_is_not_written(empty: Path) -> None:
    with mounted(empty, *STORE) as mount:
        julia = Julia(mount.point)
        julia.add_axis("cell", ["a", "b"])
        julia.set_dense("vectors/cell/x", "Int32", [1, 2])
    with mounted(empty) as mount:
        text = (
            mount.tree.read_text()
            .replace("      x: ", "      # by hand\n      x:   ")
            .replace("daf:", "# mine\ndaf:")
        )
        mount.tree.write_text(text)
        julia = Julia(mount.point / "daf")
        julia.set_dense("vectors/cell/y", "Int32", [3, 4])
        until_committed(mount)
        after = mount.tree.read_text()
        assert "      # by hand\n      x:   " in after
        assert "# mine\ndaf:" in after
        mount.tree.write_text(after.replace("shape: [2]", "shape: [1]", 1))
        assert (mount.point / "daf/vectors/cell/x.data").stat().st_size == 4, "the view follows the tree"


def test_other_views_see_the_same_bytes(empty: Path) -> None:
    with mounted(empty) as mount:
        daf = mount.point / "daf"
        julia = Julia(daf)
        julia.add_axis("cell", ["a", "b", "c"])
        julia.set_dense("vectors/cell/x", "Int32", [1, 2, 3])
        until_committed(mount)
        array = mount.point / "arrays/daf/vectors/cell/x.npy"
        assert np.load(array).tolist() == [1, 2, 3]
        julia.modify("vectors/cell/x", lambda mapped: mapped.__setitem__(slice(0, 4), packed("Int64", [9])[:4]))
        assert np.load(array).tolist() == [9, 2, 3]
        written = np.load(array, mmap_mode="r+")
        written[2] = 7
        written.flush()
        del written
        assert (daf / "vectors/cell/x.data").read_bytes() == np.array([9, 2, 7], "<i4").tobytes()


@pytest.mark.parametrize("seed", range(3))
def test_an_edit_of_the_tree_shows_at_once(seed: int, empty: Path) -> None:
    """The kernel keeps attributes and pages of descriptors, but none that are old: by name, and by descriptor."""
    rng, value = random.Random(seed), 1
    with mounted(empty) as mount:
        scalar = mount.point / "daf/scalars/n.json"
        text = '{"type":"Int64","value":%d}\n'
        scalar.write_text(text % value)
        until_committed(mount)
        for _ in range(40):
            with scalar.open("rb", buffering=0) as opened:
                assert opened.read() == (text % value).encode()
                old, value = value, value * 10 if value < 10**9 else 1
                if rng.random() < 0.7:
                    run("sed", "-i", f"s/value: {old}}}/value: {value}}}/", mount.tree)
                else:
                    scalar.unlink()
                    scalar.write_text(text % value)
                    opened.close()
                assert scalar.stat().st_size == len(text % value)
                assert scalar.read_text() == text % value
                if not opened.closed:
                    assert os.fstat(opened.fileno()).st_size == len(text % value)
                    assert os.pread(opened.fileno(), 100, 0) == (text % value).encode()
            until_committed(mount)  # else sed(1) would not find the value


def test_a_small_file_takes_few_requests(empty: Path) -> None:
    """Look it up, open, ask for attributes, read, close, and "is it a terminal?"."""
    with mounted(empty, *STORE) as mount:
        julia = Julia(mount.point)
        julia.add_axis("cell", ["a", "b", "c"])
        for number in range(COUNT):
            julia.set_dense(f"vectors/cell/x{number}", "Int32", [1, 2, 3])
        until_committed(mount)
        before = answers(mount)
        for number in range(COUNT):
            (mount.point / f"vectors/cell/x{number}.json").read_bytes()
            (mount.point / f"vectors/cell/x{number}.data").read_bytes()
        each = (answers(mount) - before) / (2 * COUNT)
        assert each < 6.5


def answers(mount: Mounted) -> int:
    """How often the daemon has written anything."""
    return int(Path(f"/proc/{mount.pid}/io").read_text().split("syscw: ")[1].split()[0])


def test_what_only_a_directory_has(empty: Path) -> None:
    with mounted(empty, *STORE) as mount:
        point = mount.point
        for refused, code in (
            (lambda: os.symlink("a", point / "l"), errno.EPERM),
            (lambda: os.mkfifo(point / "f"), errno.EPERM),
            (lambda: os.rename(point / "daf.json", point / ".asdffs" / "x"), errno.EXDEV),
            (lambda: (point / ("n" * 256)).touch(), errno.ENAMETOOLONG),
        ):
            assert refusal(refused) == code
        (point / "x").write_bytes(b"1")
        os.utime(point / "x", ns=(5, 7))
        os.chmod(point / "x", 0o600)
        assert (point / "x").stat().st_mtime_ns == 7
        until_committed(mount)
        assert (point / "x").stat().st_mtime_ns == 7, "to be committed is no change"
        assert (point / "x").stat().st_nlink == 1
        os.link(point / "x", point / "y")
        assert (point / "y").stat().st_nlink == 2
        shutil.copytree(point, mount.file.parent / "copy", dirs_exist_ok=True)
    with mounted(empty, *STORE, "-o", "ro") as mount:
        assert differences(mount.file.parent / "copy", mount.point) == ""
        for path in (mount.point / "new", mount.point / "daf.json"):
            assert refusal(functools.partial(path.write_bytes, b"")) == errno.EROFS


@pytest.mark.long
def test_rsync_and_tar(empty: Path, tmp_path: Path) -> None:
    store = sample("full_v1.0", tmp_path)
    with mounted(empty, *STORE) as mount:
        assert run("rsync", "-a", f"{store}/", f"{mount.point}/").returncode == 0
        assert differences(store, mount.point) == ""
    checked(empty)
    with mounted(empty, *STORE) as mount:
        assert differences(store, mount.point) == ""
        assert run("rsync", "-ani", "--checksum", f"{store}/", f"{mount.point}/").stdout.count("f+++") == 0
        assert run("tar", "-cf", tmp_path / "s.tar", "-C", mount.point, ".").returncode == 0
    (tmp_path / "t").mkdir()
    assert run("tar", "-xf", tmp_path / "s.tar", "-C", tmp_path / "t").returncode == 0
    assert differences(store, tmp_path / "t") == ""


def test_a_packed_property_is_in_the_file_after_sync(empty: Path, tmp_path: Path) -> None:
    """As the R client writes it: a zip, and a descriptor that says so."""
    with mounted(empty, *STORE) as mount:
        (mount.point / "axes/cell.txt").write_text("a\nb\n")
        (mount.point / "vectors/cell").mkdir()
        (mount.point / "vectors/cell/v.zip").write_bytes(b"PK\x05\x06" + bytes(18))
        descriptor = {"format": "dense", "eltype": "Float32", "packed_format": "zip"}
        (mount.point / "vectors/cell/v.json").write_text(json.dumps(descriptor))
        until_committed(mount)
        shutil.copy(empty, tmp_path / "copy.asdf")
    done = asdffs("daf", "unpack", tmp_path / "copy.asdf", tmp_path / "out", environment=environment_in(tmp_path))
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out/vectors/cell/v.json").read_text()) == descriptor
    assert (tmp_path / "out/vectors/cell/v.zip").read_bytes().startswith(b"PK")


def test_lines_that_end_in_cr_lf_are_told(tmp_path: Path) -> None:
    store = sample("minimal", tmp_path)
    (store / "axes/cell.txt").write_bytes(b"a\r\nb\r\n")
    done = asdffs("daf", "check", store, environment=environment_in(tmp_path))
    assert "axes/cell.txt: note: its lines end in CR LF" in done.stdout
    assert done.returncode == 0


def test_regression_a_sparse_matrix_kept_the_length_that_its_axis_had(empty: Path, tmp_path: Path) -> None:
    """Committed while its axis was empty for a moment: then the axis is written, and the matrix is not."""
    with mounted(empty, *STORE) as mount:
        for name, lines in (("cell", ""), ("gene", "a\nb\nc\n")):
            (mount.point / f"axes/{name}.txt").write_text(lines)
        folder = mount.point / "matrices/cell/gene"
        folder.mkdir(parents=True)
        for part, code, numbers in (
            ("colptr", "Int64", [1, 1, 1, 1]),
            ("rowval", "Int64", []),
            ("nzval", "Float32", []),
        ):
            (folder / f"m.{part}").write_bytes(packed(code, numbers))
        descriptor = {"format": "sparse", "eltype": "Float32", "indtype": "Int64"}
        (folder / "m.json").write_text(json.dumps(descriptor))
        until_committed(mount)
        (mount.point / "axes/cell.txt").write_text("1\n2\n3\n4\n5\n6\n")
        until_committed(mount)
    done = asdffs("daf", "unpack", empty, tmp_path / "back", environment=environment_in(tmp_path))
    assert done.returncode == 0, done.stderr
    done = asdffs("daf", "check", empty, environment=environment_in(tmp_path))
    assert done.returncode == 0, done.stdout
