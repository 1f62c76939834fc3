"""docs/cli.md: every row is run, every JSON fits its schema, every command and exit code is on it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support.commands import command
from support.drafts import INVALID, SAMPLES, draft, name_of
from support.mounts import asdffs, environment_in, mounted, run, shim
from support.samples import ODD_FILES, block_bytes, header_bytes, odd_file, put, zlib_block

from asdffs.cli.arguments import command_names
from asdffs.cli.results import ExitCode

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "cli.md").read_text()
ROWS = [
    (line.split("` | ")[0].removeprefix("| `"), int(code), message.replace("\\|", "|"))
    for line in PAGE.rpartition("| command | code | message |")[2].splitlines()
    if (found := re.match(r"\| `.*` \| (\d) \| (.*) \|$", line))
    for code, message in [found.groups()]
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the page."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "data.asdf").write_bytes(odd_file(padding=b" " * 500))
    (folder / "old.asdf").write_bytes(odd_file())
    (folder / "cut.asdf").write_bytes(odd_file(index="absent")[:-60])
    (folder / "bad-tree.asdf").write_bytes(odd_file().replace(b"value: 1\n", b"value: [\n"))
    (folder / "unknown.asdf").write_bytes(b"#ASDF 9.0.0\n")
    (folder / "draft.asdf").write_bytes(draft(b"a: 1\nr: {$ref: 'missing.asdf#/a'}\n"))
    (folder / "note.txt").write_bytes(b"hello\n")
    (folder / "empty").mkdir()
    shim(folder / "bin")
    environment = environment_in(folder)
    assert command("explode", folder / "data.asdf", folder / "parts", environment=environment).code == 0
    return folder


def test_the_page_has_rows() -> None:
    assert len(ROWS) > 30
    assert {code for _, code, _ in ROWS} >= {2, 3, 4, 5, 6, 7, 8}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("line", "code", "message"), ROWS, ids=[row[0] for row in ROWS])
def test_row(place: Path, line: str, code: int, message: str) -> None:
    environment = {**environment_in(place), "PATH": f"{place}/bin:{os.environ['PATH']}"}
    environment.pop("VISUAL", None)
    for kept in place.glob("*.rejected-*"):
        kept.unlink()
    done = run("bash", "-c", line, cwd=place, env=environment, stdin=-3)
    said = [text.removeprefix("asdffs: ") for text in (done.stdout + done.stderr).splitlines()]
    assert (done.returncode, "<br>".join(said)) == (code, message.replace("DIR/", f"{place}/"))


def test_every_command_and_exit_code_is_on_the_page() -> None:
    described = set(re.findall(r"^\| `(\w+)[ `]", PAGE.partition("### Durability")[0], re.MULTILINE))
    assert described == set(command_names())
    codes = re.findall(r"^\| (\d+) \|", PAGE.partition("## Exit codes")[2].partition("## JSON")[0], re.MULTILINE)
    assert [int(code) for code in codes] == [*map(int, ExitCode), 130, 141]


def fits(schema: str, found: Any) -> None:
    jsonschema.validate(found, json.loads((DOCS / "schemas" / f"{schema}.json").read_text()))


def test_schemas_are_linked_and_right() -> None:
    names = sorted(path.name for path in (DOCS / "schemas").iterdir())
    assert names == sorted(set(re.findall(r"\(schemas/(\w+\.json)\)", PAGE)))
    for name in names:
        jsonschema.Draft202012Validator.check_schema(json.loads((DOCS / "schemas" / name).read_text()))
    with pytest.raises(jsonschema.ValidationError):
        fits("info", {"file": "x"})


STRANGE = {
    "unknown compression": odd_file(blocks=[header_bytes(b"w", compression=b"wxyz", data_size=9) + b"w"]),
    "damaged block": odd_file(
        blocks=[
            block_bytes(b"a"),
            block_bytes(b"b").replace(b"\0\0\0\0\0\0\0\1", b"\0\0\0\0\0\0\0\3", 1),
            zlib_block(b"c"),
        ]
    ),
    "external": odd_file(blocks=[]).replace(b"source: 0", b"source: missing.asdf"),
    "bad tree": odd_file().replace(b"value: 1\n", b"value: [\n"),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", [*ODD_FILES, *STRANGE])
def test_json_of_every_odd_file(tmp_path: Path, name: str) -> None:
    path = put(tmp_path, (ODD_FILES | STRANGE)[name])
    environment = environment_in(tmp_path)
    fits("info", command("info", "--json", path, environment=environment).json)
    fits("check", command("check", "--json", path, tmp_path / "missing", environment=environment).json)
    fits("recover", command("recover", "--json", path, environment=environment).json)
    other = put(tmp_path, odd_file(blocks=[block_bytes(b"other")]).replace(b"value: 1\n", b"more: 2\n"), "other.asdf")
    done = command("diff", "--json", path, other, environment=environment)
    if done.code == ExitCode.FINDINGS:
        fits("diff", done.json)
    fits("get", command("get", "--json", "value", "--default", "", path, other, environment=environment).json)
    catalog = tmp_path / "archive.db"
    fits("index", command("index", "--json", "--catalog", catalog, path, other, environment=environment).json)
    for options in ([], ["--columns", "value,none"], ["--sql"]):
        text = "SELECT * FROM array" if "--sql" in options else "exists value"
        fits("find", command("find", "--json", "--catalog", catalog, *options, text, environment=environment).json)
    fits("grep", command("grep", "--json", "e", path, other, environment=environment).json)
    fits("changes", command("set", "--json", "-n", "value=7", path, other, environment=environment).json)
    done = command("explode", "--json", path, tmp_path / "parts", environment=environment)
    if done.code == ExitCode.OK:
        fits("explode", done.json)
        done = command(
            "implode", "--follow", "--json", tmp_path / "parts/data.asdf", tmp_path / "o", environment=environment
        )
        assert done.code in (ExitCode.OK, ExitCode.NO_FILE)
        if done.code == ExitCode.OK:
            fits("implode", done.json)
    done = command("repack", "--json", "--compression", "zlib", path, environment=environment)
    if done.code == ExitCode.OK:
        fits("repack", done.json)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", SAMPLES, ids=name_of)
def test_json_of_every_draft(tmp_path: Path, path: Path) -> None:
    environment = environment_in(tmp_path)
    fits("info", command("info", "--json", path, environment=environment).json)
    fits("check", command("check", "--json", path, environment=environment).json)
    for arguments in (["--check", path], [path, tmp_path / "new.asdf"]):
        done = command("upgrade", "--json", *arguments, environment=environment)
        assert done.code == (ExitCode.NOT_ASDF if path in INVALID else ExitCode.OK)
        if done.code == ExitCode.OK:
            fits("upgrade", done.json)


@pytest.mark.mount
def test_json_of_a_mount(tmp_path: Path) -> None:
    path = put(tmp_path, odd_file())
    with mounted(path, code=None) as mount:
        fits("status", mount.status)
        with pytest.raises(OSError, match="Bad message"):
            mount.tree.write_bytes(b"no tree")
        fits("status", mount.status)
        fits("info", json.loads(asdffs("info", "--json", path, environment=mount.environment).stdout))
