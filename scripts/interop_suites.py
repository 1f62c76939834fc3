"""Runs the test suites of libraries and compares every ASDF file that they write or open with what asdffs reads.

For each file: every array in the library and in asdffs; ``asdffs check --deep``; then an edit by ``asdffs set``, and
the library must read the new value, and everything else as before.  See ``scripts/interop``.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections import Counter, UserString
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import asdffs
from asdffs.cli.main import main as run_asdffs
from asdffs.tree.paths import format_path, name_of
from scripts.interop import equal

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "conformance.md"
BEGIN, END = "<!-- made by scripts/interop --suites -->\n", "<!-- end of scripts/interop -->"
NEW = "asdffs_interop"
#: Parts of a tree that are about the file itself.
ABOUT = ("asdf_library", "history")
INSIDE, MISSING = "a part of an array", "nothing"


class Suite(NamedTuple):
    """The tests of a distribution: in the package ``installed``, or else in its source distribution.

    ``files``: it has no tests to run, but files below that directory of its source distribution.
    """

    name: str
    installed: str = ""
    files: str = ""

    @property
    def version(self) -> str:
        return importlib.metadata.version(self.name)


SUITES = (
    Suite("asdf-standard", files="reference_files"),
    Suite("asdf", "asdf._tests"),
    Suite("asdf-astropy", "asdf_astropy"),
    Suite("gwcs", "gwcs"),
    Suite("dkist", "dkist"),
    Suite("asdf-zarr", "asdf_zarr"),
    Suite("sunpy", "sunpy.io.special.asdf"),
    Suite("roman_datamodels"),
    Suite("stdatamodels"),
)


#: Why something differs: a pattern of ``written TEST: difference`` or ``opened TEST: difference``, and the reason.
REASONS = (
    (
        r"^written .*test_compression_with_extension.*the library refuses it",
        "compressed by an extension that only its test has",
    ),
    (r"^opened .*the library refuses it", "broken on purpose: the library refuses it as well"),
    (
        r"_fits_hash differs|test_moving_target_table_migration",
        "a FITS table or keyword was changed on purpose after the tree was written",
    ),
    (
        r"(block_checksum|test_diff_block|test_memmap).*its checksum is",
        "a block was changed by hand or through an mmap, and its checksum was not",
    ),
    (r"(block_index|junk_after_index).*the block index is wrong", "a wrong block index on purpose"),
    (
        r"test_array_to_stream.*the block index is wrong",
        "written behind other bytes, from whose beginning its block index counts",
    ),
    (r"(test_flat_repr|test_inversion).*the block index is wrong", "the block index in these data of DKIST is wrong"),
    (r"end marker missing", "a text by hand without the end of a tree, `...`"),
    (
        r"the key '\w+' is in line \d+ already",
        "a text by hand in which a mapping has a key twice; `set` refuses it too",
    ),
    (r"the file has no tree to add a value to", "no tree, so there is nothing to edit"),
    (r"missing value \"b'", "a key that is bytes; keys are text in Python here"),
    (r"missing value .*: 'nothing' for ('|None)", "asdf fills in defaults of schemas in files of older standards"),
    (r"test_invalid_mask_datatype.*array arr.mask", "a mask of text on purpose"),
)
UNEXPLAINED = "**not explained**"


# -- getting the files --------------------------------------------------------


def collect(suite: Suite, folder: Path) -> list[dict[str, str]]:
    """Return the files of a suite, relative to ``folder``; a suite that was run into it before is not run again."""
    listed = folder / "files.json"
    if not listed.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            source = None if suite.installed else _source(suite, Path(scratch))
            if suite.files and source:
                shutil.copytree(source / suite.files, folder, dirs_exist_ok=True)
                names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.asdf"))
                found = [{"file": name, "test": name, "verb": "kept"} for name in names]
                listed.write_text(json.dumps({"files": found, "skipped": {}}))
            else:
                _run_tests(suite, source or Path(scratch), folder)
    files: list[dict[str, str]] = json.loads(listed.read_text())["files"]
    return files


def _source(suite: Suite, scratch: Path) -> Path:
    """Download and unpack the source distribution of the installed version; return its directory."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", scratch]
    subprocess.run([*pip, "--no-binary", suite.name, f"{suite.name}=={suite.version}"], check=True)
    (archive,) = scratch.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(scratch, filter="data")
    return next(path for path in scratch.iterdir() if path.is_dir())


def _run_tests(suite: Suite, place: Path, folder: Path) -> None:
    """Run the tests with the plug-in; that some of them fail does not matter, but is in ``tests.log``."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "scripts.interop_capture"]
    command += ["--continue-on-collection-errors", "--asdf-capture", str(folder), f"--basetemp={folder / 'tmp'}"]
    command += ["--pyargs", suite.installed] if suite.installed else ["tests"]
    with (folder / "tests.log").open("w") as log:
        subprocess.run(
            command, cwd=place, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=log, stderr=log, check=False
        )
    shutil.rmtree(folder / "tmp", ignore_errors=True)


# -- what a library reads -----------------------------------------------------

Path_ = tuple[Any, ...]


class Reading(NamedTuple):
    """What a library reads: the leaves of the tree, arrays as copies; and the path of the first plain value.

    A plain value is a text or integer that is neither below a tag nor about the file itself.
    """

    leaves: dict[Path_, Any]
    plain: Path_ | None


def read(path: Path, *, core: bool) -> Reading:
    """Return what asdf reads.  ``core``: without the extensions of other packages, so that each array is a leaf.

    Raises whatever the library does.
    """
    import asdf

    known = asdf.get_config()
    _ = known.extensions, known.resource_manager  # a context without these would load them for each file
    with warnings.catch_warnings(), asdf.config_context() as config:
        warnings.simplefilter("ignore")
        config.warn_on_failed_conversion = not core
        for extension in config.extensions if core else ():
            if extension.package_name != "asdf":
                config.remove_extension(extension)
        if path.suffix == ".fits":
            from stdatamodels import asdf_in_fits

            opened = asdf_in_fits.open(str(path), ignore_unrecognized_tag=True)
        else:
            opened = asdf.open(path, lazy_load=False, ignore_unrecognized_tag=True)
        with opened as file:
            found = list(_leaves(file.tree))
    plain = (
        where for where, value, tagged in found if type(value) in (str, int) and not tagged and _may_change(where)
    )
    return Reading({where: value for where, value, _ in found}, next(plain, None))


def _leaves(
    node: Any, path: Path_ = (), above: tuple[int, ...] = (), *, tagged: bool = False
) -> Iterator[tuple[Path_, Any, bool]]:
    """Yield the path and value of each leaf, and whether it is below a tag."""
    if id(node) in above:
        return
    if isinstance(node, dict | list | tuple):
        tagged = tagged or (bool(path) and hasattr(node, "_tag"))
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _leaves(value, (*path, key), (*above, id(node)), tagged=tagged)
    elif _is_array(node):
        yield path, _copied(node), tagged
    else:
        yield path, str(node) if isinstance(node, UserString) else node, tagged or isinstance(node, UserString)


def _copied(node: Any) -> Any:
    if isinstance(node, np.ma.MaskedArray):
        return np.ma.copy(node)
    if not isinstance(node, np.recarray) or not hasattr(node, "columns"):
        return np.array(node)
    columns = {
        name: np.asarray(node[name]) for name in node.dtype.names
    }  # astropy decodes a column of FITS when asked
    found = np.zeros(len(node), [(name, one.dtype, one.shape[1:]) for name, one in columns.items()])
    for name, one in columns.items():
        found[name] = one
    return found


def _may_change(path: Path_) -> bool:
    return path[0] not in ABOUT and "$ref" not in path and all(type(one) is str for one in path)


def _is_array(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("shape", "dtype", "__array__")) and not isinstance(value, np.generic)


# -- comparing ----------------------------------------------------------------


class Result(NamedTuple):
    """What was found for a file: how many arrays are equal, what differs, and whether it was edited."""

    arrays: int
    differences: list[str]
    edited: bool = False


def judge(path: Path, scratch: Path) -> Result:
    """Compare a copy of a file in ``scratch``, edit it, and compare again."""
    copy = scratch / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path.parent, copy)
    path = copy / path.name
    before = _attempt(lambda: read(path, core=True))
    whole = _attempt(lambda: read(path, core=False))
    if isinstance(before, str):
        return Result(0, [f"the library refuses it: {before}"])
    try:
        with asdffs.open(path) as document:
            count, differences = _compare(document, before.leaves, whole)
    except (asdffs.AsdffsError, OSError) as err:
        return Result(0, [f"asdffs refuses it: {_sentence(err)}"])
    differences += _check(path)
    where, value, code, said = _edit(path, before)
    if code:
        return Result(count, [*differences, f"set is refused: {said}"])
    changes = [
        one for core, was in ((True, before), (False, whole)) for one in _changes(path, was, where, value, core=core)
    ]
    changes += [f"after set: {one}" for one in _check(path) if one not in differences]
    return Result(count, [*differences, *changes], edited=not changes)


def _edit(path: Path, before: Reading) -> tuple[Path_, str, int, str]:
    """Change a plain value, or add one; return its path, its new text, the exit code and what ``set`` said."""
    where = before.plain or (NEW,)
    value = str(before.leaves[where] + 1) if isinstance(before.leaves.get(where), int) else "dusk"
    code, said = _asdffs("set", f"{format_path(where)}={value}", str(path))
    if code and "is shared" in said:  # by an alias
        where, value = (NEW,), "dusk"
        code, said = _asdffs("set", f"{format_path(where)}={value}", str(path))
    return where, value, code, said


def _compare(document: Any, leaves: dict[Path_, Any], whole: Any) -> tuple[int, list[str]]:
    """Return how many arrays are equal, and what differs: arrays, plain values, and the number of arrays."""
    arrays: dict[Path_, Any] = {}
    differences = []
    for path, value in leaves.items():
        if not _is_array(value):
            differences += _value_difference(document, path, value)
            continue
        arrays[path] = np.ma.getdata(value)
        if isinstance(value, np.ma.MaskedArray) and hasattr(_found(document, (*path, "mask")), "mapped"):
            arrays[*path, "mask"] = np.ma.getmaskarray(value)
    for path, value in whole.leaves.items() if isinstance(whole, Reading) else ():
        if _is_array(value) and path not in leaves and hasattr(_found(document, path), "mapped"):
            arrays[path] = value  # of an extension, as those of asdf-zarr
    found = {path: _array_difference(document, path, value) for path, value in arrays.items()}
    different = [f"array {format_path(_steps(path))}: {told}" for path, told in found.items() if told]
    integers = sum(
        type(value).__name__ == "IntegerType" for value in leaves.values()
    )  # each made of an array of words
    more = len(document.arrays) - len(arrays) - integers
    different += [f"{more} arrays that are none in the library"] if more > 0 else []
    return len(found) - sum(map(bool, found.values())), differences + different


def _array_difference(document: Any, path: Path_, value: Any) -> str:
    """Return how an array differs from the library's; an empty text if it does not."""
    found = _found(document, path)
    mine = _attempt(lambda: np.asarray(found)) if hasattr(found, "mapped") else f"a {type(found).__name__}"
    if isinstance(mine, str):
        return mine
    same = mine.shape == value.shape and equal(mine, value)
    return "" if same else f"{mine.dtype} {mine.shape} for {value.dtype} {value.shape}"


def _value_difference(document: Any, path: Path_, value: Any) -> list[str]:
    if not isinstance(value, str | int | float | bool | type(None)):
        return []
    found = _found(document, path)
    same = found is INSIDE or found == value or (found != found and value != value)
    what = "missing value" if found is MISSING else "value"
    return [] if same else [f"{what} {format_path(_steps(path))}: {found!r:.80} for {value!r:.80}"]


def _found(document: Any, path: Path_) -> Any:
    """Return what asdffs has at a path: ``MISSING``, or ``INSIDE`` if it is a part of the description of an array."""
    node = document.values
    try:
        for step in path:
            if hasattr(node, "mapped"):  # a part of an array: its mask
                return document.arrays.get("/".join(map(name_of, path)), INSIDE)
            node = node[step]
    except (KeyError, IndexError, TypeError):
        return MISSING
    return node


def _steps(path: Path_) -> tuple[str | int, ...]:
    return tuple(step if isinstance(step, int) and not isinstance(step, bool) else str(step) for step in path)


def _changes(path: Path, was: Any, where: Path_, value: str, *, core: bool) -> list[str]:
    """Return what differs in a file from ``was`` but the value at ``where``, which must be ``value``."""
    if not isinstance(was, Reading):
        return []
    reading = _attempt(lambda: read(path, core=core))
    if isinstance(reading, str):
        return [f"unreadable after set: {reading}"]
    before, after = was.leaves, reading.leaves
    differences = [] if str(after.get(where)) == value else [f"set {format_path(where)} had no effect"]
    for one in {**before, **after}:
        if one != where and (one not in before or one not in after or not _same(before[one], after[one])):
            differences.append(f"set also changed {format_path(_steps(one))}")
    return differences


def _same(a: Any, b: Any) -> bool:
    if _is_array(a) and _is_array(b):
        masks = (np.ma.getmaskarray(one) for one in (a, b))
        return bool(
            a.shape == b.shape and a.dtype == b.dtype and equal(np.ma.getdata(a), np.ma.getdata(b))
        ) and equal(*masks)
    return type(a) is type(b) and _words(a) == _words(b)


def _words(value: Any) -> str:
    return re.sub(r"0x[0-9a-f]+", "", str(_attempt(lambda: str(value))))


def _check(path: Path) -> list[str]:
    code, said = _asdffs("check", "--deep", "--json", str(path))
    try:
        (answer,) = json.loads(said)
    except ValueError:
        return [f"check: {code} {said}"]
    found = [one for one in answer["findings"] if one["level"] != "note"]
    return [f"check: {one.get('sentence', one)}" for one in found] + (
        [f"check: {answer['error']}"] if answer.get("error") else []
    )


def _asdffs(*words: str) -> tuple[int, str]:
    """Run a command in this process; return its exit code and what it said."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = run_asdffs(list(words))
    return code, said.getvalue().strip()


def _attempt(call: Callable[[], Any]) -> Any:
    """Return what ``call`` does, or the sentence of its exception."""
    try:
        return call()
    except Exception as err:  # noqa: BLE001 of any library
        return _sentence(err)


def _sentence(err: BaseException) -> str:
    return f"{type(err).__name__}: {err}".splitlines()[0][:300]


# -- the table ----------------------------------------------------------------


class Row(NamedTuple):
    """What was found for a suite; ``reasons`` counts files by the reason of a difference."""

    suite: Suite
    tests: str
    files: int
    arrays: int
    edited: int
    reasons: Counter[str]


def row_of(suite: Suite, folder: Path) -> Row:
    """Return the row of a suite, and print each difference without a reason."""
    files, arrays, edited, reasons = collect(suite, folder), 0, 0, Counter[str]()
    with tempfile.TemporaryDirectory() as scratch:
        for one in files:
            result = judge(folder / one["file"], Path(scratch))
            arrays, edited = arrays + result.arrays, edited + result.edited
            found = {reason_of(f"{one['verb']} {one['test']}: {told}") for told in result.differences}
            reasons.update(found)
            if UNEXPLAINED in found:
                print(f"{folder / one['file']} ({one['verb']} by {one['test']})", *result.differences, sep="\n  ")
    return Row(suite, _outcome(folder / "tests.log"), len(files), arrays, edited, reasons)


def reason_of(difference: str) -> str:
    """Return the reason of the first pattern that fits, else ``UNEXPLAINED``."""
    return next((reason for pattern, reason in REASONS if re.search(pattern, difference, re.DOTALL)), UNEXPLAINED)


def _outcome(log: Path) -> str:
    last = log.read_text().splitlines()[-1] if log.exists() else ""
    return ", ".join(re.findall(r"\d+ (?:passed|failed|errors?)\b", last)) or "its files"


def table(rows: list[Row]) -> str:
    """Return the two tables of the page."""
    lines = ["| suite | version | tests | files | arrays, all equal | edited |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {r.suite.name} | {r.suite.version} | {r.tests} | {r.files} | {r.arrays} | {r.edited} |" for r in rows
    ]
    lines += ["", "| suite | files | difference |", "|---|---|---|"]
    lines += [f"| {r.suite.name} | {count} | {reason} |" for r in rows for reason, count in r.reasons.most_common()]
    return "\n".join(lines) + "\n"


def with_table(page: str, made: str) -> str:
    """Return the text of the page with the tables between its two comments."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + made + END + rest.partition(END)[2]


def main(folder: Path) -> int:
    """Run all suites, write the tables into the page, and return 1 if something differs without a reason."""
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    rows = [row_of(suite, folder / suite.name) for suite in SUITES]
    made = table(rows)
    print(made)
    PAGE.write_text(with_table(PAGE.read_text(), made))
    return 1 if any(UNEXPLAINED in row.reasons for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
