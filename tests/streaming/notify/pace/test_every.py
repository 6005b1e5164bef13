"""The cadence: when the next notification about an event may leave."""

from __future__ import annotations

import pytest

from streaming.model.ledger import Ledger
from streaming.notify.pace import EVERY
from streaming.notify.pace.pace import Telling
from tidings.subscription import Subscription


def asking(every_ms: int) -> Subscription:
    return Subscription("ops", "ops", "b1", "incident", "notify.ops", every_ms=every_ms)


@pytest.mark.parametrize(
    ("why", "every_ms", "ledger", "closing", "allowed_ms"),
    [
        ("the first comes at once", 5_000, Ledger(), False, 0),
        ("the next comes a cadence later", 5_000, Ledger(revision=1, told_ms=1_000), False, 6_000),
        ("it counts from the last one", 5_000, Ledger(revision=7, told_ms=9_000), False, 14_000),
        ("who asks for none is still told in the order of time", 0, Ledger(revision=1, told_ms=1_000), False, 1_000),
        ("the end of the event waits for no cadence", 5_000, Ledger(revision=1, told_ms=1_000), True, 0),
    ],
)
def test_when_news_may_be_told(why, every_ms, ledger, closing, allowed_ms):
    assert EVERY.allowed_ms(asking(every_ms), ledger, Telling("k", 2_000, closing)) == allowed_ms, why
