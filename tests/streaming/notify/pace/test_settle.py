"""Settling: for how long an event has matched, and what that allows."""

from __future__ import annotations

import pytest

from streaming.model.ledger import Ledger
from streaming.notify.pace import SETTLE
from streaming.notify.pace.pace import Telling
from tidings.predicate import Missing, parse
from tidings.subscription import Subscription

OPS = Subscription("ops", "ops", "b1", "incident", "notify.ops", parse("a = 1"), settle_ms=5_000)
PLAIN = Subscription("ops", "ops", "b1", "incident", "notify.ops")


@pytest.mark.parametrize(
    ("why", "subscription", "true_ms", "telling", "allowed_ms"),
    [
        ("it counts from when the event began to match", OPS, 1_000, Telling("k", 3_000), 6_000),
        ("what begins to match now has all of it to wait", OPS, None, Telling("k", 3_000), 8_000),
        ("what has settled stays so", OPS, 1_000, Telling("k", 90_000), 6_000),
        ("the end of the event does not make it settle", OPS, 1_000, Telling("k", 3_000, closing=True), 6_000),
        ("a measurement is over when it comes", OPS, 1_000, Telling("k", 3_000, lasting=False), 0),
        ("who does not ask for it need not wait", PLAIN, 1_000, Telling("k", 3_000), 0),
    ],
)
def test_when_news_may_be_told(why, subscription, true_ms, telling, allowed_ms):
    assert SETTLE.allowed_ms(subscription, Ledger(true_ms=true_ms), telling) == allowed_ms, why


@pytest.mark.parametrize(
    ("why", "true_ms", "matches", "stopped", "after_ms"),
    [
        ("it begins to match", None, True, False, 2_000),
        ("it goes on matching", 1_000, True, False, 1_000),
        ("it stops", 1_000, False, True, None),
        ("it never matched", None, False, False, None),
    ],
)
def test_what_a_report_changes(why, true_ms, matches, stopped, after_ms):
    ledger = Ledger(true_ms=true_ms)
    assert (SETTLE.on_change(OPS, ledger, 2_000, matches=matches), ledger.true_ms) == (stopped, after_ms), why


@pytest.mark.parametrize(
    ("why", "change", "after_ms"),
    [
        ("another predicate starts anew", {"where": parse("a = 2")}, None),
        ("so does another view of what is missing", {"missing": Missing.PATIENT}, None),
        ("another pace does not", {"settle_ms": 7_000}, 1_000),
    ],
)
def test_another_subscription(why, change, after_ms):
    same = {"where": OPS.where, "settle_ms": 5_000, **change}
    now, ledger = Subscription("ops", "ops", "b1", "incident", "notify.ops", **same), Ledger(true_ms=1_000)
    SETTLE.reconsider(OPS, now, ledger)
    assert ledger.true_ms == after_ms, why


def test_for_how_long_it_matched_for_one_that_was_not_there_is_not_known():
    ledger = Ledger(true_ms=1_000)
    SETTLE.reconsider(None, OPS, ledger)
    assert ledger.true_ms is None
