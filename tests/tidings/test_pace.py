"""The properties by which a subscription asks for a pace."""

from __future__ import annotations

from tidings.subscription import PACE_PROPERTIES, Subscription


def test_who_says_nothing_asks_for_nothing():
    plain = Subscription("ops", "ops", "b1", "incident", "notify.ops")
    assert [getattr(plain, name) for name in PACE_PROPERTIES] == [0] * len(PACE_PROPERTIES)
