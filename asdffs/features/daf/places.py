"""Maps a path of a store to its property and part (specification, sections 2 to 9).

| path                              | property                                    |
|-----------------------------------|---------------------------------------------|
| ``scalars/NAME.json``             | a scalar                                    |
| ``axes/NAME.txt``                 | an axis                                     |
| ``vectors/AXIS/NAME.PART``        | a vector, of the parts ``VECTOR_PARTS``     |
| ``matrices/ROWS/COLS/NAME.PART``  | a matrix, of the parts ``MATRIX_PARTS``     |

A name is split at its last known suffix, so ``a.json`` and ``x.nzval`` are valid names.  Paths are relative to the
root of the store, with ``/``.  Bytes that are not UTF-8 are surrogates (``os.fsdecode``).  Pure.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Kind = Literal["scalar", "axis", "vector", "matrix"]

#: The key under which a tree has its store.
DAF: Final = "daf"
#: Suffix of the file that describes the other files of a property.
JSON: Final = "json"
VECTOR_PARTS: Final = (JSON, "data", "txt", "nzind", "nzval", "nztxt")
MATRIX_PARTS: Final = (JSON, "data", "txt", "colptr", "rowval", "nzval", "nztxt")
#: Directories of every store.
SECTIONS: Final = ("scalars", "axes", "vectors", "matrices")
SENTINEL: Final = "daf.json"
#: In the spool of a mount: the log of changes to names since the tree was last committed (``loose``).  Scratch files
#: in the spool are called ``N-QUOTED``, so a name without a dash cannot be one of them.
LOG: Final = "store.log"
#: The log of the tree that is being committed.
NEXT: Final = "store.log.next"

#: By section: the kind, the number of axes in the path, and the parts.
_KINDS: Final[dict[str, tuple[Kind, int, tuple[str, ...]]]] = {
    "scalars": ("scalar", 0, (JSON,)),
    "axes": ("axis", 0, ("txt",)),
    "vectors": ("vector", 1, VECTOR_PARTS),
    "matrices": ("matrix", 2, MATRIX_PARTS),
}
_SECTION_OF: Final = {kind: section for section, (kind, _, _) in _KINDS.items()}


class Key(NamedTuple):
    """A property.  ``axes``: one for a vector, two for a matrix (rows first), else none."""

    kind: Kind
    axes: tuple[str, ...]
    name: str

    def path(self, part: str) -> str:
        """Return the path of one of its files."""
        return "/".join((_SECTION_OF[self.kind], *self.axes, f"{self.name}.{part}"))


def mentions_store(text: bytes) -> bool:
    """Return whether the text of a tree may have a store.  Cheap: searches for the key only."""
    return DAF.encode() in text


def place_of(path: str) -> tuple[Key, str] | None:
    """Return the property and the part of the file ``path``; None for a file that FilesDaf does not know."""
    section, *rest = path.split("/")
    kind, depth, parts = _KINDS.get(section, ("scalar", 0, ()))
    if len(rest) != depth + 1:
        return None
    name, _, part = rest[-1].rpartition(".")
    if not name or part not in parts or not all(map(is_text, rest)):
        return None
    return Key(kind, tuple(rest[:-1]), name), part


def is_axis_directory(path: str) -> bool:
    """Return whether it is the directory of an axis or a pair of axes, which counts even if it is empty."""
    section, *rest = path.split("/")
    deepest = {"vectors": 1, "matrices": 2}.get(section, 0)
    return 0 < len(rest) <= deepest and all(map(is_text, rest))


def is_text(name: str) -> bool:
    """Return whether a name is UTF-8; other names cannot be written in a tree."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
