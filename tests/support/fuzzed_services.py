"""Mutants of catalogues, answers of servers and FilesDaf stores, and what reads them."""

from __future__ import annotations

import contextlib
import functools
import http.client
import io
import itertools
import os
import random
import socketserver
import sqlite3
import threading
import zlib
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from asdffs.document.opening import open_in_folder
from asdffs.errors import AsdffsError
from asdffs.features.catalog.indexing import Way, update
from asdffs.features.catalog.query import find
from asdffs.features.catalog.store import open_catalog
from asdffs.features.daf import recover_store
from asdffs.features.daf.files import Bytes, Files, above
from asdffs.features.daf.format import LOG
from asdffs.features.daf.properties import check_store
from asdffs.features.daf.store import Store
from asdffs.features.remote.object_stores import Prefix, StoreTransport
from asdffs.features.remote.transport import RequestError, Validator
from asdffs.features.remote.web import WebTransport, check_whole, seconds_of, stated, wanted_of
from asdffs.storage.urls import RemoteOptions, parse_url
from asdffs.tree.conditions import parse_condition
from asdffs.tree.paths import parse_path
from support.arrays import tree_file
from support.daf_stores import generated, tree_of
from support.fuzzed import FOLDER, JSON, NUMBERS, STARTS, Reader, mutated_of, words_in
from support.memory import MemoryFolder

# -- catalogues -----------------------------------------------------------------


def _catalogs() -> list[bytes]:
    folder, path = Path(FOLDER.name) / "archive", str(Path(FOLDER.name) / "seed.db")
    folder.mkdir()
    for number, raw in enumerate((*STARTS[:2], tree_file("{a: 1, b: [x, 2001-01-01]}\n", []), STARTS[0])):
        (folder / f"{number}.asdf").write_bytes(raw)
    with open_catalog(path, writable=True) as catalog:
        update(catalog, [os.fsencode(folder)], Way(1), lambda done, total: None)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")
    folder.rename(folder.parent / "gone")  # what is not known is asked of no file
    return [Path(path).read_bytes()]


_TABLES = ("files", "chunks", "paths", "columns", "columns", "rare", "arrays", "blocks", "weights")
_CELLS = (None, 0, -1, 1 << 31, (1 << 63) - 1, 1e300, "", "[]", '["time","x"]', "[" * 5000, b"", b"\xff", "a" * 3000)


def _catalog(rng: random.Random, seed: bytes) -> bytes:
    """Change some values in tables, or bytes of the file."""
    if rng.random() < 0.4:
        return mutated_of(rng, seed, NUMBERS)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(seed)
        for _ in range(rng.randint(1, 3)):
            table = rng.choice(_TABLES)
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()
            for row in rng.sample(rows, min(len(rows), rng.randint(1, 3))):
                place = rng.randrange(len(row))
                changed = (*row[:place], _cell(rng, row[place]), *row[place + 1 :])
                with contextlib.suppress(sqlite3.Error):  # not every value is possible
                    connection.execute(f"REPLACE INTO {table} VALUES ({','.join('?' * len(row))})", changed)
        connection.commit()
        return connection.serialize()


def _cell(rng: random.Random, value: Any) -> Any:
    if isinstance(value, bytes) and rng.random() < 0.8:
        with contextlib.suppress(zlib.error):  # it may be a column
            return zlib.compress(mutated_of(rng, zlib.decompress(value), JSON))
    if isinstance(value, (str, bytes)) and value and rng.random() < 0.5:
        raw = mutated_of(rng, value if isinstance(value, bytes) else value.encode(), JSON)
        return raw if isinstance(value, bytes) else raw.decode(errors="replace")
    return rng.choice(_CELLS)


def _read_catalog(raw: bytes, number: int) -> None:
    path = Path(FOLDER.name) / "mutant.db"
    path.write_bytes(raw)
    with open_catalog(str(path), writable=False) as catalog:
        turn = number % 3
        if turn == 0:
            find(catalog, parse_condition("exists a0 or value == 1 or meta.exposure > 0"), [], [parse_path("value")])
        elif turn == 1:
            list(catalog.select(f"SELECT * FROM {('file', 'array', 'block', 'scalar')[number % 4]}")[1])
        else:
            catalog.kinds(1000, lambda path: True), catalog.use_of_chunks(), catalog.counts(), catalog.unread([])
            for chunk, _ in catalog.chunks():
                list(catalog.columns_of(chunk))
                for table in ("files", "arrays", "blocks"):
                    catalog.rows_of(table, chunk, [b"/"])


# -- answers of servers ---------------------------------------------------------

_HEADERS = (b"bytes ", b"-", b"/", b"\r\n", b": ", b"\x1b", b"\xff", b"chunked", b"0\r\n\r\n", *NUMBERS)


def _answers() -> list[bytes]:
    body = bytes(range(100))
    tail = b'ETag: "abc"\r\nLast-Modified: Fri, 27 Nov 2026 05:00:00 GMT\r\n'
    part = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 100-199/1000\r\n"
    return [
        part + b"Content-Length: 100\r\n" + tail + b"\r\n" + body,
        part + b"Transfer-Encoding: chunked\r\n" + tail + b"\r\n64\r\n" + body + b"\r\n0\r\n\r\n",
        b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-99/*\r\n\r\n" + body,
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n" + tail + b"\r\n" + body,
        b"HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: ../b?c=d#e\r\nContent-Length: 0\r\n\r\n",
    ]


def _read_headers(raw: bytes, number: int) -> None:
    first, _, rest = raw.partition(b"\r\n")
    headers = http.client.parse_headers(io.BytesIO(rest))
    seconds_of(headers.get("Retry-After"))
    found = stated(206 if b"206" in first else 200, headers, 100)
    found.validator()
    wanted_of(found, 100, 200, None) if found.part else check_whole(found, 100, 1 << 20, ended=True)


class _Server(socketserver.ThreadingTCPServer):
    """Sends ``raw`` to whoever asks, and ends the connection."""

    daemon_threads = True
    raw = b""


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            while self.rfile.readline().strip():
                pass
            self.wfile.write(self.server.raw)


@functools.cache
def _server() -> _Server:
    server = _Server(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


def _read_answer(raw: bytes, number: int) -> None:
    server = _server()
    server.raw = raw
    transport = WebTransport(parse_url(f"http://127.0.0.1:{server.server_address[1]}/a"), 0.5)
    if number % 3 == 0:
        transport.head(1 << 16, 0.5)
    elif number % 3 == 1:
        transport.get(100, 200, Validator(1000, '"abc"', None))
    else:
        transport.whole(lambda piece: None, 1 << 20)


def _listings() -> list[bytes]:
    one = (
        b"<Contents><Key>d/%d.asdf</Key><LastModified>2021-01-01T00:00:00.000Z</LastModified>"
        b"<ETag>&quot;1&quot;</ETag><Size>5</Size></Contents>"
    )
    page = b'<?xml version="1.0"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">%s</ListBucketResult>'
    pages = [
        page % (b"<IsTruncated>false</IsTruncated>" + b"".join(one % n for n in range(count))) for count in (0, 3)
    ]
    return [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text for text in pages] + _answers()[:1]


def _listing(rng: random.Random, seed: bytes) -> bytes:
    """Change the body, and let the length be right, or all of it."""
    head, _, body = seed.partition(b"\r\n\r\n")
    if rng.random() < 0.3 or b"206" in head:
        return mutated_of(rng, seed, _HEADERS)
    words = (b"<", b"</Contents>", b"&x;", b"<!DOCTYPE a [<!ENTITY x '&x;&x;'>]>", b"../", b"//", b"\x00", *NUMBERS)
    body = mutated_of(rng, body, words)
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def _read_listing(raw: bytes, number: int) -> None:
    server = _server()
    server.raw = raw
    options = RemoteOptions(endpoint=f"http://127.0.0.1:{server.server_address[1]}", anonymous=True, timeout=0.5)
    if raw[9:12] == b"206":
        StoreTransport(parse_url("s3://bucket/a"), options, 0.5).get(100, 200, Validator(1000, '"abc"', None))
    else:
        list(itertools.islice(Prefix("s3://bucket/d", options).objects(), 100))


# -- stores of FilesDaf ---------------------------------------------------------


@functools.cache
def _stores() -> dict[bytes, bytes]:
    """The files of a store, by path, without those that only repeat a type."""
    root = generated(Path(FOLDER.name) / "store.daf", long=50)
    return {
        os.fsencode(path): raw
        for path, raw in tree_of(root).items()
        if raw is not None and len(raw) < 5000 and path.count("/") < 4
    }


_LOG = (
    b'["tree", "0"]\n["mkdir", "vectors/cell"]\n["loose", "vectors/cell/a.json", "/nowhere/s1-a"]\n'
    b'["rename", "vectors/cell", "vectors/other"]\n["link", "daf.json", "b"]\n'
    b'["unlink", "daf.json"]\n["rmdir", "axes"]\n'
)


def _read_store(raw: bytes, number: int) -> None:
    path, _, content = raw.partition(b"\0")
    if path == LOG.encode():
        _recover(content)
        return
    contents = {os.fsdecode(one): Bytes(whole) for one, whole in _stores().items()}
    contents[os.fsdecode(path)] = Bytes(content)
    files = Files("store", dict(contents), above(contents))
    check_store(files)
    with contextlib.suppress(AsdffsError), Store(files, ExitStack()) as store:
        for values in (store.axes, *store.vectors.values(), *store.matrices.values()):
            for name in values:
                with contextlib.suppress(AsdffsError):
                    values[name]


def _recover(log: bytes) -> None:
    spool = Path(FOLDER.name) / "spool"
    spool.mkdir(exist_ok=True)
    (spool / LOG).write_bytes(log)
    text = STARTS[0]
    with closing(open_in_folder(MemoryFolder({"a": text}), "a", writable=True)) as document:
        list(recover_store(document, str(spool)))


def _store_seeds() -> list[bytes]:
    """``PATH NUL CONTENT`` of files of a store."""
    found = [path + b"\0" + raw for path, raw in _stores().items()]
    return [*found, *([LOG.encode() + b"\0" + _LOG] * (len(found) // 10))]


def _store(rng: random.Random, seed: bytes) -> bytes:
    path, _, raw = seed.partition(b"\0")
    if not raw or rng.random() < 0.1:
        return mutated_of(rng, seed, JSON)
    return path + b"\0" + mutated_of(rng, raw, (b"\r\n", b"sparse", b"n_elements", *JSON))


READERS = {
    "catalog": Reader(_catalogs, _read_catalog, _catalog),
    "headers": Reader(_answers, _read_headers, words_in(*_HEADERS), (RequestError, http.client.HTTPException)),
    "answers": Reader(_answers, _read_answer, words_in(*_HEADERS), (RequestError,)),
    "listings": Reader(_listings, _read_listing, _listing, (RequestError,)),
    "daf": Reader(_store_seeds, _read_store, _store),
}
