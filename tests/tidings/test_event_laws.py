"""The laws of the join: order, repetition and split of reports do not change what an event becomes."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings import event as events
from tidings import registers
from tidings.message import Message
from tidings.registers import Bounds, Join
from tidings.topic import Topic
from tidings.values import fact_digest, same, sort_key

BOUNDS = Bounds(conflicts=2, union_items=3)
TOPIC = Topic("t", joins={str(kind): kind for kind in Join})

texts = st.text(alphabet="abc", max_size=2)
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from([0.0, 1.0, 2.5, -0.0]),
    texts,
    st.lists(texts, max_size=3).map(tuple),
)
messages = st.builds(
    Message,
    topic=st.just("t"),
    key=st.just("k"),
    fields=st.dictionaries(st.sampled_from([*TOPIC.joins, "other"]), values, max_size=4),
    source=st.sampled_from([None, "s1", "s2"]),
    id=st.sampled_from(["m1", "m2", "m3", "m4"]),
    published_ms=st.integers(0, 5),
)


def of(message: Message) -> dict[str, registers.Register]:
    assert message.published_ms is not None
    return events.report(message, message.published_ms, TOPIC, BOUNDS)


def fold(reports: list[dict[str, registers.Register]]) -> dict[str, registers.Register]:
    return reduce(lambda a, b: events.join(a, b, BOUNDS), reports, {})


reports = messages.map(of)
knowledge = st.lists(reports, max_size=5).map(fold)


@given(knowledge, knowledge)
def test_join_is_commutative(a, b):
    assert events.join(a, b, BOUNDS) == events.join(b, a, BOUNDS)


@given(knowledge, knowledge, knowledge)
def test_join_is_associative(a, b, c):
    left = events.join(events.join(a, b, BOUNDS), c, BOUNDS)
    right = events.join(a, events.join(b, c, BOUNDS), BOUNDS)
    assert left == right


@given(knowledge)
def test_join_is_idempotent(a):
    assert events.join(a, a, BOUNDS) == a


@given(st.lists(messages, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_order_and_repetition_do_not_matter(stream, random):
    shuffled = [*stream, *random.choices(stream, k=len(stream))]
    random.shuffle(shuffled)
    assert fold([of(m) for m in shuffled]) == fold([of(m) for m in stream])


@given(st.lists(messages, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_splitting_a_report_does_not_matter(stream, random):
    pieces = []
    for message in stream:
        names = list(message.fields)
        random.shuffle(names)
        cut = random.randint(0, len(names))
        for part in (names[:cut], names[cut:]):
            fields = {name: message.fields[name] for name in part}
            pieces.append(Message("t", "k", fields, message.source, message.id, message.published_ms))
    assert fold([of(m) for m in pieces]) == fold([of(m) for m in stream])


@given(knowledge, reports)
def test_redundant_exactly_when_joining_changes_no_fact(known, report):
    joined = events.join(known, report, BOUNDS)
    # 3 and 3.0 are one fact, and disputes have no order: compare facts, not writings.
    facts_change = {n: r.facts for n, r in joined.items()} != {n: r.facts for n, r in known.items()}
    assert events.added(known, joined).is_redundant == (not facts_change)


@pytest.mark.parametrize(
    ("kind", "claims", "told", "sentence"),
    [
        (Join.FIRST, [("b", 2), ("a", 1), ("c", 3)], "a", "the earliest published value is told"),
        (Join.LAST, [("b", 2), ("a", 1), ("c", 3)], "c", "the latest published value is told"),
        (Join.MIN, [(5, 1), (2, 2), (9, 3)], 2, "the smallest value is told"),
        (Join.MAX, [(5, 1), (9, 2), (2, 3)], 9, "the largest value is told"),
        (Join.UNION, [(("b",), 1), (("a", "b"), 2), (None, 3)], ("a", "b"), "all items are told; empty adds none"),
        (Join.FIRST, [(None, 1), ("a", 2)], None, "stated as empty is a value like any other"),
    ],
)
def test_each_join_tells(kind, claims, told, sentence):
    parts = [registers.state(kind, value, ms, f"m{ms}", None, BOUNDS) for value, ms in claims]
    assert reduce(lambda a, b: registers.join(a, b, BOUNDS), parts).value == told, sentence


def test_a_tie_in_time_is_decided_by_the_message_id():
    a = registers.state(Join.FIRST, "x", 1, "m2", None, BOUNDS)
    b = registers.state(Join.FIRST, "y", 1, "m1", None, BOUNDS)
    assert registers.join(a, b, BOUNDS).value == "y"


def test_disagreement_is_kept_and_bounded():
    parts = [registers.state(Join.FIRST, f"v{n}", n, f"m{n}", None, BOUNDS) for n in range(9, -1, -1)]
    joined = reduce(lambda a, b: registers.join(a, b, BOUNDS), parts)
    assert (joined.value, joined.disagreeing) == ("v0", ("v1", "v2"))


def test_a_union_is_bounded():
    parts = [registers.state(Join.UNION, (f"v{n}",), n, f"m{n}", None, BOUNDS) for n in range(9, -1, -1)]
    assert reduce(lambda a, b: registers.join(a, b, BOUNDS), parts).value == ("v0", "v1", "v2")


def test_what_was_stated_as_empty_is_not_what_was_not_stated():
    known = of(Message("t", "k", {"f": None}, id="m1", published_ms=1))
    assert "f" in known
    assert events.added({}, known).news == {"f"}


@given(values, values)
def test_digests_tell_facts_apart(a, b):
    assert (fact_digest(a) == fact_digest(b)) == same(a, b) == (sort_key(a) == sort_key(b))


@given(st.sampled_from(Join), values, st.lists(st.tuples(values, st.integers(0, 5)), max_size=4), st.integers(1, 3))
def test_a_kind_whose_repeats_do_not_matter_is_not_changed_by_one(kind, value, others, later_ms):
    """Whoever counts reports without opening them goes by what a kind says of itself."""

    def said(what, at_ms, name):
        return registers.state(kind, what, at_ms, name, None, BOUNDS)

    known = reduce(
        lambda a, b: registers.join(a, b, BOUNDS), (said(v, ms, f"o{n}") for n, (v, ms) in enumerate(others)), said(value, 2, "a")
    )
    again = registers.join(known, said(value, 2 + later_ms, "z"), BOUNDS)
    assert kind.repeats_matter or known.is_full(BOUNDS) or again == known
