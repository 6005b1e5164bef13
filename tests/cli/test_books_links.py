"""`tidings books` of many brokers: what crossed the links, what was spared, and a row for each broker."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cli.books import render
from clients.books import from_dict, links, to_dict
from streaming.model.books import Books
from streaming.model.outputs import Outcome, Unsent
from testing.commands import Said, Tidings


def of(received: int = 0, **outcomes: int) -> Books:
    """Books with so many messages of each outcome, all for one reason."""
    books = Books(received=received or sum(outcomes.values()))
    for outcome, count in outcomes.items():
        books.enter(Outcome(outcome), "some", count)
    return books


def pair() -> dict[str, Books]:
    """b1 passes 10 messages on to b2, which gathers and tells b1 of 3 events. One message is still on its way."""
    near, far = of(forwarded=10), of(redundant=4, merged=2, told=3)
    near.sent["b2", "PassedOn"] = 10
    far.heard["b1", "PassedOn"] = 9
    far.heard_bytes["b1"] = 1234
    far.sent["b1", "EventNews"] = 3
    far.sent["b1", "HandOver"] = 1
    near.heard["b2", "EventNews"] = 3
    near.heard["b2", "HandOver"] = 1
    near.heard_bytes["b2"] = 567
    far.unsent["b1", Unsent.KNOWN] = 4
    far.unsent["b1", Unsent.JOINED] = 2
    far.unsent["b1", Unsent.FILTERED] = 0
    return {"b1": near, "b2": far}


def shown(current: Mapping[str, Books], width: int = 130) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(render(current))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def cells(line: str) -> list[str]:
    """The cells of a row: two spaces part them."""
    return [cell.strip() for cell in line.strip().split("  ") if cell]


def table(lines: list[str], title: str) -> list[list[str]]:
    """The rows of the table of that title, its heading first."""
    start = lines.index(title) + 2
    rows = [cells(line) for line in lines[start:] if line.strip(" ─")]
    assert rows
    return rows


# ---- links ------------------------------------------------------------------------------------------------------------


def test_a_link_is_counted_at_both_ends_and_each_direction_for_itself() -> None:
    assert links(pair()) == [
        {
            "from": "b1",
            "to": "b2",
            "sent": 10,
            "messages": 9,
            "bytes": 1234,
            "kinds": {"publications": 9, "events": 0, "handovers": 0},
            "unsent": 0,
            "reasons": {},
        },
        {
            "from": "b2",
            "to": "b1",
            "sent": 4,
            "messages": 4,
            "bytes": 567,
            "kinds": {"publications": 0, "events": 3, "handovers": 1},
            "unsent": 6,
            "reasons": {"joined": 2, "known": 4},
        },
    ]


def test_neighbours_are_kept_apart() -> None:
    hub = of(forwarded=3)
    hub.sent["b2", "PassedOn"] = 1
    hub.sent["b3", "PassedOn"] = 2
    hub.unsent["b2", "known"] = 5
    left, right = of(told=1), of(told=2)
    left.heard["b1", "PassedOn"] = 1
    right.heard["b1", "PassedOn"] = 2
    found = links({"b1": hub, "b2": left, "b3": right})
    assert [(x["from"], x["to"], x["sent"], x["messages"], x["unsent"]) for x in found] == [
        ("b1", "b2", 1, 1, 5),
        ("b1", "b3", 2, 2, 0),
    ]


def test_a_link_is_there_when_only_one_end_has_books_or_nothing_had_to_cross() -> None:
    only_sent, only_spared, only_heard = Books(), Books(), Books()
    only_sent.sent["b9", "PassedOn"] = 2
    only_spared.unsent["b9", "filtered"] = 7
    only_heard.heard["b9", "EventNews"] = 1
    found = links({"b1": only_sent, "b2": only_spared, "b3": only_heard})
    assert [(x["from"], x["to"], x["sent"], x["messages"], x["unsent"]) for x in found] == [
        ("b1", "b9", 2, 0, 0),
        ("b2", "b9", 0, 0, 7),
        ("b9", "b3", 0, 1, 0),
    ]


def test_a_count_of_zero_makes_no_link() -> None:
    books = of(told=1)
    books.unsent["b2", "joined"] = 0
    assert links({"b1": books}) == []


def test_the_whole_as_a_dict_lists_links_beside_brokers_and_reads_back() -> None:
    current = pair()
    said = json.loads(json.dumps(to_dict(current)))
    assert said["links"] == links(current)
    assert (said["received"], said["forwarded"], said["balanced"]) == (19, 10, True)
    assert from_dict(said) == {name: Books.from_dict(books.to_dict()) for name, books in current.items()}
    assert links(from_dict(said)) == links(current)


# ---- tables -----------------------------------------------------------------------------------------------------------


def test_a_row_for_each_direction_of_a_link() -> None:
    heading, first, second = table(shown(pair()), "Links")
    assert heading == ["from", "to", "messages", "bytes", "of which", "spared", "because", "in flight or lost"]
    assert first == ["b1", "b2", "9", "1,234", "publications 9", "0", "1"]
    assert second == ["b2", "b1", "4", "567", "events 3, hand-overs 1", "6", "joined 2, known 4"]


def test_nothing_is_said_of_what_is_in_flight_when_nothing_is() -> None:
    current = pair()
    current["b2"].heard["b1", "PassedOn"] = 10
    assert table(shown(current), "Links")[0][-1] == "because"
    assert "lost" not in "\n".join(shown(current))


def test_without_links_there_is_no_table_of_them() -> None:
    lines = shown({"b1": of(told=2)})
    assert "Links" not in lines
    assert "Broker b1" in lines


def test_forwarded_is_an_outcome_like_the_others() -> None:
    lines = shown({"b1": of(told=1, forwarded=3)})
    assert [line.replace(" ", "") for line in lines if "forwarded" in line] == ["│forwarded│3│75.0%│some3│"]
    assert any("passed on to other brokers" in line for line in shown({"b1": of(told=1)}))


@pytest.mark.parametrize("count", [1, 3])
def test_few_brokers_have_a_table_each(count: int) -> None:
    lines = shown({f"b{n}": of(told=1) for n in range(count)})
    assert [line for line in lines if line.startswith("Broker ")] == [f"Broker b{n}" for n in range(count)]


def test_many_brokers_have_a_row_each_and_a_sum() -> None:
    current = {f"b{n}": of(told=n, redundant=1000) for n in range(1, 5)}
    current["b4"].notifications["first"] = 5
    heading, *rows = table(shown(current), "4 brokers")
    assert heading == [
        *("broker", "received", "told", "forwarded", "merged", "redundant", "late", "dead-lettered", "held"),
        *("suppressed", "balanced"),
    ]
    assert rows[0] == ["b1", "1,001", "1", "0", "0", "1,000", "0", "0", "0", "99.9%", "yes"]
    assert rows[4] == ["all", "4,010", "10", "0", "0", "4,000", "0", "0", "0", "99.8%"]
    assert rows[5] == ["5 notifications (first 5); the books balance"]


def test_one_broker_cannot_make_up_for_what_another_lacks() -> None:
    current = {f"b{n}": of(told=10) for n in range(4)}
    current["b0"].received += 1
    current["b1"].received -= 1
    rows = table(shown(current), "4 brokers")
    assert [row[-1] for row in rows[1:5]] == ["NO", "NO", "yes", "yes"]
    assert rows[-1] == ["0 notifications; THE BOOKS DO NOT BALANCE"]


def test_no_figure_is_cut_on_a_narrow_terminal() -> None:
    current = {f"b{n}": of(told=12_345, redundant=123_456) for n in range(5)}
    current["b0"].sent["b1", "PassedOn"] = 1_234_567
    lines = shown(current, width=80)
    assert max(map(len, lines)) <= 80
    assert "…" not in "\n".join(lines)


def test_a_broker_that_only_hears_of_events_is_shown() -> None:
    listening = Books()
    listening.heard["b1", "EventNews"] = 2
    listening.notifications["first"] = 2
    lines = shown({"b1": of(forwarded=2), "b2": listening, "idle": Books()})
    assert [line for line in lines if line.startswith("Broker ")] == ["Broker b1", "Broker b2"]
    assert "2 notifications (first 2); the books balance" in lines


def test_before_anything_came_there_are_no_tables() -> None:
    assert shown({"b1": Books()}) == ["Nothing has been received yet."]


# ---- windows ----------------------------------------------------------------------------------------------------------


def windowed() -> dict[str, Books]:
    """b1 decided for windows over its links to b2 and b3; b2 for none."""
    current = pair()
    counts = {"forward": 3, "aggregate": 7, "sent": 1300, "would-forward": 4000, "would-aggregate": 1000, "would-wad": 1}
    current["b1"].windows.update({("b2", word): count for word, count in counts.items()} | {("b3", "aggregate"): 2})
    return current


def test_windows_have_a_table_of_their_own() -> None:
    heading, first, second, whole = table(shown(windowed()), "Windows")
    assert heading == [
        *("from", "to", "windows", "forwarded", "aggregated", "crossed", "always forward", "saved"),
        *("always aggregate", "saved"),
    ]
    assert first == ["b1", "b2", "10", "3", "7", "1,300", "4,000", "68%", "1,000", "-30%"]
    assert second == ["b1", "b3", "2", "0", "2", "0", "0", "0"]
    assert whole == ["all", "12", "3", "9", "1,300", "4,000", "68%", "1,000", "-30%"]


def test_what_windows_asked_for_adds_up_or_is_on_the_way() -> None:
    current = pair()
    current["b1"].window_items.update({("b2", "offered"): 7, ("b2", "counted"): 4, ("b2", "late"): 1, ("b2", "left-out"): 1})
    assert shown(current)[-1] == "for windows: offered 7, counted 4, late 1, left out 1; 1 on the way"
    current["b2"].window_items["", "counted"] += 1
    assert shown(current)[-1].endswith("; they add up")


def test_without_windows_there_is_no_table_of_them() -> None:
    assert "Windows" not in shown(pair())


def test_no_figure_of_a_window_is_cut_on_a_narrow_terminal() -> None:
    lines = shown(windowed(), width=80)
    assert max(map(len, lines)) <= 80
    assert "…" not in "\n".join(lines)


# ---- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def books(tidings: Tidings, tmp_path: Path) -> Callable[..., Said]:
    """`tidings books` of a service that has stopped."""

    def command(current: Mapping[str, Books], *options: str) -> Said:
        (tmp_path / "books.json").write_text(json.dumps(to_dict(current)))
        return tidings("books", "--dir", str(tmp_path), *options)

    return command


def test_the_command_prints_links_as_json_and_as_a_table(books: Callable[..., Said]) -> None:
    said: Any = json.loads(books(pair(), "--json").out)
    assert [(x["from"], x["to"]) for x in said["links"]] == [("b1", "b2"), ("b2", "b1")]
    assert sorted(said["brokers"]) == ["b1", "b2"]
    assert "in flight or lost" in books(pair()).out


def test_the_command_prints_windows_as_json_and_as_a_table(books: Callable[..., Said]) -> None:
    said: Any = json.loads(books(windowed(), "--json").out)
    assert said["brokers"]["b1"]["links"]["windows"]["b2"]["would-forward"] == 4000
    assert "always aggregate" in books(windowed()).out


def test_the_exit_code_is_1_if_one_of_many_does_not_balance(books: Callable[..., Said]) -> None:
    current = {f"b{n}": of(told=10) for n in range(5)}
    assert books(current).code == 0
    current["b3"].received += 1
    assert books(current).code == 1
