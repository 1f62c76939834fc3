"""Whatever bytes a reader gets, it ends in a value or a sentence, soon, and in little memory.

``./scripts/test --deep`` gives 50,000 mutants to each reader; ``ASDFFS_MUTANTS`` states another number.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from support.mounts import run

pytestmark = pytest.mark.long

COUNT = int(os.environ.get("ASDFFS_MUTANTS", "50000" if os.environ.get("ASDFFS_DEEP") else "200"))
#: Processor time for one mutant, in seconds.
SECONDS = "2" if os.environ.get("ASDFFS_DEEP") else "60"
#: Mutants for one process, which is one test: so its time limit need not grow with ``COUNT``.
STEP = 2000
NAMES = (
    *("commands", "format", "document", "journal", "tree", "words", "codecs", "fits", "zarr"),
    *("catalog", "headers", "answers", "listings", "daf"),
)


@pytest.mark.parametrize("first", range(0, COUNT, STEP))
@pytest.mark.parametrize("name", NAMES)
def test_mutants_end_in_sentences(name: str, first: int, tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
    count = str(min(STEP, COUNT - first))
    where = {
        "PYTHONPATH": f"{tests}:{os.environ.get('PYTHONPATH', '')}:{tests.parent}",
        "XDG_CACHE_HOME": str(tmp_path),
    }
    words = ("support.fuzzed_readers", name, first, count, SECONDS)
    done = run(sys.executable, "-m", *words, env={**os.environ, **where}, timeout=None)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    print(name, {**found, "wrong": len(found["wrong"])})
    assert found["wrong"] == []
