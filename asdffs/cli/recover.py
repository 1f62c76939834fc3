"""``asdffs recover FILE``: finish what a crash interrupted, without a mount."""

from __future__ import annotations

import argparse
import json
import os
from contextlib import closing

from asdffs import interrupts
from asdffs.cli.past import tell_the_past
from asdffs.cli.places import clear, places_of
from asdffs.cli.saying import say
from asdffs.document.opening import open_document, resolve


def run(arguments: argparse.Namespace) -> int:
    """Open for writing, which recovers; keep what a killed mount held.  Raises ``AsdffsError``, ``OSError``."""
    path = os.path.join(*resolve(arguments.file))
    places = places_of(path)
    with interrupts.critical(), closing(open_document(path, writable=True)) as document:
        story = list(tell_the_past(document, places))
        clear(places)
    if arguments.json:
        print(json.dumps({"file": path, "recovered": story}, indent=2))
    else:
        say(*(f"{path}: {sentence}" for sentence in story or ["nothing to recover"]))
    return 0
