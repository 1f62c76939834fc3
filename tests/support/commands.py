"""Commands of asdffs in this process, as far as they take no signals: quicker than a process for each."""

from __future__ import annotations

import contextlib
import io
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from unittest import mock

from asdffs.cli.main import main


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The one line that it printed as an error."""
        (line,) = self.err.splitlines()
        assert line.startswith("asdffs: "), line
        return line.removeprefix("asdffs: ")


#: The fixture ``call``: ``command`` with its state in the folder of the test.
Call = Callable[..., Done]


@contextlib.contextmanager
def no_surprise() -> Iterator[None]:
    """Raise the first unexpected error that asdffs turned into a sentence inside the block."""
    found: list[tuple[BaseException, TracebackType | None]] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            _, err, trace = record.exc_info or (None, None, None)
            found.extend([(err, trace)] if err is not None else [])

    handler, logger = Handler(), logging.getLogger("asdffs.failures")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
        logger.propagate = True
    if found:
        raise found[0][0].with_traceback(found[0][1])


def command(*arguments: object, environment: dict[str, str]) -> Done:
    """Run ``asdffs ARGUMENTS``."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape", newline="") for _ in range(2))
    root = logging.getLogger()
    handlers = list(root.handlers)
    try:
        root.handlers[:] = []
        with (
            mock.patch.dict("os.environ", environment),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            no_surprise(),
        ):
            try:
                code = main([str(argument) for argument in arguments])
            except SystemExit as end:
                code = int(end.code or 0)
    finally:
        root.handlers[:] = handlers
        for name in [name for name in root.manager.loggerDict if name.startswith("asdffs")]:
            logging.getLogger(name).setLevel(logging.NOTSET)
    return Done(code, *(_text(stream) for stream in (out, err)))


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8", "surrogateescape")  # type: ignore[attr-defined]
