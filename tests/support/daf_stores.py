"""FilesDaf stores for tests: samples, generated ones, and the comparison that ``diff -r`` does."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from support.mounts import run

DATA = Path(__file__).parents[1] / "data" / "filesdaf"
DTYPES = {
    "Bool": "?",
    **{f"{u}Int{8 * n}": f"<{u.lower() or 'i'}{n}" for u in ("", "U") for n in (1, 2, 4, 8)},
    "Float32": "<f4",
    "Float64": "<f8",
}
#: For ``extractall``, which knows this word since Python 3.11.4, and warns without it from 3.12 on.
DATA_ONLY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
#: Names that YAML, paths or FilesDaf could take for something else.
ODD_NAMES = [
    *("yes", "no", "null", "~", "1", "1.0", "0x1f", "1e5", "true", "=", "<<", "-", "- a", "? b", "a: b", "#c", "%41"),
    *("&a", "*a", "!t", "|", ">", "'q'", '"d"', "{", "[", "a,b", "a.json", "x.nzval", ".hidden"),
    *("a b", " lead", "tail "),
    *("gène β", "名前", "🧬", "\x01", "\x7f", "\u2028", "\ufeff", "tab\there", "new\nline", "2001-01-01", "1:30"),
]


def sample(name: str, folder: Path) -> Path:
    """One of the samples, unpacked."""
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        archive.extractall(folder, **DATA_ONLY)
    return folder / f"{name}.daf"


class Builder:
    """Writes a store file by file."""

    def __init__(self, root: Path, version: tuple[int, int] = (1, 0)) -> None:
        self.root = root
        self.version = version
        self.raw("daf.json", json.dumps({"version": version}, separators=(",", ":")).encode() + b"\n")
        for section in ("scalars", "axes", "vectors", "matrices"):
            (root / section).mkdir()

    def raw(self, path: str | bytes, content: bytes) -> None:
        name = os.path.join(os.fsencode(self.root), os.fsencode(path))
        os.makedirs(os.path.dirname(name), exist_ok=True)
        with open(name, "wb") as file:
            file.write(content)

    def json(self, path: str, value: Any) -> None:
        self.raw(f"{path}.json", json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")

    def scalar(self, name: str, eltype: str, value: Any) -> None:
        self.json(f"scalars/{name}", {"type": eltype, "value": value})

    def axis(self, name: str, entries: list[str]) -> None:
        self.raw(f"axes/{name}.txt", "".join(f"{entry}\n" for entry in entries).encode())
        axes = [path.stem for path in (self.root / "axes").iterdir()]
        (self.root / "vectors" / name).mkdir(exist_ok=True)
        for other in axes:
            (self.root / "matrices" / name / other).mkdir(parents=True, exist_ok=True)
            (self.root / "matrices" / other / name).mkdir(parents=True, exist_ok=True)

    def dense(self, base: str, eltype: str, values: Any) -> None:
        self.json(base, {"format": "dense", "eltype": eltype})
        if eltype == "String":
            self.raw(f"{base}.txt", "".join(f"{value}\n" for value in values).encode())
        else:
            self.raw(f"{base}.data", np.asarray(values, DTYPES[eltype]).tobytes(order="F"))

    def sparse(self, base: str, eltype: str, indtype: str, parts: dict[str, Any], values: Any) -> None:
        """``values``: None for a Bool without them."""
        count = len(next(reversed(parts.values())))
        named = {**parts, **({} if values is None else {"nzval": values})}
        if self.version == (1, 0):
            self.json(base, {"format": "sparse", "eltype": eltype, "indtype": indtype})
        else:
            described = {
                part: {"format": "dense", "eltype": indtype if part in parts else eltype, "n_elements": len(what)}
                for part, what in named.items()
            }
            self.json(base, {"format": "sparse", **described})
        for part, what in parts.items():
            self.raw(f"{base}.{part}", np.asarray(what, DTYPES[indtype]).tobytes())
        if eltype == "String":
            self.raw(f"{base}.nztxt", "".join(f"{value}\n" for value in values).encode())
        elif values is not None:
            assert len(values) == count
            self.raw(f"{base}.nzval", np.asarray(values, DTYPES[eltype]).tobytes())


def generated(root: Path, version: tuple[int, int] = (1, 0), *, long: int = 100_000) -> Path:
    """Every type, sparse form, index type, empty axis, NaN payload, odd name; an axis of ``long`` entries."""
    root.mkdir()
    store = Builder(root, version)
    rng = np.random.default_rng(1)
    store.axis("cell", [f"c{n}" for n in range(5)])
    store.axis("empty", [])
    store.axis("long", [f"entry number {n}" for n in range(long)])
    store.axis("odd", [name for name in ODD_NAMES if "\n" not in name])
    for eltype, dtype in DTYPES.items():
        number = np.dtype(dtype)
        values = np.frombuffer(rng.bytes(5 * number.itemsize), number) if eltype != "Bool" else [1, 0, 1, 1, 0]
        store.dense(f"vectors/cell/d_{eltype}", eltype, values)
        store.dense(f"vectors/empty/d_{eltype}", eltype, [])
        store.dense(f"matrices/cell/empty/m_{eltype}", eltype, np.empty((5, 0)))
        store.dense(f"matrices/cell/cell/m_{eltype}", eltype, rng.integers(0, 2, (5, 5)))
        store.sparse(f"vectors/cell/s_{eltype}", eltype, "UInt32", {"nzind": [2, 5]}, [1, 0])
        indices = {"colptr": [1, 2, 2, 2, 2, 3], "rowval": [5, 1]}
        store.sparse(f"matrices/cell/cell/s_{eltype}", eltype, "UInt64", indices, [1, 1])
    for indtype in (name for name in DTYPES if "Int" in name):
        store.sparse(f"vectors/cell/i_{indtype}", "Float32", indtype, {"nzind": [1]}, [float("nan")])
    nans = np.array([0x7FF8_0000_0000_1234, 0xFFF0_0000_0000_0001, 0x7FF0_0000_0000_0000, 1, 0], "<u8")
    store.json("vectors/cell/nan", {"format": "dense", "eltype": "Float64"})
    store.raw("vectors/cell/nan.data", nans.tobytes())
    store.sparse("vectors/cell/implied", "Bool", "UInt32", {"nzind": [3]}, None)
    store.sparse("vectors/cell/words", "String", "UInt32", {"nzind": [1, 4]}, ["a", "gène"])
    store.sparse("vectors/cell/none", "Int8", "UInt32", {"nzind": []}, [])
    store.dense("vectors/cell/text", "String", ["", "yes", "1", "a: b", "🧬"])
    store.dense("matrices/cell/empty/text", "String", [])
    store.dense("vectors/long/number", "Int32", np.arange(long))
    store.dense("vectors/long/text", "String", [str(n) for n in range(long)])
    for number, name in enumerate(ODD_NAMES):
        store.scalar(name, "String", name)
        store.dense(f"vectors/cell/{name}", "Int16", np.arange(5) + number)
    for name, eltype, value in (
        *(("u64", "UInt64", (1 << 64) - 1), ("i64", "Int64", -(1 << 63)), ("f", "Float64", 1e-5), ("b", "Bool", 1)),
        *(("big", "Float32", 3.4e38), ("i", "Int8", -128), ("s", "String", 'héllo "q" \\ \n tab\t\u2028')),
    ):
        store.scalar(name, eltype, value)
    store.raw("scalars/spelled.json", b'{ "value" : 1.50, "type": "float64" }')
    store.raw("scalars/true.json", b'{"type":"Bool","value":true}\n')
    store.raw("vectors/cell/alias.json", b'{"eltype":"int","format":"dense"}')
    store.raw("vectors/cell/alias.data", bytes(40))
    store.raw("metadata.json", b'{"axes/cell":{"format":"axis","n_entries":5}}')
    store.raw("vectors/cell/packed.json", b'{"format":"dense","eltype":"Int8","packed_format":"zipped"}\n')
    store.raw("vectors/cell/packed.zip", b"PK" + bytes(3000))
    store.raw(b"unknown/\xff\xfe.bin", bytes(range(256)) * 8)
    store.raw("scalars/readme.txt", b"text\r\n")
    store.raw("axes/deep/er/file", b"")
    store.raw(".reorder.backup/axes/cell.txt", b"c0\n")
    (root / "hollow/inner").mkdir(parents=True)
    return root


def differences(one: Path, other: Path) -> str:
    """What ``diff -r`` says."""
    return run("diff", "-r", one, other).stdout


def tree_of(root: Path) -> dict[str, bytes | None]:
    """Every path, with the bytes of files: what diff(1) does not compare is there as well."""
    found: dict[str, bytes | None] = {}
    for folder, directories, names in os.walk(root):
        found |= {os.path.relpath(os.path.join(folder, name), root): None for name in directories}
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, root)] = file.read()
    return found
