"""``asdffs info FILE``: what is in an ASDF file, without reading its blocks."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from asdffs.codecs.base import name_of
from asdffs.document.arrays import Ndarray
from asdffs.document.document import Document
from asdffs.document.opening import open_document
from asdffs.errors import DamagedBlockError
from asdffs.format.constants import NO_CHECKSUM
from asdffs.format.header import standard_version
from asdffs.storage.file_store import FileFolder
from asdffs.storage.journal import read_owner


def run(arguments: argparse.Namespace) -> int:
    """Print the description.  Raises ``AsdffsError``, ``OSError``."""
    document = open_document(arguments.file, writable=False)
    try:
        facts = describe(document)
    finally:
        document.close()
    print(json.dumps(facts, indent=2) if arguments.json else _render(facts))
    return 0


def describe(document: Document) -> dict[str, Any]:
    """All facts, as ``--json`` prints them."""
    blocks = [_block(document, number) for number in range(document.block_count)]
    layout = document.layout
    comments = document.tree.text()[: layout.text_start]
    return {
        "file": document.path,
        "size": layout.size,
        "dialect": document.dialect.name,
        "file_format": ".".join(map(str, layout.header.version)),
        "standard": standard_version(comments),
        "newline": "CRLF" if layout.header.newline == b"\r\n" else "LF",
        "tree": {"start": layout.text_start, "end": layout.text_end} if layout.has_tree else None,
        "padding": len(layout.padding),
        "arrays": [_array(array) for array in document.tree.arrays()],
        "blocks": blocks,
        "index": _index_state(document),
        "mount": _mount(document.path),
    }


def _mount(path: str) -> dict[str, Any] | None:
    """Who has the file mounted for writing, if anybody: process, mount point, state, how blocks were moved last."""
    directory, name = os.path.split(path)
    return read_owner(FileFolder(directory), name) or None


def _block(document: Document, number: int) -> dict[str, Any]:
    try:
        header = document.block_header(number)
    except DamagedBlockError as err:
        return {"index": number, "error": str(err)}
    return {
        "index": number,
        "offset": document.block_offset(number),
        "header_size": header.header_size,
        "flags": header.flags,
        "streamed": header.streamed,
        "compression": name_of(header.compression),
        "allocated_size": header.allocated_size,
        "used_size": header.used_size,
        "data_size": document.block_size(number),
        "slack": header.slack,
        "checksum": header.checksum.hex(),
        "has_checksum": header.checksum != NO_CHECKSUM,
    }


def _array(array: Ndarray) -> dict[str, Any]:
    return {"path": array.name, "source": array.source, "shape": array.shape, "datatype": array.datatype}


def _index_state(document: Document) -> str:
    """``valid``, ``absent``, or ``invalid`` where something else than the index follows the blocks."""
    layout = document.layout
    if layout.index is not None:
        return "valid"
    return "absent" if layout.blocks_end >= layout.size else "invalid"


def _render(facts: dict[str, Any]) -> str:
    tree = facts["tree"]
    lines = [
        f"{facts['file']}: {facts['size']} bytes",
        f"{facts['dialect']}, file format {facts['file_format']}, standard {facts['standard'] or 'not stated'}, "
        f"{facts['newline']} newlines",
        f"tree      {tree['start']}..{tree['end']}" if tree else "tree      none",
        f"padding   {facts['padding']} bytes",
        f"index     {facts['index']}",
    ]
    users: dict[int, list[str]] = {}
    for array in facts["arrays"]:
        if isinstance(array["source"], int):
            users.setdefault(array["source"] % max(1, len(facts["blocks"])), []).append(array["path"])
    return "\n".join(lines + _table(facts["blocks"], users))


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
        kind = "streamed" if block["streamed"] else block["compression"]
        rows.append(
            f"{block['index']:>5} {block['offset']:>12} {block['data_size']:>12} {block['used_size']:>12} "
            f"{block['slack']:>9} {kind:<11} {checksum:<8} {names}"
        )
    return rows
