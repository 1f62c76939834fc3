"""``asdffs show FILE [PATH[SLICE]]``: statistics and a picture of an array, the rows of a table, or a value.

The terminal draws by half blocks, sixel or the protocol of kitty, with the package textual-image.
"""

from __future__ import annotations

import argparse
import csv
import functools
import io
import json
import logging
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from asdffs.arrays.branch import Branch
from asdffs.cli.arguments import add_file, add_json, add_remote
from asdffs.cli.outputs import write_out
from asdffs.cli.printing import Rows, print_json, say
from asdffs.cli.reading import open_to_read
from asdffs.cli.results import ExitCode, sentence_of
from asdffs.cli.trees import print_outline
from asdffs.document.arrays.array import Array
from asdffs.document.arrays.html import size_of
from asdffs.document.arrays.tables import Column, table_at
from asdffs.document.document import Document
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, MissingValueError, NotSupportedError, Remedy, UsageError
from asdffs.features.browser import STRETCHES, USUAL_STRETCH
from asdffs.features.browser.naming import find_array, find_table, format_index
from asdffs.tree.lookups import Values, short
from asdffs.tree.paths import format_path, parse_path

if TYPE_CHECKING:
    from asdffs.features.browser.looking import Look

SUMMARY: Final = "statistics and a picture of an array, or the rows of a table"
logger = logging.getLogger(__name__)

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
#: Rows of a curve on a terminal, and the share of the width that it has in a PNG image.
_CURVE: Final = 32
_LARGEST: Final = 8192
#: The elements of what is not numbers are printed up to so many.
_MOST: Final = 100
#: Characters of these that are printed.
_LONGEST: Final = 10_000
#: Rows and columns of pixels for sixel and kitty.
_FINE: Final = (480, 640)
_CLASSES: Final = {"half": "HalfcellImage", "sixel": "SixelImage", "kitty": "TGPImage"}
#: Lines that stay free for the statistics and the prompt.
_RESERVED: Final = 10


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs show l2.asdf                             the outline, with the shapes of arrays
  asdffs show l2.asdf roman.data                  statistics and a picture
  asdffs show l2.asdf 'roman.data[0, 100:200, ::2]' --stretch zscale
  asdffs show catalog.asdf sources --columns ra,dec,flux --csv > sources.csv
  asdffs show s3://bucket/l2.asdf roman/dq --png dq.png --cmap viridis

PATH is written as for asdffs get, or as in arrays/ of a mount.  The index behind it is that of numpy.  Of more than
two axes the first plane is shown, with its first row at the bottom.  A pixel of the picture is the mean of its
elements, and the statistics are of all elements, without those that are masked.  Of more than 256 MiB, and of a
remote file, only some rows and columns are read, as many as the picture has pixels.  The statistics are then "of a
sample", and a larger --size reads more.

Of a table, and of an array of records, the first and last rows are printed; --csv prints all.  Masked cells are --,
and empty in CSV.
"""
    add_file(parser)
    parser.add_argument("path", metavar="PATH[SLICE]", nargs="?", help="array, and perhaps an index; or a table")
    parser.add_argument("--png", metavar="OUT", help="write the picture to OUT")
    parser.add_argument("--stretch", choices=STRETCHES, default=USUAL_STRETCH, help="of grey")
    parser.add_argument("--peak", action="store_true", help="a pixel is the greatest of its elements")
    parser.add_argument("--cmap", metavar="NAME", default="gray", help="colour map, such as viridis (default: gray)")
    parser.add_argument("--size", metavar="N", type=int, default=1024, help="most pixels of a side (default: 1024)")
    parser.add_argument(
        "--picture",
        choices=("auto", *_CLASSES, "none"),
        default="auto",
        help="how the terminal draws (default: auto)",
    )
    parser.add_argument("--rows", metavar="N", type=int, default=20, help="most rows of a table (default: 20)")
    parser.add_argument("--columns", metavar="NAME,...", help="only these columns of a table")
    parser.add_argument("--csv", action="store_true", help="print all rows of a table as CSV")
    parser.add_argument("--force", action="store_true", help="replace OUT")
    add_json(parser)
    add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what is asked for; return 0.  Raises ``AsdffsError``, ``OSError``."""
    if not 1 <= arguments.size <= _LARGEST:
        raise UsageError(f"--size {arguments.size}: give pixels from 1 to {_LARGEST}")
    if arguments.rows < 1:
        raise UsageError(f"--rows {arguments.rows}: give a number from 1 on")
    with closing(open_to_read(arguments.file, arguments)) as document, document.scheduler.entered():
        try:
            _show(arguments, document)
        except AsdffsError as err:
            err.path = err.path or document.path
            raise
    return int(ExitCode.OK)


def _show(arguments: argparse.Namespace, document: Document) -> None:
    found = find_array(document, arguments.path) if arguments.path else None
    table = find_table(document, arguments.path, found) if arguments.path and not arguments.png else None
    if table is not None:
        _print_table(arguments, *table)
    elif arguments.csv or arguments.columns:
        raise UsageError(f"{arguments.path or 'the tree'}: is no table; name one, such as those in 'asdffs info'")
    elif found is not None:
        _show_array(arguments, *found)
    else:
        _print_outline(arguments, document)


def _print_outline(arguments: argparse.Namespace, document: Document) -> None:
    """Print the outline of the tree, or of the value at PATH.  Raises ``MissingValueError``."""
    if arguments.png or arguments.json:
        raise UsageError(f"{arguments.path or 'the tree'}: is no array; name one, such as those in 'asdffs info'")
    values = Values(document.tree.text())
    path = parse_path(arguments.path or ".")
    node = values.find(path) if path else values.root()
    if node is None:
        raise MissingValueError(values.missing(path), path=document.path)
    if isinstance(node.value, (dict, list)):
        print_outline(node)
    else:
        say(short(node))


def _print_table(arguments: argparse.Namespace, file: FileState, branch: Branch) -> None:
    """Print rows of a table.  Raises ``UsageError`` for a column that it does not have."""
    from asdffs.features.browser.cells import Cells  # it needs numpy

    table = table_at(file, branch)
    columns = _chosen(table.columns, arguments)
    cells = Cells(table, columns)
    name = format_path(branch.path) or "."
    if arguments.json:
        listed = [_column_facts(one) for one in columns]
        print_json({"file": arguments.file, "path": name, "rows": cells.count, "columns": listed})
    elif arguments.csv:
        writer = csv.writer(Rows(), lineterminator="\n")
        writer.writerow([one.name for one in columns])
        writer.writerows(cells.csv())
    else:
        say(f"{name}: {_count(cells.count, 'row')}, {_count(len(table.columns), 'column')}")
        width = shutil.get_terminal_size().columns - 2 if sys.stdout.isatty() else _LONGEST
        say(*(f"  {line}" for line in cells.lines(arguments.rows, width)))
        say(*(f"  {what} is not shown" for what in table.left))


def _column_facts(column: Column) -> dict[str, Any]:
    facts = {"name": column.name, "dtype": str(column.dtype), "shape": list(column.shape)}
    return {**facts, "unit": column.unit, "description": column.description}


def _chosen(columns: Sequence[Column], arguments: argparse.Namespace) -> Sequence[Column]:
    if not arguments.columns:
        return columns
    known = {one.name: one for one in columns}
    names = next(csv.reader([arguments.columns]))
    for name in names:
        if name not in known:
            raise UsageError(f"--columns: there is no column {name!r}; there are {', '.join(known)}")
    return [known[name] for name in names]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"


def _show_array(arguments: argparse.Namespace, array: Array, name: str, index: tuple[Any, ...]) -> None:
    from asdffs.features.browser.looking import WHOLE, look_at, picture  # it needs numpy
    from asdffs.features.browser.pictures import png

    drawn = functools.partial(picture, stretch=arguments.stretch, cmap=arguments.cmap, peak=arguments.peak)
    screen = _screen(arguments)
    rows, columns = (arguments.size, arguments.size) if screen is None else screen.size()
    look = look_at(array, index, rows, columns, array.mask, whole=0 if array.is_remote else WHOLE)
    facts = _facts(arguments.file, array, name, look)
    if look.is_numeric:
        facts |= look.statistics().facts()
    if arguments.json:
        print(json.dumps(facts, indent=2, allow_nan=False))
    else:
        say(*_lines(facts, look))
    if arguments.png:
        if look.values.ndim == 1:
            rows = max(2, columns // 4)
        _write(arguments, png(drawn(look, rows, columns)))
    elif screen is not None and look.is_numeric and look.values.ndim and look.values.size:
        pixels = drawn(look, min(rows, _CURVE) if look.values.ndim == 1 else rows, columns)
        screen.draw(png(pixels), *pixels.shape[:2])


def _screen(arguments: argparse.Namespace) -> _Screen | None:
    """Return where the picture is drawn; None if it is not.

    Raises ``NotSupportedError`` if the user asked for a picture that needs a package.
    """
    kind = arguments.picture
    if arguments.png or arguments.json or kind == "none" or (kind == "auto" and not sys.stdout.isatty()):
        return None
    try:
        from textual_image import renderable
    except ImportError as err:
        sentence = "pictures on a terminal need textual-image, which is not installed"
        error = NotSupportedError(sentence, remedy=Remedy.INSTALL_SHOW)
        if kind != "auto":
            raise error from err
        logger.warning("no picture: %s", sentence_of(error))
        return None
    return _Screen(renderable.Image if kind == "auto" else getattr(renderable, _CLASSES[kind]))


def _write(arguments: argparse.Namespace, raw: bytes) -> None:
    out = argparse.Namespace(out=arguments.png, file=arguments.file, force=arguments.force, sync=False)
    write_out(out, lambda folder, backend: backend.write_at(0, raw))
    if not arguments.json:
        say(f"{arguments.png}: written")


def _facts(file: str, array: Array, name: str, look: Look) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    facts: dict[str, Any] = {
        "file": file,
        "path": name,
        "index": format_index(look.asked),
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "unit": array.units.get("", ""),
        "bytes": array.nbytes,
        "elements": look.total,
        "read": look.values.size,
    }
    return facts


def _lines(facts: dict[str, Any], look: Look) -> Iterator[str]:
    shape = " x ".join(map(str, facts["shape"])) or "one element"
    dtype = look.values.dtype.newbyteorder("=")
    unit = f", unit {facts['unit']}" if facts["unit"] else ""
    yield f"{facts['path'] or '.'}{facts['index']}: {shape} {dtype}, {size_of(facts['bytes'])}{unit}"
    if facts["read"] < facts["elements"]:
        counts = f"{facts['read']:,} of {facts['elements']:,} elements"
        yield f"  of a sample: {counts}, every {look.step}th along each axis"
    if not look.is_numeric:
        yield from (f"  {line}" for line in _listed(look)[:_LONGEST].splitlines())
        return
    if not look.values.ndim:
        yield f"  {look.values[()]}"
        return
    numbers = {key: facts[key] for key in ("min", "max", "mean", "std") if facts[key] is not None}
    shown = "  ".join(f"{key} {_short(value)}" for key, value in numbers.items())
    yield f"  {shown or 'no finite number'}"
    words = {"masked": "masked", "nan": "NaN", "infinite": "infinite"}
    odd = [f"{facts[key]:,} {word}" for key, word in words.items() if facts[key]]
    if odd:
        yield f"  {', '.join(odd)}"
    if facts["histogram"]:
        yield f"  {_bars(facts['histogram'])}"


def _short(number: float | int) -> str:
    return str(number) if isinstance(number, int) else f"{number:.7g}"


def _bars(counts: list[int]) -> str:
    most = max(counts)
    return "".join(_BLOCKS[-(-count * (len(_BLOCKS) - 1) // most)] for count in counts)


def _listed(look: Look) -> str:
    """Return the first elements of what is not numbers."""
    import numpy as np

    return np.array2string(look.values.ravel()[:_MOST], threshold=_MOST, separator=", ")


class _Screen:
    """A terminal that shows pictures.  ``image``: the class of textual-image that draws them."""

    def __init__(self, image: Any) -> None:
        self._image = image
        self._half = "halfcell" in image.__module__

    def size(self) -> tuple[int, int]:
        """Return the rows and columns of pixels that a picture may have."""
        if not self._half:
            return _FINE
        columns, lines = shutil.get_terminal_size()
        return max(2, 2 * (lines - _RESERVED)), max(2, columns)

    def draw(self, raw: bytes, rows: int, columns: int) -> None:
        """Print a picture, which is a PNG of so many ``rows`` and ``columns``."""
        from rich.console import Console

        place = {"width": columns, "height": -(-rows // 2)} if self._half else {}
        console = Console(file=sys.stdout, force_terminal=True, color_system="truecolor", width=max(80, columns))
        console.print(self._image(io.BytesIO(raw), **place))
