"""Notifications as people read them."""

from __future__ import annotations

from tidings.cli.show import notification_line
from tidings.notification import Digested, Notification, Reason

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
