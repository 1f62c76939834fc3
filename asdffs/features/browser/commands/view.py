"""``asdffs view FILE``: a page in the browser, on loopback, until it is interrupted."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import logging
import os
import secrets
import signal
import socket
import threading
import webbrowser
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from asdffs import registry
from asdffs.allocator import own_process
from asdffs.cli.arguments import CATALOG, add_remote
from asdffs.cli.printing import say
from asdffs.cli.reading import open_to_read, remote_of, stated_budget
from asdffs.cli.results import ExitCode
from asdffs.cli.writing import opened_to_write
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document
from asdffs.document.report import raise_outcome
from asdffs.document.saves.drafts import Drafts
from asdffs.document.saves.history import History
from asdffs.document.saves.keeping import keep_beside
from asdffs.errors import NotSupportedError, Remedy, UsageError
from asdffs.features.browser.guard import App, Guard, Listener, ProxyGuard, SocketListener, are_known
from asdffs.features.browser.session import Session
from asdffs.scheduling import SerialCalls
from asdffs.storage.urls import is_remote

if TYPE_CHECKING:
    from asdffs.features.browser.shelf import Shelf

SUMMARY: Final = "look at files, and edit the tree of one, in the browser"
logger = logging.getLogger(__name__)

#: Signals that end the page, as they should: the file is finished.
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)
#: How many connections wait to be accepted, and how many are served at once.
_WAITING: Final = 64


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs view l2.asdf                   opens the page in your browser
  asdffs view --no-browser --port 8080 l2.asdf     on another machine; then: ssh -L 8080:127.0.0.1:8080 HOST
  asdffs view --read-only s3://bucket/l2.asdf
  asdffs view /data/2026                a directory: list, thumbnails, sky map; a click opens a file
  asdffs view before.asdf after.asdf    compare files: blink, difference

The page shows the tree, the arrays as pictures and the file to scale; a save is checked and committed as in a mount.
It listens on loopback, and only the URL that is printed opens it.  One file is locked for other writers meanwhile;
several, and those of a directory, are only read.
"""
    parser.add_argument("files", metavar="FILE", nargs="+", help="ASDF file, URL, or a directory of files")
    parser.add_argument("--port", metavar="N", type=int, default=0, help="listen on this port (default: a free one)")
    parser.add_argument("--socket", metavar="PATH", help="listen on a Unix socket, for Jupyter's proxy")
    parser.add_argument("--no-browser", action="store_true", help="only print the URL")
    parser.add_argument("--catalog", metavar="FILE", help=CATALOG)
    parser.add_argument("--read-only", action="store_true", help="change nothing, and take no lock")
    add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve the page; return 0 after an interrupt.  Raises ``AsdffsError``, ``OSError``."""
    for package in ("starlette", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise NotSupportedError(f"the page needs {package}, which is not installed", remedy=Remedy.INSTALL_VIEW)
    if not 0 <= arguments.port < 1 << 16:
        raise UsageError(f"--port {arguments.port}: give a number from 0 to 65535; 0 is any that is free")
    from asdffs.features.browser.app import make_app  # it needs Starlette

    if arguments.socket is not None:
        with SocketListener(arguments.socket, _WAITING) as listener, _shelf(arguments) as shelf:
            _serve(ProxyGuard(make_app(shelf)), listener)
        return int(ExitCode.OK)
    with Listener(arguments.port, _WAITING) as listener, _shelf(arguments) as shelf:
        token, url = secrets.token_urlsafe(24), f"http://127.0.0.1:{listener.port}/"
        say(f"{url}?token={token}")
        say("(the page is open as long as this command runs; Ctrl-C ends it)")
        browses = not arguments.no_browser and are_known()  # else a URL without a token opens nothing
        if browses:
            # a browser of the terminal runs until it is closed, and waits for the page meanwhile
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        _serve(Guard(make_app(shelf), token, listener.port, awaits=browses), listener)
    return int(ExitCode.OK)


@contextlib.contextmanager
def _shelf(arguments: argparse.Namespace) -> Iterator[Shelf]:
    """Open one file, for writing if that is possible and wanted; of several, each when it is looked at."""
    from asdffs.features.browser.shelf import Shelf  # it needs numpy

    settings = Settings(scheduler=SerialCalls(), remote=remote_of(arguments), budget=stated_budget())
    names = list(arguments.files)
    folders = [name for name in names if not is_remote(name) and os.path.isdir(name)]
    files = [name for name in names if name not in folders]

    def open_file(name: str) -> Document:
        return open_document(name, writable=False, settings=settings._replace(scheduler=SerialCalls()))

    if len(names) > 1 or folders:
        if folders:
            registry.needed_feature("catalog").bring_up_to_date(arguments.catalog, folders)
        for name in files:
            open_to_read(name, arguments).close()  # says what is wrong before a browser is started
        with contextlib.closing(Shelf(None, files, folders, arguments.catalog, open_file)) as shelf:
            yield shelf
        return
    with _session(arguments, names[0], settings) as session:
        yield Shelf(session, names, (), None, open_file)


@contextlib.contextmanager
def _session(arguments: argparse.Namespace, file: str, settings: Settings) -> Iterator[Session]:
    """Open ``file``, for writing if that is possible and wanted."""
    if arguments.read_only or is_remote(file):
        open_to_read(file, arguments).close()  # says what is wrong, with a bar while it is downloaded
        with contextlib.closing(open_document(file, writable=False, settings=settings)) as document:
            yield Session(document, file, None, None)
        return
    with opened_to_write(file, "view", settings, typing=True) as (document, state):
        history = History(state.places.history, [])
        try:
            yield Session(document, file, Drafts(document, state.places.rejected, history), history)
        finally:
            with document.scheduler.entered():
                document.finish()
                if keep_beside(document, list, list, list, state.places.spool):  # a page has refused texts only
                    state.release()
        outcome = document.report.outcome
        for note in outcome.notes:
            logger.warning("%s: %s", document.path, note)
        raise_outcome(document.path, outcome)


def _serve(app: App, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM."""
    own_process()
    import uvicorn

    settings = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", limit_concurrency=_WAITING)
    server = uvicorn.Server(settings)
    before = {number: signal.getsignal(number) for number in _ENDING}
    server.capture_signals = contextlib.nullcontext  # its own would end the command by the signal
    try:
        for number in _ENDING:
            signal.signal(number, server.handle_exit)
        asyncio.run(server.serve(sockets=[listener]))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
