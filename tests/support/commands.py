"""Commands of asdffs in this process, as far as they take no signals: quicker than a process for each."""

from __future__ import annotations

import contextlib
import io
import json
import logging
from dataclasses import dataclass
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


def command(*arguments: object, environment: dict[str, str]) -> Done:
    """Run ``asdffs ARGUMENTS``."""
    out, err = io.StringIO(), io.StringIO()
    root = logging.getLogger()
    handlers = list(root.handlers)
    try:
        root.handlers[:] = []
        with (
            mock.patch.dict("os.environ", environment),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                code = main([str(argument) for argument in arguments])
            except SystemExit as end:
                code = int(end.code or 0)
    finally:
        root.handlers[:] = handlers
        for name in [name for name in root.manager.loggerDict if name.startswith("asdffs")]:
            logging.getLogger(name).setLevel(logging.NOTSET)
    return Done(code, out.getvalue(), err.getvalue())
