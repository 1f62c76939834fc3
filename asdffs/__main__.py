"""The ``asdffs`` command, and ``python -m asdffs``."""

import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until main takes over, Ctrl-C ends it without a traceback

from asdffs.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
