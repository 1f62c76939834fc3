"""Mounts as a service: ls, umount -a, systemd, fstab, doctor, and the options that sshfs and gocryptfs users know."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jsonschema
import pytest
from support.mounts import ASDFFS as COMMAND
from support.mounts import LIMIT, NOBODY, asdffs, environment_in, mounted, run, shim
from support.namespaces import in_own_namespace
from support.processes import pids_with, until, wait_for
from support.samples import odd_file

pytestmark = [pytest.mark.long, pytest.mark.mount]
ROOT = Path(__file__).parents[2]


def listed(environment: dict[str, str], below: Path) -> list[dict[str, object]]:
    """What ``ls`` tells of the mounts of this test: others may run beside it."""
    done = asdffs("ls", "--json", environment=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    jsonschema.validate(found, json.loads((ROOT / "docs/schemas/ls.json").read_text()))
    return [one for one in found if str(one["mountpoint"]).startswith(f"{below}/")]


def test_ls_tells_of_every_mount(file: Path, tmp_path: Path) -> None:
    odd = tmp_path / "a name, with\ttabs"
    odd.mkdir()
    other = odd / "other.asdf"
    other.write_bytes(odd_file())
    with mounted(file) as mount, mounted(other, "-o", "ro") as second:
        found = listed(mount.environment, tmp_path)
        assert [(one["file"], one["mountpoint"], one["writable"], one["state"]) for one in found] == [
            (str(file), str(mount.point), True, "serving"),
            (str(other), str(second.point), False, "serving"),
        ]
        assert found[0]["pid"] == mount.pid
        assert found[0]["owner"] == os.geteuid()
        lines = asdffs("ls", environment=mount.environment).stdout
        assert f"{file}\t{mount.point}\trw\tserving\n" in lines
        os.kill(second.pid, signal.SIGSTOP)
        try:
            states = [one["state"] for one in listed(mount.environment, tmp_path)]
        finally:
            os.kill(second.pid, signal.SIGCONT)
        assert states == ["serving", "not answering"]
    assert listed(environment_in(tmp_path), tmp_path) == []


def test_who_asks_a_mount_that_does_not_answer_ends(file: Path, tmp_path: Path) -> None:
    """Else it would keep the mount namespace of its command, and with it every mount in there."""
    mark = f"ASDFFS_MARK={tmp_path}"
    with mounted(file) as mount:
        os.kill(mount.pid, signal.SIGSTOP)
        try:
            environment = environment_in(tmp_path) | dict([mark.split("=")])
            run(*COMMAND, "ls", env=environment, check=True)
            left = pids_with(mark)
            assert left, "it waits still"
            for pid in left:
                wait_for(pid)
        finally:
            os.kill(mount.pid, signal.SIGCONT)


def test_a_dead_mount_is_told_as_such(file: Path, tmp_path: Path) -> None:
    with mounted(file, code=6) as mount:
        (mount.point / "notes.txt").write_text("remember me")
        os.kill(mount.pid, signal.SIGKILL)
        (one,) = listed(mount.environment, tmp_path)
        assert "its daemon is gone" in str(one["state"])
        assert one["pid"] is None
        done = asdffs("umount", mount.point, environment=mount.environment)
        story = f"asdffs: {file}: kept from the last mount: {file}.leftover/notes.txt"
        assert (done.returncode, done.stderr.splitlines()) == (
            7,
            [f"asdffs: {mount.point}: its daemon was gone; unmounted", story],
        )
        assert Path(f"{file}.leftover/notes.txt").read_text() == "remember me"
        assert listed(mount.environment, tmp_path) == []
        assert asdffs("recover", file, environment=mount.environment).returncode == 0, "all of it is told"


def test_umount_of_several_and_of_all(file: Path, tmp_path: Path) -> None:
    """In a mount namespace of its own: ``-a`` means all, and other tests have mounts."""
    points = [tmp_path / name for name in ("a", "b", "c")]
    files = [tmp_path / f"{point.name}.asdf" for point in points]
    for point, path in zip(points, files, strict=True):
        point.mkdir()
        path.write_bytes(odd_file(padding=b" " * 400))
    python = f"{sys.executable} -m asdffs"
    script = "\n".join(
        [
            *(f"{python} mount {path} {point}" for path, point in zip(files, points, strict=True)),
            f"echo broken > {points[1]}/blocks/left.txt",
            f"sed -i 's/value: 1/value: 2/' {points[0]}/tree.yaml",
            f"{python} umount -a; echo code $?",
            f"{python} ls",
            f"{python} umount -a; echo code $?",
            f"{python} mount {files[0]} {points[0]}",
            f"{python} umount {points[0]} {points[1]}; echo code $?",
        ]
    )
    done = in_own_namespace(script, tmp_path)
    assert done.stdout == "code 7\ncode 0\ncode 6\n", done.stderr
    waiting = "asdffs: waiting for the daemon to finish "  # said when a machine is slow
    first, second = (line for line in done.stderr.splitlines() if not line.startswith(waiting))
    assert first.startswith(f"asdffs: {files[1]}: ")
    assert "leftover" in first
    assert second == f"asdffs: {points[1]}: no asdffs mount is there; 'asdffs ls' lists them"
    assert b"value: 2" in files[0].read_bytes()


@contextlib.contextmanager
def listening(path: str) -> Iterator[socket.socket]:
    """As systemd does for a unit of Type=notify."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind("\0" + path[1:] if path.startswith("@") else path)
        channel.settimeout(LIMIT)
        yield channel


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told_when_it_is_ready(file: Path, tmp_path: Path, *, abstract: bool) -> None:
    point = tmp_path / "mnt"
    point.mkdir()
    name = f"@asdffs-{os.getpid()}" if abstract else str(tmp_path / "notify")
    environment = {**environment_in(tmp_path), "NOTIFY_SOCKET": name}
    with listening(name) as channel:
        command = [*COMMAND, "mount", "--systemd", file, point]
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
            assert channel.recv(4096).decode() == f"READY=1\nSTATUS=mounted {file} at {point}"
            assert (point / "tree.yaml").read_bytes().startswith(b"#ASDF")
            process.send_signal(signal.SIGTERM)
            assert channel.recv(4096).decode() == f"STOPPING=1\nSTATUS=finishing {file}"
            _, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, err) == (0, f"mounted {file} at {point}\n")
    assert not os.path.ismount(point)


def test_a_socket_that_is_not_there_is_only_told(file: Path, tmp_path: Path) -> None:
    point, environment = tmp_path / "mnt", {**environment_in(tmp_path), "NOTIFY_SOCKET": str(tmp_path / "none")}
    point.mkdir()
    command = [*COMMAND, "mount", "-f", file, point]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        line, then = (process.stderr.readline() for _ in range(2))
        assert asdffs("umount", point, environment=environment).returncode == 0
    assert line == "asdffs: warning: systemd could not be told READY=1: No such file or directory\n"
    assert then == f"mounted {file} at {point}\n"


@pytest.mark.parametrize("whose", ["user", "system"])
def test_the_units_are_ones_that_systemd_understands(tmp_path: Path, whose: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    units = [*(ROOT / "packaging").glob("*.service")] if whose == "user" else [*(ROOT / "packaging/system").iterdir()]
    assert len(units) == (1 if whose == "user" else 3)
    for unit in units:
        for name in (unit.name, unit.name.replace("@", "@night")):
            shutil.copy(unit, tmp_path / name)
    place = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = run("systemd-analyze", "verify", f"--{whose}", *sorted(tmp_path.glob("*@night.*")), env=place)
    assert [line for line in (done.stdout + done.stderr).splitlines() if "asdffs" in line] == []
    assert done.returncode == 0, done.stderr


def test_what_the_units_of_the_system_run(tmp_path: Path, file: Path) -> None:
    """The lines of the units, with what a configuration says, and what systemd gives them."""
    folder, point = file.parent / "archive", tmp_path / "mnt"
    folder.mkdir()
    shutil.copy(file, folder / "a.asdf")
    point.mkdir()
    settings = {"FILE": folder, "MNT": point, "OPTIONS": "ro", "CATALOG": tmp_path / "c.db"}
    environment = {**environment_in(tmp_path), "PATH": f"{shim(tmp_path / 'bin')}:{os.environ['PATH']}"}

    def lines(unit: str, key: str) -> list[str]:
        text = (ROOT / "packaging/system" / unit).read_text()
        (line,) = re.findall(rf"^{key}=-?(.*)$", text, re.MULTILINE)
        return [str(re.sub(r"\$\{(\w+)\}", lambda name: str(settings[name[1]]), word)) for word in line.split()]

    done = run(*lines("asdffs-index@.service", "ExecStart"), env=environment)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/c.db: 1 file, 1 read\n")
    with subprocess.Popen(lines("asdffs@.service", "ExecStart"), env=environment, stderr=subprocess.PIPE) as daemon:
        until(lambda: os.path.ismount(point))
        assert (point / "a.asdf.d/tree.yaml").exists()
        assert run(*lines("asdffs@.service", "ExecStop"), env=environment).returncode == 0
        assert daemon.wait(LIMIT) == 0
    with subprocess.Popen(lines("asdffs@.service", "ExecStart"), env=environment, stderr=subprocess.PIPE) as daemon:
        until(lambda: os.path.ismount(point))
        daemon.kill()
        daemon.wait()
        assert run(*lines("asdffs@.service", "ExecStopPost"), env=environment).returncode == 0
        assert not os.path.ismount(point)


def test_options_that_users_of_other_file_systems_know(file: Path, tmp_path: Path) -> None:
    point = tmp_path / "mnt"
    point.mkdir()
    (point / "hidden").write_text("below")
    environment = environment_in(tmp_path)
    done = asdffs("mount", file, point, environment=environment)
    assert (done.returncode, "not empty" in done.stderr) == (6, True)
    done = asdffs(
        "mount", "-q", "-s", file, point, "-o", "nonempty,fsname=night,default_permissions", environment=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "hidden" not in os.listdir(point)
    assert run("findmnt", "-no", "SOURCE", point).stdout.strip() == "night"
    (one,) = listed(environment, tmp_path)
    assert one["file"] == str(file)
    assert asdffs("umount", point, environment=environment).returncode == 0
    assert os.listdir(point) == ["hidden"]
    command = [*COMMAND, "mount", "-d", "-o", "nonempty", file, point]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert any(line == f"mounted {file} at {point}\n" for line in process.stderr)
        assert asdffs("umount", point, environment=environment).returncode == 0
        assert "was unmounted and finished" in process.stderr.read()


@pytest.mark.parametrize("options", ["defaults", "ro,noauto,user,x-systemd.automount,_netdev"])
def test_mount_8_and_fstab(file: Path, tmp_path: Path, options: str) -> None:
    """The real mount(8), with a table of its own; mount.fuse looks for ``asdffs`` in the system's directories."""
    if os.geteuid() != 0 or not any(map(os.path.exists, ("/sbin/mount.fuse", "/usr/sbin/mount.fuse"))):
        pytest.skip("needs root and mount.fuse")
    point, programs = tmp_path / "mnt", shim(tmp_path / "bin")
    point.mkdir()
    table = tmp_path / "fstab"
    table.write_text(f"{file} {point} fuse.asdffs {options} 0 0\n")
    look = f"findmnt -no SOURCE,FSTYPE {point}; findmnt -no OPTIONS {point} | cut -c1-2; asdffs umount {point}"
    script = f"""
        mount --bind {programs} /usr/local/bin
        mount -T {table} {point} && {look}
        mount -t fuse.asdffs -o {options} {file} {point} && {look}
        mount -t fuse.asdffs -o sparkle {file} {point} || echo refused
    """
    done = in_own_namespace(script, tmp_path)
    seen = f"{file} fuse.asdffs\n{options[:2] if options[:2] == 'ro' else 'rw'}\n"
    assert done.stdout == f"{seen}{seen}refused\n", done.stderr
    assert done.stderr.startswith("asdffs: unknown mount option 'sparkle'")


def test_doctor_says_that_mounting_works(tmp_path: Path) -> None:
    environment = environment_in(tmp_path)
    done = asdffs("doctor", environment=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ok       mounting: a small file was mounted, read and unmounted\n" in done.stdout
    assert "problem" not in done.stdout
    found = json.loads(asdffs("doctor", "--json", environment=environment).stdout)
    jsonschema.validate(found, json.loads((ROOT / "docs/schemas/doctor.json").read_text()))
    assert found["ok"]
    assert {one["subject"] for one in found["found"]} >= {
        "/dev/fuse",
        "libfuse 3",
        "libfuse 2",
        "lz4",
        "fits",
        "schema",
    }


def test_doctor_says_what_is_missing(tmp_path: Path) -> None:
    """Without the device, the libraries and the extras; in a mount namespace where /dev is empty."""
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    for module in ("lz4", "zstandard", "blosc", "astropy", "asdf"):
        (blocked / f"{module}.py").write_text("raise ImportError('not here')\n")
    hidden = "for path in $(ldconfig -p | sed -n 's/.*libfuse.* => //p'); do mount --bind /dev/null $path; done"
    empty = f"mount -t tmpfs none /dev && mknod /dev/null c 1 3; {hidden}"
    script = f"{empty}; exec {sys.executable} -m asdffs doctor"
    environment = environment_in(tmp_path)
    environment["PYTHONPATH"] = f"{blocked}:{environment['PYTHONPATH']}"
    done = in_own_namespace(script, tmp_path, environment)
    assert done.returncode == 6
    lines = done.stdout.splitlines()
    assert (
        "problem  /dev/fuse: does not exist  ->  run 'modprobe fuse'; a container needs '--device /dev/fuse'" in lines
    )
    assert "missing  libfuse 3: cannot be loaded  ->  sudo apt install fuse3" in lines
    assert any(line.startswith("problem  libfuse: there is none  ->") for line in lines)


def test_doctor_says_what_mount_8_needs(tmp_path: Path) -> None:
    """The command must be where root's shell looks; a link there is what doctor proposes.  In a mount namespace."""
    if os.geteuid() != 0 or shutil.which("mount.fuse3") is None or sys.base_prefix == "/usr/local":
        pytest.skip("needs root, mount.fuse3, and a Python that is not in /usr/local")
    script = f"""
        mount -t tmpfs none /usr/local/bin
        doctor() {{ {sys.executable} -m asdffs doctor | grep 'mount -t'; }}
        doctor
        eval "$(doctor | sed -n 's/.*->  sudo //p')"
        doctor
    """
    done = in_own_namespace(script, tmp_path)
    before, after = done.stdout.splitlines()
    assert before.startswith("missing  mount -t fuse.asdffs: root does not find the command asdffs; "), done.stderr
    assert after.startswith("ok       mount -t fuse.asdffs: "), after
    assert " starts /usr/local/bin/asdffs; " in after


ASDFFS = " ".join(COMMAND)


def test_regression_a_daemon_that_does_not_answer_held_up_the_others(file: Path, tmp_path: Path) -> None:
    script = f"""
        cp data.asdf other.asdf; mkdir a b
        {ASDFFS} mount data.asdf a && {ASDFFS} mount other.asdf b
        pid=$(sed -n 's/.*"pid": \\([0-9]*\\).*/\\1/p' b/.asdffs/status.json); kill -STOP $pid
        {ASDFFS} umount -a; echo code $?
        {ASDFFS} mount data.asdf b; echo code $?
        mountpoint -q a || echo a is gone
        kill -CONT $pid; {ASDFFS} umount -a; echo code $?
    """
    done = in_own_namespace(script, tmp_path)
    assert done.stdout == "code 6\ncode 6\na is gone\ncode 0\n", done.stderr
    first, second = done.stderr.splitlines()
    assert first == f"asdffs: {tmp_path}/b: the mount cannot be asked to finish its file: not answering"
    assert second.startswith("asdffs: b: already mounted; run: asdffs umount b")


@pytest.mark.parametrize("read_only", [False, True])
def test_regression_umount_waited_for_a_daemon_that_goes_on_elsewhere(
    file: Path, tmp_path: Path, *, read_only: bool
) -> None:
    script = f"""
        mkdir a b; {ASDFFS} mount {"-o ro" if read_only else ""} data.asdf a && mount --bind a b
        timeout {LIMIT} {ASDFFS} umount a; echo code $?
        {ASDFFS} umount b; echo code $?
    """
    done = in_own_namespace(script, tmp_path)
    assert done.stdout == "code 5\ncode 0\n", done.stderr
    assert "but it is also seen at another place" in done.stderr


def test_regression_umount_waited_for_a_process_of_another_namespace(file: Path, tmp_path: Path) -> None:
    script = f"""
        mkdir a; unshare --pid --fork {ASDFFS} mount -f data.asdf a 2> said & daemon=$!
        until grep -q mounted said; do :; done
        timeout {LIMIT} {ASDFFS} umount a; echo code $?
        wait $daemon; echo daemon $?
    """
    done = in_own_namespace(script, tmp_path)
    assert done.stdout == "code 0\ndaemon 0\n", done.stderr
    assert "cannot be watched; its result is not known" in done.stderr


def test_two_mounts_at_once_on_one_mount_point(file: Path, tmp_path: Path) -> None:
    script = f"""
        cp data.asdf other.asdf; mkdir a
        {ASDFFS} mount data.asdf a 2>/dev/null & one=$!; {ASDFFS} mount other.asdf a 2>/dev/null & two=$!
        wait $one; first=$?; wait $two; echo $((first + $?))
        grep -c ' fuse.asdffs ' /proc/self/mountinfo; {ASDFFS} umount -a; echo code $?
    """
    assert in_own_namespace(script, tmp_path).stdout == "6\n1\ncode 0\n"


# -- an ordinary user ------------------------------------------------------------


class Anybodys(NamedTuple):
    """A directory that everybody may enter, with a file of ``nobody``'s; ``program``: asdffs for nobody."""

    folder: Path
    program: str

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run ``script`` here, with a device that others may open; NOBODY begins a command of nobody."""
        device = f"cd {self.folder}; mknod -m 666 fuse c 10 229 && mount --bind fuse /dev/fuse\n"
        nobody = f"setpriv --reuid={NOBODY} --clear-groups env HOME={self.folder} XDG_STATE_HOME= sh -ec"
        return in_own_namespace(device + script.replace("NOBODY", nobody), self.folder)


@pytest.fixture
def anybodys(file: Path) -> Iterator[Anybodys]:
    """With the system's interpreter, which others may run."""
    python = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    if os.geteuid() != 0 or not os.path.exists(python):
        pytest.skip(f"needs root, to become somebody else, and {python}")
    if run("setpriv", f"--reuid={NOBODY}", "--clear-groups", "sh", "-c", f"exec ls {packages}").returncode != 0:
        pytest.skip(f"{packages} cannot be read by other users")
    folder = Path(tempfile.mkdtemp(prefix="asdffs-", dir="/var/tmp"))
    try:
        shutil.copytree(ROOT / "asdffs", folder / "code/asdffs", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(file, folder / "data.asdf")
        (folder / "mnt").mkdir()
        for path in (folder, folder / "data.asdf", folder / "mnt"):
            shutil.chown(path, NOBODY)
        folder.chmod(0o755)
        yield Anybodys(folder, f"PYTHONPATH={folder}/code:{packages} {python} -m asdffs")
    finally:
        shutil.rmtree(folder)


def test_an_ordinary_user(anybodys: Anybodys) -> None:
    program = anybodys.program
    done = anybodys.run(f"""
        NOBODY '
            {program} doctor | grep -E "fusermount3|mounting|problem"
            {program} mount data.asdf mnt && {program} ls | grep "$PWD" | cut -f 2,3
            sed -i "s/value: 1/value: 2/" mnt/tree.yaml
            {program} umount -a && {program} check data.asdf'
    """)
    assert done.stdout.splitlines() == [
        "ok       /usr/bin/fusermount3: mounts for this user",
        "ok       mounting: a small file was mounted, read and unmounted",
        f"{anybodys.folder}/mnt\trw",
        "data.asdf: nothing wrong",
    ], done.stderr
    assert done.stderr == ""
    assert b"value: 2" in (anybodys.folder / "data.asdf").read_bytes()


def test_root_unmounts_what_a_user_has_mounted(anybodys: Anybodys) -> None:
    program = anybodys.program
    done = anybodys.run(f"""
        NOBODY '{program} mount data.asdf mnt && sed -i "s/value: 1/value: 2/" mnt/tree.yaml'
        {program} ls --json | grep state
        {program} umount -a; echo code $?
    """)
    assert done.stdout == '    "state": "not allowed to look",\ncode 0\n', done.stderr
    assert b"value: 2" in (anybodys.folder / "data.asdf").read_bytes()
