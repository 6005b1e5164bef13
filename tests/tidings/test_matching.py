"""The index of subscriptions: it asks fewer, and misses none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.matching import Index
from tidings.predicate import Missing, Verdict, parse
from tidings.subscription import Subscription

terms = st.sampled_from(
    [
        *("a = 1", "a = true", "a = 'x'", "a in (1, 'x')", "b = 2.0", "b prefix 'x'", "key = 'k1'", "key prefix 'k'"),
        *("a >= 1", "not a = 1", "exists(b)", "a not in (1, 2)", "(a = 1 or b = 2)", "a = null", "b contains 'x'"),
        *("key in ('k1', 'k3')", "b prefix ''"),
    ]
)
predicates = st.lists(terms, max_size=3).map(" and ".join)
values = st.sampled_from([1, 1.0, True, 2, 2.0, "x", "xy", "", None, ("x",)])


def made(where: list[str], missing: list[Missing]) -> list[Subscription]:
    return [
        Subscription(f"s{n}", "s", "b1", "t", "notify.s", parse(text), kind)
        for n, (text, kind) in enumerate(zip(where, missing, strict=True))
    ]


@given(
    st.lists(st.tuples(predicates, st.sampled_from(Missing)), max_size=12),
    st.sampled_from(["k1", "k2", "x"]),
    st.dictionaries(st.sampled_from(["a", "b", "key"]), values),
)
def test_it_misses_none_that_matches_and_keeps_their_order(subscriptions, key, facts):
    found = made([where for where, _ in subscriptions], [missing for _, missing in subscriptions])
    candidates = list(Index(found).candidates(key, facts))
    matching = [s for s in found if s.judge(key, facts) is Verdict.MATCHES]
    assert [s for s in candidates if s.judge(key, facts) is Verdict.MATCHES] == matching
    assert [s.name for s in candidates] == [s.name for s in found if s in candidates]
    assert len({s.name for s in candidates}) == len(candidates)


@pytest.mark.parametrize(
    ("where", "asked"),
    [("area = 'a17' and severity >= 2", 1), ("area prefix 'a17' and severity >= 2", 1), ("area in ('a17', 'x') and n > 1", 1)],
)
def test_of_a_thousand_that_want_other_values_none_is_asked(where, asked):
    found = made([where.replace("a17", f"a{n}") for n in range(1000, 2000)] + [where], [Missing.OPTIMISTIC] * 1001)
    assert len(list(Index(found).candidates("k", {"area": "a17", "severity": 1}))) == asked


def test_while_a_field_is_not_stated_only_the_optimistic_are_asked():
    found = made(["area = 'a17'"] * 2, [Missing.OPTIMISTIC, Missing.PATIENT])
    assert list(Index(found).candidates("k", {})) == found[:1]
