"""What the page shows of a file first: what it is, its main image or table, and all of its arrays.

The facts are those that a FITS header would have: their places are in the tables of keywords of the feature ``fits``,
so a mission adds its own to both.  Without that feature only the program is told.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from asdffs import registry
from asdffs.arrays.branch import is_table, upwards
from asdffs.document.document import Document
from asdffs.errors import AsdffsError
from asdffs.features.browser.session import Session
from asdffs.tree.lookups import Values, find_value, short
from asdffs.tree.paths import Path, format_path, name_of
from asdffs.tree.values import ValueNode, datatype_text

#: Keyword -> what the page calls it, in the order of the page.
_LABELS: Final[Mapping[str, str]] = {
    "TELESCOP": "Telescope",
    "INSTRUME": "Instrument",
    "DETECTOR": "Detector",
    "FILTER": "Filter",
    "GRATING": "Grating",
    "OBJECT": "Target",
    "EXPTIME": "Exposure",
    "DATE-OBS": "Date",
    "OBS_ID": "Observation",
    "PROGRAM": "Program",
}
#: Where a fact is that no table of keywords has.
_MORE: Final[Mapping[str, tuple[str, ...]]] = {"PROGRAM": ("observation.program_number", "observation.program")}
#: Names of the main array of a file, the likeliest first.
_MAIN: Final = ("data", "sci", "image", "flux", "intensity", "spectrum")
#: The most arrays that are listed, and characters of a fact.
_MOST: Final = 500
_LONGEST: Final = 100


def first_sight(session: Session) -> dict[str, Any]:
    """Return ``facts`` (label, value, and path and line of the value), ``main`` and ``arrays``.

    ``main``: the path of the array or table that is shown first; None without one.  An array has its ``path`` in
    ``document.arrays``, ``shape``, ``dtype``, ``bytes``, ``compression`` and ``block``; ``more`` counts those that
    are not listed.
    """
    values = session.values()
    with session.entered() as document:
        arrays = list(_arrays(document))
        tables = list(_tables(document))
        compressions = Counter(
            document.contents.codecs.name(number) or "none" for number in range(len(document.blocks))
        )
    packed = ", ".join(f"{count} x {name}" if len(compressions) > 1 else name for name, count in compressions.items())
    facts = list(_known(values))
    if packed:
        facts.append({"label": "Compression", "value": packed, "path": "", "line": 0})
    return {
        "facts": facts,
        "main": _main(arrays, tables),
        "arrays": arrays[:_MOST],
        "tables": tables[:_MOST],
        "more": max(0, len(arrays) - _MOST),
    }


def main_of(document: Document) -> dict[str, str] | None:
    """Return ``kind`` (array or table) and ``path`` of what is shown first of a file; None without an array."""
    return _main(list(_arrays(document)), list(_tables(document)))


def _known(values: Values) -> Iterator[dict[str, Any]]:
    root, wheres = values.root(), _places()
    metas = list(_metas(root))
    for keyword, label in _LABELS.items():
        for above, meta in metas:
            found = _first(meta, wheres.get(keyword, ()))
            if found is not None:
                path, node = found
                text = short(node)[:_LONGEST] + (" s" if keyword == "EXPTIME" else "")
                yield {"label": label, "value": text, "path": format_path((*above, *path)), "line": node.line}
                break


def _metas(root: ValueNode) -> Iterator[tuple[Path, ValueNode]]:
    """Yield the mappings with metadata: ``meta`` of the root, and of the mappings there, and these themselves."""
    if not isinstance(root.value, dict):
        return
    for key, node in root.value.items():
        if key == "meta":
            yield (key,), node
        elif isinstance(node.value, dict) and "meta" in node.value:
            yield (key, "meta"), node.value["meta"]
    yield (), root


def _first(meta: ValueNode, places: Sequence[str]) -> tuple[Path, ValueNode] | None:
    for place in places:
        path = tuple(place.split("."))
        node = find_value(meta, path)
        if node is not None and not isinstance(node.value, (dict, list)) and node.value is not None:
            return path, node
    return None


def _places() -> Mapping[str, Sequence[str]]:
    fits = registry.feature("fits")
    return _MORE if fits is None else {**fits.keyword_places(), **_MORE}


def _arrays(document: Document) -> Iterator[dict[str, Any]]:
    outline, count = document.outlines.outline(), len(document.table)
    for branch in outline.arrays:
        path, stated = outline.shown_path(branch), branch.array
        if path is None or stated is None:
            continue
        number = stated.block_in(count)
        inside = any(is_table(above.tag) for above in upwards(branch))
        shape, dtype = list(stated.shape or ()), datatype_text(stated.datatype)
        if not shape or stated.datatype is None:  # inline or streamed: only the elements tell
            with contextlib.suppress(AsdffsError, OSError):
                array = document.arrays["/".join(map(name_of, path))]
                shape, dtype = (
                    list(array.shape),
                    "record" if array.dtype.names else str(array.dtype.newbyteorder("=")),
                )
        yield {
            "path": "/".join(map(name_of, path)),
            "shape": shape,
            "dtype": dtype,
            "compression": "" if number is None else document.contents.codecs.name(number),
            "block": number,
            "column": inside,
        }


def _tables(document: Document) -> Iterator[str]:
    rest, seen = [document.outlines.outline().root], set[int]()
    while rest:
        branch = rest.pop()
        if branch is None or id(branch) in seen:  # an alias leads to one that was seen
            continue
        seen.add(id(branch))
        if is_table(branch.tag):
            yield format_path(branch.path)
        else:
            rest += reversed(list(branch.children.values()))


def _main(arrays: Sequence[Mapping[str, Any]], tables: Sequence[str]) -> dict[str, str] | None:
    """Return ``kind`` and ``path`` of what is shown first: an image with a usual name, the largest image, a table."""
    own = [one for one in arrays if not one["column"]]
    images = [
        one for one in own if len(one["shape"]) >= 2 and min(one["shape"][-2:]) > 1 and one["dtype"] != "record"
    ]
    if images:
        best = min(images, key=lambda one: (_rank(one["path"]), -math.prod(one["shape"])))
        return {"kind": "array", "path": str(best["path"])}
    records = [str(one["path"]) for one in own if one["dtype"] == "record"]
    if tables or records:
        return {"kind": "table", "path": (list(tables) + records)[0]}
    others = [one for one in own if one["shape"]]
    if not others:
        return None
    best = min(others, key=lambda one: (_rank(one["path"]), -math.prod(one["shape"])))
    return {"kind": "array", "path": str(best["path"])}


def _rank(path: str) -> int:
    names = [name for name in path.casefold().split("/") if name != "value"]
    last = names[-1] if names else ""
    return _MAIN.index(last) if last in _MAIN else len(_MAIN)
