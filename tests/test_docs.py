"""What the documents list is what there is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import pytest

from service.watch.metrics import ServiceCollector
from streaming.model.books import Books
from streaming.model.outputs import MessageReason, Outcome
from tidings.errors import Unreadable
from tidings.notification import Reason

ROOT = Path(__file__).parent.parent
DECISIONS = ROOT / "docs" / "decisions"


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def table(name: str, *head: str) -> list[list[str]]:
    """The rows of the one table that has these columns; a cell that is empty has what stands above it."""
    lines = text_of(name).splitlines()
    [start] = [number for number, line in enumerate(lines) if _cells(line) == list(head)]
    rows: list[list[str]] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        above = rows[-1] if rows else [""] * len(head)
        rows.append([cell or before for cell, before in zip(_cells(line), above, strict=True)])
    return rows


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []


def words(texts: Iterable[str]) -> set[str]:
    """What stands in the marks of code."""
    return {word for text in texts for word in re.findall(r"`([^`]+)`", text)}


def members(*enums: type[StrEnum]) -> set[str]:
    return {str(member) for enum in enums for member in enum}


def test_every_decision_has_its_row() -> None:
    rows = [row[0] for row in table("docs/decisions/README.md", "", "decision", "in short")]
    files = sorted(path.name for path in DECISIONS.glob("[0-9]*.md"))
    assert rows == [f"[{name[:4]}]({name})" for name in files]


@pytest.mark.parametrize(("name", "column"), [("README.md", "`reason`"), ("docs/design.md", "reason")])
def test_every_reason_of_a_notification_is_in_the_table(name: str, column: str) -> None:
    assert words(row[0] for row in table(name, column, "means")) == members(Reason)


def test_every_reason_of_a_dead_letter_is_listed() -> None:
    listed = re.search(r"the members of `Unreadable` in `tidings/errors.py`:(.*?)\.\n", text_of("docs/design.md"), re.DOTALL)
    assert listed is not None
    assert words([listed[1]]) == members(Unreadable)


def test_every_outcome_and_reason_of_the_books_is_in_their_table() -> None:
    rows = table("docs/design.md", "outcome", "reasons", "means")
    assert words(row[0] for row in rows) == members(Outcome)
    reasons = words(row[1] for row in rows)
    assert members(MessageReason) <= reasons <= members(MessageReason, Reason, Unreadable)
    told = words(row[1] for row in rows if row[0] == "`told`")
    assert told == members(Reason) - {Reason.HEARTBEAT, Reason.AGGREGATE}, "those two stand for no message"


def test_the_sum_of_the_books_has_every_outcome() -> None:
    [said] = re.findall(r"`received = ([^`]+)`", text_of("docs/design.md"))
    assert set(said.split(" + ")) == members(Outcome)


def test_every_metric_is_in_the_table() -> None:
    collector = ServiceCollector(lambda: {"b1": Books()}, dict, lambda: (0, 0, 0))
    exported = {f"{each.name}_total" if each.type == "counter" else each.name for each in collector.collect()}
    assert exported <= words(row[0] for row in table("docs/operations.md", "metric", "labels", "counts"))
