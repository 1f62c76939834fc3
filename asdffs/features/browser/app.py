"""The requests of the page, and their answers (Starlette).

| request                                  | answer                                                                  |
|------------------------------------------|-------------------------------------------------------------------------|
| GET /, GET /static/NAME                  | the page                                                                |
| GET /api/facts                           | name, size, version of the text, warnings                               |
| GET /api/tree?path=P&start=N             | children of a value                                                     |
| GET /api/search?text=T                   | values with this text                                                   |
| GET /api/text; PUT /api/text             | the text, its version as ETag; a save, with the version as If-Match     |
| GET /api/history; GET /api/history/N     | the trees that were replaced                                            |
| GET /api/array?name=A&index=I            | facts about an array                                                    |
| GET /api/tile?name=A&index=I&step=S&row=R&column=C&stretch=T&cmap=M | a part of its picture, PNG                   |
| GET /api/curve, GET /api/pixel           | a curve, PNG; the value of an element                                   |
| GET /api/sky?name=A&row=R&column=C       | the sky coordinates of a pixel                                          |
| GET /api/layout                          | the parts of the file                                                   |
| GET /api/download?what=W&name=N          | an array as .npy or .fits, a block, the tree                            |

Errors are JSON: ``error``, and ``line`` of a refused text.  Work runs in threads, a few at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

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
from asdffs.features.browser import USUAL_STRETCH
from asdffs.features.browser.contents import children, download, parts_of, search
from asdffs.features.browser.guard import App, Guard
from asdffs.features.browser.images import Images, Tile
from asdffs.features.browser.session import Session

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


def make_app(session: Session, token: str, port: int, *, awaits: bool) -> App:
    """Return the application for ``session``, behind its guard.  ``token``, ``port``, ``awaits``: see ``guard``."""
    images = Images(session)
    answers: dict[str, Callable[[Request], Any]] = {
        "facts": lambda request: session.facts(),
        "tree": lambda request: children(session.values(), _text(request, "path") or ".", _number(request, "start")),
        "search": lambda request: search(session.values(), _text(request, "text")),
        "history": lambda request: session.history(),
        "history/{number:int}": lambda request: _plain(session.old_text(request.path_params["number"])),
        "array": lambda request: images.facts(_text(request, "name"), _index(request)),
        "tile": lambda request: images.tile(*_array(request), _tile(request), *_style(request)),
        "curve": lambda request: images.curve(*_array(request)),
        "pixel": lambda request: images.pixel(*_array(request), *_pixel(request)),
        "sky": lambda request: images.sky(_text(request, "name"), *_pixel(request)),
        "layout": lambda request: parts_of(session),
        "download": lambda request: _download(session, request),
        "text": lambda request: _plain(*session.text()),
    }
    routes = [
        Route("/", lambda request: Response((_STATIC / "index.html").read_bytes(), media_type="text/html")),
        Mount("/static", StaticFiles(directory=_STATIC)),
        *(Route(f"/api/{name}", _answering(answer), methods=["GET"]) for name, answer in answers.items()),
        Route("/api/text", _saving(session), methods=["PUT"]),
    ]
    return Guard(Starlette(routes=routes), token, port, awaits=awaits)


def _answering(answer: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """Return an endpoint that runs ``answer`` in a thread, and tells its errors.

    An answer is a picture (the bytes of a PNG image), what JSON can hold, or a whole response.
    """

    def response(request: Request) -> Response:
        found = answer(request)
        if isinstance(found, Response):
            return found
        return Response(found, media_type="image/png") if isinstance(found, bytes) else _json(found)

    async def endpoint(request: Request) -> Response:
        try:
            return await run_in_threadpool(response, request)
        except (AsdffsError, OSError, ValueError) as err:
            return _refusal(err)

    return endpoint


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


def _download(session: Session, request: Request) -> Response:
    found = download(session, _text(request, "what"), _text(request, "name"))
    headers = {"content-length": str(found.size), "content-disposition": f'attachment; filename="{found.name}"'}
    return StreamingResponse(found.pieces(), headers=headers, media_type="application/octet-stream")


def _saving(session: Session) -> Callable[[Request], Any]:
    """Return the endpoint of saves: it reads the body as far as a text may be long."""

    async def save(request: Request) -> Response:
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > LARGEST:
                return _refusal(UsageError(f"the text is larger than {LARGEST >> 20} MiB"))
        over = request.headers.get("if-match", "").strip('"')
        return await _answering(lambda _: {"version": session.save(bytes(body), over)})(request)

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


def _style(request: Request) -> tuple[str, str]:
    return _text(request, "stretch") or USUAL_STRETCH, _text(request, "cmap") or "gray"
