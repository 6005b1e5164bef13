"""Every function that a page names with its file, as `broker/step.py:step`, is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMED = re.compile(r"`([\w/]+\.py):([\w.]+)`")
PAGES = sorted(page for page in ROOT.glob("docs/*.md") if NAMED.search(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_function_that_a_page_names_is_there(page: Path) -> None:
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    assert [f"{path}:{name}" for path, name in named if name not in _defined(path)] == []


def _defined(path: str) -> set[str]:
    """The functions, classes and methods of a file, which is named from the root or from `streaming/`."""
    [file] = [place for place in (ROOT / path, ROOT / "streaming" / path) if place.exists()] or [None]
    if file is None:
        return set()
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found
