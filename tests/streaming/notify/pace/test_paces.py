"""The list of paces: each that can be asked for is there, once, and has its words."""

from __future__ import annotations

import pytest

from streaming.model.ledger import Ledger
from streaming.notify.pace import AT_MOST, EVERY, PACES, SETTLE, allowed_ms, keeps_back, waited_for
from streaming.notify.pace.pace import Telling
from streaming.world.silence import Silence
from tidings.subscription import PACE_PROPERTIES, Subscription


def test_every_pace_that_can_be_asked_for_is_one_of_the_list():
    assert sorted(pace.property for pace in PACES) == sorted(PACE_PROPERTIES)
    assert len({pace.word for pace in PACES}) == len(PACES)


@pytest.mark.parametrize("pace", PACES, ids=str)
def test_a_pace_that_makes_news_wait_can_say_why(pace):
    assert bool(pace.why) == PACE_PROPERTIES[pace.property].of_events
    assert not pace.why or "{asked}" in pace.why
    assert pace.silence is None or pace.silence[0] not in set(Silence)


def test_who_asks():
    plain = Subscription("ops", "ops", "b1", "incident", "notify.ops")
    assert not any(pace.asked_by(plain) for pace in PACES)
    paced = Subscription("ops", "ops", "b1", "incident", "notify.ops", settle_ms=1, at_most=2)
    assert [pace for pace in PACES if pace.asked_by(paced)] == [SETTLE, AT_MOST]


BOTH = Subscription("ops", "ops", "b1", "incident", "notify.ops", every_ms=4_000, settle_ms=5_000)


@pytest.mark.parametrize(
    ("why", "told_ms", "true_ms", "now_ms", "due_ms", "waits_for", "kept_by"),
    [
        ("the cadence ends last", 9_000, 1_000, 10_000, 13_000, EVERY, EVERY),
        ("settling ends last", 9_000, 9_500, 10_000, 14_500, SETTLE, SETTLE),
        ("both end together: what must be true counts more", 9_000, 8_000, 10_000, 13_000, SETTLE, SETTLE),
        ("the cadence ends last, but it has not settled either", 9_900, 8_000, 10_000, 13_900, EVERY, SETTLE),
        ("nothing keeps it back", 1_000, 1_000, 10_000, 6_000, SETTLE, None),
    ],
)
def test_the_latest_time_counts(why, told_ms, true_ms, now_ms, due_ms, waits_for, kept_by):
    ledger, telling = Ledger(revision=1, told_ms=told_ms, true_ms=true_ms), Telling("k", now_ms)
    assert allowed_ms(BOTH, ledger, telling) == due_ms, why
    assert waited_for(BOTH, ledger, due_ms) is waits_for, why
    assert keeps_back(BOTH, ledger, telling) is kept_by, why
