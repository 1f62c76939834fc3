"""Bad stores: each fault is named with its file, and pack refuses what is not whole, or keeps it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.commands import command
from support.daf_stores import Builder, differences
from support.mounts import environment_in


def good(root: Path, version: tuple[int, int] = (1, 0)) -> Builder:
    root.mkdir()
    store = Builder(root, version)
    store.axis("cell", ["a", "b", "c"])
    store.axis("gene", ["g", "h"])
    store.scalar("n", "Int8", 5)
    store.dense("vectors/cell/age", "Float32", [1, 2, 3])
    store.dense("vectors/cell/name", "String", ["x", "y", "z"])
    store.dense("vectors/cell/flag", "Bool", [0, 1, 1])
    store.sparse("vectors/cell/sp", "Int8", "UInt32", {"nzind": [1, 3]}, [4, 5])
    store.sparse("matrices/cell/gene/m", "Int8", "UInt32", {"colptr": [1, 3, 4], "rowval": [1, 3, 2]}, [1, 2, 3])
    return store


def u32(*numbers: int) -> bytes:
    return np.array(numbers, "<u4").tobytes()


V, M = "vectors/cell/", "matrices/cell/gene/"


def raw(path: str, content: bytes) -> Callable[[Builder], object]:
    return lambda store: store.raw(path, content)


def gone(path: str) -> Callable[[Builder], object]:
    return lambda store: os.unlink(store.root / path)


#: What is wrong -> how it is made, the file that is named, what is said, whether pack refuses.
FAULTS: dict[str, tuple[Callable[[Builder], object], str, str, bool]] = {
    "newer version": (raw("daf.json", b'{"version":[1,2]}'), "daf.json", "has version [1,2]", True),
    "other version": (raw("daf.json", b'{"version":[2,0]}'), "daf.json", "has version [2,0]", True),
    "no version": (raw("daf.json", b"{}"), "daf.json", 'has no "version"', True),
    "no daf.json": (gone("daf.json"), "daf.json", "is missing", True),
    "no section": (lambda s: os.rmdir(_emptied(s, "scalars")), "scalars", "the directory is missing", False),
    "no JSON": (raw("scalars/n.json", b"{"), "scalars/n.json", "is not a JSON object", True),
    "out of range": (lambda s: s.scalar("n", "Int8", 300), "scalars/n.json", "which is not a valid Int8", True),
    "unknown type": (lambda s: s.scalar("n", "Int9", 3), "scalars/n.json", "which is not a FilesDaf type", True),
    "missing payload": (gone(f"{V}age.data"), f"{V}age.json", "is missing", True),
    "no descriptor": (gone(f"{V}age.json"), f"{V}age.data", "no descriptor", True),
    "too short": (raw(f"{V}age.data", b"1234"), f"{V}age.data", "has 4 bytes; 3 elements", True),
    "too many lines": (raw(f"{V}name.txt", b"a\n" * 4), f"{V}name.txt", "has 4 lines", True),
    "cut off": (raw("axes/cell.txt", b"a\nb\nc"), "axes/cell.txt", "does not end with a newline", True),
    "no axis": (gone("axes/gene.txt"), f"{M}m.json", "belongs to the axis 'gene'", True),
    "values": (raw(f"{V}sp.nzval", b"1"), f"{V}sp.nzval", "has 1 bytes; 2 elements", True),
    "pointers": (raw(f"{M}m.colptr", u32(1, 4)), f"{M}m.colptr", "has 8 bytes", True),
    "too much": (raw(f"{V}age.txt", b""), f"{V}age.txt", "names no such file", True),
    "twice": (raw("axes/cell.txt", b"a\nb\na\n"), "axes/cell.txt", "line 3 is 'a', as is line 1", False),
    "empty entry": (raw("axes/cell.txt", b"a\n\nc\n"), "axes/cell.txt", "line 2 is empty", False),
    "no UTF-8": (raw("axes/cell.txt", b"a\nb\n\xff\n"), "axes/cell.txt", "is not UTF-8 in line 3", False),
    "unsorted": (raw(f"{V}sp.nzind", u32(3, 1)), f"{V}sp.nzind", "element 2 is 1 after 3", False),
    "index twice": (raw(f"{V}sp.nzind", u32(2, 2)), f"{V}sp.nzind", "element 2 is 2 after 2", False),
    "index 0": (raw(f"{V}sp.nzind", u32(0, 1)), f"{V}sp.nzind", "element 1 is 0; the axis has 3", False),
    "empty text": (
        lambda s: s.sparse(f"{V}text", "String", "UInt32", {"nzind": [1, 3]}, ["x", ""]),
        f"{V}text.nztxt",
        "line 2 is empty",
        False,
    ),
    "index beyond": (raw(f"{V}sp.nzind", u32(1, 4)), f"{V}sp.nzind", "element 2 is 4", False),
    "begins at 0": (raw(f"{M}m.colptr", u32(0, 3, 4)), f"{M}m.colptr", "should be 1", False),
    "goes back": (raw(f"{M}m.colptr", u32(1, 5, 4)), f"{M}m.colptr", "must not decrease", False),
    "ends early": (raw(f"{M}m.colptr", u32(1, 2, 3)), f"{M}m.colptr", "should be 4", False),
    "rows unsorted": (raw(f"{M}m.rowval", u32(3, 1, 2)), f"{M}m.rowval", "in one column", False),
    "row beyond": (raw(f"{M}m.rowval", u32(1, 9, 2)), f"{M}m.rowval", "is 9", False),
    "no Bool": (raw(f"{V}flag.data", b"\0\1\2"), f"{V}flag.data", "neither 0 nor 1", False),
}


def _emptied(store: Builder, section: str) -> Path:
    for path in (store.root / section).iterdir():
        path.unlink()
    return store.root / section


def test_a_good_store_has_no_fault(tmp_path: Path) -> None:
    for version in ((1, 0), (1, 1)):
        store = good(tmp_path / f"{version}.daf", version)
        done = command("daf", "check", store.root, environment=environment_in(tmp_path))
        assert (done.code, done.out) == (0, f"{store.root}: nothing wrong\n")


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault: str, tmp_path: Path) -> None:
    make, path, said, refused = FAULTS[fault]
    store, out = good(tmp_path / "s.daf"), tmp_path / "x.asdf"
    make(store)
    environment = environment_in(tmp_path)
    done = command("daf", "check", store.root, environment=environment)
    assert done.code == 4
    lines = [line for line in done.out.splitlines() if line.startswith(f"{store.root / path}: ")]
    assert any(said in line for line in lines), done.out
    facts = command("daf", "check", "--json", store.root, environment=environment).json
    assert not facts["ok"]
    assert path in [one["path"] for one in facts["faults"]]
    done = command("daf", "pack", store.root, out, environment=environment)
    assert (done.code, out.exists()) == ((4, False) if refused else (0, True)), done.err
    if refused:
        assert path.rpartition("/")[2] in done.sentence


@pytest.mark.parametrize("fault", [name for name, fault in FAULTS.items() if fault[1] != "daf.json"])
def test_what_is_not_whole_can_be_kept(fault: str, tmp_path: Path) -> None:
    store, out, back = good(tmp_path / "s.daf"), tmp_path / "x.asdf", tmp_path / "back.daf"
    FAULTS[fault][0](store)
    environment = environment_in(tmp_path)
    assert command("daf", "pack", "--keep", store.root, out, environment=environment).code == 0
    assert command("daf", "unpack", out, back, environment=environment).code == 0
    assert differences(store.root, back) == ""
    assert command("daf", "check", out, environment=environment).code == 4, "the packed one is as bad"


def test_counts_of_1_1(tmp_path: Path) -> None:
    store = good(tmp_path / "s.daf", (1, 1))
    path = store.root / "vectors/cell/sp.json"
    descriptor = json.loads(path.read_bytes())
    descriptor["nzind"]["n_elements"] = 3
    path.write_text(json.dumps(descriptor))
    done = command("daf", "check", store.root, environment=environment_in(tmp_path))
    assert "sp.nzind: has 2 elements; its descriptor says 3" in done.out


def test_packed_properties_are_kept_and_noted(tmp_path: Path) -> None:
    store, out, back = good(tmp_path / "s.daf", (1, 1)), tmp_path / "x.asdf", tmp_path / "b.daf"
    store.json("vectors/cell/zip", {"format": "dense", "eltype": "Int8", "packed_format": "zipped"})
    store.raw("vectors/cell/zip.zip", b"PK")
    environment = environment_in(tmp_path)
    done = command("daf", "check", store.root, environment=environment)
    assert done.code == 0
    assert "zip.json: note: is packed" in done.out
    assert command("daf", "pack", store.root, out, environment=environment).code == 0
    assert command("daf", "unpack", out, back, environment=environment).code == 0
    assert differences(store.root, back) == ""


def test_no_path_leads_out_of_the_store(tmp_path: Path) -> None:
    path = tmp_path / "x.asdf"
    entries = ["../out", "/abs", "a/../../b", "a//b", "a/./b", "%2e%2e/c", "%00"]
    verbatim = "".join(f"      {json.dumps(entry)}: evil\n" for entry in entries)
    path.write_text(
        "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
        "daf:\n  version: [1, 0]\n  vectors:\n    ..: {x: [a]}\n    a/b: {y: [b]}\n"
        f"  files:\n    verbatim:\n{verbatim}"
        '    dirs: ["../d", "/e"]\n...\n'
    )
    environment, back = environment_in(tmp_path), tmp_path / "back.daf"
    assert command("daf", "unpack", path, back, environment=environment).code == 4
    assert command("daf", "unpack", "--force", path, back, environment=environment).code == 0
    assert sorted(os.listdir(tmp_path)) == ["back.daf", "x.asdf"]
    assert sorted(os.listdir(back)) == ["axes", "daf.json", "matrices", "scalars", "vectors"]
    assert command("daf", "check", path, environment=environment).code == 4
