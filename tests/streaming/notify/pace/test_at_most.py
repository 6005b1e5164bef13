"""At most so many an hour: the places of a key, who takes one, who waits, and what an event leaves behind."""

from __future__ import annotations

import pytest

from streaming.model.ledger import HOUR_MS, Cap, Ledger
from streaming.notify.pace import AT_MOST, at_most
from streaming.notify.pace.pace import Telling
from tidings.notification import Digested
from tidings.subscription import Subscription

NOW = 2 * HOUR_MS
WORDS = Digested("e", {"a": 1}, 0, 0)


def asking(number: int) -> Subscription:
    return Subscription("ops", "ops", "b1", "incident", "notify.ops", at_most=number)


@pytest.mark.parametrize(
    ("why", "number", "told", "free_ms"),
    [
        ("nobody was told yet", 2, [], 0),
        ("one place is left", 2, [NOW - 9], 0),
        ("the oldest place of two must become an hour old", 2, [NOW - 9, NOW - 5], NOW - 9 + HOUR_MS),
        ("with fewer places than were taken, the last so many count", 1, [NOW - 9, NOW - 5], NOW - 5 + HOUR_MS),
        ("who asks for nothing has all the places", 0, [NOW - 9], 0),
    ],
)
def test_when_a_place_is_free(why, number, told, free_ms):
    assert AT_MOST.free_ms(asking(number), Cap("k", told)) == free_ms, why


@pytest.mark.parametrize(
    ("why", "told", "takes", "after"),
    [
        ("the first place is taken", [], True, [NOW]),
        ("a place that is an hour old is free, and forgotten", [NOW - HOUR_MS], True, [NOW]),
        ("without a free place, nothing is told", [NOW - HOUR_MS + 1], False, [NOW - HOUR_MS + 1]),
    ],
)
def test_who_takes_a_place(why, told, takes, after):
    caps, ledger = {"ops": Cap("k", told)}, Ledger(due_ms=5)
    assert AT_MOST.takes_place(asking(1), ledger, Telling("k", NOW, caps=caps)) is takes, why
    waits = (True, None, NOW + 1) if not takes else (False, 5, None)
    assert caps["ops"].told == after
    assert (ledger.capped, ledger.due_ms, caps["ops"].due_ms) == waits


@pytest.mark.parametrize("telling", [Telling("k", NOW), Telling("k", NOW, caps={})])
def test_who_does_not_ask_takes_no_place(telling):
    assert AT_MOST.takes_place(asking(0), Ledger(), telling)
    assert not telling.caps


def test_only_what_waits_for_a_place_leaves_its_last_words():
    caps = {"ops": Cap("k", [NOW - 5])}
    ending = Telling("k", NOW, closing=True, caps=caps)
    assert AT_MOST.on_end(asking(1), Ledger(due_ms=7), WORDS, ending) is None
    assert AT_MOST.on_end(asking(1), Ledger(capped=True), WORDS, ending) == 0
    assert (caps["ops"].ended, caps["ops"].due_ms) == ([WORDS], NOW - 5 + HOUR_MS)


def test_the_oldest_last_words_give_way(monkeypatch):
    monkeypatch.setattr(at_most, "MOST_ENDED", 2)
    caps: dict[str, Cap] = {}
    ending = Telling("k", NOW, closing=True, caps=caps)
    words = [Digested(f"e{number}", {"a": 1}, 0, 0) for number in range(3)]
    assert [AT_MOST.on_end(asking(1), Ledger(capped=True), each, ending) for each in words] == [0, 0, 1]
    assert caps["ops"].ended == words[1:]
