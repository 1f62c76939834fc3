"""Describes an open file as ``info --json`` prints it: header, tree, arrays, blocks, index, and who mounted it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from asdffs.arrays.branch import branch_of_mask
from asdffs.arrays.ndarrays import Ndarray, arrays_of
from asdffs.cli.results import sentence_of
from asdffs.document.arrays.index import find_unshown, pieces_facts
from asdffs.document.document import Document
from asdffs.errors import DamagedBlockError, InvalidTreeError
from asdffs.format.text import standard_version
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.lock import LockTable
from asdffs.storage.sidecars import has_journal
from asdffs.storage.urls import shown_name
from asdffs.tree.rules import check_tree
from asdffs.tree.syntax import decoded
from asdffs.tree.tape import Tape

if TYPE_CHECKING:
    from asdffs.workflows.references import External


def describe(document: Document, name: str, locks: LockTable) -> dict[str, Any]:
    """Return all facts, as ``--json`` prints them; ``name`` is how the user calls the file."""
    document.table.verify_index()
    blocks = [_block(document, number) for number in range(len(document.blocks))]
    layout = document.layout
    text, version = document.tree.text(), document.tree.version
    try:
        tape, invalid = document.tree.tape(decoded(text), version), ""  # all who read the tree below get this one
        arrays = _arrays(document, tape)
    except InvalidTreeError as err:
        tape, arrays, invalid = None, (), f"the tree is not valid: {err}"
    found = {
        "file": shown_name(name),
        "size": layout.size,
        "inside": _inside(document),
        "dialect": document.dialect.name,
        "file_format": ".".join(map(str, layout.header.version)),
        "standard": standard_version(text[: layout.text_start]),
        "newline": "CRLF" if layout.header.newline == b"\r\n" else "LF",
        "tree": {"start": layout.text_start, "end": layout.text_end} if layout.has_tree else None,
        "padding": len(layout.padding),
        "arrays": _arrays_facts(document, arrays),
        "tables": _tables(document) if arrays else [],
        "external": _externals(document, arrays),
        "unshown": [one.facts() for one in find_unshown(document)],
        "blocks": blocks,
        "index": _index_state(document),
        "truncated": document.table.truncation,
        "invalid": invalid,
        "mount": _mount(document.path, locks),
    }
    del tape
    return found


def _arrays(document: Document, tape: Tape) -> Sequence[Ndarray]:
    """Return the arrays of the tree.  Raises ``InvalidTreeError``."""
    check_tree(tape, unique=False)
    arrays = tuple(arrays_of(tape, document.dialect))
    found = (branch.array for branch in document.outlines.outline().arrays)
    in_pieces = [array for array in found if array is not None and array.pieces is not None]
    return sorted([*arrays, *in_pieces], key=lambda array: array.line) if in_pieces else arrays


def _inside(document: Document) -> dict[str, Any] | None:
    """Return the format and size of the file around the ASDF file, and where the ASDF file begins in it."""
    found = document.embedded
    return None if found is None else {"format": found.kind, "size": document.signature.size, "start": found.start}


def _mount(path: str, locks: LockTable) -> dict[str, Any] | None:
    """Return who has the file mounted for writing: process, mount point, state, how blocks were moved last."""
    directory, name = os.path.split(path)
    folder = FileFolder(directory)
    if not has_journal(folder, name) and not locks.may_have(folder, name):
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


def _arrays_facts(document: Document, arrays: Sequence[Ndarray]) -> list[dict[str, Any]]:
    if not arrays:
        return []
    branches = {branch.path: branch for branch in document.outlines.outline().arrays}
    units = {path: document.units(branch).get("", "") for path, branch in branches.items()}
    masked = {path for path, branch in branches.items() if branch.masked or branch_of_mask(branch) is not None}
    return [
        {
            "path": array.name,
            "source": array.source,
            "shape": _shape(document, array),
            "datatype": array.datatype,
            "unit": units.get(array.path, ""),
            "masked": array.path in masked,
            "pieces": None if array.pieces is None else pieces_facts(document, array.pieces),
        }
        for array in arrays
    ]


def _tables(document: Document) -> list[dict[str, Any]]:
    """Return the tables of columns: path, number of rows (None if it is not known), names of the columns."""
    from asdffs.arrays.outline import tables_in

    return [
        {"path": "/".join(map(str, branch.path)), "rows": rows, "columns": names}
        for branch, rows, names in tables_in(document.outlines.outline())
    ]


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
