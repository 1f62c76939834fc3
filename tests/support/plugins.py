"""Packages of others with plug-ins, as an installer leaves them in a directory of PYTHONPATH."""

from __future__ import annotations

from pathlib import Path


def install(site: Path, name: str, module: str, points: dict[str, str], plugin: str = "PLUGIN") -> None:
    """Write a package with the source ``module`` into ``site``; ``points``: group -> name of an entry point."""
    info = site / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    (site / f"{name}.py").write_text(module)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    lines = [f"[asdffs.{group}]\n{point} = {name}:{plugin}\n" for group, point in points.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
