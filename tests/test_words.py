"""A word names one thing: in the code, and in `docs/words.md`."""

from __future__ import annotations

import re
from collections import defaultdict

from testing.docs import GLOSSARY, ROOT, modules, public_classes

WORDS = (ROOT / "docs" / "words.md").read_text(encoding="utf-8")


def test_a_public_class_name_stands_once() -> None:
    found = defaultdict(list)
    for path, tree in modules():
        for node in public_classes(tree):
            found[node.name].append(path.relative_to(ROOT).as_posix())
    assert not {name: places for name, places in found.items() if len(places) > 1}


def test_every_module_and_class_of_the_logic_is_among_the_words() -> None:
    words = set(re.findall(r"^\| `([^`]+)` \|", WORDS, re.MULTILINE))
    for path, tree in modules():
        where = path.relative_to(ROOT)
        if where.parts[0] in GLOSSARY and not path.stem.startswith("__"):
            assert ".".join(where.with_suffix("").parts) in words
            assert {node.name for node in public_classes(tree)} <= words


def test_the_clerks_office_is_explained_in_a_few_lines() -> None:
    [office] = re.findall(r"## The clerk's office\n(.*?)\n## ", WORDS, re.DOTALL)
    assert len([line for line in office.splitlines() if line]) <= 12
    for word in ("books", "ledger", "desk", "enter", "settle", "put aside", "told"):
        assert word in office
