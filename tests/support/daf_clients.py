"""What the two clients of FilesDaf do to a directory, call by call, in their orders; on a mount or a plain one.

``julia``: descriptor first, then the payload, written, or filled through a shared map; an index of all descriptors in
``metadata.json`` is cut by one byte and appended to after each property, and made anew beside it and renamed after a
removal; axes are reordered under hard links.  ``r``: payload first, then the descriptor; files are removed before
they are created anew, with permissions set before; copies where hard links fail.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

VECTOR_SUFFIXES = (".json", ".txt", ".data", ".zip", ".nzind", ".nzind.zip", ".nzval", ".nzval.zip", ".nztxt")
CODES = {
    "Bool": "?",
    "Int8": "b",
    "Int16": "h",
    "Int32": "i",
    "UInt32": "I",
    "Int64": "q",
    "Float32": "f",
    "Float64": "d",
}


def packed(eltype: str, values: list[Any]) -> bytes:
    return struct.pack(f"<{len(values)}{CODES[eltype]}", *values)


class Julia:
    """One store at ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        if not (root / "daf.json").exists():
            (root / "daf.json").write_text('{"version":[1,1]}\n')
            for name in ("scalars", "axes", "vectors", "matrices"):
                (root / name).mkdir()
        if not (root / "metadata.json").exists():
            self.rebuild()

    # -- metadata.json --------------------------------------------------------

    def append(self, key: str, descriptor: bytes) -> None:
        path = self.root / "metadata.json"
        size = path.stat().st_size
        with open(path, "r+b") as file:
            file.truncate(size - 1)
            file.seek(0, os.SEEK_END)
            comma = b"" if size == 2 else b","
            file.write(comma + json.dumps(key).encode() + b":" + descriptor.rstrip(b"\n") + b"}")

    def rebuild(self) -> None:
        entries: dict[str, Any] = {}
        for axis in sorted(os.listdir(self.root / "axes")):
            count = (self.root / "axes" / axis).read_bytes().count(b"\n")
            entries[f"axes/{axis[:-4]}"] = {"format": "axis", "n_entries": count}
        for section in ("scalars", "vectors", "matrices"):
            for folder, directories, names in os.walk(self.root / section):
                directories.sort()
                for name in sorted(names):
                    if name.endswith(".json"):
                        key = os.path.relpath(os.path.join(folder, name[:-5]), self.root)
                        entries[key] = json.loads(Path(folder, name).read_bytes())
        staging = self.root / "metadata.json.new"
        staging.write_text(json.dumps(entries, separators=(",", ":")))
        os.rename(staging, self.root / "metadata.json")

    def write_json(self, key: str, value: Any) -> None:
        raw = json.dumps(value, separators=(",", ":")).encode() + b"\n"
        (self.root / f"{key}.json").write_bytes(raw)
        self.append(key, raw)

    # -- properties -----------------------------------------------------------

    def set_scalar(self, name: str, eltype: str, value: Any) -> None:
        self.write_json(f"scalars/{name}", {"type": eltype, "value": value})

    def delete_scalar(self, name: str) -> None:
        (self.root / f"scalars/{name}.json").unlink()
        self.rebuild()

    def add_axis(self, axis: str, entries: list[str]) -> None:
        with open(self.root / f"axes/{axis}.txt", "w") as file:
            for entry in entries:
                print(entry, file=file)
        (self.root / "vectors" / axis).mkdir()
        (self.root / "matrices" / axis).mkdir()
        for other in [name[:-4] for name in os.listdir(self.root / "axes")]:
            (self.root / "matrices" / other / axis).mkdir()
            if other != axis:
                (self.root / "matrices" / axis / other).mkdir()
        self.append(f"axes/{axis}", json.dumps({"format": "axis", "n_entries": len(entries)}).encode())

    def delete_axis(self, axis: str) -> None:
        (self.root / f"axes/{axis}.txt").unlink()
        shutil.rmtree(self.root / "vectors" / axis)
        shutil.rmtree(self.root / "matrices" / axis)
        for other in [name[:-4] for name in os.listdir(self.root / "axes")]:
            shutil.rmtree(self.root / "matrices" / other / axis)
        self.rebuild()

    def set_dense(self, base: str, eltype: str, values: list[Any]) -> None:
        self.write_json(base, {"format": "dense", "eltype": eltype})
        (self.root / f"{base}.data").write_bytes(packed(eltype, values))

    def set_strings(self, base: str, values: list[str]) -> None:
        self.write_json(base, {"format": "dense", "eltype": "String"})
        with open(self.root / f"{base}.txt", "w") as file:
            for value in values:
                print(value, file=file)

    def fill_dense(self, base: str, eltype: str, values: list[Any]) -> None:
        """An array that is filled through a map: the file grows by one byte at its end."""
        self.write_json(base, {"format": "dense", "eltype": eltype})
        self.filled(f"{base}.data", packed(eltype, values))

    def filled(self, name: str, raw: bytes) -> None:
        with open(self.root / name, "wb") as file:
            if raw:
                file.seek(len(raw) - 1)
                file.write(b"\0")
        if raw:
            with open(self.root / name, "r+b") as file, mmap.mmap(file.fileno(), len(raw)) as mapped:
                mapped[:] = raw

    def set_sparse(self, base: str, eltype: str, parts: dict[str, list[int]], values: list[Any]) -> None:
        described = {
            part: {"format": "dense", "eltype": "UInt32", "n_elements": len(indices)}
            for part, indices in parts.items()
        }
        if eltype != "Bool":
            described["nzval"] = {"format": "dense", "eltype": eltype, "n_elements": len(values)}
        self.write_json(base, {"format": "sparse", **described})
        for part, indices in parts.items():
            self.filled(f"{base}.{part}", packed("UInt32", indices))
        if eltype != "Bool":
            self.filled(f"{base}.nzval", packed(eltype, values))

    def delete(self, base: str) -> None:
        for suffix in (*VECTOR_SUFFIXES, ".colptr", ".rowval"):
            (self.root / f"{base}{suffix}").unlink(missing_ok=True)
        self.rebuild()

    def modify(self, base: str, change: Callable[[mmap.mmap], None]) -> None:
        """Write into what is there, through a map."""
        with open(self.root / f"{base}.data", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            change(mapped)

    # -- reordering -----------------------------------------------------------

    def reorder(self, axis: str, order: list[int], *, crash: bool = False) -> None:
        """Another order of an axis; with ``crash`` it stops half-way, and ``reset`` takes it back."""
        backup = self.root / ".reorder.backup"
        backup.mkdir()
        (backup / "axes").mkdir()
        os.link(self.root / f"axes/{axis}.txt", backup / f"axes/{axis}.txt")
        (backup / "vectors" / axis).mkdir(parents=True)
        for name in sorted(os.listdir(self.root / "vectors" / axis)):
            os.link(self.root / "vectors" / axis / name, backup / "vectors" / axis / name)
        entries = (self.root / f"axes/{axis}.txt").read_text().split("\n")[:-1]
        (self.root / f"axes/{axis}.txt").unlink()
        (self.root / f"axes/{axis}.txt").write_text("".join(f"{entries[n]}\n" for n in order))
        for name in sorted(os.listdir(self.root / "vectors" / axis)):
            if name.endswith(".data"):
                self._reorder_data(f"vectors/{axis}/{name[:-5]}", order)
                if crash:
                    return
        self.rebuild()
        shutil.rmtree(backup)

    def _reorder_data(self, base: str, order: list[int]) -> None:
        with open(self.root / f"{base}.data", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as old:
            descriptor = json.loads((self.root / f"{base}.json").read_bytes())
            size = len(old) // len(order)
            (self.root / f"{base}.data").unlink()
            (self.root / f"{base}.json").unlink()
            self.write_json(base, descriptor)
            self.filled(f"{base}.data", b"".join(old[n * size : (n + 1) * size] for n in order))

    def reset(self) -> None:
        """Put back what a reordering that stopped has linked."""
        backup = self.root / ".reorder.backup"
        for folder, _, names in os.walk(backup):
            for name in names:
                path = Path(folder, name)
                live = self.root / path.relative_to(backup)
                live.unlink(missing_ok=True)
                os.link(path, live)
        shutil.rmtree(backup)
        self.rebuild()


class R:
    """One store at ``root``: payload first."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, raw: bytes) -> None:
        path = self.root / name
        if path.exists():
            path.chmod(0o600)
            path.unlink()
        with open(path, "wb") as file:
            file.write(raw)

    def set_scalar(self, name: str, eltype: str, value: Any) -> None:
        self.write(
            f"scalars/{name}.json", json.dumps({"value": value, "type": eltype}, separators=(",", ":")).encode()
        )

    def set_dense(self, base: str, eltype: str, values: list[Any]) -> None:
        self.write(f"{base}.data", packed(eltype, values))
        self.write(f"{base}.json", b'{"format":"dense","eltype":"' + eltype.encode() + b'"}\n')

    def set_strings(self, base: str, values: list[str]) -> None:
        self.write(f"{base}.txt", "".join(f"{value}\n" for value in values).encode())
        self.write(f"{base}.json", b'{"format":"dense","eltype":"String"}\n')

    def set_sparse(self, base: str, eltype: str, parts: dict[str, list[int]], values: list[Any]) -> None:
        for part, indices in parts.items():
            self.write(f"{base}.{part}", packed("UInt32", indices))
        if eltype != "Bool":
            self.write(f"{base}.nzval", packed(eltype, values))
        self.write(f"{base}.json", json.dumps({"format": "sparse", "eltype": eltype, "indtype": "UInt32"}).encode())

    def overwrite(self, base: str, raw: bytes) -> None:
        """Without creating: cut to nothing, then written."""
        with open(self.root / f"{base}.data", "r+b") as file:
            file.truncate(0)
            file.write(raw)

    def copy_aside(self, base: str) -> None:
        """What it does for a reorder: copies, then renames."""
        for name in (f"{base}.data", f"{base}.json"):
            shutil.copyfile(self.root / name, self.root / f"{name}.new")
            os.rename(self.root / f"{name}.new", self.root / name)


def script(root: Path) -> None:
    """Every operation, in the orders of both clients."""
    julia, r = Julia(root), R(root)
    julia.set_scalar("organism", "String", "human")
    julia.set_scalar("depth", "Float64", 1e-5)
    r.set_scalar("n", "Int64", 7)
    r.set_scalar("n", "Int64", 8)
    julia.add_axis("cell", [f"c{n}" for n in range(6)])
    julia.add_axis("gene", ["BRCA1", "TP53", "gène β"])
    julia.set_dense("vectors/cell/age", "Float32", [1, 2, 3, 4, 5, float("nan")])
    r.set_dense("vectors/cell/score", "Int16", [5, 4, 3, 2, 1, 0])
    r.set_dense("vectors/cell/score", "Int64", [9, 8, 7, 6, 5, 4])
    julia.set_strings("vectors/cell/batch", ["x", "", "y", "z z", "é", "x"])
    r.set_strings("vectors/gene/desc", ["a", "b", "c" * 2000])
    julia.fill_dense("matrices/cell/gene/UMIs", "Int16", list(range(18)))
    julia.set_sparse("matrices/cell/gene/sp", "Float64", {"colptr": [1, 2, 2, 3], "rowval": [4, 1]}, [0.5, 0.25])
    r.set_sparse("vectors/cell/marker", "Bool", {"nzind": [2, 5]}, [])
    julia.set_sparse("vectors/gene/weight", "Int8", {"nzind": [3]}, [-1])
    julia.modify("vectors/cell/age", lambda mapped: mapped.__setitem__(slice(0, 4), packed("Float32", [-1.5])))
    r.overwrite("vectors/cell/score", packed("Int64", [1, 2, 3, 4, 5, 6]))
    r.copy_aside("matrices/cell/gene/UMIs")
    julia.reorder("cell", [5, 4, 3, 2, 1, 0])
    julia.reorder("cell", [1, 0, 2, 3, 4, 5], crash=True)
    julia.reset()
    julia.delete("vectors/cell/marker")
    julia.delete_scalar("depth")
    julia.add_axis("extra", ["one"])
    julia.set_dense("vectors/extra/v", "Bool", [True])
    julia.delete_axis("extra")
    (root / "notes.txt").write_text("not of FilesDaf\n")
    (root / "vectors/cell/odd.json").write_text("{")
    (root / "more/deep").mkdir(parents=True)
