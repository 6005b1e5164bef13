"""Notifications as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cli.show import notification_line, span
from tidings.notification import Digested, Notification, Reason, ToldWindow

PLAIN = Notification("n1", "ops", "ops", "incident", "5th and Main", "e1", 2, Reason.NEWS, {"when": "08:14"}, 3, 2, 1_000, 2_000)


def line(**changes: object) -> str:
    values = {name: getattr(PLAIN, name) for name in PLAIN.__slots__}
    return notification_line(Notification(**{**values, **changes}), 1_794_805_061_461).plain.split("  ", 1)[1]


def test_a_plain_one():
    assert line() == "incident · 5th and Main  news      when=08:14  (3 reports, 2 sources)  → ops"


def test_a_digest_names_what_it_tells_of_other_events():
    beside = (Digested("e0", {"what": "fire", "floor": 3}, 0, 1), Digested("e00", {"floor": 4}, 0, 1))
    assert line(reason=Reason.DIGEST, digest=beside) == (
        "incident · 5th and Main  digest    when=08:14; what=fire, floor=3; floor=4  (3 reports, 2 sources)  → ops"
    )
    assert line(reason=Reason.DIGEST, event="", news={}, digest=beside) == (
        "incident · 5th and Main  digest    what=fire, floor=3; floor=4  → ops"
    )


def test_a_heartbeat_says_what_it_means():
    said = line(reason=Reason.HEARTBEAT, key="", event="", news={}, reports=0, sources=0)
    assert said.startswith("incident  heartbeat  all that came before ")
    assert said.endswith(" has been read  → ops")


# ---- aggregates -------------------------------------------------------------------------------------------------------


def told(window: ToldWindow, **changes: object) -> str:
    return line(**{"reason": Reason.AGGREGATE, "key": "", "event": "", "news": {"count": 12}, "window": window, **changes})


def at(hour: int, minute: int, second: int, days: int = 0) -> int:
    """A time of today's, where the reader is."""
    today = datetime.now(tz=UTC).astimezone().replace(hour=hour, minute=minute, second=second, microsecond=0)
    return int((today + timedelta(days=days)).timestamp()) * 1000


def test_an_aggregate_has_its_window_its_results_and_how_many_it_is_about():
    window = ToldWindow(at(17, 4, 10), at(17, 4, 20))
    assert told(window, news={"avg_speed": 52.0, "top_road": ("E45", "E20")}, reports=1200) == (
        'incident  aggregate  17:04:10–17:04:20  avg_speed=52.0, top_road=["E45", "E20"]  (1,200 publications)  → ops'
    )


def test_an_empty_one_says_so():
    window = ToldWindow(at(17, 4, 10), at(17, 4, 20))
    assert told(window, news={"avg": None, "n": 0}, reports=0) == (
        "incident  aggregate  17:04:10–17:04:20  avg=null, n=0  (0 publications)  → ops"
    )


def test_one_that_counts_publications_names_their_numbers():
    assert told(ToldWindow(100, 200, counted=True), reports=100) == (
        "incident  aggregate  publications 100–199  count=12  (100 publications)  → ops"
    )
    assert "  publication 7  " in told(ToldWindow(7, 8, counted=True))


def test_what_was_of_no_use_is_named():
    window = ToldWindow(at(17, 4, 10), at(17, 4, 20), left_out={"avg\x1b": 3, "max": 1})
    assert told(window).endswith("(3 publications)  left out: 3 for avg\\x1b, 1 for max  → ops")


def test_strangers_move_no_cursor():
    said = told(ToldWindow(0, 1), news={"\x1b[2J": "\x1b[3J"}, topic="\x1b[4J", subscription="\x1b[5J")
    assert said.isprintable()


@pytest.mark.parametrize(
    ("result", "shown"),
    [(52.333333333333336, "52.3333"), (1234567.891, "1234567.891"), (0.000123456789, "0.0001235"), (-0.5, "-0.5"), (7, "7")],
)
def test_results_are_rounded_for_the_eye(result: float, shown: str):
    assert f"  avg={shown}  " in told(ToldWindow(0, 1), news={"avg": result})


def test_a_span_has_milliseconds_and_dates_only_where_they_are_needed():
    start, end = at(17, 4, 10), at(17, 4, 20)
    assert span(start, end) == "17:04:10–17:04:20"
    assert span(start + 500, end) == "17:04:10.500–17:04:20.000"
    assert span(start, end + 1) == "17:04:10.000–17:04:20.001"
    before, day = at(17, 4, 10, days=-40), (datetime.now(tz=UTC).astimezone() - timedelta(days=40)).date()
    assert span(before, before + 10_000) == f"{day} {span(before, before + 10_000).split(' ')[1]}"
    assert span(before, before + 10_000).count("-") == 2
    assert span(before, before + 2 * 86_400_000).count("-") == 4
