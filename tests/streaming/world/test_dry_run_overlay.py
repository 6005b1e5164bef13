"""Links that are cut and healed, a gatherer that moves, subscriptions that come: as files for `tidings check`.

Each of these once left somebody without a field, and nothing said so. In the end all links are there, and every event is open.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from streaming.broker.state import Rules
from streaming.wire.message import MessageLimits, decode_message
from streaming.world.dry_run import DryRun, dry_run
from streaming.world.records import broker, link, snapshot, subscription
from streaming.world.script import MessageLine, read_happenings
from tidings import event as events
from tidings.control import Snapshot
from tidings.topic import Timing

FILES = Path(__file__).parent / "overlay_changes"
CASES = [("10", 1200), ("90", 0), ("162", 0)]


def played(case: str, hop_ms: int) -> tuple[DryRun, dict[str, dict[str, Any]]]:
    """What comes of it; and for each key, what all reports say together."""
    made = Snapshot()
    for version, line in enumerate((FILES / f"{case}.control.jsonl").read_text().splitlines(), 1):
        record = json.loads(line)
        made = made.apply(version, f"{record['kind']}/{record['name']}", line.encode())
    happenings, wrong = read_happenings((FILES / f"{case}.messages.jsonl").read_bytes(), Timing())
    assert not wrong
    bounds, known = Rules().bounds, defaultdict[str, dict](dict)
    for happening in happenings:
        if isinstance(happening, MessageLine) and (message := decode_message(happening.value, MessageLimits())).topic == "t":
            report = events.report(message, message.published_ms or 0, made.topic("t"), bounds)
            known[message.key] = events.join(known[message.key], report, bounds)
    return dry_run(made, happenings, hop_ms=hop_ms), {key: events.facts(each) for key, each in known.items()}


@pytest.mark.parametrize(("case", "hop_ms"), CASES)
def test_in_the_end_everybody_knows_all_there_is(case: str, hop_ms: int) -> None:
    run, truth = played(case, hop_ms)
    told: dict[tuple[str, str], dict] = defaultdict(dict)
    for each in run.told:
        told[each.notification.subscription, each.notification.key].update(each.notification.news)
    for name, wants in run.snapshot.subscriptions.items():
        for key, facts in truth.items():
            assert told[name, key] == {field: value for field, value in facts.items() if wants.wants(field)}, (name, key)
    assert all(books.balanced for books in run.books.values())


def test_events_that_are_on_their_way_count_in_windows_beyond_links() -> None:
    """Forty reports, each of an event of its own, at b1 and b2; the windows are at b3, and a link takes longer than the grace."""
    chain = [broker("b1"), broker("b2"), broker("b3"), link("b1", "b2"), link("b2", "b3")]
    spans = {"fours": {"size_ms": 4000, "shift_ms": 4000}, "sevens": {"size_ms": 7000, "shift_ms": 3000}}
    wants = [subscription(n, "t", broker="b3", window={**span, "of": {"n": "count()"}}) for n, span in spans.items()]
    start_ms = 1_000_000
    lines = [
        {"topic": "t", "key": f"k{n}", "fields": {"v": n}, "broker": ("b1", "b2")[n % 2], "published_ms": start_ms + 200 * n}
        for n in range(40)
    ]
    happenings, _ = read_happenings("\n".join(map(json.dumps, lines)).encode(), Timing())
    run = dry_run(snapshot(*chain, *wants), happenings, hop_ms=2500)
    found = {
        (t.notification.subscription, t.notification.window.start): t.notification.news["n"]
        for t in run.told
        if t.notification.window
    }
    assert found == {
        ("fours", 1_000_000): 20,
        ("fours", 1_004_000): 20,
        ("sevens", 1_002_000): 30,
        ("sevens", 1_005_000): 15,
    }
    assert {(str(fate.outcome), fate.reason) for fate in run.fates} == {("merged", "windowed")}
    assert not any(books.on_the_way(to) for books in run.books.values() for to, _ in books.window_items)
