"""The requests of the page, and their answers (Starlette).

| request                                  | answer                                                                  |
|------------------------------------------|-------------------------------------------------------------------------|
| GET /, GET /page.js, /index.css          | the page                                                                |
| GET /api/facts                           | name, size, version of the text, warnings                               |
| GET /api/tree?path=P&start=N             | children of a value                                                     |
| GET /api/search?text=T                   | values with this text                                                   |
| GET /api/text; PUT /api/text             | the text, its version as ETag; a save, with the version as If-Match     |
| GET /api/history; GET /api/history/N     | the trees that were replaced                                            |
| GET /api/sight                           | what is shown first: facts, the main image or table, the arrays         |
| GET /api/array?name=A&index=I            | facts about an array                                                    |
| GET /api/statistics                      | statistics and a histogram; of a region: &row, column, rows, columns    |
| GET /api/tile?name=A&step=S&row=R&column=C | numbers of a part of an image                                         |
| GET /api/curve?name=A&index=I&along=B    | positions and values of a curve                                         |
| GET /api/elements?name=A&row=R&column=C&around=N | the values around an element, as texts                          |
| GET /api/rows?path=P&start=N&sort=C&descending=1&where=W | rows of a table                                         |
| GET /api/columns?path=P&x=C&y=C          | two columns of a table, to draw                                         |
| GET /api/sky, compass, sources           | where a pixel is on the sky; north and east; sources of a table         |
| GET /api/shelf, files, thumbnail         | the files of the page, or of a directory; a small picture               |
| GET /api/layout                          | the parts of the file                                                   |
| GET /api/download?what=W&name=N          | an array as .npy or .fits, a block, the tree                            |

``file=NAME`` names the file, if the page has several.  ``index=I`` chooses a plane or a line of an array.  Numbers
are sent as little-endian bytes; the headers ``x-shape`` and ``x-dtype`` describe them.  Errors are JSON: ``error``,
and the ``line`` of a refused text.  Work runs in threads, a few at a time.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from asdffs.errors import (
    AsdffsError,
    InvalidArrayError,
    InvalidTreeError,
    MissingValueError,
    NotPermittedError,
    NotSupportedError,
    ReadOnlyError,
    StaleFileError,
    TreeChangedError,
    UsageError,
    reason_of,
)
from asdffs.features.browser.beside import axis_of, flags_of
from asdffs.features.browser.contents import children, download, formats_of, parts_of, search
from asdffs.features.browser.curves import MOST, curve
from asdffs.features.browser.first_sight import first_sight
from asdffs.features.browser.guard import NONCE, App
from asdffs.features.browser.images import Region, Tile
from asdffs.features.browser.shelf import Opened, Shelf

#: The largest text that is saved, in bytes.
LARGEST: Final = 64 << 20
_STATIC: Final = Path(__file__).with_name("static")
#: Error class -> HTTP status.  The nearest class in the hierarchy counts.
STATUS: Final[dict[type[AsdffsError], int]] = {
    AsdffsError: 500,
    UsageError: 400,
    MissingValueError: 404,
    InvalidTreeError: 422,
    InvalidArrayError: 422,
    NotPermittedError: 400,
    TreeChangedError: 409,
    StaleFileError: 409,
    ReadOnlyError: 403,
    NotSupportedError: 501,
}


#: Request -> its answer, from the file that it is about.
_ANSWERS: Final[dict[str, Callable[[Opened, Request], Any]]] = {
    "facts": lambda file, request: file.session.facts(),
    "sight": lambda file, request: first_sight(file.session),
    "tree": lambda file, request: children(
        file.session.values(), _text(request, "path") or ".", _number(request, "start")
    ),
    "search": lambda file, request: search(file.session.values(), _text(request, "text")),
    "history": lambda file, request: file.session.history(),
    "history/{number:int}": lambda file, request: _plain(file.session.old_text(request.path_params["number"])),
    "array": lambda file, request: _described(file, *_array(request)),
    "statistics": lambda file, request: file.images.statistics(*_array(request), _region(request)),
    "tile": lambda file, request: file.images.tile(*_array(request), _tile(request)),
    "curve": lambda file, request: curve(file.session, *_array(request), _text(request, "along")),
    "elements": lambda file, request: file.images.elements(
        *_array(request), *_pixel(request), _number(request, "around")
    ),
    "rows": lambda file, request: file.tables.page(*_rows(request), descending=_text(request, "descending") == "1"),
    "columns": lambda file, request: file.tables.numbers(
        _text(request, "path"), (_text(request, "x"), _text(request, "y")), MOST, _text(request, "where")
    ),
    "sky": lambda file, request: file.sky.place(_text(request, "name"), *_pixel(request)),
    "compass": lambda file, request: file.sky.compass(_text(request, "name"), *_pixel(request)),
    "sources": lambda file, request: file.sky.sources(_text(request, "name"), _text(request, "table")),
    "layout": lambda file, request: parts_of(file.session),
    "text": lambda file, request: _plain(*file.session.text()),
}


def make_app(shelf: Shelf) -> App:
    """Return the application for the files of ``shelf``, which ``guard`` stands before."""

    def of_file(answer: Callable[[Opened, Request], Any]) -> Callable[[Request], Any]:
        def of(request: Request) -> Any:
            with shelf.using(_text(request, "file")) as file:
                return answer(file, request)

        return of

    answers = {name: of_file(answer) for name, answer in _ANSWERS.items()} | {
        "shelf": lambda request: {"files": list(shelf.names), "folders": list(shelf.folders)},
        "files": lambda request: shelf.files(_text(request, "where"), _columns(request), _number(request, "start")),
        "download": lambda request: _download(shelf, request),
        "thumbnail": lambda request: Response(shelf.thumbnail(_text(request, "file")), media_type="image/png"),
    }
    routes = [
        Route("/", _page),
        *(Route(f"/api/{name}", _answering(answer), methods=["GET"]) for name, answer in answers.items()),
        Route("/api/text", _saving(shelf), methods=["PUT"]),
        Mount("/", StaticFiles(directory=_STATIC)),
    ]
    app: App = Starlette(routes=routes)
    return app


def _answering(answer: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """Return an endpoint that runs ``answer`` in a thread, and tells its errors.

    An answer is an array of numbers, what JSON can hold, or a whole response.
    """

    def response(request: Request) -> Response:
        found = answer(request)
        if isinstance(found, Response):
            return found
        return _numbers(found) if isinstance(found, np.ndarray) else _json(found)

    async def endpoint(request: Request) -> Response:
        try:
            return await run_in_threadpool(response, request)
        except (AsdffsError, OSError, ValueError) as err:
            return _refusal(err)
        except MemoryError:
            return _refusal(UsageError("this needs more memory than there is"))

    return endpoint


def _page(request: Request) -> Response:
    """Return the page; its style sheets have the nonce that the policy of this answer allows."""
    page = (_STATIC / "index.html").read_text().replace(NONCE, request.scope["nonce"])
    return Response(page, media_type="text/html")


def _numbers(found: np.ndarray[Any, Any]) -> Response:
    dtype = found.dtype.newbyteorder("<")
    headers = {"x-shape": ",".join(map(str, found.shape)), "x-dtype": dtype.str}
    return Response(found.astype(dtype, copy=False).tobytes(), headers=headers, media_type="application/octet-stream")


def _described(file: Opened, name: str, index: list[int]) -> dict[str, Any]:
    """Return the facts about an array, with what the arrays beside it tell."""
    session = file.session
    found = file.images.facts(name, index)
    plane = found["plane"]
    found["formats"] = formats_of(session, name)
    found["axis"] = axis_of(session, name, plane[0]) if len(plane) == 1 == len(found["shape"]) else None
    found["flags"] = flags_of(file.tables, name) if found["kind"] in "iu" else {}
    return found


def _json(found: Any, status: int = 200) -> Response:
    return Response(json.dumps(found, allow_nan=False).encode(), status, media_type="application/json")


def _refusal(err: Exception) -> Response:
    """Return an error as the page shows it."""
    known = next((STATUS[kind] for kind in type(err).__mro__ if kind in STATUS), 500)
    facts = {"error": reason_of(err), "line": getattr(err, "line", None), "column": getattr(err, "column", None)}
    return _json(facts, known)


def _plain(text: bytes, version: str | None = None) -> Response:
    headers = {} if version is None else {"etag": f'"{version}"'}
    return Response(text, media_type="text/plain; charset=utf-8", headers=headers)


def _download(shelf: Shelf, request: Request) -> Response:
    """Return a file in pieces; what it comes from stays open until all are sent, or nobody waits for them."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(shelf.using(_text(request, "file")))
        found = download(file.session, _text(request, "what"), _text(request, "name"))
        pieces = _while_open(found.pieces(), stack.pop_all())
    next(pieces)  # a generator that was never started would not close anything
    headers = {"content-length": str(found.size), "content-disposition": f'attachment; filename="{found.name}"'}
    return StreamingResponse(pieces, headers=headers, media_type="application/octet-stream")


def _while_open(pieces: Iterator[bytes], stack: contextlib.ExitStack) -> Iterator[bytes]:
    with stack:
        yield b""
        yield from pieces


def _saving(shelf: Shelf) -> Callable[[Request], Any]:
    """Return the endpoint of saves: it reads the body as far as a text may be long."""

    async def save(request: Request) -> Response:
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > LARGEST:
                return _refusal(UsageError(f"the text is larger than {LARGEST >> 20} MiB"))
        over = request.headers.get("if-match", "").strip('"')

        def saved(request: Request) -> dict[str, str]:
            with shelf.using(_text(request, "file")) as file:
                return {"version": file.session.save(bytes(body), over)}

        return await _answering(saved)(request)

    return save


# -- what the URL says ------------------------------------------------------------------


def _text(request: Request, name: str) -> str:
    return str(request.query_params.get(name, ""))


def _number(request: Request, name: str) -> int:
    """Return a number of the URL, 0 without it.  Raises ``UsageError``."""
    stated = _text(request, name) or "0"
    if not stated.isascii() or not stated.isdecimal() or len(stated) > 18:
        raise UsageError(f"{name} is no number")
    return int(stated)


def _index(request: Request) -> list[int]:
    """Return the positions along the first axes: numbers with commas between them.  Raises ``UsageError``."""
    stated = _text(request, "index")
    parts = stated.split(",") if stated else []
    if not all(part.isascii() and part.isdecimal() and len(part) < 19 for part in parts):
        raise UsageError("the index has other characters than numbers and commas")
    return [int(part) for part in parts]


def _array(request: Request) -> tuple[str, list[int]]:
    return _text(request, "name"), _index(request)


def _pixel(request: Request) -> tuple[int, int]:
    return _number(request, "row"), _number(request, "column")


def _tile(request: Request) -> Tile:
    return Tile(_number(request, "step"), *_pixel(request))


def _region(request: Request) -> Region | None:
    if not _text(request, "rows"):
        return None
    return Region(*_pixel(request), _number(request, "rows"), _number(request, "columns"))


def _columns(request: Request) -> list[str]:
    return [one for one in _text(request, "columns").split(",") if one.strip()]


def _rows(request: Request) -> tuple[str, int, str, str]:
    return _text(request, "path"), _number(request, "start"), _text(request, "sort"), _text(request, "where")
