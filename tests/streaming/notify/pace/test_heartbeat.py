"""Heartbeats: which beat is the last, and what one says."""

from __future__ import annotations

import pytest

from streaming.model.ledger import Ledger
from streaming.notify.pace import HEARTBEAT
from streaming.notify.pace.pace import Telling
from tidings.notification import Reason, heartbeat_id
from tidings.subscription import Subscription

OPS = Subscription("ops", "duty", "b1", "incident", "notify.ops", heartbeat_ms=10_000, since=3)


@pytest.mark.parametrize(
    ("why", "now_ms", "beat_ms"),
    [
        ("a multiple is a beat itself", 20_000, 20_000),
        ("between two, the earlier is the last", 29_999, 20_000),
        ("before the first there is the beginning of time", 9_999, 0),
    ],
)
def test_the_last_beat(why, now_ms, beat_ms):
    assert HEARTBEAT.beat_ms(OPS, now_ms) == beat_ms, why


def test_a_heartbeat_is_about_no_event():
    told = HEARTBEAT.notification(OPS, 20_000)
    assert (told.id, told.reason) == (heartbeat_id("ops", 3, 20_000), Reason.HEARTBEAT)
    assert (told.subscriber, told.subscription, told.topic) == ("duty", "ops", "incident")
    assert (told.key, told.event, told.revision, told.news, told.reports, told.sources) == ("", "", 0, {}, 0, 0)
    assert (told.first_ms, told.last_ms) == (20_000, 20_000)


def test_it_makes_no_news_wait():
    telling = Telling("k", 1, caps={})
    assert HEARTBEAT.allowed_ms(OPS, Ledger(revision=1, told_ms=1), telling) == 0
    assert HEARTBEAT.takes_place(OPS, Ledger(), telling)
