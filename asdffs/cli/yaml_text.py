"""Writes plain values as YAML, without tags, anchors and aliases, in their order."""

from __future__ import annotations

from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def as_yaml(value: Any) -> str:
    """Return the YAML text of a plain value, without the line end behind it."""
    text: str = yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, default_flow_style=None)
    return text.removesuffix("\n").removesuffix("\n...")
