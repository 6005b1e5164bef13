"""The examples in docstrings, and those of the manual that are typed in, are what the code does."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("tidings", "topology", "streaming", "clients", "producers", "audit", "experiments", "service", "demo", "cli", "testing")
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for room in ROOMS
    for path in (ROOT / room).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples(name: str):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


def test_examples_of_the_world_in_memory():
    found = doctest.testfile(str(ROOT / "docs" / "testing.md"), module_relative=False)
    assert found.attempted > 0
    assert found.failed == 0
