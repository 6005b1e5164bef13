"""Values: when two are the same fact, everything that names facts agrees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings import aggregate, errors, window
from tidings.errors import TidingsError
from tidings.values import INT64_MAX, INT64_MIN, Value, fact_digest, same, sort_key

edges = st.sampled_from([0, 1, 2**53, 2**60, INT64_MAX]).flatmap(lambda edge: st.integers(edge - 2, min(edge + 2, INT64_MAX)))
integers = st.integers(INT64_MIN, INT64_MAX) | edges | edges.map(lambda number: max(-number, INT64_MIN)) | st.just(INT64_MIN)
floats = st.floats(allow_nan=False, allow_infinity=False) | integers.map(float)
values = (
    st.none() | st.booleans() | integers | floats | st.text(max_size=3) | st.lists(st.text(max_size=2), max_size=2).map(tuple)
)
alike = integers.flatmap(lambda number: st.tuples(st.just(number), st.just(float(number))))


@given(alike | st.tuples(values, values))
def test_the_same_fact_has_one_name(pair: tuple[Value, Value]) -> None:
    a, b = pair
    assert same(a, b) == same(b, a) == (sort_key(a) == sort_key(b)) == (fact_digest(a) == fact_digest(b))


@pytest.mark.parametrize(
    ("a", "b", "are"),
    [
        (2**53, 2.0**53, True),
        (2**53 + 1, 2.0**53, False),
        (-(2**63), -(2.0**63), True),
        (2**63 - 1, 2.0**63, False),
        (0, -0.0, True),
        (1, True, False),
        ("3", 3, False),
        ((), None, False),
    ],
)
def test_where_integers_and_floats_meet(a: Value, b: Value, are: bool) -> None:
    assert (same(a, b), fact_digest(a) == fact_digest(b)) == (are, are)


def test_the_tree_of_errors_names_all_that_a_window_may_raise() -> None:
    for error in (aggregate.BadAggregate, window.BadWindow):
        assert issubclass(error, TidingsError)
        assert f"├── {error.__name__} " in (errors.__doc__ or "")
