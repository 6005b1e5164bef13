"""Covering and merging, against all that can be known of an event in a small world."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.predicate import (
    And,
    Compare,
    Contains,
    Everything,
    Exists,
    In,
    Missing,
    Not,
    Op,
    Or,
    Predicate,
    Prefix,
    Verdict,
    judge,
    parse,
    render,
)
from tidings.values import Value
from topology.covering import MOST_DISJUNCTS, Interest, covers, merged, scope_of

OPTIMISTIC, PATIENT = Missing.OPTIMISTIC, Missing.PATIENT


def entry(text: str, missing: Missing = PATIENT) -> Interest:
    return Interest(parse(text), missing)


COVERED = [
    ("", "a = 1", "no condition covers all"),
    ("a >= 3", "a > 3 and b = 1", "a further condition only narrows"),
    ("a in (1, 2, 3)", "a = 2", "one of the list"),
    ("a in (1, 2, 3)", "a in (1, 3)", "some of the list"),
    ("a = 1", "a in (1.0, 1)", "one and the same number"),
    ("name prefix 'ab'", "name = 'abc'", "a string that begins so"),
    ("name prefix 'ab'", "name prefix 'abc'", "a longer beginning"),
    ("name >= 'ab' and name < 'ac'", "name prefix 'ab'", "a beginning is a range"),
    ("name > 'a'", "name >= 'aa'", "no string is between"),
    ("a != 5", "a > 5", "more is different"),
    ("a != 5", "a = 'x'", "another kind is different"),
    ("a != 5", "a = null", "empty is different"),
    ("x >= 1 and x <= 9", "x = 4", "within the bounds"),
    ("x >= 1 and x <= 9", "x > 1 and x < 9", "within the bounds, strictly"),
    ("a <= true", "a = false", "booleans have an order"),
    ("a in (true, false)", "a <= true", "and are only two"),
    ("not a < 5", "a = 'x'", "what is no number is not less"),
    ("not a < 5", "a >= 5", "nor is what is more"),
    ("a not in (1, 2)", "a > 2", "beyond the list"),
    ("exists(a)", "a = 1", "the patient know what they match"),
    ("exists(a)", "a contains 'x'", "also what it contains"),
    ("a = 1 or b = 2", "a = 1", "one of two conditions"),
    ("a = 1 or b = 2", "b = 2 and c = 3 or a = 1 and c = 4", "each one of them"),
    ("a < 5 or b = 1 or a > 3", "a >= 2 and a <= 7", "two of them together"),
    ("not (a = 1 and b = 1)", "a = 2", "negation is carried inwards"),
    ("a contains 'b'", "a = 'abc'", "a string that has it"),
    ("a contains 'b'", "a prefix 'abc'", "a beginning that has it"),
    ("not a contains 'b'", "a in ('ac', 5, null)", "values that do not have it"),
    ("a >= ''", "a contains 'b' and a prefix 'c'", "more is asked than that"),
    ("b = 1", "a > 5 and a < 3", "what never holds is covered by anything"),
    ("b = 1", "a < null", "nothing is less than empty"),
]

NOT_COVERED = [
    ("a > 3", "a >= 3", "the bound itself"),
    ("a in (1, 2)", "a in (2, 3)", "one is not in the list"),
    ("a = 1", "a = true", "true is not one"),
    ("a = 1", "a = '1'", "nor is its digit"),
    ("a < 5", "not a >= 5", "a string is not more either"),
    ("a < 5 or a >= 5", "exists(a)", "it may be no number"),
    ("a = 1 and b = 1", "a = 1", "the second condition"),
    ("name prefix 'abc'", "name prefix 'ab'", "a shorter beginning"),
    ("a prefix ''", "exists(a)", "it may be no string"),
    ("a prefix ''", "a contains 'x'", "lists contain things too"),
    ("a contains 'x'", "a contains 'xy'", "a list of 'xy' does not contain 'x'"),
    ("a contains ''", "a != 1", "numbers contain nothing"),
    ("a != null", "a <= 'x' or a not in (3)", "empty is not three"),
    ("a != 1", "b = 1", "what is not stated is not known to differ"),
    ("exists(a)", "not exists(b)", "another field"),
    ("a contains 'b'", "a >= 'abc'", "not all of these begin so"),
]


@pytest.mark.parametrize(("general", "special", "why"), COVERED)
def test_covered(general: str, special: str, why: str) -> None:
    assert covers(entry(general), entry(special)), why


@pytest.mark.parametrize(("general", "special", "why"), NOT_COVERED)
def test_not_covered(general: str, special: str, why: str) -> None:
    assert not covers(entry(general), entry(special)), why


MODES = [
    ("a = 1", OPTIMISTIC, "a = 1", PATIENT, True, "who waits for nothing matches earlier"),
    ("a = 1", PATIENT, "a = 1", OPTIMISTIC, False, "who waits matches later"),
    ("b = 1", OPTIMISTIC, "a > 5 and a < 3", OPTIMISTIC, False, "a contradiction matches while nothing is known"),
    ("not exists(a)", OPTIMISTIC, "a > 5 and a < 3", OPTIMISTIC, True, "and only then"),
    ("not exists(a)", PATIENT, "a > 5 and a < 3", OPTIMISTIC, True, "which waits for nothing, as `exists` always knows"),
    ("exists(a)", OPTIMISTIC, "a = 1", OPTIMISTIC, False, "who hopes for a field matches without it"),
    ("exists(a)", OPTIMISTIC, "a = 1 and exists(a)", OPTIMISTIC, True, "unless it must be there"),
    ("a = 1 or not exists(a)", PATIENT, "a = 1", OPTIMISTIC, True, "hope, spelt out"),
    ("a != 1 or a = 1", OPTIMISTIC, "b = 1", OPTIMISTIC, True, "to the optimistic, one of both is always so"),
    ("a != 1 or a = 1", PATIENT, "b = 1", PATIENT, False, "to the patient, not before it is known"),
    (
        "exists(b) and not (b contains '' and b prefix 'xy' and a prefix '' or a contains '' and a in ('', 'xy', 2))",
        OPTIMISTIC,
        "a in (2, 'xy') and b <= 'x'",
        PATIENT,
        False,
        "of two values one is out, though the other is in",
    ),
]


@pytest.mark.parametrize(("general", "its", "special", "theirs", "expected", "why"), MODES)
def test_covering_minds_what_is_missing(
    general: str, its: Missing, special: str, theirs: Missing, expected: bool, why: str
) -> None:
    assert covers(entry(general, its), entry(special, theirs)) is expected, why


MERGED = [
    ("a = 1", "a in (1, 2)", "a in (1, 2)", "one covers the other"),
    ("a = 1", "a = 'x'", "a in (1, 'x')", "two values"),
    ("a = true", "a in (1, false)", "a in (false, true, 1)", "booleans are no numbers"),
    ("b = 2 and a = 1 and c = 3", "c = 3 and a = 2 and b = 2", "b = 2 and a in (1, 2) and c = 3", "the others are the same"),
    ("x >= 1 and x <= 5", "x > 4 and x < 9", "x >= 1 and x < 9", "ranges that overlap"),
    ("x < 5", "x >= 5 and x < 7", "x < 7", "ranges that touch"),
    ("x < 5", "x = 5", "x <= 5", "a range and its bound"),
    ("x < 5", "x >= 5", "x < 0 or x >= 0", "all numbers, but not all there is"),
    ("x < 'b'", "x >= 'b'", "x prefix ''", "all strings"),
    ("x < 'b'", "x prefix 'b'", "x < 'c'", "strings are ordered by their beginning"),
    ("x <= 'b'", "x > 'b' and x <= 'd'", "x <= 'd'", "strings that touch"),
    ("x != 1", "x = 1", "exists(x)", "whatever it is"),
    ("x != 1", "x != 2", "exists(x)", "it cannot be both"),
    ("x not in (1, 2)", "x not in (2, 3)", "x != 2", "only this is in neither"),
    ("not x < 5", "x >= 1 and x < 7", "not x < 1", "a range that is ruled out grows smaller"),
    ("a contains 'x' and b = 1", "a contains 'x' and b = 2", "a contains 'x' and b in (1, 2)", "words can be the same part"),
    ("a = 1 and exists(b)", "a = 2 and exists(b)", "a in (1, 2) and exists(b)", "so can existence"),
    ("not (a != 1 or b = 2)", "a = 3 and b != 2", "a in (1, 3) and b != 2", "one of the two says it plainly"),
]

NOT_MERGED = [
    ("x < 5", "x > 5", "there is a gap"),
    ("x < 5", "x >= 'b'", "two kinds are two ranges"),
    ("a = 1", "b = 1", "two fields"),
    ("a = 1 and b = 1", "a = 2 and b = 2", "two fields differ"),
    ("not (a != 1 or b = 2)", "not (a != 3 or b = 2)", "one term is about both fields"),
    ("not exists(a)", "a = 1", "the patient have no test for what may be missing"),
    ("a contains 'x'", "a contains 'y'", "no test has both words"),
    ("a prefix 'x' and a contains 'b'", "a prefix 'y' and a contains 'b'", "beginnings do not unite"),
]


@pytest.mark.parametrize(("a", "b", "expected", "why"), MERGED)
def test_merged(a: str, b: str, expected: str, why: str) -> None:
    found = merged(entry(a), entry(b))
    assert found is not None, why
    assert (render(found.where), found.missing) == (expected, PATIENT), why


@pytest.mark.parametrize(("a", "b", "why"), NOT_MERGED)
def test_not_merged(a: str, b: str, why: str) -> None:
    assert merged(entry(a), entry(b)) is None, why


def test_the_optimistic_merge_to_no_condition_where_the_patient_need_the_field() -> None:
    assert merged(entry("x != 1", OPTIMISTIC), entry("x = 1", OPTIMISTIC)) == Interest(Everything(), OPTIMISTIC)


def test_the_optimistic_who_need_a_field_still_do_when_merged() -> None:
    one, other = entry("exists(x) and x = 1", OPTIMISTIC), entry("x = 2 and exists(x)", OPTIMISTIC)
    assert merged(one, other) == entry("exists(x) and x in (1, 2)", OPTIMISTIC)


def test_the_patient_and_the_optimistic_merge_if_nothing_else_is_asked() -> None:
    assert merged(entry("x = 1", OPTIMISTIC), entry("x = 2")) == entry("x in (1, 2)", OPTIMISTIC)
    assert merged(entry("x = 1 and y = 1", OPTIMISTIC), entry("x = 2 and y = 1")) is None


def test_a_merge_never_writes_half_a_surrogate_pair() -> None:
    assert merged(entry("x prefix '\ud7ff'"), entry("x >= 'y' and x < '\ud7ffz'")) is None


def test_predicates_that_come_apart_into_too_much_are_covered_by_themselves_and_by_everything() -> None:
    huge = " and ".join(f"(a{i} = 1 or b{i} = 1)" for i in range(MOST_DISJUNCTS))
    started = time.process_time()
    assert scope_of(entry(huge)).boxes is None
    assert covers(entry(huge), entry(huge))
    assert covers(entry(huge, OPTIMISTIC), entry(huge))
    assert not covers(entry(huge), entry(huge, OPTIMISTIC))
    assert covers(entry(""), entry(huge))
    assert covers(entry(huge), entry("a < null"))
    assert not covers(entry("a0 = 1 or b0 = 1"), entry(huge))
    assert merged(entry(huge), entry("a0 = 1")) is None
    assert time.process_time() - started < 1


def test_a_long_alternative_of_one_field_is_one_box() -> None:
    long = entry(" or ".join(f"a = {i}" for i in range(300)))
    assert scope_of(long).box is not None
    assert covers(entry("a >= 0"), long)
    assert covers(long, entry("a in (7, 299)"))


# A small world: every part of the line that the literals cut it into has a value here, and so has every cut.
LITERALS = (None, True, False, 1, 1.0, 2, "", "x", "xy")
_TEXTS = ("", "\0", "w", "x", "x\0", "xa", "xy", "xy\0", "xya", "xz", "y")
_LISTS = ((), ("",), ("x",), ("xy",), ("x", "xy", ""))
_VALUES: tuple[Value, ...] = (None, False, True, 0, 1, 1.5, 2.0, 3, *_TEXTS, *_LISTS)
_PARTS: list[list[dict[str, Value]]] = [[{}, *[{field: value} for value in _VALUES]] for field in "ab"]
WORLD: list[Mapping[str, Value]] = [{**a, **b} for a, b in product(*_PARTS)]

fields, literals, words = st.sampled_from("ab"), st.sampled_from(LITERALS), st.sampled_from(["", "x", "xy"])
scalar_tests = st.one_of(
    st.builds(Compare, fields, st.sampled_from(Op), literals),
    st.builds(In, fields, st.lists(literals, min_size=1, max_size=3).map(tuple)),
    st.builds(Prefix, fields, words),
)
leaves = st.one_of(scalar_tests, st.builds(Contains, fields, words), st.builds(Exists, fields))


def _deeper(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.builds(Not, inner), st.builds(And, several), st.builds(Or, several))


predicates = st.one_of(leaves, _deeper(leaves), _deeper(leaves | _deeper(leaves)), _deeper(_deeper(_deeper(leaves))))
conjunctions = st.lists(scalar_tests, min_size=1, max_size=4).map(lambda terms: And(tuple(terms)))
entries = st.builds(Interest, predicates, st.sampled_from(Missing))


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[Interest, Interest]:
    """Two entries that differ in one term, about one field: that is where covering and merging happen."""
    shared = draw(st.lists(leaves, max_size=2))
    place = draw(st.integers(0, len(shared)))
    missing = draw(st.sampled_from(Missing))
    about_a = scalar_tests.filter(lambda test: test.field == "a") | st.just(Exists("a"))
    about_a = st.one_of(about_a, st.builds(Not, about_a), about_a.map(lambda test: And((Exists("a"), test))))
    terms = draw(st.lists(about_a, min_size=2, max_size=2))
    one, other = [And((*shared[:place], term, *shared[place:])) for term in terms]
    return Interest(one, missing), Interest(other, draw(st.sampled_from([missing, *Missing])))


pairs = neighbours() | st.tuples(entries, entries)


@cache  # the same few come in many pairs
def matched(asked: Interest) -> Sequence[bool]:
    return [judge(asked.where, facts, asked.missing) is Verdict.MATCHES for facts in WORLD]


def within(special: Sequence[bool], general: Sequence[bool]) -> bool:
    return all(g or not s for s, g in zip(special, general, strict=True))


@given(pairs)
def test_covering_is_sound(pair: tuple[Interest, Interest]) -> None:
    general, special = pair
    if covers(general, special):
        assert within(matched(special), matched(general))
    if covers(special, general):
        assert within(matched(general), matched(special))


@given(conjunctions, conjunctions, st.sampled_from(Missing))
def test_covering_is_complete_for_conjunctions_of_scalar_tests(general: Predicate, special: Predicate, missing: Missing) -> None:
    asked = [Interest(where, missing) for where in (general, special, And((general, special)))]
    for (one, its_facts), (other, theirs) in permutations([(each, matched(each)) for each in asked], 2):
        assert covers(one, other) is within(theirs, its_facts)


@given(entries)
def test_an_entry_covers_itself_and_merges_with_itself(asked: Interest) -> None:
    assert covers(asked, asked)
    assert merged(asked, asked) == asked


@given(pairs)
def test_a_merge_is_exact_and_readable_and_the_same_both_ways(pair: tuple[Interest, Interest]) -> None:
    a, b = pair
    found = merged(a, b)
    assert found == merged(b, a)
    if found is None:
        return
    assert matched(found) == [one or other for one, other in zip(matched(a), matched(b), strict=True)]
    assert covers(found, a)
    assert covers(found, b)
    assert parse(render(found.where)) is not None


def test_most_pairs_of_tests_on_a_field_merge_and_all_exactly() -> None:
    tests = [Interest(Compare("a", op, value), PATIENT) for op in Op for value in (1, 2, "x", True)]
    found = [(one, other, merged(one, other)) for one, other in combinations(tests, 2)]
    merges = [(matched(one), matched(other), matched(both)) for one, other, both in found if both is not None]
    assert all(both == [a or b for a, b in zip(one, other, strict=True)] for one, other, both in merges)
    assert len(merges) > len(found) / 2


texts = st.text(st.sampled_from("\0a\ud7ff\ud800\udfff\ue000\U0010fffe\U0010ffff"), max_size=3)
numbers = st.sampled_from([2**53, 2**53 + 1, float(2**53), -(2**63), 2**63 - 1, float(2**63), -0.0, 0, 5e-324, 1e300])
edges = texts | numbers
edge_tests = st.builds(Prefix, st.just("a"), texts) | st.builds(Compare, st.just("a"), st.sampled_from(Op), edges)


@given(edge_tests, edge_tests, st.lists(edges, min_size=5, max_size=5))
def test_covering_and_merging_hold_at_the_edges_of_text_and_numbers(a: Predicate, b: Predicate, facts: list[Value]) -> None:
    # What one test holds of is near its own literal, so those are asked too.
    near = [test.value for test in (a, b) if isinstance(test, Compare | Prefix)]
    near += [value + "\0" for value in near if isinstance(value, str)]
    one, other = Interest(a, PATIENT), Interest(b, PATIENT)
    found = merged(one, other)
    for fact in [*facts, *near]:
        holds, holds_too = [judge(each.where, {"a": fact}, PATIENT) is Verdict.MATCHES for each in (one, other)]
        assert holds or not holds_too or not covers(one, other)
        if found is not None:
            assert (judge(found.where, {"a": fact}, PATIENT) is Verdict.MATCHES) is (holds or holds_too)
