"""The windows of a broker's own subscribers, one step at a time."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from streaming.broker.state import NEVER
from streaming.model.items import Publication, is_taken, missed, starts_of
from streaming.windows.deciders import decider
from streaming.windows.link import LinkWindows, PackedLink, asked_by
from streaming.windows.local import LocalWindows, PackedLocal
from streaming.world.records import snapshot, subscription
from tidings.subscription import Subscription


def asking(**window) -> Subscription:
    declared = snapshot(subscription("w", topic="reading", window={"of": {"n": "count()"}, **window}))
    return declared.subscriptions["w"]


def reading(entered_ms: int, published_ms: int | None = None, **more) -> Publication:
    at = ("publish.b1", 0, entered_ms)
    published_ms = entered_ms if published_ms is None else published_ms
    return Publication("k", f"m{entered_ms}", published_ms, entered_ms, at, {"speed": entered_ms}, **more)


def offered(windows: LocalWindows, subscription: Subscription, *items: Publication, since_ms: int = 0) -> None:
    for item in items:
        windows.offer(item, asked_by([subscription], item, {subscription.interest: since_ms}, 0))


def closed(windows: LocalWindows, through_ms: int, subscription: Subscription, since_ms: int | None = 0, extra_ms: int = 0):
    since = {} if since_ms is None else {subscription.interest: since_ms}
    found = windows.close(through_ms, {subscription.interest: subscription}, since, extra_ms)
    return [(result.start, result.partial.publications, result.partial.first_ms) for result in found]


class TestWindowsThatCount:
    def test_what_is_offered_in_disorder_is_counted_as_it_entered(self):
        windows, two = LocalWindows(), asking(size=2)
        offered(windows, two, reading(30), reading(10), reading(20), reading(40))
        assert closed(windows, 30, two) == [(0, 2, 10)]
        assert closed(windows, 41, two) == [(2, 2, 30)]

    def test_what_entered_before_all_who_send_knew_does_not_count(self):
        windows, two = LocalWindows(), asking(size=2)
        offered(windows, two, reading(10), reading(20), reading(30), reading(40))
        assert closed(windows, 25, two, since_ms=None) == []
        assert windows.next_ms == 11
        assert closed(windows, 50, two, since_ms=20) == [(0, 2, 30)]

    def test_events_are_counted_when_none_that_began_before_can_come(self):
        windows, one = LocalWindows(), asking(size=1)
        offered(windows, one, reading(20))
        assert closed(windows, 60, one, extra_ms=50) == []
        assert windows.next_ms == 71
        offered(windows, one, reading(15))
        assert closed(windows, 71, one, extra_ms=50) == [(0, 1, 15), (1, 1, 20)]
        assert windows.next_ms == NEVER


class TestWindowsOfTime:
    def test_they_close_in_their_order_and_once(self):
        windows, sliding = LocalWindows(), asking(size_ms=20, shift_ms=10, grace_ms=5)
        offered(windows, sliding, reading(35), reading(12), reading(28))
        assert windows.next_ms == 25
        assert closed(windows, 45, sliding) == [(0, 1, 12), (10, 2, 12), (20, 2, 28)]
        assert closed(windows, 45, sliding) == []
        assert windows.next_ms == 55
        windows.drop(frozenset({sliding.interest}))
        assert (windows.next_ms, windows.open) == (NEVER, {})

    def test_what_entered_before_the_subscription_came_does_not_count_however_fast_its_clock(self):
        tumbling = asking(size_ms=10)
        early, ahead, later = reading(95, 95), reading(100, 112), reading(101, 112)
        assert [len(asked_by([tumbling], item, {tumbling.interest: 100}, 0)) for item in (early, ahead, later)] == [0, 0, 1]


@pytest.mark.parametrize("window", [{"size_ms": 20, "shift_ms": 10, "empty": True}, {"size": 3, "shift": 2}])
def test_as_bytes_it_is_the_same(window):
    windows, wants = LocalWindows(), asking(**window)
    offered(windows, wants, *(reading(at_ms) for at_ms in (3, 14, 15, 27, 33, 52)))
    closed(windows, 30, wants, extra_ms=4)
    again = LocalWindows.restored(msgspec.msgpack.decode(msgspec.msgpack.encode(windows.state()), type=PackedLocal))
    assert (again.state(), again.next_ms) == (windows.state(), windows.next_ms)
    assert closed(again, 3000, wants, extra_ms=4) == closed(windows, 3000, wants, extra_ms=4) != []


class TestALink:
    def test_a_range_expires_once_and_what_crosses_later_says_what_it_was_counted_in(self):
        link, sliding = LinkWindows(decider("always-aggregate")), asking(size_ms=20, shift_ms=10, grace_ms=0)
        other = replace(asking(size_ms=40, grace_ms=0), interest="other")
        wants, since = {sliding.interest: sliding, "other": other}, {sliding.interest: 0, "other": 0}
        for at_ms in (12, 14):
            item = reading(at_ms)
            link.offer(item, asked_by(wants.values(), item, since, 0), at_ms, crosses=False)
        assert link.next_ms == 20
        next(link.close(30, wants))
        assert link.next_ms == 30
        link.choose("always-forward")
        again = LinkWindows.restored(msgspec.msgpack.decode(msgspec.msgpack.encode(link.state()), type=PackedLink))
        for each in (link, again):
            assert len(list(each.close(30, wants))) == 1
            assert (each.items, each.next_ms, list(each.close(30, wants))) == ({}, 40, [])
        sent = LinkWindows.restored(link.state())
        assert sent.state() == link.state() == again.state()

    def test_forwarded_items_carry_the_windows_that_had_them(self):
        link, sliding = LinkWindows(decider("always-aggregate")), asking(size_ms=20, shift_ms=10, grace_ms=0)
        item = reading(12, counted=(("earlier", 7),))
        link.offer(item, asked_by([sliding], item, {sliding.interest: 0}, 0), 12, crosses=False)
        expired = link.close(99, {sliding.interest: sliding})
        next(expired)
        link.choose("always-forward")
        second = next(expired)
        (sent,) = second.sent
        assert isinstance(sent, Publication)
        assert sent.counted == (("earlier", 7), (sliding.interest, 0))
        assert asked_by([sliding], sent, {sliding.interest: 0}, 0)[0].ranges == (second.range,)

    def test_what_is_dropped_does_not_expire(self):
        link, sliding = LinkWindows(decider("adock")), asking(size_ms=20, shift_ms=10, grace_ms=0)
        item, wants = reading(12), {sliding.interest: sliding}
        asked = asked_by([sliding], item, {sliding.interest: 0}, 0)
        link.offer(item, asked, 12, crosses=False)
        link.drop(frozenset({sliding.interest}))
        link.offer(item, asked, 12, crosses=False)
        assert link.next_ms == 20
        link.drop(frozenset({sliding.interest}))
        assert (link.next_ms, list(link.close(99, wants)), link.items) == (NEVER, [], {})

    def test_a_range_whose_subscription_is_gone_is_dropped(self):
        link, sliding = LinkWindows(decider("adock")), asking(size_ms=20, shift_ms=10, grace_ms=0)
        item = reading(12)
        link.offer(item, asked_by([sliding], item, {sliding.interest: 0}, 0), 12, crosses=False)
        assert (list(link.close(99, {})), link.next_ms, link.items) == ([], NEVER, {})


@pytest.mark.parametrize(("entered_ms", "late"), [(24, []), (25, ["w"]), (34, ["w"]), (35, ["w"])])
def test_what_enters_when_a_window_closes_is_late(entered_ms, late):
    sliding = asking(size_ms=20, shift_ms=10, grace_ms=5)
    item = reading(entered_ms, published_ms=12)
    assert missed([sliding], item) == late
    assert is_taken([sliding], item) == (entered_ms < 35)
    assert len(starts_of(sliding, item)) == (entered_ms < 25) + (entered_ms < 35)
