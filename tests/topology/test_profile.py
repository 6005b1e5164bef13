"""Profiles: never too little, as small as they can be, and quick."""

from __future__ import annotations

import pickle
import time
import timeit
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.predicate import And, Compare, Contains, Exists, In, Missing, Not, Op, Or, Predicate, Prefix, Verdict, parse, render
from tidings.subscription import Subscription
from tidings.values import Value
from topology.covering import covers, merged
from topology.profile import EVERYTHING, MOST_ENTRIES, NOBODY, Profile, profile_of, united

OPTIMISTIC, PATIENT = Missing.OPTIMISTIC, Missing.PATIENT


def subscription(where: str | Predicate, missing: Missing = PATIENT, fields: frozenset[str] | None = None) -> Subscription:
    predicate = parse(where) if isinstance(where, str) else where
    return Subscription("s", "anna", "b1", "incident", "notify.anna", where=predicate, missing=missing, fields=fields)


def texts(profile: Profile) -> list[str]:
    return [render(entry.where) for entry in profile.entries]


SHORTEST = [
    ([], [], "nobody"),
    (["", "a = 1"], [""], "who wants everything covers the others"),
    (["a = 1", "a = 1.0", "a in (1)"], ["a = 1"], "three writings of one predicate"),
    (["a = 1", "a = 2", "a = 'x'"], ["a in (1, 2, 'x')"], "values become a list"),
    (["a > 5", "a > 3 and b = 1", "a > 4"], ["a > 4", "a > 3 and b = 1"], "the wider range"),
    (["x > 1 and x < 5", "x >= 5 and x < 9", "x = 1"], ["x >= 1 and x < 9"], "neighbouring ranges"),
    (
        ["key = 'k' and a = 1", "key = 'l' and a = 1", "key = 'k' and a = 2", "key = 'l' and a = 2"],
        ["key in ('k', 'l') and a in (1, 2)"],
        "four corners are a square",
    ),
    (["b = 2 and a = 1", "a = 3 and b = 2"], ["a in (1, 3) and b = 2"], "written in two ways"),
    (["x < 3 or x > 7", "x >= 2 and x < 3", "x = 3"], ["x <= 3", "x > 7"], "what one asks in two ranges can be two entries"),
    (["x > 1", "a = 1", "b contains 'x'"], ["a = 1", "b contains 'x'", "x > 1"], "what has nothing in common stays"),
    (["a > 5 and a < 3"], [], "what never matches is nobody's wish"),
    (["a < null", "b = 1"], ["b = 1"], "and adds nothing to another's"),
]


@pytest.mark.parametrize(("wheres", "expected", "why"), SHORTEST)
def test_a_profile_is_the_most_general_set(wheres: list[str], expected: list[str], why: str) -> None:
    for order in (wheres, wheres[::-1]):
        assert texts(profile_of(map(subscription, order))) == sorted(expected), why


def test_what_is_joined_on_one_field_can_then_be_joined_on_another() -> None:
    outer = ["x < 1 or x > 9", "x >= 1 and x < 2 or x > 8 and x <= 9"]
    inner = ["x >= 2 and x < 3 and y = 1", "x >= 2 and x < 3 and y != 1"]
    assert texts(profile_of([subscription(where, OPTIMISTIC) for where in outer + inner])) == ["x < 3", "x > 8"]


def test_the_key_is_always_known_so_hope_and_patience_are_one() -> None:
    profile = profile_of([subscription("key = 'k'", OPTIMISTIC), subscription("key = 'l'", PATIENT)])
    assert texts(profile) == ["key in ('k', 'l')"]
    assert profile_of([subscription("key = 'k'", OPTIMISTIC)]) == profile_of([subscription("key = 'k'", PATIENT)])


def test_nobody_and_everything() -> None:
    assert not NOBODY
    assert EVERYTHING
    assert not NOBODY.matches("k", {})
    assert EVERYTHING.matches("k", {})
    assert not NOBODY.wants("a")
    assert EVERYTHING.wants("a")
    assert profile_of([]) == united([]) == united([NOBODY, NOBODY]) == NOBODY
    assert (
        profile_of([subscription("")]) == profile_of([subscription("", OPTIMISTIC)]) == united([NOBODY, EVERYTHING]) == EVERYTHING
    )


def test_a_predicate_that_always_matches_is_everything() -> None:
    assert profile_of([subscription("not a < null", OPTIMISTIC)]) == EVERYTHING


def test_a_profile_wants_the_fields_told_and_the_fields_asked_but_not_the_key() -> None:
    profile = profile_of(
        [subscription("b = 1 and key = 'k'", fields=frozenset("a")), subscription("b > 0", fields=frozenset("c"))]
    )
    assert profile.fields == frozenset("abc")
    assert [profile.wants(name) for name in ("a", "b", "c", "d", "key")] == [True, True, True, False, False]


def test_a_covered_predicate_still_needs_its_field() -> None:
    profile = profile_of([subscription("", fields=frozenset("a")), subscription("b = 1", fields=frozenset("a"))])
    assert texts(profile) == [""]
    assert profile.fields == frozenset("ab")


def test_who_wants_all_fields_makes_all_wanted() -> None:
    some, every = profile_of([subscription("a = 1", fields=frozenset("b"))]), profile_of([subscription("a = 2")])
    assert some.fields == frozenset("ab")
    assert every.fields is None
    assert united([some, every]).fields is None
    assert united([some, NOBODY]).fields == frozenset("ab")


def test_a_pace_does_not_matter_beyond_the_last_broker() -> None:
    plain = subscription("a = 1", fields=frozenset("b"))
    paced = replace(plain, every_ms=5, settle_ms=6, at_most=7, heartbeat_ms=8)
    assert profile_of([paced]) == profile_of([plain, paced]) == profile_of([plain])


def test_who_can_never_match_wants_no_field() -> None:
    assert profile_of([subscription("a > 5 and a < 3")]) == NOBODY


def test_too_many_entries_become_no_condition_with_the_same_fields() -> None:
    many = [subscription(f"f{number} > 0", fields=frozenset("a")) for number in range(MOST_ENTRIES + 1)]
    assert len(profile_of(many[1:]).entries) == MOST_ENTRIES
    profile = profile_of(many)
    assert texts(profile) == [""]
    assert profile.fields == frozenset("a") | {f"f{number}" for number in range(MOST_ENTRIES + 1)}
    assert united([profile_of(many[1:]), profile_of(many[:1])]) == profile


def test_too_many_alternatives_become_no_condition_too() -> None:
    wide = [" or ".join(f"f{number}.{part} = 1 and g = {part}" for part in range(60)) for number in range(9)]
    assert len(profile_of(map(subscription, wide[1:])).entries) == 8
    assert texts(profile_of(map(subscription, wide))) == [""]


def test_many_entries_are_no_burden_if_few_cover_them() -> None:
    many = [subscription(f"f{number} > 0 and x > {number}") for number in range(3 * MOST_ENTRIES)]
    assert texts(profile_of([*many, subscription("x > 0")])) == ["x > 0"]


def test_entries_too_tangled_to_compare_are_kept_as_they_are() -> None:
    tangled = " and ".join(f"(a{number} = 1 or b{number} = 1)" for number in range(20))
    profile = profile_of([subscription(tangled), subscription("c = 1"), subscription(tangled, OPTIMISTIC)])
    assert texts(profile) == [tangled, "c = 1"]
    assert profile.entries[0].missing is OPTIMISTIC
    assert profile.matches("k", {f"a{number}": 1 for number in range(20)})
    assert not profile.matches("k", {"a0": 2, "b0": 2, "c": 2})


def test_profiles_survive_pickling_and_serve_as_keys() -> None:
    profile = profile_of([subscription("key in ('k', 'l') and a > 1")])
    again = pickle.loads(pickle.dumps(profile))
    assert {profile: 1}[again] == 1
    assert again.matches("k", {"a": 2})
    assert not again.matches("m", {"a": 2})


def test_covering_of_profiles_minds_fields_and_entries() -> None:
    wide, narrow = profile_of([subscription("a > 1")]), profile_of([subscription("a > 2", fields=frozenset("a"))])
    assert wide.covers(narrow)
    assert not narrow.covers(wide)
    assert not profile_of([subscription("a > 1", fields=frozenset("b"))]).covers(profile_of([subscription("a > 2")]))
    assert EVERYTHING.covers(wide)
    assert wide.covers(NOBODY)
    assert not NOBODY.covers(wide)
    halves = profile_of([subscription("a <= 3"), subscription("a > 7")])
    assert halves.covers(profile_of([subscription("a < 2 or a > 8")]))


def test_three_thousand_keys_unite_quickly_and_are_matched_quickly() -> None:
    profiles = [profile_of([subscription(f"key = 'k{number}'")]) for number in range(3000)]
    started = time.process_time()  # of this process alone: the machine may be busy with others
    profile = united(profiles)
    assert time.process_time() - started < 0.5
    assert len(profile.entries) == 1
    facts: dict[str, Value] = {"a": 1, "b": "x", "c": None}
    for key, expected in (("k2999", True), ("k3000", False)):
        assert profile.matches(key, facts) is expected
        matching = timeit.Timer("matches(key, facts)", timer=time.process_time, globals={**locals(), "matches": profile.matches})
        assert min(matching.repeat(5, 2000)) / 2000 < 5e-6


# A small world, as for covering, with the key beside the fields.
_VALUES: tuple[Value, ...] = (None, True, 1.0, 1.5, 2, "", "x", "xa", "xy", ("x",), ("xy",))
_STATED: list[list[dict[str, Value]]] = [[{}, *[{name: value} for value in _VALUES]] for name in "ab"]
WORLD: list[tuple[str, dict[str, Value]]] = [(key, {**a, **b}) for key, a, b in product(("x", "xy", "z"), *_STATED)]

names, words = st.sampled_from(["a", "b", "key"]), st.sampled_from(["x", "xy"])
literals = st.sampled_from([None, True, 1, 1.0, 2, "x", "xy"])
leaves = st.one_of(
    st.builds(Compare, names, st.sampled_from(Op), literals),
    st.builds(In, names, st.lists(literals, min_size=1, max_size=3).map(tuple)),
    st.builds(Prefix, names, words),
    st.builds(Contains, names, words),
    st.builds(Exists, names),
)


def _deeper(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.builds(And, several), st.builds(And, several), st.builds(Or, several), st.builds(Not, inner))


predicates = st.one_of(leaves, _deeper(leaves), _deeper(leaves), _deeper(_deeper(_deeper(leaves))))
wanted = st.none() | st.frozensets(st.sampled_from("abc"))
crowds = st.lists(st.builds(subscription, predicates, st.sampled_from(Missing), wanted), min_size=1, max_size=6)


def told(crowd: Iterable[Subscription]) -> list[bool]:
    return [any(each.judge(key, facts) is Verdict.MATCHES for each in crowd) for key, facts in WORLD]


def matched(profile: Profile) -> list[bool]:
    return [profile.matches(key, facts) for key, facts in WORLD]


@given(crowds)
def test_a_profile_matches_exactly_when_one_of_its_subscriptions_does(crowd: list[Subscription]) -> None:
    assert matched(profile_of(crowd)) == told(crowd)


@given(crowds, crowds, st.randoms(use_true_random=False))
def test_uniting_profiles_is_exact_and_the_order_does_not_matter(
    here: list[Subscription], there: list[Subscription], random: Random
) -> None:
    profiles = [profile_of(here), profile_of(there), NOBODY]
    profile = united(profiles)
    assert matched(profile) == told([*here, *there])
    assert united(reversed(profiles)) == profile
    assert united([*profiles, *profiles]) == profile
    shuffled = [*here, *there]
    random.shuffle(shuffled)
    assert profile_of(shuffled) == profile_of([*here, *there])


@given(crowds)
def test_no_entry_covers_another_and_no_two_merge(crowd: list[Subscription]) -> None:
    entries = profile_of(crowd).entries
    assert len(entries) <= len(crowd)
    assert list(entries) == sorted(entries, key=lambda entry: (render(entry.where), entry.missing))
    for place, one in enumerate(entries):
        for other in entries[:place]:
            assert not covers(one, other)
            assert not covers(other, one)
            assert merged(one, other) is None


@given(crowds)
def test_a_canonical_profile_united_with_itself_is_itself(crowd: list[Subscription]) -> None:
    profile = profile_of(crowd)
    assert united([profile]) == profile
    assert hash(united([profile, profile])) == hash(profile)


@given(crowds, crowds)
def test_a_profile_that_covers_another_needs_nothing_more(here: list[Subscription], there: list[Subscription]) -> None:
    mine, theirs = profile_of(here), profile_of(there)
    both = united([mine, theirs])
    if mine.covers(theirs):
        assert both.fields == mine.fields
        assert matched(both) == matched(mine)


plain_tests = leaves.filter(lambda test: not isinstance(test, Contains))
plain_crowds = st.lists(
    st.builds(subscription, plain_tests | st.builds(And, st.lists(plain_tests, min_size=2, max_size=3).map(tuple))), max_size=5
)


@given(plain_crowds, plain_crowds)
def test_what_is_united_covers_its_parts(here: list[Subscription], there: list[Subscription]) -> None:
    mine, theirs = profile_of(here), profile_of(there)
    both = united([mine, theirs])
    assert both.covers(mine)
    assert both.covers(theirs)
