"""Prints how large the package is: lines and modules of the core, of each feature, and of the tests."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "asdffs"


def place_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    if parts[0] == "features" and len(parts) > 2:
        return f"features/{parts[1]}"
    return parts[0] if len(parts) > 1 else "."


def facts(text: str) -> tuple[int, int, int]:
    """Return the lines of a module, those of docstrings, and those of imports."""
    tree, documented, imported = ast.parse(text), 0, 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported += (node.end_lineno or 0) - node.lineno + 1
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            documented += (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
    return text.count("\n"), documented, imported


def main() -> None:
    """Print a table."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        found.setdefault(place_of(path), []).append(facts(path.read_text()))
    print(f"{'place':20} modules   lines  docstrings  imports")
    for name, rows in sorted(found.items(), key=lambda one: (one[0].startswith("features/"), one[0])):
        print(f"{name:20} {len(rows):7} {' '.join(f'{sum(column):9}' for column in zip(*rows, strict=True))}")
    core = [row for name, rows in found.items() if not name.startswith("features") for row in rows]
    everything = [row for rows in found.values() for row in rows]
    tests = [facts(path.read_text()) for path in (ROOT / "tests").rglob("*.py")]
    for name, rows in (("core", core), ("package", everything), ("tests", tests)):
        print(f"{name:20} {len(rows):7} {' '.join(f'{sum(column):9}' for column in zip(*rows, strict=True))}")


if __name__ == "__main__":
    main()
