from __future__ import annotations

import gc
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.commands import Call, command
from support.hangs import ended_if_it_hangs
from support.mounts import cannot_mount, environment_in
from support.samples import odd_file, write_sample

from asdffs import registry
from asdffs.scheduling import check_ranks
from asdffs.storage import changed_files

# Locks are entered in one order: here, and in every command and daemon that a test starts.
os.environ["ASDFFS_CHECK_LOCKS"] = "1"
check_ranks()
# A shell may have started the tests with SIGINT ignored, which the commands that they start would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Choose which examples Hypothesis tries: each time the same, or in a deep run each time others.

    So a change is never refused for a fault that it did not make, and the deep run finds what nobody thought of.
    """
    deep = bool(os.environ.get("ASDFFS_DEEP"))
    settings.register_profile(
        "asdffs",
        deadline=None,
        derandomize=not deep,
        max_examples=200 if deep else 15 if "not long" in config.option.markexpr else 50,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("asdffs")


def pytest_collection_finish() -> None:
    """What was imported stays: the garbage collector need not look at a million objects again and again."""
    gc.collect()
    gc.freeze()


#: What is tested first, so that a typo shows at once.  The rest mounts, or starts many processes.
FIRST = ("format", "tree", "arrays", "storage", "document", "contract", "properties", "views", "vfs")
#: A module with this line needs what only ``scripts/setup all`` installs, so the short run does not even import it.
LONG = re.compile(rb"^pytestmark = (\[\s*)?pytest\.mark\.long\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out whole modules of long tests in a run without them."""
    without = "not long" in config.option.markexpr and collection_path.suffix == ".py"
    return True if without and LONG.search(collection_path.read_bytes()) else None


def _order(item: pytest.Item) -> tuple[bool, int]:
    floor = item.path.relative_to(Path(__file__).parent).parts[0]
    return "mount" in item.keywords, FIRST.index(floor) if floor in FIRST else len(FIRST)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests, sample parameters, and skip the tests that mount where nothing can be mounted."""
    items.sort(key=_order)
    seen: Counter[str] = Counter()
    for item in items:
        if sampled := item.get_closest_marker("sampled"):
            name = item.nodeid.partition("[")[0]
            if seen[name] % sampled.args[0]:
                item.add_marker(pytest.mark.long)
            seen[name] += 1
    for item in items:
        for needed in item.iter_markers("feature"):
            if needed.args[0] not in registry.features():
                item.add_marker(pytest.mark.skip(reason=f"this copy of asdffs has no {needed.args[0]}"))
    if reason := cannot_mount():
        for item in items:
            if "mount" in item.keywords:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True, scope="session")
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What this process notes, the names of files that it changed, is not noted for who runs the tests."""
    place, home, real = str(tmp_path_factory.mktemp("cache")), os.environ.get("HOME"), changed_files.cache_folder
    changed_files.cache_folder = lambda: place if os.environ.get("HOME") == home else real()


@pytest.fixture(autouse=True)
def _ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A test that hangs fails, with the stacks of its daemons."""
    with ended_if_it_hangs(tmp_path_factory.getbasetemp()):
        yield


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


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file by hand, with padding after the tree."""
    path = tmp_path / "data.asdf"
    path.write_bytes(odd_file(padding=b" " * 500))
    return path


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """A command of asdffs in this process."""
    return partial(command, environment=environment_in(tmp_path))
