"""``asdffs info FILE...``: describes ASDF files without reading their blocks."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from asdffs.arrays.ndarrays import Ndarray
from asdffs.cli.arguments import add_files, add_json, add_remote
from asdffs.cli.printing import say
from asdffs.cli.reading import open_to_read
from asdffs.cli.results import Answer, answer_each, sentence_of
from asdffs.document.arrays.index import find_unshown
from asdffs.document.document import Document
from asdffs.errors import DamagedBlockError, InvalidTreeError
from asdffs.format.text import standard_version
from asdffs.printable import printable
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.lock import is_locked
from asdffs.storage.sidecars import has_journal
from asdffs.storage.urls import shown_name

if TYPE_CHECKING:
    from asdffs.workflows.references import External

SUMMARY: Final = "list header, tree, padding, blocks, arrays and index"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs info --json data.asdf | jq '.blocks[] | {index, data_size}'
  asdffs info --map data.asdf      draw the file layout to scale
  asdffs info --json *.asdf | jq -r '.[] | select(.truncated != "") | .file'

Sizes and offsets are in bytes.  The files may be mounted meanwhile.  "lz4 x6": the block has six pieces, and a read
decodes only those that it needs; without a number a block is decoded from its beginning.
"""
    add_files(parser)
    parser.add_argument("--map", action="store_true", help="draw the file layout to scale")
    add_json(parser, "one JSON object, of several files an array")
    add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the descriptions.  Raises ``AsdffsError``, ``OSError``."""
    return answer_each(arguments, [(file, None) for file in arguments.files], _describe)


def _describe(arguments: argparse.Namespace) -> Answer:
    with closing(open_to_read(arguments.file, arguments)) as document:
        if arguments.map and not arguments.json:
            from asdffs.cli.file_map import render

            document.table.verify_index()
            drawn = render(document, _width())
            return Answer({}, lambda: _print(drawn))
        facts = describe(document, arguments.file)
    return Answer(facts, lambda: _show(facts))


def _show(facts: dict[str, Any]) -> None:
    if sys.stdout.isatty():
        say(*_head(facts))
        _print(_pretty(facts))
    else:
        say(*_head(facts), *_table(facts["blocks"], _users(facts)), *_elsewhere(facts))


def _width() -> int:
    """Return the number of columns to draw in."""
    from shutil import get_terminal_size

    return get_terminal_size((100, 24)).columns


def _print(what: Any) -> None:
    from rich.console import Console

    Console(width=_width(), highlight=False).print(what, end="")


def describe(document: Document, name: str) -> dict[str, Any]:
    """Return all facts, as ``--json`` prints them; ``name`` is how the user calls the file."""
    document.table.verify_index()
    blocks = [_block(document, number) for number in range(len(document.blocks))]
    layout = document.layout
    comments, (arrays, invalid) = document.tree.text()[: layout.text_start], _arrays(document)
    return {
        "file": shown_name(name),
        "size": layout.size,
        "inside": _inside(document),
        "dialect": document.dialect.name,
        "file_format": ".".join(map(str, layout.header.version)),
        "standard": standard_version(comments),
        "newline": "CRLF" if layout.header.newline == b"\r\n" else "LF",
        "tree": {"start": layout.text_start, "end": layout.text_end} if layout.has_tree else None,
        "padding": len(layout.padding),
        "arrays": [_array(document, array) for array in arrays],
        "external": _externals(document, arrays),
        "unshown": [one.facts() for one in find_unshown(document)],
        "blocks": blocks,
        "index": _index_state(document),
        "truncated": document.table.truncation,
        "invalid": invalid,
        "mount": _mount(document.path),
    }


def _arrays(document: Document) -> tuple[Sequence[Ndarray], str]:
    """Return the arrays of the tree, and a sentence if it is not valid YAML."""
    try:
        return document.tree.read_arrays(), ""
    except InvalidTreeError as err:
        return (), f"the tree is not valid: {err}"


def _inside(document: Document) -> dict[str, Any] | None:
    """Return the format and size of the file around the ASDF file, and where the ASDF file begins in it."""
    found = document.embedded
    return None if found is None else {"format": found.kind, "size": document.signature.size, "start": found.start}


def _mount(path: str) -> dict[str, Any] | None:
    """Return who has the file mounted for writing: process, mount point, state, how blocks were moved last."""
    directory, name = os.path.split(path)
    folder = FileFolder(directory)
    if not has_journal(folder, name) and not is_locked(folder, name):
        return None
    from asdffs.storage.lock import read_owner

    return read_owner(folder, name) or None


def _block(document: Document, number: int) -> dict[str, Any]:
    block = document.blocks[number]
    try:
        header, facts = block.header, block.facts()
    except DamagedBlockError as err:
        return {"index": number, "error": sentence_of(err)}
    more = {"streamed": header.streamed, "slack": header.slack, "has_checksum": header.verifiable}
    return {**facts, **more, "obstacle": block.obstacle, "pieces": block.pieces}


def _array(document: Document, array: Ndarray) -> dict[str, Any]:
    return {"path": array.name, "source": array.source, "shape": _shape(document, array), "datatype": array.datatype}


def _shape(document: Document, array: Ndarray) -> tuple[int, ...] | None:
    """Return the shape; where it has ``*``, the one that the block has now."""
    number = array.block_in(len(document.blocks))
    if array.row is None or number is None:
        return array.shape
    try:
        return array.shape_in(document.blocks[number].size)
    except DamagedBlockError:
        return None


def _externals(document: Document, arrays: Sequence[Ndarray]) -> list[dict[str, Any]]:
    if not any(isinstance(array.source, str) for array in arrays):
        return []
    from asdffs.workflows.references import find_externals

    return [_external(one) for one in find_externals(document, arrays)]


def _external(one: External) -> dict[str, Any]:
    facts = {"array": one.array.name, "source": one.source, "path": one.path, "data_size": one.data_size}
    return {**facts, "trouble": one.trouble}


def _index_state(document: Document) -> str:
    """Return ``valid``, ``absent``, or ``invalid`` if something else than the index follows the blocks."""
    layout = document.layout
    if layout.index is not None:
        return "valid"
    return "absent" if layout.blocks_end >= layout.size else "invalid"


def _head(facts: dict[str, Any]) -> list[str]:
    tree = facts["tree"]
    return [
        f"{facts['file']}: {_sizes(facts)}",
        f"{facts['dialect']}, file format {facts['file_format']}, standard {facts['standard'] or 'not stated'}, "
        f"{facts['newline']} newlines",
        f"tree      {tree['start']}..{tree['end']}" if tree else "tree      none",
        f"padding   {facts['padding']} bytes",
        f"index     {facts['index']}",
        *(f"damage    {facts[kind]}" for kind in ("truncated", "invalid") if facts[kind]),
    ]


def _sizes(facts: dict[str, Any]) -> str:
    around, size = facts["inside"], f"{facts['size']} bytes"
    if around is None:
        return size
    return f"{around['format']}, {around['size']} bytes; the ASDF file in it has {size}, from {around['start']} on"


def _users(facts: dict[str, Any]) -> dict[int, list[str]]:
    """Return the paths of the arrays of each block."""
    users: dict[int, list[str]] = {}
    count = len(facts["blocks"])
    for array in facts["arrays"]:
        if isinstance(array["source"], int) and -count <= array["source"] < count:
            users.setdefault(array["source"] % count, []).append(array["path"])
    return users


def _pretty(facts: dict[str, Any]) -> Any:
    """Return the table for a terminal, with sizes as people read them."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("block", "offset", "data", "stored", "slack"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("compression", "checksum", "arrays"):
        table.add_column(name, overflow="fold")
    shapes = {array["path"]: printable(_array_text(array), terminal=True) for array in facts["arrays"]}
    users = _users(facts)
    for block in facts["blocks"]:
        names = "\n".join(shapes[path] for path in users.get(block["index"], [])) or "-"
        table.add_row(*map(Text, (str(block["index"]), *map(printable, _cells(block)), names)))
    return Group(table, *(Text(printable(line, terminal=True)) for line in _elsewhere(facts)))


def _cells(block: dict[str, Any]) -> list[str]:
    if "error" in block:
        return ["?", "?", "?", "?", block["error"], "?"]
    sizes = [f"{block[key]:,}" for key in ("offset", "data_size", "used_size", "slack")]
    return [*sizes, block["obstacle"] or _kind(block), "md5" if block["has_checksum"] else "none"]


def _kind(block: dict[str, Any]) -> str:
    """Return the compression; with several pieces as ``lz4 x6``."""
    if block["streamed"]:
        return "streamed"
    pieces = block["pieces"] or 1
    return f"{block['compression']} x{pieces}" if pieces > 1 else str(block["compression"])


def _array_text(array: dict[str, Any]) -> str:
    from asdffs.tree.lookups import datatype_text

    shape = "x".join(map(str, array["shape"])) if array["shape"] else "scalar" if array["shape"] == () else "?"
    return f"{array['path']}  {datatype_text(array['datatype'])} {shape}"


def _elsewhere(facts: dict[str, Any]) -> list[str]:
    """Return lines about arrays around the ASDF file, in other files, and not shown at all."""
    others = {one["array"] for one in facts["external"]}
    around = [one for one in facts["arrays"] if isinstance(one["source"], str) and one["path"] not in others]
    return [
        *(f"{facts['inside']['format']:<9} {_array_text(one)}  {one['source']}" for one in around if facts["inside"]),
        *map(_external_line, facts["external"]),
        *map(_unshown_line, facts["unshown"]),
    ]


def _unshown_line(one: dict[str, Any]) -> str:
    shape = "shape unknown" if one["shape"] is None else "x".join(map(str, one["shape"])) or "scalar"
    return f"not shown {one['path']}, {shape}: {one['reason']}"


def _external_line(one: dict[str, Any]) -> str:
    what = one["trouble"] or f"{one['path']}, {one['data_size']} bytes"
    return f"external  {one['array']}: {one['source']} ({what})"


def _table(blocks: list[dict[str, Any]], users: dict[int, list[str]]) -> list[str]:
    if not blocks:
        return ["no blocks"]
    rows = [f"{'block':>5} {'offset':>12} {'data':>12} {'used':>12} {'slack':>9} compression checksum arrays"]
    for block in blocks:
        names = ", ".join(users.get(block["index"], [])) or "-"
        if "error" in block:
            rows.append(f"{block['index']:>5} {block['error']}")
            continue
        checksum = "md5" if block["has_checksum"] else "none"
        rows.append(
            f"{block['index']:>5} {block['offset']:>12} {block['data_size']:>12} {block['used_size']:>12} "
            f"{block['slack']:>9} {_kind(block):<11} {checksum:<8} {names}"
        )
        if block["obstacle"]:
            rows.append(f"      {block['obstacle']}")
    return rows
