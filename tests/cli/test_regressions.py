"""Faults that were found in the commands without a mount, each as small as it can be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli.test_explode import contents
from support.commands import Call, command
from support.filesystems import filesystem
from support.mounts import asdffs, environment_in, mounted
from support.samples import DATA, MASK, block_bytes, header_bytes, index_bytes, odd_file, opened, put
from support.web_server import WebServer

from asdffs.format.block_index import may_be_index

HEAD = "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"


def nd(source: object, size: int = 3, more: str = "") -> str:
    return f"!core/ndarray-1.0.0 {{source: {source}, datatype: uint8, byteorder: big, shape: [{size}]{more}}}"


def write(path: Path, lines: str, *blocks: bytes, **more: object) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(odd_file(tree=HEAD + lines + "...\n", blocks=[block_bytes(b) for b in blocks], **more))
    return path


def arrays(path: Path) -> dict[str, bytes]:
    with opened(path) as found:
        return {
            name: value[:].tobytes() for name, value in found.tree.items() if name not in ("asdf_library", "history")
        }


def test_an_exploded_form_is_not_exploded_over_itself(tmp_path: Path, call: Call) -> None:
    path = write(tmp_path / "data.asdf", f"a: {nd(0)}\n", b"one")
    call("explode", path, tmp_path / "parts")
    before = {found.name: found.read_bytes() for found in (tmp_path / "parts").iterdir()}
    for target in ("parts/data.asdf", "data.asdf"):
        done = call("explode", tmp_path / target, (tmp_path / target).parent, "--force")
        assert (
            done.code,
            "the exploded form would replace the file itself; run: asdffs explode " in done.sentence,
        ) == (2, True)
    assert {found.name: found.read_bytes() for found in (tmp_path / "parts").iterdir()} == before


def test_a_failed_explode_leaves_the_old_form(tmp_path: Path, call: Call) -> None:
    with filesystem("tmpfs", tmp_path, 3 << 20) as here:
        path = write(here / "data.asdf", "a: 1\n", os.urandom(700_000))
        assert call("explode", path, here / "parts").code == 0
        before = {found.name: found.read_bytes() for found in (here / "parts").iterdir()}
        (here / "ballast").write_bytes(bytes(1_200_000))
        done = call("explode", path, here / "parts", "--force")
        assert (done.code, "make room" in done.sentence, "data.asdf" in done.sentence) == (8, True, True)
        assert {found.name: found.read_bytes() for found in (here / "parts").iterdir()} == before


def test_files_of_another_stem_stay(tmp_path: Path, call: Call) -> None:
    """``run10000.asdf`` is a block of ``run1``, not number 10000 of ``run``."""
    for name in ("run", "run1"):
        write(tmp_path / f"{name}.asdf", f"a: {nd(0)}\n", name.encode())
        assert call("explode", tmp_path / f"{name}.asdf", tmp_path / "d").code == 0
    assert call("explode", tmp_path / "run.asdf", tmp_path / "d", "--force").code == 0
    assert (tmp_path / "d/run10000.asdf").exists()
    assert call("implode", tmp_path / "d/run.asdf", tmp_path / "o.asdf", "--json").json["blocks"] == 1


@pytest.mark.mount
def test_explode_waits_for_no_mount(tmp_path: Path, call: Call) -> None:
    path = write(tmp_path / "data.asdf", f"a: {nd(0)}\n", b"one")
    call("explode", path, tmp_path / "parts")
    with mounted(tmp_path / "parts/data0000.asdf"):
        assert call("explode", path, tmp_path / "parts", "--force").code == 5


def test_negative_and_dangling_sources_in_a_mixed_form(tmp_path: Path, call: Call) -> None:
    other = odd_file(tree=None, comments="", blocks=[block_bytes(b"two")], index="absent")
    (tmp_path / "x0000.asdf").write_bytes(other)
    path = write(tmp_path / "x.asdf", f"own: {nd(-1)}\next: {nd('x0000.asdf')}\n", b"one")
    assert call("implode", path, tmp_path / "o.asdf").code == 0
    assert arrays(tmp_path / "o.asdf") == {"own": b"one", "ext": b"two"}
    for source in ("0", "x.asdf"):
        path = write(tmp_path / "x.asdf", f"own: {nd(source)}\next: {nd('x0000.asdf')}\n")
        done = call("implode", path, tmp_path / "p.asdf")
        assert (done.code, "line 6: own" in done.sentence) == (4, True), done.sentence


def test_relative_sources_lead_to_the_same_file_from_elsewhere(tmp_path: Path, call: Call) -> None:
    """One is called like a block of the exploded form."""
    other = odd_file(tree=None, comments="", blocks=[block_bytes(b"two")], index="absent")
    (tmp_path / "x0000.asdf").write_bytes(other)
    path = write(tmp_path / "x.asdf", f"own: {nd(0)}\next: {nd('x0000.asdf')}\n", b"one")
    assert call("explode", path, tmp_path / "parts").code == 0
    assert arrays(tmp_path / "parts/x.asdf") == {"own": b"one", "ext": b"two"}
    assert call("implode", "--follow", tmp_path / "parts/x.asdf", tmp_path / "o.asdf").code == 0
    assert arrays(tmp_path / "o.asdf") == {"own": b"one", "ext": b"two"}
    done = asdffs("watch", "--once", tmp_path / "parts", path, environment=environment_in(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    tree = tmp_path / "parts/x.asdf"
    tree.write_bytes(tree.read_bytes().replace(b"own:", b"mine:"))
    assert asdffs("watch", "--once", tmp_path / "parts", path, environment=environment_in(tmp_path)).returncode == 0
    assert arrays(path) == {"mine": b"one", "ext": b"two"}
    assert b"source: x0000.asdf" in path.read_bytes()


@pytest.mark.parametrize(
    ("tail", "index"),
    [(b"PRECIOUS BYTES", "absent"), (block_bytes(b"x")[:-20].replace(b"\0\x30", b"\0\1", 1), "absent")],
)
def test_what_follows_the_blocks_is_not_dropped(tmp_path: Path, call: Call, tail: bytes, index: str) -> None:
    path = put(tmp_path, odd_file(index=index, tail=tail))
    before = path.read_bytes()
    for arguments in (("repack", path), ("repack", path, tmp_path / "o"), ("explode", path, tmp_path / "p")):
        done = call(*arguments)
        assert (done.code, "would be lost" in done.sentence) == (4, True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("source", ["!!int 2", "!!int '2'", "0x2", "0, source: 2"])
def test_sources_written_otherwise_are_seen(tmp_path: Path, call: Call, source: str) -> None:
    path = write(tmp_path / "data.asdf", f"a: {nd(source)}\n", b"one", b"two", b"abc")
    done = call("explode", path, tmp_path / "parts")
    assert done.code == 0, done.err
    assert arrays(tmp_path / "parts/data.asdf") == {"a": b"abc"}
    assert call("repack", "--drop-unreferenced", path).code == 0
    assert arrays(path) == {"a": b"abc"}


def test_an_array_inside_of_an_array_is_referenced(tmp_path: Path, call: Call) -> None:
    path = write(tmp_path / "data.asdf", f"a: {nd(0, more=', extra: ' + nd(2))}\n", b"one", b"two", b"abc")
    before = path.read_bytes()
    done = call("repack", "--drop-unreferenced", path)
    assert (done.code, "cannot be edited alone" in done.sentence) == (4, True)
    assert path.read_bytes() == before


def test_a_source_with_an_anchor_that_others_mean_is_not_edited(tmp_path: Path, call: Call) -> None:
    lines = f"a: {nd('&s 2')}\nb: {{count: *s}}\n"
    path = write(tmp_path / "data.asdf", lines, b"one", b"two", b"abc")
    before = path.read_bytes()
    for arguments in (("repack", "--drop-unreferenced", path), ("explode", path, tmp_path / "p")):
        done = call(*arguments)
        assert (done.code, "line 6" in done.sentence) == (4, True)
    assert path.read_bytes() == before


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    """Nothing is written of a file whose blocks moved meanwhile."""
    path = write(tmp_path / "data.asdf", f"a: {nd(0)}\n", b"one", b"two")
    environment = environment_in(tmp_path)
    change = f"open({str(path)!r}, 'ab').write(b'more')"
    code = (
        "import sys; from asdffs.workflows import exploded_files as e; real = e.transfer\n"
        f"def slow(*a):\n    real(*a); exec({change!r})\n"
        "e.transfer = slow\nfrom asdffs.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "explode", str(path), str(tmp_path / "parts")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "changed while it was read; nothing was written" in done.stderr) == (8, True)
    assert list((tmp_path / "parts").iterdir()) == []


def test_a_lying_index_means_the_same_to_every_command(tmp_path: Path, call: Call) -> None:
    blocks = [block_bytes(content) for content in (DATA, MASK, b"x", b"four")]
    whole = odd_file(blocks=blocks, index="absent")
    offsets = [place for place in range(len(whole)) if whole.startswith(b"\xd3BLK", place)]
    path = put(tmp_path, whole + index_bytes([offsets[0], offsets[1] + 3, offsets[3]]))
    assert len(call("info", "--json", path).json["blocks"]) == 4
    (tmp_path / "new").write_bytes(b"yyy")
    assert call("block", path, 2, "--replace", tmp_path / "new").code == 0
    assert [content for _, content in contents(path)[1]] == [DATA, MASK, b"yyy", b"four"]
    assert call("diff", "--blocks", path, path).code == 0


def test_a_tree_whose_last_line_has_no_end(tmp_path: Path, call: Call) -> None:
    path = put(tmp_path, odd_file(tree=HEAD + "value: 1\n...", blocks=[]))
    assert call("repack", path).code == 0
    with opened(path) as found:
        assert found["value"] == 1


def test_a_failed_append_leaves_the_block(tmp_path: Path, call: Call) -> None:
    with filesystem("tmpfs", tmp_path, 3 << 20) as here:
        path = write(here / "data.asdf", f"a: {nd(0)}\n", b"one")
        os.truncate(tmp_path / "big", 0) if (tmp_path / "big").exists() else None
        (tmp_path / "big").write_bytes(os.urandom(4 << 20))
        before = call("info", "--json", path).json["blocks"]
        done = call("block", path, 0, "--append", tmp_path / "big")
        assert (done.code, "No space left" in done.err) == (8, True)
        assert call("info", "--json", path).json["blocks"] == before


def test_no_temporary_is_left_for_ever(tmp_path: Path, call: Call) -> None:
    """Whatever a killed command left goes when the same is written again, and nothing of another command."""
    from asdffs.storage.sidecars import temporary_prefix

    path = write(tmp_path / "data.asdf", f"a: {nd(0)}\n", b"one")
    call("explode", path, tmp_path / "parts")
    other = tmp_path / "parts" / (temporary_prefix("data.asdf") + "1.tmp")
    other.write_bytes(b"what a watch is writing")
    for folder, name in ((tmp_path, "o.asdf"), (tmp_path / "parts", "data, exploded")):
        for ending in ("1.tmp", "1-probe.tmp"):
            (folder / (temporary_prefix(name) + ending)).write_bytes(b"left")
    assert call("implode", tmp_path / "parts/data.asdf", tmp_path / "o.asdf").code == 0
    assert call("explode", path, tmp_path / "parts", "--force").code == 0
    assert list(tmp_path.rglob(".asdffs-*")) == [other]
    assert call("implode", path, tmp_path / "parts/data.asdf", "--force").code == 0
    assert list(tmp_path.rglob(".asdffs-*")) == []


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("block", "data.asdf", "1" * 5000), 2, "is not a block number"),
        (("block", "data.asdf", "0", "--replace", "."), 3, ".: cannot be read: Is a directory"),
        (("block", "data.asdf", "0", "--append", ""), 3, "'': cannot be read"),
        (("repack", "--padding", "100G", "data.asdf"), 2, "--padding 100G"),
        (("repack", "--align", "1G", "data.asdf"), 2, "--align 1G"),
    ],
)
def test_bad_arguments(tmp_path: Path, call: Call, arguments: tuple[str, ...], code: int, sentence: str) -> None:
    path = write(tmp_path / "data.asdf", f"a: {nd(0)}\n", b"one")
    before = path.read_bytes()
    done = call(*(str(path) if word == "data.asdf" else word for word in arguments))
    assert (done.code, sentence in done.sentence) == (code, True), done.err
    assert path.read_bytes() == before


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    path = write(tmp_path / "data.asdf", f"a: {nd(0)}\n", b"one")
    script = f"{sys.executable} -m asdffs block {path} 0 --replace <(echo from a pipe)"
    subprocess.run(["bash", "-c", script], env=environment_in(tmp_path), check=True)
    assert [content for _, content in contents(path)[1]] == [b"from a pipe\n"]


def test_a_name_more_is_not_taken_from_a_file(tmp_path: Path, call: Call) -> None:
    path = write(tmp_path / "data.asdf", f"a: {nd(0)}\n", b"one")
    (tmp_path / "out.asdf").write_bytes(b"old")
    os.link(tmp_path / "out.asdf", tmp_path / "other")
    done = call("repack", path, tmp_path / "out.asdf", "--force")
    assert (done.code, "several names" in done.sentence) == (8, True)
    assert (tmp_path / "other").read_bytes() == b"old"


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.asdf"))
    write(path, f"a: {nd(0)}\n", b"one")
    environment = {**environment_in(tmp_path), "PYTHONIOENCODING": "utf-8:strict"}
    for arguments in (("info", path), ("info", "--map", path), ("explode", path, tmp_path / "p"), ("repack", path)):
        words = [sys.executable, "-m", "asdffs", *map(str, arguments)]
        done = subprocess.run(words, env=environment, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b""), done.stderr


def test_dangling_sources_are_no_users_of_a_block(tmp_path: Path, call: Call) -> None:
    path = write(tmp_path / "data.asdf", f"a: {nd(0)}\nb: {nd(5)}\n", b"one")
    (row,) = [line for line in call("info", "-v", path).out.splitlines() if line.startswith("    0")]
    assert row.split()[-1] == "a"


def test_text_like_blocks_are_no_index() -> None:
    """They were read to their beginning, and slower with their size."""
    assert not may_be_index(b"B" * 4096)
    assert may_be_index(b"YAML 1.1\n--- [1, 2, 3]\n...\n")
    assert may_be_index(b"#ASDF BLOCK INDEX\n%YAML 1.1\n--- [" + b"1, " * 900)


def test_a_stream_in_the_middle_of_an_append_is_cut_back(tmp_path: Path, call: Call) -> None:
    stream = header_bytes(b"", flags=1, md5=False) + MASK
    with filesystem("tmpfs", tmp_path, 3 << 20) as here:
        path = put(here, odd_file(blocks=[block_bytes(DATA), stream], index="absent"))
        before = path.read_bytes()
        (tmp_path / "big").write_bytes(os.urandom(4 << 20))
        assert call("block", path, 1, "--append", tmp_path / "big").code == 8
        assert path.read_bytes() == before


def test_regression_references_led_to_a_server(tmp_path: Path) -> None:
    with WebServer().running() as server:
        url = server.put("/x.asdf", b"#ASDF 1.0.0\n")
        attributes = json.dumps({"asdffs_files": [{"url": f"{prefix}{url}"} for prefix in ("", "file://")]})
        (tmp_path / "refs.json").write_text(json.dumps({"refs": {".zattrs": attributes}}))
        done = command("refs", "--check", tmp_path / "refs.json", environment=environment_in(tmp_path))
        assert done.code == 1
        assert done.out.count("is not asked") == 2
        assert not server.requests


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000])
@pytest.mark.parametrize(("words", "code"), [(("refs", "--check"), 4), (("undo",), 2)])
def test_regression_deep_json_was_a_traceback(words: tuple[str, ...], code: int, text: str, tmp_path: Path) -> None:
    (tmp_path / "deep").write_text(text)
    assert command(*words, tmp_path / "deep", environment=environment_in(tmp_path)).code == code
