"""What a command makes quicker while it imports is otherwise as usual; see ``asdffs/quick_imports``."""

from __future__ import annotations

import ast
import pickle
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from benchmarks.made import make_file
from support.mounts import environment_in

from asdffs import quick_imports

COMPILED = """
import re._compiler, sys
patterns, usual = [], re._compiler.compile
re._compiler.compile = lambda *words: patterns.append(str(words[0])) or usual(*words)
from asdffs.__main__ import main
code = main()
print("patterns", code, patterns, file=sys.stderr)
"""


@pytest.mark.parametrize(("words", "most"), [(("get", "value"), 18), (("info",), 28)])
def test_commands_compile_few_patterns(words: tuple[str, ...], most: int, tmp_path: Path) -> None:
    """The modules that ``info`` imports have 73; only those that a command uses are compiled."""
    file = make_file(tmp_path / "data.asdf", 2, 8)
    command = [sys.executable, "-c", COMPILED, *words, str(file)]
    done = subprocess.run(command, env=environment_in(tmp_path), capture_output=True, text=True, timeout=120)
    _, code, found = done.stderr.splitlines()[-1].split(" ", 2)
    assert code == "0", done.stderr
    assert 5 < len(ast.literal_eval(found)) <= most


def test_a_pattern_that_is_compiled_later_is_a_pattern() -> None:
    found, wrong = quick_imports._Lazy("a+", re.IGNORECASE), quick_imports._Lazy("(")
    assert isinstance(found, re.Pattern)
    assert re.sub(found, "b", "xAa") == "xb"
    assert re.compile(found) is found
    assert (found.pattern, found.flags, found.groups) == ("a+", re.compile("a+", re.IGNORECASE).flags, 0)
    assert found.fullmatch("AAA")
    assert not found.fullmatch("AAB")
    assert pickle.loads(pickle.dumps(found)).fullmatch("AAA")
    with pytest.raises(re.error):
        wrong.search("(")


OTHERS = """
import re, sys
from asdffs.quick_imports import _Lazy, make_imports_quicker
make_imports_quicker()
{}
import string
class Template(string.Template):
    idpattern = "[a-z]"
print(type(re.compile(pattern="a", flags=re.I)) is _Lazy, type(FOUND) is _Lazy, type(Template.pattern) is _Lazy)
"""


@pytest.mark.parametrize(
    ("module", "later"),
    [
        ("from textwrap import TextWrapper; FOUND = TextWrapper.wordsep_re", True),
        ("from shlex import _find_unsafe as FOUND", False),
    ],
)
def test_only_patterns_of_modules_that_every_command_imports_are_compiled_later(module: str, *, later: bool) -> None:
    """A function of such a module compiles at once: its pattern may be what the user typed."""
    done = subprocess.run([sys.executable, "-c", OTHERS.format(module)], capture_output=True, text=True, timeout=120)
    assert done.stdout == f"False {later} False\n", done.stderr


CLASSES = """
from __future__ import annotations
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

class Ours(NamedTuple):
    "Words."

    first: int
    second: NoSuchType = 2

    @property
    def both(self) -> int:
        return self.first + self.second

    @classmethod
    def made(cls) -> Ours:
        return cls(1)

class WithTypes(NamedTuple, Generic[T]):
    first: T

Called = NamedTuple("Called", [("first", int)])
"""


class Usual(NamedTuple):
    """Words."""

    first: int
    second: int = 2


@pytest.fixture
def classes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The classes of ``CLASSES``, by the name of their module."""
    monkeypatch.setattr(typing.NamedTuple, "__mro_entries__", quick_imports._bases)

    def made(module: str) -> dict[str, Any]:
        found: dict[str, Any] = {"__name__": module}
        exec(CLASSES, found)
        return found

    return made


def test_named_tuples_of_asdffs_are_as_those_of_typing(classes: Any) -> None:
    ours = classes("asdffs.example")["Ours"]
    one = ours(first=1)
    assert one == (1, 2) == Usual(1)
    assert (repr(one), ours.__module__) == ("Ours(first=1, second=2)", "asdffs.example")
    assert (one.both, ours.made(), one._replace(second=5)) == (3, (1, 2), (1, 5))
    assert set(dir(Usual)) - set(dir(one)) <= {"__orig_bases__"}
    for name in ("_fields", "_field_defaults", "__doc__", "__slots__"):
        assert getattr(ours, name) == getattr(Usual, name)
    with pytest.raises(TypeError, match="first"):
        ours()
    with pytest.raises(AttributeError):
        one.first = 3


@pytest.mark.parametrize("module", ["asdffs.example", "numpy.example"])
def test_other_named_tuples_are_those_of_typing(classes: Any, module: str) -> None:
    """Those of other packages, with types, and by a call."""
    found = classes(module)
    assert found["Ours"](1) == (1, 2)
    assert found["Ours"](1).both == 3
    assert ("ForwardRef" in repr(found["Ours"].__annotations__)) == (module != "asdffs.example")
    assert found["WithTypes"][int](1) == (1,) == found["Called"](1)
    assert found["Called"].__module__ == module
    assert found["Ours"].__orig_bases__ == (NamedTuple,)
