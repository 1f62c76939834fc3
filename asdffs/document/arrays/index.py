"""Finds the arrays of the committed tree by their paths, and the objects with elements that cannot be shown.

| an object that is not shown                       | reason                                                     |
|---------------------------------------------------|------------------------------------------------------------|
| file references (DKIST), ``core/externalarray``   | the names of the files, or the shape, make no sense        |
| an array of asdf-zarr                             | the chunks are elsewhere, or a library is missing          |
| any other whose tag says that it is an array      | the tag is not known                                       |

The caller holds the main lock; other requests are served while the tree is read.  ``Array`` and what it needs is
imported when the first array is used: most commands use none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from asdffs.arrays.branch import Branch, branch_of_mask, shown_key
from asdffs.arrays.chunked import METADATA, Chunked, Tiled, is_stacked, is_tile, is_tiled, parse_chunked, starts_of
from asdffs.arrays.ndarrays import is_in_pieces
from asdffs.document.for_programs import serialized
from asdffs.document.state import FileState
from asdffs.errors import InvalidArrayError, InvalidTreeError
from asdffs.tree.paths import Path, name_of
from asdffs.tree.syntax import decoded
from asdffs.tree.tagged import Found, find_tagged

if TYPE_CHECKING:
    from asdffs.arrays.stacked import Stacked
    from asdffs.document.arrays.array import Array

_MASK: Final = "mask"
#: The longest number of an item, in digits.
_LONGEST: Final = 18
#: The last part of the tag of an object that has an array, without its version.
_ARRAYS: Final = re.compile(r"(array|zarr|file_manager|file_references?)[a-z_]*-?[0-9.]*$")
#: Names of files, of which only the number matters.
_FILES: Final = ("fileuris", "fileuri")


class ArrayIndex(Mapping[str, "Array"]):
    """The arrays of a document, as a mapping from paths to ``Array``: ``document.arrays["roman/data"]``.

    A path has the keys and item numbers from the root of the tree, such as ``"roman/data"`` or ``"stack/0"``.  These
    are the names of ``arrays/`` in a mount, without ``.npy`` (``tree/paths``).  The mapping always shows the
    committed tree as it is now.

    The columns of a table have their names, as in ``"table/columns/flux/data"``, and their numbers as well.

    A mask that the tree states as a value is at ``.../mask``.  An alias and a ``$ref``, also to another file, can be
    used in a path.  Iteration does not list these.

    Raises ``KeyError`` if there is no such array, ``InvalidArrayError`` if a linked file cannot be read, ``OSError``,
    and ``ValueError`` if the document is closed.
    """

    def __init__(self, file: FileState) -> None:
        self._file = file

    @serialized
    def __getitem__(self, path: str) -> Array:
        """Return the array at ``path``.  Raises as the class."""
        from asdffs.document.arrays.array import Array
        from asdffs.document.arrays.masks import Mask

        file, keys, mask = self._keys(path)
        name = "/".join((*map(name_of, keys), *([_MASK] if mask else [])))
        kind = Mask if mask else Array
        return kind(file, file.linked_files.finder(file, keys), name, lambda: self._mask_of(path))

    def _mask_of(self, path: str) -> Array | None:
        """Return the mask of the array at ``path``; None if it has none."""
        file, keys, is_mask = self._keys(path)
        branch = file.outlines.branch(keys)
        if is_mask:
            return None
        if branch.masked or _MASK in branch.children:
            return self.get(f"{path}/{_MASK}" if path else _MASK)
        beside = branch_of_mask(branch)
        if beside is None:
            return None
        from asdffs.document.arrays.array import Array  # as above

        return Array(file, file.linked_files.finder(file, beside.path), "/".join(map(name_of, beside.path)))

    @serialized
    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    @serialized
    def __len__(self) -> int:
        return len(self._names())

    def _names(self) -> list[str]:
        outline = self._file.outlines.outline()
        paths = map(outline.shown_path, outline.arrays)
        return ["/".join(map(name_of, path)) for path in paths if path is not None]

    def _keys(self, path: str) -> tuple[FileState, Path, bool]:
        """Return the file and the keys of the branch at ``path``, and whether ``path`` means its mask.

        Raises ``KeyError``.
        """
        if self._file.outlines.outline().root is None:
            raise KeyError(path)
        branch, names = self._file.outlines.branch(()), path.split("/") if path else []
        file, keys = self._file, tuple[str | int, ...]()
        for number, name in enumerate(names):
            last = number + 1 == len(names)
            if last and name == _MASK and branch.array is not None and branch.masked:
                return file, keys, True
            key = key_named(branch, name)
            if key is None:
                raise KeyError(path)
            branch, keys = branch.children[key], (*keys, key)
            if branch.external_uri is not None:
                found = file.linked_files.branch(branch.external_uri, file)
                if found is None:
                    raise KeyError(path)
                (file, branch), keys = found, found[1].path
        if branch.array is None:
            raise KeyError(path)
        return file, keys, False


def key_named(branch: Branch, name: str) -> str | int | None:
    """Return the key of the child with ``name`` in a path; None if there is none."""
    direct = int(name) if not branch.mapping and name.isdecimal() and len(name) < _LONGEST else name
    child = branch.children.get(direct)
    if child is not None and child.label is None and name_of(direct) == name:  # most are such; a list may be long
        return direct
    shown = (key for key, child in branch.children.items() if name_of(shown_key(key, child)) == name)
    found = next(shown, None)
    return found if found is not None else next((key for key in branch.children if name_of(key) == name), None)


class Unshown(NamedTuple):
    """An object with an array that is not shown.

    ``path``: from the root; ``line``: from 1; ``shape``: lengths of the axes, None if it is not known; ``reason``: a
    sentence.
    """

    path: Path
    tag: str
    line: int
    shape: tuple[int, ...] | None
    reason: str

    def facts(self) -> dict[str, Any]:
        """Return the facts as JSON has them."""
        return {**self._asdict(), "path": "/".join(map(str, self.path))}


def find_unshown(file: FileState) -> list[Unshown]:
    """Return the objects of the committed tree by the table above, in the order of the text.

    The list is empty if the tree is not valid YAML.  Raises ``OSError``.
    """
    dialect, version = file.dialect, file.tree.version
    try:
        tape = file.tree.tape(decoded(file.tree.text()), version)
    except InvalidTreeError:
        return []
    with file.scheduler.waiting():
        try:
            found = [*find_tagged(tape, lambda tag: bool(_ARRAYS.search(tag)) and not dialect.is_ndarray(tag))]
        except InvalidTreeError:
            return []
        objects = [_unshown(one, reason) for one in found if isinstance(one.value, dict) and (reason := _reason(one))]
    return sorted(objects, key=lambda one: one.line)


def pieces_facts(file: FileState, pieces: Chunked | Tiled | Stacked) -> dict[str, Any]:
    """Return facts about an array in several pieces, as JSON has them.

    ``kind``: ``chunks``, ``tiles`` or ``files``; ``count``: how many there may be; ``missing``: how many files do not
    exist, None if that is not known.  Raises ``OSError``.
    """
    if isinstance(pieces, Chunked):
        return {"kind": "chunks", "count": math.prod(pieces.counts), "missing": None}
    if isinstance(pieces, Tiled):
        return {"kind": "tiles", "count": len(pieces.starts), "missing": None}
    from asdffs.document.data_files import is_here, missing_of

    missing = None
    if is_here(file.location):
        with file.scheduler.waiting():  # there may be thousands
            missing = len(missing_of(pieces.files, file.location))
    return {"kind": "files", "count": len(pieces.files), "missing": missing}


def _unshown(found: Found, reason: str) -> Unshown:
    value = found.value
    zarr = value.get(METADATA)
    shape = _shape(zarr.get("shape") if isinstance(zarr, dict) else value.get("shape"))
    return Unshown(found.path, found.tag, found.line, shape, reason)


def _reason(found: Found) -> str:
    """Return why the object is not shown; empty if it is."""
    if is_in_pieces(found.tag):
        return _reason_of_chunks(found)
    if is_tile(found.tag):
        return ""
    value, tag = found.value, found.tag
    files = next((value[name] for name in _FILES if name in value), None)
    if files is None:
        return f"asdffs does not know objects with the tag {tag}"
    count = _count(files)
    return f"its elements are in {count} other {'file' if count == 1 else 'files'}, which asdffs does not read"


def _reason_of_chunks(found: Found) -> str:
    from asdffs.document.arrays.chunks import check_libraries  # few trees have such arrays

    try:
        if is_tiled(found.tag):
            starts_of(found.value)
        elif is_stacked(found.tag):
            from asdffs.arrays.stacked import parse_stacked

            parse_stacked(found.value)
        else:
            check_libraries(parse_chunked(found.value))
    except InvalidArrayError as err:
        return err.sentence
    return ""


def _count(files: Any) -> int:
    """Return the number of names in a list, or in lists of lists."""
    return sum(map(_count, files)) if isinstance(files, list) else 1


def _shape(stated: Any) -> tuple[int, ...] | None:
    if isinstance(stated, list) and all(isinstance(length, int) and length >= 0 for length in stated):
        return tuple(stated)
    return None
