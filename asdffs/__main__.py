"""``python -m asdffs``: the same as the ``asdffs`` command."""

import sys

from asdffs.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
