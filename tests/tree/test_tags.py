"""Tags that are found without parsing.  Oracle: the tags of the events of PyYAML."""

from __future__ import annotations

import itertools

import pytest
import yaml

from asdffs.tree.tags import has_only_tags

KNOWN = ("tag:stsci.edu:asdf/", "tag:yaml.org,2002:", "asdf://known.org/")
DIRECTIVES = (
    "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- ",
    "%YAML 1.1\n--- ",
    "%YAML 1.1\n%TAG ! tag:other.org:x/\n--- ",
    "%YAML 1.1\n%TAG !e! tag:other.org:x/\n%TAG ! tag:stsci.edu:asdf/\n--- ",
    "%YAML 1.1\n%TAG !! tag:other.org:x/\n%TAG ! tag:stsci.edu:asdf/\n---\n",
    '%YAML 1.1\n--- {text: "a\n%TAG ! tag:stsci.edu:asdf/\nb"}\n...\n%TAG ! tag:other.org:x/\n--- ',
)
TREES = (
    "{}", "!core/asdf-1.1.0 {a: 1}", "{a: !other 1}", "{a: !<asdf://known.org/x> 1}",
    "{a: !<asdf://strange.org/x> 1}",
    "{a: !!str 1}", "{a: ! 1}", "{a: !<asdf://known.org/%41> 1}", "{a: !core/%2e 1}", "[!core/a , !core/b 1]",
    "{!core/key a: 1}", "{a: &b !core/c 1}", "{a: !core/c &b 1}", "{a: '!other', b: \"!<x>\"}",
)  # fmt: skip


@pytest.mark.parametrize(("directives", "tree"), [*itertools.product(DIRECTIVES, TREES)])
def test_it_says_yes_only_if_all_tags_are_known(directives: str, tree: str) -> None:
    text = f"#ASDF 1.0.0\n{directives}{tree}\n...\n"
    tags = {getattr(event, "tag", None) for event in yaml.parse(text, Loader=yaml.CSafeLoader)} - {None}
    known = all(tag.startswith(KNOWN) or tag == "!" for tag in tags)
    assert known or not has_only_tags(text.encode(), KNOWN)


@pytest.mark.parametrize("tree", ["{}", "!core/asdf-1.1.0 {a: 1}", "{a: !<asdf://known.org/x> 1}", "{a: !!str 1}"])
def test_it_says_yes_to_usual_trees(tree: str) -> None:
    assert has_only_tags(f"#ASDF 1.0.0\n{DIRECTIVES[0]}{tree}\n...\n".encode(), KNOWN)
