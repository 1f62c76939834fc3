"""Writes plain values as YAML, without tags, anchors and aliases, in their order."""

from __future__ import annotations

from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def as_yaml(value: Any, *, block: bool = False) -> str:
    """Return the YAML text of a plain value, without the line end behind it.

    ``block``: everything in block style; else collections of scalars are in flow style, on one line.
    """
    style = False if block else None
    text: str = yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, default_flow_style=style)
    return text.removesuffix("\n").removesuffix("\n...")
