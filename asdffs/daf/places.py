"""Which property a path of a store is a file of (specification, sections 2 to 9).

| path                              | property                                    |
|-----------------------------------|---------------------------------------------|
| ``scalars/NAME.json``             | a scalar                                    |
| ``axes/NAME.txt``                 | an axis                                     |
| ``vectors/AXIS/NAME.PART``        | a vector, of the parts ``VECTOR_PARTS``     |
| ``matrices/ROWS/COLS/NAME.PART``  | a matrix, of the parts ``MATRIX_PARTS``     |

``a.json`` and ``x.nzval`` are names like others: the last known suffix counts.  Paths are relative to the root of the
store, with ``/``; bytes that are no UTF-8 are surrogates (``os.fsdecode``).  Pure.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Kind = Literal["scalar", "axis", "vector", "matrix"]

#: The key of a tree below which a store is.
DAF: Final = "daf"
#: The file that says what the others of a property are.
JSON: Final = "json"
VECTOR_PARTS: Final = (JSON, "data", "txt", "nzind", "nzval", "nztxt")
MATRIX_PARTS: Final = (JSON, "data", "txt", "colptr", "rowval", "nzval", "nztxt")
#: Directories of every store.
SECTIONS: Final = ("scalars", "axes", "vectors", "matrices")
SENTINEL: Final = "daf.json"
#: In the spool of a mount: what was done to names of a store since the tree was last committed (``loose``).  Files
#: there are called ``N-QUOTED``; one without a dash is nobody's scratch.
LOG: Final = "store.log"
#: That of the tree that is being committed.
NEXT: Final = "store.log.next"

#: By the directory in the root: the kind, how many axes are in the path, and the parts.
_KINDS: Final[dict[str, tuple[Kind, int, tuple[str, ...]]]] = {
    "scalars": ("scalar", 0, (JSON,)),
    "axes": ("axis", 0, ("txt",)),
    "vectors": ("vector", 1, VECTOR_PARTS),
    "matrices": ("matrix", 2, MATRIX_PARTS),
}
_SECTION_OF: Final = {kind: section for section, (kind, _, _) in _KINDS.items()}


class Key(NamedTuple):
    """A property.  ``axes``: of a vector one, of a matrix two, rows first."""

    kind: Kind
    axes: tuple[str, ...]
    name: str

    def path(self, part: str) -> str:
        """The path of one of its files."""
        return "/".join((_SECTION_OF[self.kind], *self.axes, f"{self.name}.{part}"))


def mentions_store(text: bytes) -> bool:
    """Whether the text of a tree may have a store, as far as a quick look tells."""
    return DAF.encode() in text


def place_of(path: str) -> tuple[Key, str] | None:
    """The property of which ``path`` may be a file, and which part; None for a file that FilesDaf does not know."""
    section, *rest = path.split("/")
    kind, depth, parts = _KINDS.get(section, ("scalar", 0, ()))
    if len(rest) != depth + 1:
        return None
    name, _, part = rest[-1].rpartition(".")
    if not name or part not in parts or not all(map(is_text, rest)):
        return None
    return Key(kind, tuple(rest[:-1]), name), part


def is_axis_directory(path: str) -> bool:
    """Whether it is the directory of an axis, or of a pair of axes: it matters when it is empty as well."""
    section, *rest = path.split("/")
    deepest = {"vectors": 1, "matrices": 2}.get(section, 0)
    return 0 < len(rest) <= deepest and all(map(is_text, rest))


def is_text(name: str) -> bool:
    """Whether a name is UTF-8: others have no place in a tree."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
