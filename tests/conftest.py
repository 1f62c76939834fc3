from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.samples import write_sample

from asdffs.scheduling import check_ranks

# Locks are entered in one order: here, and in every command and daemon that a test starts.
os.environ["ASDFFS_CHECK_LOCKS"] = "1"
check_ranks()
# A shell may have started the tests with SIGINT ignored, which the commands that they start would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

EXAMPLES = 200 if os.environ.get("ASDFFS_DEEP") else 50
settings.register_profile(
    "asdffs", deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("asdffs")


def pytest_collection_finish() -> None:
    """What was imported stays: the garbage collector need not look at a million objects again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _signals_stay() -> Iterator[None]:
    """A command that a test runs in this process must not let the next closed connection end it silently."""
    yield
    assert signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A file by the asdf library, without padding."""
    path = tmp_path / "data.asdf"
    write_sample(path)
    return path


@pytest.fixture
def padded(tmp_path: Path) -> Path:
    """A file by the asdf library, with padding after the tree."""
    path = tmp_path / "data.asdf"
    write_sample(path, pad_blocks=True)
    return path
