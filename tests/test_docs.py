"""What the documents say is so: tables, links, and the files and functions that they name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path

import pytest

from streaming.model.outputs import Outcome
from testing.docs import ROOT, TABLES, error_classes, meanings, pages, rendered, sections, table
from tidings import errors

PAGES = pages()
WIDEST = 120


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


# ---- tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_tables_are_what_the_code_says(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == rendered(text), "write it anew with `make docs`"


def test_every_table_stands_somewhere() -> None:
    there = {name for page in PAGES for name in sections(page.read_text(encoding="utf-8"))}
    assert there == TABLES.keys()


def test_a_word_that_does_not_say_what_it_means_is_refused() -> None:
    class Sparse(StrEnum):
        SAID = "said"
        """So it is."""
        UNSAID = "unsaid"

    with pytest.raises(ValueError, match=r"Sparse must say below UNSAID what it means"):
        meanings(Sparse)


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert table(("a", "b"), [("x|y", "z")]) == "| a | b |\n|---|---|\n| x\\|y | z |\n"


def test_the_sum_of_the_books_has_every_outcome() -> None:
    [said] = re.findall(r"`received = ([^`]+)`", text_of("docs/events.md"))
    assert set(said.split(" + ")) == {str(outcome) for outcome in Outcome}


def test_the_tree_of_errors_has_all_of_them() -> None:
    drawn = re.findall(r"^[│ ]*[├└]── (\w+)", errors.__doc__ or "", re.MULTILINE)
    assert sorted(drawn) == sorted(each.name for each in error_classes())


# ---- form -------------------------------------------------------------------------------------------------------------


def test_the_readme_is_short() -> None:
    assert len(text_of("README.md").splitlines()) <= 170


@pytest.mark.parametrize("page", [page for page in PAGES if not page.name[:4].isdigit()], ids=named)
def test_no_line_is_too_long(page: Path) -> None:
    """Tables have no lines to break, and what a command printed is shown as it was."""
    text = re.sub(r"^```console$.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    long = [line for line in text.splitlines() if len(line) > WIDEST and not line.startswith("|")]
    assert not long


# ---- links ------------------------------------------------------------------------------------------------------------


def links(page: Path) -> Iterator[tuple[str, str]]:
    """The relative links of a page: the path, and the anchor."""
    for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page.read_text(encoding="utf-8"))):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield path, anchor


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them, and those that it names itself."""
    text = without_blocks(page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    named_so = set(re.findall(r'<a (?:id|name)="([^"]+)">', text))
    return named_so | {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "docker" / "README.md", ROOT / "CHANGELOG.md"], ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    dead = []
    for path, anchor in links(page):
        target = page.parent / path if path else page
        if not target.exists():
            dead.append(path)
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            dead.append(f"{path}#{anchor}")
    assert not dead


# ---- what is named ----------------------------------------------------------------------------------------------------


@cache
def defined(path: Path) -> frozenset[str]:
    """The functions and classes of a module, and the methods of those."""
    found = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        if isinstance(node, ast.ClassDef):
            found += [f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)]
    return frozenset(found)


NOW = [page for page in PAGES if "decisions" not in page.parts]
"""A decision tells of its own day: what it names may be gone."""


@pytest.mark.parametrize("page", NOW, ids=named)
def test_every_file_that_is_named_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"`((?:[\w.-]+/)+(?:[\w.-]+\.(?:py|md|toml|lark|avsc|json))?)(?:::?[\w.:]+)?`", text)
    ours = [name for name in found if (ROOT / name.partition("/")[0]).is_dir()]
    assert not [name for name in ours if not (ROOT / name).exists()]


@pytest.mark.parametrize("page", NOW, ids=named)
def test_every_function_that_is_named_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    asked = re.findall(r"`((?:\w+/)+\w+\.py)::?([A-Za-z_][\w.]*)`", text)
    assert not [f"{path}:{name}" for path, name in asked if name not in defined(ROOT / path)]


def test_the_walks_are_walks() -> None:
    assert len(re.findall(r"`(?:\w+/)+\w+\.py:\w", text_of("docs/overview.md"))) >= 20


def test_every_room_is_in_the_overview() -> None:
    [drawn] = re.findall(r"## The rooms.*?```\n(.*?)```", text_of("docs/overview.md"), re.DOTALL)
    rooms = {path.parent.relative_to(ROOT) for path in ROOT.glob("*/__init__.py")}
    rooms |= {path.parent.relative_to(ROOT) for path in (ROOT / "streaming").glob("*/__init__.py")}
    assert not [str(room) for room in sorted(rooms) if not re.search(rf"^ *{room.name}/\s", drawn, re.MULTILINE)]
