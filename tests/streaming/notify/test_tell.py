"""The chain that news passes on its way to a subscription: where it ends, and what is noted there."""

from __future__ import annotations

import pytest

from streaming.model.address import Address
from streaming.model.event import OpenEvent, open_event
from streaming.model.ledger import HOUR_MS, Cap, Ledger
from streaming.notify.tell import Quiet, tell
from tidings import event as events
from tidings.message import Message
from tidings.predicate import Missing, parse
from tidings.registers import Bounds
from tidings.subscription import Subscription
from tidings.topic import Topic
from tidings.values import fact_digest

NOW = 2 * HOUR_MS
TOPIC = Topic("incident")
KNOWN = {"a": fact_digest(1), "b": fact_digest(2)}


def opened(ledger: Ledger | None) -> OpenEvent:
    event = open_event(Address("b1", "incident", "k"), "m", NOW, NOW)
    event.knowledge = events.report(Message("incident", "k", {"a": 1, "b": 2}, published_ms=NOW), NOW, TOPIC, Bounds())
    event.ledgers = {} if ledger is None else {"ops": ledger}
    return event


PATIENT = {"where": parse("c = 1"), "missing": Missing.PATIENT}


@pytest.mark.parametrize(
    ("why", "asked", "ledger", "reason", "after"),
    [
        ("it does not match", {"where": parse("a = 2")}, None, Quiet.DIFFERS, None),
        ("it may match later, and the subscription is patient", PATIENT, None, Quiet.DIFFERS, None),
        ("it wants other fields", {"fields": frozenset("c")}, None, Quiet.KNOWN, None),
        ("it knows all of it", {}, Ledger(KNOWN, 1), Quiet.KNOWN, (None, False, 1)),
        ("it was told a moment ago", {"every_ms": 9}, Ledger({}, 1, NOW), Quiet.EARLY, (NOW + 9, False, 1)),
        ("it has just begun to match", {"settle_ms": 5}, Ledger(true_ms=NOW), Quiet.EARLY, (NOW + 5, False, 0)),
        ("the later of two times counts", {"every_ms": 9, "settle_ms": 5}, Ledger({}, 1, NOW), Quiet.EARLY, (NOW + 9, False, 1)),
        ("its places of this hour are taken", {"at_most": 1}, None, Quiet.NO_PLACE, (None, True, 0)),
        ("what is too early takes no place", {"at_most": 1, "settle_ms": 5}, None, Quiet.EARLY, (NOW + 5, False, 0)),
        ("nothing keeps it back", {"at_most": 2}, None, None, (None, False, 1)),
    ],
)
def test_each_way_out_has_a_reason(why, asked, ledger, reason, after):
    ops = Subscription("ops", "ops", "b1", "incident", "notify.ops", **asked)
    event, quiet, caps = opened(ledger), {}, {"ops": Cap("k", [NOW - 1])}
    told = tell(event, TOPIC, [ops], NOW, caps=caps, quiet=quiet)
    assert quiet == ({"ops": reason} if reason else {}), why
    assert [dict(notification.news) for _, notification in told] == ([] if reason else [{"a": 1, "b": 2}])
    noted = event.ledgers.get("ops")
    assert (noted and (noted.due_ms, noted.capped, noted.revision)) == after
    assert caps["ops"].told == ([NOW - 1] if reason else [NOW - 1, NOW])
