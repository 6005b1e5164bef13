"""Counting how much one reads on a walk."""

from __future__ import annotations

import pytest

from testing.docs import ROOT
from testing.walks import Length, length_now, length_of, walks

FILES = {
    "a/one.py": """
def first():
    def inside():
        pass
    return inside


class Second:
    def method(self):
        return 1
""",
    "b/two.py": """
def third(): pass
""",
}


def test_functions_inside_functions_count_too_and_their_lines_once() -> None:
    assert length_of("a/one.py: first", FILES.__getitem__) == Length(functions=2, lines=4, files=1, rooms=0)


def test_a_file_that_one_comes_back_to_counts_once_and_each_change_of_room() -> None:
    walk = "a/one.py: first\nb/two.py: third\na/one.py: Second.method\n"
    assert length_of(walk, FILES.__getitem__) == Length(functions=4, lines=7, files=2, rooms=2)


def test_a_function_that_is_gone_is_named() -> None:
    with pytest.raises(KeyError, match="gone"):
        length_of("a/one.py: first gone", FILES.__getitem__)


@pytest.mark.parametrize("walk", walks(), ids=lambda walk: walk["name"])
def test_the_page_says_how_long_a_walk_is_now(walk: dict[str, str]) -> None:
    """What the walks were long ago is not looked up: a clone may have no history."""
    now = length_now(walk)
    rows = (ROOT / "docs" / "walks.md").read_text(encoding="utf-8").splitlines()
    (row,) = (row for row in rows if row.startswith((f"| {walk['name']} |", f"| [{walk['name']}](")))
    cells = [int(cell) for cell in row.split("|")[2:-1]]
    assert cells[1::2] == [now.functions, now.lines, now.files, now.rooms]
