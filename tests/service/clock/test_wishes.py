"""When a ticker ticks: when somebody wants the time, not more often than it may, and now and then without."""

from __future__ import annotations

from service.clock.wishes import LIFE_MS, SOON_MS, Wishes

T = 1_000_000


def ticked(at_ms: int = T) -> Wishes:
    """One that has started, and ticked a moment ago."""
    wishes = Wishes(1_000)
    wishes.hurry = False
    wishes.ticked(at_ms)
    wishes.met(at_ms + 3)
    return wishes


def test_without_a_wish_a_tick_comes_now_and_then():
    assert ticked().next_ms == T + LIFE_MS


def test_somebody_wants_the_time_and_gets_it_then():
    wishes = ticked()
    wishes.wish("s/1", T + 12_345)
    wishes.wish("s/2", T + 20_000)
    assert wishes.next_ms == T + 12_345


def test_two_ticks_are_no_closer_than_they_may_be():
    wishes = ticked()
    wishes.wish("s/1", T + 5)
    assert wishes.next_ms == T + 1_000


def test_but_need_not_wait_when_the_last_one_has_been_read():
    wishes = ticked()
    wishes.wish("s/1", T + 5)
    assert wishes.is_held_back
    wishes.read = True
    assert wishes.next_ms == T + SOON_MS
    assert not wishes.is_held_back
    wishes.ticked(T + SOON_MS)
    assert wishes.next_ms == T + SOON_MS + 1_000, "that one has not been read yet"


def test_who_wants_a_later_tick_is_not_held_back():
    wishes = ticked()
    assert not wishes.is_held_back
    wishes.wish("s/1", T + 1_500)
    assert not wishes.is_held_back


def test_a_wish_is_met_by_marks_that_are_as_late_and_not_by_earlier_ones():
    wishes = ticked()
    wishes.wish("s/1", T + 5_000)
    wishes.ticked(T + 4_999)
    wishes.met(T + 4_999)
    assert wishes.next_ms == T + 5_999
    wishes.ticked(T + 5_999)
    wishes.met(T + 5_000)
    assert wishes.next_ms == T + 5_999 + LIFE_MS


def test_marks_that_were_not_written_meet_nothing():
    wishes = ticked()
    wishes.wish("s/1", T + 5_000)
    wishes.ticked(T + 5_001)
    assert wishes.next_ms == T + 6_001


def test_a_wish_that_was_met_before_it_was_heard_wants_nothing():
    wishes = ticked()
    wishes.wish("s/1", T + 3)
    assert wishes.next_ms == T + LIFE_MS


def test_who_waits_for_others_wishes_anew_with_every_tick_it_reads():
    wishes = ticked()
    for n in range(1, 5):
        wishes.wish("s/1", T + SOON_MS * (n - 1) + 4)
        assert wishes.next_ms == T + SOON_MS * n, "it has read the last tick"
        wishes.ticked(T + SOON_MS * n)
        wishes.met(T + SOON_MS * n + 3)
    assert wishes.next_ms == T + 4 * SOON_MS + LIFE_MS


def test_a_later_word_of_the_same_bucket_counts():
    wishes = ticked()
    wishes.wish("s/1", T + 5_000)
    wishes.wish("s/1", T + 9_000)
    assert wishes.next_ms == T + 9_000


def test_one_that_is_starting_ticks_as_often_as_it_may():
    wishes = Wishes(1_000)
    wishes.ticked(T)
    wishes.met(T)
    assert wishes.next_ms == T + 1_000


def test_slow_ticks_are_not_hurried_by_the_sign_of_life():
    wishes = Wishes(60_000)
    wishes.hurry = False
    wishes.ticked(T)
    assert wishes.next_ms == T + 60_000
