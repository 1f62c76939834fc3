"""``asdffs info --map``: draws a file to scale, with a legend.

All cells stand for the same number of bytes.  A cell shows what most of its bytes are.  A part smaller than a cell
gets a whole one, so that nothing is left out.  Neighbouring blocks have two different shades.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any, Final

from asdffs.document.document import Document
from asdffs.errors import DamagedBlockError
from asdffs.format.layout import RegionKind, Span
from asdffs.printable import printable

_ROWS: Final = 4
_LONGEST_LEGEND: Final = 24

#: Kind of region -> what its cells look like, and the style of rich.
_LOOKS: Final = {
    "header": ("H", "bold white on blue"),
    "tree": ("T", "bold black on green"),
    "padding": (".", "dim"),
    "block": ("█", "cyan"),
    "next block": ("▓", "magenta"),
    "slack": ("░", "yellow"),
    "index": ("I", "bold black on yellow"),
    "rest": ("?", "bold red"),
}


@dataclass(frozen=True, slots=True)
class Patch:
    """A part of the file: what it is drawn as, its name in the legend, its bytes."""

    kind: str
    name: str
    span: Span


def patches(document: Document) -> list[Patch]:
    """Return the parts of the file, in order, without gaps.  Raises ``OSError``."""
    found: list[Patch] = []
    for region in document.layout.regions():
        if region.kind is RegionKind.BLOCK and region.block is not None:
            found += _block_patches(document, region.block, region.span)
        else:
            found.append(Patch(region.kind.value, region.kind.value, region.span))
    return found


def _block_patches(document: Document, number: int, span: Span) -> list[Patch]:
    kind = "next block" if number % 2 else "block"
    try:
        header = document.blocks[number].header
    except DamagedBlockError:
        return [Patch("rest", f"block {number}, damaged", span)]
    stop = span.stop if header.streamed else min(span.stop, span.start + header.full_size + header.used_size)
    found = [Patch(kind, f"block {number}", Span(span.start, stop))]
    if stop < span.stop:
        found.append(Patch("slack", f"slack of block {number}", Span(stop, span.stop)))
    return found


def draw(parts: list[Patch], size: int, count: int) -> list[str]:
    """Return the kinds that the ``count`` cells of the drawing show.

    A cell shows the part that has most of the bytes of the cell.  ``size``, in bytes, is that of the file, and at
    least ``count``.
    """
    starts = [part.span.start for part in parts]
    cells = []
    for cell in range(count):
        start, stop = cell * size // count, (cell + 1) * size // count
        there = parts[bisect_right(starts, start) - 1 : bisect_left(starts, stop)]
        cells.append(max(there, key=lambda part: min(part.span.stop, stop) - max(part.span.start, start)).kind)
    for part in parts:  # what no cell shows
        first, last = part.span.start * count // size, (part.span.stop - 1) * count // size
        if part.kind not in cells[first : last + 1]:
            cells[first] = part.kind
    return cells


def render(document: Document, width: int) -> Any:
    """Return the picture with its legend, for ``rich`` to print in ``width`` columns.  Raises ``OSError``."""
    from rich.text import Text

    parts, size = patches(document), document.layout.size
    count = min(_ROWS * width, size)
    cells = draw(parts, size, count)
    scale = f"{size / count:.{0 if size > count * 10 else 1}f} a cell"
    picture = Text(f"{printable(document.path, terminal=True)}: {size} bytes, {scale}\n")
    for start in range(0, count, width):
        for kind in cells[start : start + width]:
            picture.append(*_LOOKS[kind])
        picture.append("\n")
    for part in parts[:_LONGEST_LEGEND]:
        symbol, style = _LOOKS[part.kind]
        place = f"{part.span.start:>14}  {len(part.span):>14}  {100 * len(part.span) / size:5.1f} %  {part.name}\n"
        picture.append(symbol, style).append(place)
    if len(parts) > _LONGEST_LEGEND:
        picture.append(f"and {len(parts) - _LONGEST_LEGEND} more; 'asdffs info' lists all blocks\n")
    return picture
