"""Edits a tree where the sources of its arrays are written; everything else of the text stays as it is.

Users: ``exploding`` (numbers become URIs), ``imploding`` (and back), ``repacking`` (other numbers).  Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable

from asdffs.document.arrays import Ndarray
from asdffs.document.branch import Outline
from asdffs.document.outline import read_outline
from asdffs.errors import InvalidTreeError

#: What to write as the source of an array; None leaves it.
Wanted = Callable[[Ndarray], str | None]


def with_sources(outline: Outline, wanted: Wanted) -> bytes:
    """The text of ``outline`` with other sources."""
    pieces: list[str] = []
    done = 0
    for branch in sorted(outline.arrays, key=lambda branch: branch.source or (0, 0)):
        new = wanted(branch.array) if branch.array is not None else None
        if branch.source is None or new is None:
            continue
        start, stop = branch.source
        if start < done:  # by a merge key or an alias it is that of several arrays
            continue
        pieces += (outline.text[done:start], new)
        done = stop
    pieces.append(outline.text[done:])
    return "".join(pieces).encode("utf-8", "surrogateescape")


def with_numbers(
    outline: Outline, wanted: Callable[[Ndarray], int | None], is_ndarray: Callable[[str], bool]
) -> bytes:
    """As ``with_sources``, where all that is written are numbers of blocks; the result is read again, to be sure.

    Raises ``InvalidTreeError`` when a source is written in a way that cannot be edited, as with a tag of its own.
    """

    def text_of(array: Ndarray) -> str | None:
        number = wanted(array)
        return None if number is None else str(number)

    text = with_sources(outline, text_of)
    again = [branch.array for branch in read_outline(text, is_ndarray).arrays]
    for branch, new in zip(outline.arrays, again, strict=True):
        old = branch.array
        number = wanted(old) if old is not None else None
        expected = number if number is not None or old is None else old.source
        if new is None or new.source != expected:
            raise InvalidTreeError("the source is written in a way that cannot be edited", line=branch.line)
    return text
