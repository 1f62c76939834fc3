"""``asdffs info FILE...``: describes ASDF files without reading their blocks."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

from asdffs.cli.arguments import add_files, add_json, add_remote
from asdffs.cli.printing import aligned, say
from asdffs.cli.reading import open_to_read
from asdffs.cli.results import Answer, answer_each
from asdffs.storage.lock import LockTable

SUMMARY: Final = "list header, tree, padding, blocks, arrays and index"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs info --json data.asdf | jq '.blocks[] | {index, data_size}'
  asdffs info --map data.asdf      draw the file layout to scale
  asdffs info --json *.asdf | jq -r '.[] | select(.truncated != "") | .file'

Sizes and offsets are in bytes.  -v lists the blocks, with offsets and slack.  The files may be mounted meanwhile.
"lz4 x6": the block has six pieces, and a read decodes only those that it needs; without a number a block is decoded
from its beginning.
"""
    add_files(parser)
    parser.add_argument("--map", action="store_true", help="draw the file layout to scale")
    add_json(parser, "one JSON object, of several files an array")
    add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the descriptions.  Raises ``AsdffsError``, ``OSError``."""
    return answer_each(arguments, [(file, None) for file in arguments.files], _describe)


def _describe(arguments: argparse.Namespace) -> Answer:
    locks = LockTable()
    from asdffs.cli.describing import describe  # takes as long as the kernel does for its locks

    with closing(open_to_read(arguments.file, arguments)) as document:
        if arguments.map and not arguments.json:
            from asdffs.cli.file_map import render

            document.table.verify_index()
            drawn = render(document, _width())
            return Answer({}, lambda: _print(drawn))
        facts = describe(document, arguments.file, locks)
    return Answer(facts, lambda: _show(facts, whole=arguments.verbose))


def _show(facts: dict[str, Any], *, whole: bool) -> None:
    """Print what a person asks for; ``whole``: also where everything is in the file."""
    say(*_head(facts, whole=whole), *_arrays_table(facts, whole=whole), *_elsewhere(facts))
    if whole or any("error" in block or block["obstacle"] for block in facts["blocks"]):
        say(*_table(facts["blocks"], _users(facts)))
    else:
        say(_summary(facts["blocks"]))


def _width() -> int:
    """Return the number of columns to draw in."""
    from shutil import get_terminal_size

    return get_terminal_size((100, 24)).columns


def _print(what: Any) -> None:
    from rich.console import Console

    Console(width=_width(), highlight=False).print(what, end="")


def _head(facts: dict[str, Any], *, whole: bool) -> list[str]:
    tree = facts["tree"]
    places = [f"tree      {tree['start']}..{tree['end']}" if tree else "tree      none"]
    places.append(f"padding   {facts['padding']} bytes")
    return [
        f"{facts['file']}: {_sizes(facts)}",
        f"{facts['dialect']}, file format {facts['file_format']}, standard {facts['standard'] or 'not stated'}, "
        f"{facts['newline']} newlines",
        *(places if whole else ()),
        *([f"index     {facts['index']}"] if whole or facts["index"] != "valid" else ()),
        *(f"damage    {facts[kind]}" for kind in ("truncated", "invalid") if facts[kind]),
    ]


def _arrays_table(facts: dict[str, Any], *, whole: bool) -> Iterator[str]:
    """Yield a line for each table and array; those of the columns of tables only with ``whole``."""
    rows, seen = [["array", "datatype", "shape", "unit", "where"]], set[str]()
    tables = {one["path"]: one for one in facts["tables"]}
    for array in facts["arrays"]:
        ways = itertools.accumulate(array["path"].split("/"), "{}/{}".format)
        table = next((tables[way] for way in ways if way in tables), None)
        if table is not None and table["path"] not in seen:
            seen.add(table["path"])
            rows.append([table["path"], "table", _table_shape(table), "", ""])
        if whole or table is None:
            rows.append(_array_cells(array, facts))
    if facts["arrays"]:
        yield from aligned(rows)


def _table_shape(table: dict[str, Any]) -> str:
    return f"{'?' if table['rows'] is None else table['rows']} rows x {len(table['columns'])} columns"


def _array_cells(array: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    from asdffs.tree.values import datatype_text

    shape, source, blocks = array["shape"], array["source"], facts["blocks"]
    lengths = " x ".join(map(str, shape)) if shape else "scalar" if shape == () else "?"
    if shape and len(shape) == 1 and datatype_text(array["datatype"]) == "record":
        lengths = _table_shape({"rows": shape[0], "columns": array["datatype"]})
    where = "in the tree" if source is None else str(source)
    if array["pieces"] is not None:
        where = _pieces_text(array["pieces"])
    if isinstance(source, int):
        where = f"block {source % len(blocks)}" if -len(blocks) <= source < len(blocks) else f"no block {source}"
        kind = _kind(blocks[source]) if where.startswith("block") and "error" not in blocks[source] else "none"
        where += "" if kind == "none" else f", {kind}"
    where += ", masked" if array["masked"] else ""
    return [array["path"], datatype_text(array["datatype"]), lengths, array["unit"], where]


def _pieces_text(pieces: dict[str, Any]) -> str:
    kind, count = pieces["kind"], pieces["count"]
    missing = f", {pieces['missing']} missing" if pieces["missing"] else ""
    return f"{count} {kind if count != 1 else kind.removesuffix('s')}{missing}"


def _summary(blocks: list[dict[str, Any]]) -> str:
    """Return how many blocks there are, and how large they are."""
    if not blocks:
        return "no blocks"
    used, data = (sum(block[key] for block in blocks) for key in ("used_size", "data_size"))
    decoded = f", {data} bytes decoded" if any(block["compression"] != "none" for block in blocks) else ""
    return f"{len(blocks)} block{'s' if len(blocks) != 1 else ''}, {used} bytes{decoded}; -v lists them"


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


def _kind(block: dict[str, Any]) -> str:
    """Return the compression; with several pieces as ``lz4 x6``."""
    if block["streamed"]:
        return "streamed"
    pieces = block["pieces"] or 1
    return f"{block['compression']} x{pieces}" if pieces > 1 else str(block["compression"])


def _elsewhere(facts: dict[str, Any]) -> list[str]:
    """Return lines about arrays in other files, and not shown at all."""
    return [*map(_external_line, facts["external"]), *map(_unshown_line, facts["unshown"])]


def _unshown_line(one: dict[str, Any]) -> str:
    shape = "shape unknown" if one["shape"] is None else "x".join(map(str, one["shape"])) or "scalar"
    return f"not shown {one['path']}, {shape}: {one['reason']}"


def _external_line(one: dict[str, Any]) -> str:
    what = one["trouble"] or f"{one['path']}, {one['data_size']} bytes"
    return f"external  {one['array']}: {one['source']} ({what})"


def _table(blocks: list[dict[str, Any]], users: dict[int, list[str]]) -> list[str]:
    if not blocks:
        return ["no blocks"]
    rows = [["block", "offset", "data", "used", "slack", "compression", "checksum", "arrays"]]
    for block in blocks:
        sizes = [str(block.get(key, "?")) for key in ("index", "offset", "data_size", "used_size", "slack")]
        names = ", ".join(users.get(block["index"], [])) or "-"
        if "error" in block:
            rows.append([*sizes, "?", "?", block["error"]])
        else:
            checksum = "md5" if block["has_checksum"] else "none"
            rows.append([*sizes, _kind(block), checksum, ": ".join(filter(None, (names, block["obstacle"])))])
    return [*aligned(rows, right=range(5))]
