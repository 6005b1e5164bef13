"""A dry run of aggregate subscriptions tells what the service would."""

from __future__ import annotations

import json
from typing import Any

from streaming.world.dry_run import DryRun, dry_run
from streaming.world.expectation import compare, read_expected, write_expected
from streaming.world.records import broker, link, snapshot, subscription, topic
from streaming.world.script import read_happenings
from tidings.topic import Timing

CHAIN = [broker("b1"), broker("b2"), broker("b3"), link("b1", "b2"), link("b2", "b3")]
OF = {"n": "count()", "mean": "avg(speed)"}
SLIDING = {"size_ms": 4000, "shift_ms": 2000, "grace_ms": 500, "of": OF}


def reading(at_ms: int, **more: Any) -> dict[str, Any]:
    return {"topic": "reading", "key": "k", "fields": {"speed": at_ms // 1000}, "id": f"m{at_ms}", "at_ms": at_ms, **more}


def run(records: list[dict[str, Any]], *data: dict[str, Any], **more: Any) -> DryRun:
    happenings, wrong = read_happenings("\n".join(map(json.dumps, data)).encode(), Timing())
    assert wrong == []
    return dry_run(snapshot(*records), happenings, **more)


def told(found: DryRun, name: str) -> list[tuple[int, int, int, dict[str, Any]]]:
    notifications = [(each.at_ms, each.notification) for each in found.told if each.notification.subscription == name]
    return [(at_ms, each.window.start, each.window.end, dict(each.news)) for at_ms, each in notifications if each.window]


READINGS = [reading(at_ms) for at_ms in range(0, 9000, 1000)]


WANTED = [
    (4500, 0, 4000, {"n": 4, "mean": 1.5}),
    (6500, 2000, 6000, {"n": 4, "mean": 3.5}),
    (8500, 4000, 8000, {"n": 4, "mean": 5.5}),
    (10_500, 6000, 10_000, {"n": 3, "mean": 7.0}),
    (12_500, 8000, 12_000, {"n": 1, "mean": 8.0}),
]


class TestWindowsOfTime:
    def test_each_is_told_when_it_has_closed(self):
        # What stands first in a file enters with the tick that names all subscriptions, which is before the first window.
        records = [topic("reading", gather=False), subscription("w", "reading", window=SLIDING)]
        early = reading(0, id="early", key="other", topic="elsewhere")
        found = run(records, early, *(reading(each["at_ms"] + 1, fields=each["fields"]) for each in READINGS))
        assert told(found, "w") == WANTED
        assert all(books.balanced for books in found.books.values())

    def test_links_change_nothing(self):
        for hop_ms in (0, 40):
            records = [*CHAIN, topic("reading", gather=False), subscription("w", "reading", window=SLIDING, broker="b3")]
            found = run(
                records, reading(0, topic="elsewhere"), *(reading(at_ms) for at_ms in range(1, 8002, 1000)), hop_ms=hop_ms
            )
            one = [topic("reading", gather=False), subscription("w", "reading", window=SLIDING)]
            alone = run(one, reading(0, topic="elsewhere"), *(reading(at_ms) for at_ms in range(1, 8002, 1000)))
            assert told(found, "w") == told(alone, "w") != []
            assert {each.broker for each in found.told} == {"b3"}

    def test_one_that_comes_in_the_middle_is_told_whole_windows(self):
        came = {**subscription("w", "reading", window=SLIDING), "at_ms": 3500}
        found = run([topic("reading", gather=False)], *READINGS, came)
        assert [(start, news["n"]) for _, start, _, news in told(found, "w")] == [(4000, 4), (6000, 3), (8000, 1)]

    def test_one_that_goes_in_the_middle_is_told_nothing_more(self):
        gone = {"kind": "subscription", "name": "w", "delete": True, "at_ms": 6600}
        found = run([topic("reading", gather=False), subscription("w", "reading", window=SLIDING)], *READINGS, gone)
        assert [start for _, start, _, _ in told(found, "w")] == [0, 2000]

    def test_what_stands_first_in_a_file_counts(self):
        found = run([topic("reading", gather=False), subscription("w", "reading", window=SLIDING)], *READINGS)
        assert told(found, "w") == WANTED

    def test_what_comes_too_late_says_for_whom(self):
        late = reading(8100, published_ms=1000, id="late")
        found = run([topic("reading", gather=False), subscription("w", "reading", window=SLIDING)], *READINGS, late)
        (fate,) = [each for each in found.fates if each.message is not None and each.message.id == "late"]
        assert (fate.outcome, fate.reason) == ("late", "window-closed")
        assert fate.detail == "published 7100 ms before it arrived; too late for w"
        assert {(each.outcome, each.reason) for each in found.fates} == {("merged", "windowed"), ("late", "window-closed")}
        assert found.books["b1"].outcomes == {("merged", "windowed"): 9, ("late", "window-closed"): 1, ("held", "holding"): 0}

    def test_one_that_is_told_windows_is_owed_no_event(self):
        records = [topic("reading", gather=False), subscription("w", "reading", window=SLIDING, where="speed > 100")]
        assert run(records, *READINGS).untold == ()
        (why,) = run([subscription("w", "other", window=SLIDING)], *READINGS).untold
        assert why.why == "nothing-published"

    def test_silence_is_told_as_long_as_something_is_open(self):
        window = {**SLIDING, "shift_ms": 4000, "empty": True}
        found = run([topic("reading", gather=False), subscription("w", "reading", window=window)], reading(100), reading(13_000))
        first, *rest = told(found, "w")
        assert first == (8500, 4000, 8000, {"n": 0, "mean": None})
        assert [(start, news["n"]) for _, start, _, news in rest[:2]] == [(8000, 0), (12_000, 1)]
        assert not any(news["n"] for _, _, _, news in rest[2:])


class TestOtherWindows:
    def test_windows_of_so_many(self):
        window = {"size": 3, "shift": 2, "of": OF}
        records = [*CHAIN, topic("reading", gather=False), subscription("w", "reading", window=window, broker="b3")]
        found = run(records, reading(0, topic="elsewhere"), *READINGS[1:])
        assert [(start, news["mean"]) for _, start, _, news in told(found, "w")] == [(0, 2.0), (2, 4.0), (4, 6.0)]

    def test_events_count_when_they_have_ended(self):
        declared = topic("reading", window_ms=1500)
        records = [*CHAIN, declared, subscription("w", "reading", window=SLIDING, broker="b3")]
        found = run(records, reading(0, topic="elsewhere"), *READINGS[1:])
        # Two readings are one event, which begins with the first of them.
        assert [(at_ms, start, news) for at_ms, start, _, news in told(found, "w")] == [
            (6000, 0, {"n": 2, "mean": 2.0}),
            (8000, 2000, {"n": 2, "mean": 4.0}),
            (10_000, 4000, {"n": 2, "mean": 6.0}),
            (12_000, 6000, {"n": 1, "mean": 7.0}),
        ]

    def test_a_plain_subscription_beside_it_is_told_as_ever(self):
        plain = subscription("plain", "reading", broker="b2")
        records = [*CHAIN, topic("reading", gather=False), plain]
        beside = [*records, subscription("w", "reading", window=SLIDING, broker="b3")]
        news = [
            [each.notification for each in run(made, *READINGS).told if each.notification.window is None]
            for made in (records, beside)
        ]
        assert news[0] == news[1] != []


def test_what_was_told_can_be_expected():
    records = [topic("reading", gather=False), subscription("w", "reading", window=SLIDING)]
    found = run(records, *READINGS)
    patterns, wrong = read_expected(write_expected(found.told, ["w"]).encode())
    assert wrong == []
    assert all(each.holds for each in compare(patterns, found.told))
    other = run(records, *READINGS[:-1])
    assert not all(each.holds for each in compare(patterns, other.told))
