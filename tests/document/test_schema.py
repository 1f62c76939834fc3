"""``-o schema``, ``check --schema``, ``edit --schema``: trees beside the asdf library's schemas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.commands import command
from support.mounts import environment_in, mounted

from asdffs.document.schema import check_schemas
from asdffs.errors import InvalidTreeError

HEADER = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
WRONG = [
    (b"a: !core/ndarray-1.1.0 {source: 0, datatype: float32, shape: [x]}\n", 6, "a.shape.0"),
    (b"x: 1\na: !core/ndarray-1.1.0 {source: 0, datatype: int8, shape: [2], offset: x}\n", 7, "a.offset"),
    (b"a: !core/ndarray-1.1.0\n  source: 0\n  datatype: float33\n  shape: [2]\n", 8, "a.datatype"),
    (b"list:\n- 1\n- b: !core/complex-1.0.0 'no number'\n", 8, "list.1.b"),
    (b"history: !core/history_entry-1.0.0 {time: [1]}\n", 6, "history.time"),
]
RIGHT = [
    b"a: !core/ndarray-1.1.0 {source: 0, datatype: float32, byteorder: little, shape: [2]}\n",
    b"a: !<tag:unknown.org:thing-1.0.0> {anything: [1, 2]}\n",
    b"a: 1\n",
    b"a: &x [1]\nb: *x\n",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"data": np.zeros(3, "f4"), "z": 1 + 2j}).write_to(path)
    return path


@pytest.mark.parametrize(("lines", "line", "place"), WRONG)
def test_what_does_not_fit_is_told_with_its_line(lines: bytes, line: int, place: str) -> None:
    with pytest.raises(InvalidTreeError, match=f"{place} does not fit its schema: ") as caught:
        check_schemas(HEADER + lines + b"...\n")
    assert caught.value.line in (line, line + 1)


@pytest.mark.feature("drafts")
@pytest.mark.parametrize("head", [b"%ASDF 0.1.0", b"#ASDF 0.1.0"])
def test_a_draft_is_looked_at_as_it_would_be_upgraded(head: bytes, tmp_path: Path) -> None:
    text = head + b"\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/0.1.0/\n--- !core/asdf\nz: !core/complex VALUE\n...\n"
    path, environment = tmp_path / "draft.asdf", environment_in(tmp_path)
    path.write_bytes(text.replace(b"VALUE", b"1+1j"))
    assert command("check", "--schema", path, environment=environment).out == f"{path}: nothing wrong\n"
    path.write_bytes(text.replace(b"VALUE", b"[1]"))
    done = command("check", "--schema", path, environment=environment)
    assert (done.code, "line 5: z does not fit its schema" in done.out) == (9, True)


def test_tags_without_a_schema_are_named(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    path.write_bytes(HEADER + b"a: !<tag:unknown.org:thing-1.0.0> {b: !<tag:unknown.org:other-1.0.0> 1}\n...\n")
    done = command("check", "--schema", path, environment=environment_in(tmp_path))
    assert "no schema is known for 2 tags, which were not checked: tag:unknown.org:other-1.0.0, " in done.out
    assert done.code == 0


@pytest.mark.parametrize("lines", RIGHT)
def test_what_fits_or_is_not_known(lines: bytes) -> None:
    check_schemas(HEADER + lines + b"...\n")


def test_what_the_library_cannot_read() -> None:
    with pytest.raises(InvalidTreeError, match="cannot read it"):
        check_schemas(HEADER + b"a: [1\n...\n")


def test_check(file: Path, tmp_path: Path) -> None:
    environment = environment_in(tmp_path)
    assert command("check", "--schema", file, environment=environment).out == f"{file}: nothing wrong\n"
    file.write_bytes(file.read_bytes().replace(b"float32", b"float33"))
    plain = command("check", file, environment=environment)
    assert (plain.code, "does not fit" in plain.out) == (4, False)
    done = command("check", "--schema", file, environment=environment)
    assert done.code == 4
    assert "data.datatype does not fit its schema: " in done.out


def test_edit(file: Path, tmp_path: Path) -> None:
    environment = {**environment_in(tmp_path), "EDITOR": "sed -i s/float32/float33/"}
    environment.pop("VISUAL", None)
    before = file.read_bytes()
    done = command("edit", "--schema", file, environment=environment)
    assert done.code == 7
    assert "data.datatype does not fit its schema" in done.err
    assert file.read_bytes() == before


@pytest.mark.mount
def test_mount(file: Path) -> None:
    with mounted(file, "-o", "schema", code=7) as mount:
        text = mount.tree.read_bytes()
        mount.tree.write_bytes(text.replace(b"z:", b"zz:"))
        with pytest.raises(OSError, match="Bad message"):
            mount.tree.write_bytes(text.replace(b"float32", b"float33"))
        assert "data.datatype does not fit its schema" in mount.error
    assert b"zz:" in file.read_bytes()


def test_without_the_library(file: Path, tmp_path: Path) -> None:
    """A finder that knows of no asdf stands for an installation without the extra."""
    program = (
        "import sys, importlib.util as u\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'asdf' else real(name, *rest)\n"
        "from asdffs.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    for arguments in (
        ("check", "--schema", file),
        ("edit", "--schema", file),
        ("mount", "-o", "schema", file, tmp_path),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**environment_in(tmp_path), "EDITOR": "true"},
        )
        sentence = "asdffs: schemas need the asdf library, which is not installed: pip install 'asdffs[schema]'\n"
        assert (done.returncode, done.stderr) == (2, sentence)
