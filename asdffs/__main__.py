"""The ``asdffs`` command, and ``python -m asdffs``.

Nothing is imported from the working directory, which may hold a stranger's files (``cli/process``).  But ``python
-m`` looks for a few modules there before this one runs: in a stranger's directory, use ``python -P -m asdffs``.
"""

# The module ``signal`` takes a while to import, and Ctrl-C would be a traceback meanwhile.
import _signal  # type: ignore[import-not-found]
import gc
import sys

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # until main takes over, Ctrl-C ends it without a traceback

__all__ = ["main"]


def main() -> int:
    """Run the command of this process; return its exit code."""
    from asdffs.cli.secrets import hide_secrets

    hide_secrets()  # before anything that takes a while
    gc.disable()  # until the command is imported (``cli.main``): imports leave nothing to collect
    from asdffs.quick_imports import make_imports_quicker

    make_imports_quicker()
    from asdffs.cli.main import main as run

    code = run()
    gc.freeze()  # the interpreter collects garbage several times as it ends; the end of the process frees all of it
    return code


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working directory
    sys.exit(main())
