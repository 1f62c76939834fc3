"""Mutants for each reader of bytes that somebody else wrote, called directly, hundreds in a second.

``python -m support.fuzzed_readers NAME FIRST COUNT SECONDS`` prints one line of JSON, a ``Result``.  What a reader
raises is judged as commands judge it (``asdffs.failures``): a sentence is right, and an internal error is wrong.
"""

from __future__ import annotations

import json
import logging
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from typing import NamedTuple

from asdffs.failures import Failure, attempt
from support import fuzzed_files, fuzzed_services
from support.fuzzed import Reader

#: Memory for all of the process beyond its start.
MEMORY = 500 << 20
READERS: dict[str, Reader] = {**fuzzed_files.READERS, **fuzzed_services.READERS}


class Result(NamedTuple):
    """``ends``: how often each ended how.  ``wrong``: number and traceback of each mutant that did not end right.

    ``slowest``: seconds of processor time, and the number of that mutant.  ``peak``: of the process, in MiB.
    """

    mutants: int
    ends: dict[str, int]
    wrong: list[str]
    slowest: tuple[float, int]
    peak: int


class _TooLong(BaseException):  # nothing that handles exceptions may handle it
    """The time is over."""


def _on_time(*_: object) -> None:
    raise _TooLong


def run(name: str, first: int, count: int, seconds: float) -> Result:
    """Read the mutants ``first`` to ``first + count``; one that takes more processor time than that is wrong."""
    reader, ends, wrong, slowest = READERS[name], Counter[str](), list[str](), (0.0, 0)
    seeds = reader.seeds()
    signal.signal(signal.SIGPROF, _on_time)
    for number in range(first, first + count):
        rng = random.Random(f"{name} {number}")
        raw = reader.mutant(rng, rng.choice(seeds))
        began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            end = _end(reader, raw, number)
        except _TooLong:
            end = f"took more than {seconds} s\n{traceback.format_exc()}"
        except BaseException:  # noqa: BLE001  # not even this may end the others
            end = traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        slowest = max(slowest, (time.process_time() - began, number))
        ends[end if "\n" not in end else "wrong"] += 1
        wrong += [f"{number}: {end[-1500:]}"] if "\n" in end else []
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return Result(count, dict(ends.most_common()), wrong, slowest, peak)


def _end(reader: Reader, raw: bytes, number: int) -> str:
    """Return how a mutant ended: a word, or a traceback."""
    trace, kind = "", ""

    def work() -> str:
        nonlocal trace, kind
        try:
            reader.read(raw, number)
        except reader.handled as err:
            return type(err).__name__
        except Exception as err:
            trace, kind = traceback.format_exc(), type(err).__name__
            raise
        return "value"

    found = attempt(work)
    if not isinstance(found, Failure):
        return found
    if str(found.error).startswith("an internal error") or kind == "MemoryError":
        return trace
    name = type(found.error).__name__
    return name if name == kind else f"{name} of {kind}"


if __name__ == "__main__":
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, used + MEMORY))
    logging.getLogger().addHandler(logging.NullHandler())
    print(json.dumps(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))._asdict()))
