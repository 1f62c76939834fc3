"""``asdffs show FILE [PATH[SLICE]]``: statistics and a picture of an array."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

from asdffs.cli.arguments import add_file, add_json, add_remote
from asdffs.cli.array_places import find_array, format_index
from asdffs.cli.exit_codes import ExitCode
from asdffs.cli.outline import print_outline
from asdffs.cli.outputs import write_out
from asdffs.cli.reading import open_to_read
from asdffs.cli.remedies import told
from asdffs.cli.saying import say
from asdffs.document.arrays.array import Array
from asdffs.document.arrays.html import size_of
from asdffs.document.document import Document
from asdffs.errors import AsdffsError, MissingValueError, NotSupportedError, UsageError
from asdffs.features.browser.looking import Look, look_at, picture
from asdffs.features.browser.pictures.png import png
from asdffs.features.browser.terminal_pictures import Screen
from asdffs.tree.lookups import Values
from asdffs.tree.paths import parse_path

SUMMARY: Final = "statistics and a picture of an array"
logger = logging.getLogger(__name__)

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
#: Rows of a curve on a terminal, and the share of the width that it has in a PNG image.
_CURVE: Final = 32
_LARGEST: Final = 8192
#: The elements of what is not numbers are printed up to so many.
_MOST: Final = 100
#: Characters of these that are printed.
_LONGEST: Final = 10_000


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs show l2.asdf                             the outline, with the shapes of arrays
  asdffs show l2.asdf roman.data                  statistics and a picture
  asdffs show l2.asdf 'roman.data[0, 100:200, ::2]' --stretch zscale
  asdffs show s3://bucket/l2.asdf roman/dq --png dq.png --cmap viridis

PATH is written as for asdffs get, or as in arrays/ of a mount.  The index behind it is that of numpy.  Of more than
two axes the first plane is shown.  Of a large array, only some rows and columns are read, as many as the picture has
pixels, and the statistics are about these; a larger --size reads more.  The first row is at the bottom.
"""
    add_file(parser)
    parser.add_argument("path", metavar="PATH[SLICE]", nargs="?", help="array, and perhaps an index")
    parser.add_argument("--png", metavar="OUT", help="write the picture to OUT")
    parser.add_argument("--stretch", choices=("linear", "zscale", "asinh", "log"), default="linear", help="of grey")
    parser.add_argument("--cmap", metavar="NAME", default="gray", help="colour map, such as viridis (default: gray)")
    parser.add_argument("--size", metavar="N", type=int, default=1024, help="most pixels of a side (default: 1024)")
    kinds = ("auto", "half", "sixel", "kitty", "none")
    parser.add_argument("--picture", choices=kinds, default="auto", help="how the terminal draws (default: auto)")
    parser.add_argument("--force", action="store_true", help="replace OUT")
    add_json(parser)
    add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what is asked for; return 0.  Raises ``AsdffsError``, ``OSError``."""
    if not 1 <= arguments.size <= _LARGEST:
        raise UsageError(f"--size {arguments.size}: give pixels from 1 to {_LARGEST}")
    with closing(open_to_read(arguments.file, arguments)) as document, document.scheduler.entered():
        found = find_array(document, arguments.path) if arguments.path else None
        if found is None:
            _print_outline(arguments, document)
            return int(ExitCode.OK)
        array, name, index = found
        try:
            _show(arguments, array, name, index)
        except AsdffsError as err:
            err.path = err.path or document.path
            raise
    return int(ExitCode.OK)


def _print_outline(arguments: argparse.Namespace, document: Document) -> None:
    """Print the outline of the tree, or of the value at PATH.  Raises ``MissingValueError``."""
    if arguments.png or arguments.json:
        raise UsageError(f"{arguments.path or 'the tree'}: is no array; name one, such as those in 'asdffs info'")
    values = Values(document.tree.text())
    path = parse_path(arguments.path or ".")
    node = values.find(path) if path else values.root()
    if node is None:
        raise MissingValueError(values.missing(path), path=document.path)
    print_outline(node)


def _show(arguments: argparse.Namespace, array: Array, name: str, index: tuple[Any, ...]) -> None:
    screen = _screen(arguments)
    rows, columns = (arguments.size, arguments.size) if screen is None else screen.size()
    look = look_at(array, index, rows, columns)
    facts = _facts(arguments.file, array, name, look)
    if arguments.json:
        print(json.dumps(facts, indent=2, allow_nan=False))
    else:
        say(*_lines(facts, look))
    if arguments.png:
        _write(arguments, png(picture(look, max(2, columns // 4), columns, arguments.stretch, arguments.cmap)))
    elif screen is not None and look.is_numeric and look.values.ndim and look.values.size:
        screen.draw(picture(look, min(rows, _CURVE), columns, arguments.stretch, arguments.cmap))


def _screen(arguments: argparse.Namespace) -> Screen | None:
    """Return where the picture is drawn; None if it is not.

    Raises ``NotSupportedError`` if the user asked for a picture that needs a package.
    """
    if arguments.png or arguments.json:
        return None
    try:
        screen = Screen(arguments.picture)
    except NotSupportedError as err:
        if arguments.picture != "auto":
            raise
        logger.warning("no picture: %s", told(err))
        return None
    return screen if screen.wanted else None


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
        "bytes": array.nbytes,
        "elements": look.total,
        "read": look.values.size,
    }
    if look.is_numeric:
        seen = look.statistics()
        facts |= {"nan": seen.nan, "infinite": seen.infinite, "min": seen.least, "max": seen.greatest}
        facts |= {"mean": seen.mean, "std": seen.deviation, "histogram": list(seen.bars)}
    return facts


def _lines(facts: dict[str, Any], look: Look) -> Iterator[str]:
    shape = " x ".join(map(str, facts["shape"])) or "one element"
    dtype = look.values.dtype.newbyteorder("=")
    yield f"{facts['path'] or '.'}{facts['index']}: {shape} {dtype}, {size_of(facts['bytes'])}"
    if facts["read"] < facts["elements"]:
        yield f"  of {facts['elements']:,} elements, every {look.step}th along each axis: {facts['read']:,}"
    if not look.is_numeric:
        yield from (f"  {line}" for line in _listed(look)[:_LONGEST].splitlines())
        return
    if not look.values.ndim:
        yield f"  {look.values[()]}"
        return
    numbers = {key: facts[key] for key in ("min", "max", "mean", "std") if facts[key] is not None}
    shown = "  ".join(f"{key} {value:.7g}" for key, value in numbers.items())
    yield f"  {shown or 'no finite number'}"
    odd = [f"{facts[key]:,} {word}" for key, word in (("nan", "NaN"), ("infinite", "infinite")) if facts[key]]
    if odd:
        yield f"  {', '.join(odd)}"
    if facts["histogram"]:
        yield f"  {_bars(facts['histogram'])}"


def _bars(counts: list[int]) -> str:
    most = max(counts)
    return "".join(_BLOCKS[-(-count * (len(_BLOCKS) - 1) // most)] for count in counts)


def _listed(look: Look) -> str:
    """Return the first elements of what is not numbers."""
    import numpy as np

    return np.array2string(look.values.ravel()[:_MOST], threshold=_MOST, separator=", ")
