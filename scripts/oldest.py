"""Prints a pip constraints file with the oldest version of each package that ``pyproject.toml`` allows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

#: Extras with packages that asdffs uses; developers' tools are not constrained.
EXTRAS = (
    *(
        "zstd",
        "isal",
        "blosc",
        "blosc2",
        "fits",
        "daf",
        "schema",
        "wcs",
        "zarr",
        "remote",
        "cluster",
        "parquet",
        "show",
        "view",
    ),
    "xarray",
)
#: Packages of which the developers' tools need a newer version.
NEWER = ("rich",)


def constraints() -> list[str]:
    """Return one line ``NAME==VERSION`` for each requirement ``NAME>=VERSION``, sorted."""
    path = Path(__file__).parents[1] / "pyproject.toml"
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"]]
    for extra in (*EXTRAS, "test", "test-all"):
        wanted += project["optional-dependencies"][extra]
    found = (re.fullmatch(r"([\w.-]+)>=([\w.]+)(?:;.*)?", line) for line in wanted)
    oldest: dict[str, tuple[int, ...]] = {}  # the tests may need a newer one than asdffs itself
    for one in filter(None, found):
        oldest[one[1]] = max(oldest.get(one[1], ()), tuple(map(int, one[2].split("."))))
    return sorted(f"{name}=={'.'.join(map(str, oldest[name]))}" for name in oldest.keys() - {*NEWER})


if __name__ == "__main__":
    print("\n".join(constraints()))
