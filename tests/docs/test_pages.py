"""Every example of the pages for users is run as it is printed; links lead somewhere; what is named exists."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from support.pages import NewFile, Runner, Session, Step, can_run, matches, parts

from asdffs import registry

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    "README",
    "tutorial",
    "howto",
    "python",
    "daf",
    "comparison",
    "contributing",
    "catalog",
    "cloud",
    "xarray",
    "virtualizarr",
]
PAGES += ["view", "conditions", "operating", "virtualizarr", "fsspec", "erofs", "dkist", "lazy"]
ALL = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@pytest.mark.mount
@pytest.mark.parametrize("name", ["README", *(pytest.param(name, marks=pytest.mark.long) for name in PAGES[1:])])
def test_examples(tmp_path: Path, name: str) -> None:
    runner = Runner(tmp_path)
    count = skipped = 0
    if name in ("xarray", "virtualizarr", "fsspec"):
        pytest.importorskip("zarr", reason="zarr is not installed: pip install '.[test-zarr]'")
    if name == "lazy" and "paging" in registry.features():
        from asdffs.features.paging.userfault import Userfault

        try:
            Userfault().close()
        except OSError as err:
            pytest.skip(f"userfaultfd: {err}")
    try:
        if name == "README":
            make_night(runner)
        if name == "operating":
            shutil.copy(ROOT / "scripts/make_archive.py", runner.work)
        for part in parts((ROOT / "README.md" if name == "README" else DOCS / f"{name}.md").read_text()):
            count += 1
            if isinstance(part, NewFile):
                runner.write(part)
            elif isinstance(part, Session):
                runner.ask(part)
            elif can_run(part):
                printed = runner.print(part)
                assert matches(part.output, printed), f"$ {part.command}\n{printed}\n--- the page says\n{part.output}"
            else:
                skipped += 1
    finally:
        runner.end()
    assert count - skipped > 3


def make_night(runner: Runner) -> None:
    """The file and the directory that README takes for granted: those of the tutorial."""
    script = next(part for part in parts((DOCS / "tutorial.md").read_text()) if isinstance(part, NewFile))
    runner.write(script)
    runner.print(Step(f"python {script.name} && mkdir mnt", "", 0, 0))


def test_what_anything_matches() -> None:
    assert matches("a ... b\n", "a 1 2 b\n")
    assert not matches("a ... b\n", "a\n1 b\n")
    assert matches("x\n...\ny\n", "x\n1\n2\ny\n")
    assert not matches("x\n", "x\ny\n")


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in LINK.findall(text):
        if re.match(r"https?://", target):
            assert re.fullmatch(r"https?://[\w.-]+(/[\w./#~-]*)?", target), target
            continue
        path, _, place = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{page}: {target}"
        if place:
            headings = re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE)
            assert place in map(anchor, headings), f"{page}: {target}"


def test_every_page_is_linked_from_the_readme() -> None:
    reached, rest = set(), [ROOT / "README.md"]
    while rest:
        page = rest.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        rest += [(page.parent / target.partition("#")[0]).resolve() for target in LINK.findall(page.read_text())]
    assert [page for page in ALL if page not in reached] == []


NAMED = re.compile(r"`((?:tests/)?[\w/]+\.py)(?:::(\w+))?`")
#: What docs/statements.md answers; the last two have a reason instead of a test.
ANSWERS = ("full", "read", "kept", "not applicable", "not done")


@pytest.mark.parametrize("page", ["conformance", "statements"])
def test_named_tests_exist(page: str) -> None:
    named = NAMED.findall((DOCS / f"{page}.md").read_text())
    assert named
    for path, function in set(named):
        file = ROOT / path
        assert file.is_file(), path
        assert not function or re.search(rf"^def {function}\(", file.read_text(), re.MULTILINE), f"{path}::{function}"


STATEMENT = re.compile(r"^\| ([A-Z]\d+) \|(.*)\|$", re.MULTILINE)


def test_rows_that_conformance_names_exist() -> None:
    rows = dict(STATEMENT.findall((DOCS / "statements.md").read_text()))
    named = re.findall(r"\b[LABND]\d+\b", (DOCS / "conformance.md").read_text())
    assert len(named) > 25
    assert set(named) <= rows.keys()


def test_every_statement_has_an_answer_and_its_test_or_a_reason() -> None:
    rows = STATEMENT.findall((DOCS / "statements.md").read_text())
    for number, cells in rows:
        section, statement, answer, tests = (cell.strip() for cell in cells.split("|"))
        assert section, number
        assert statement, number
        short, _, reason = answer.partition(":")
        assert short.partition(";")[0] in ANSWERS, number
        assert NAMED.search(tests) or (short in ANSWERS[3:] and reason), number
    assert len(rows) > 340
    assert len({number for number, _ in rows}) == len(rows)
