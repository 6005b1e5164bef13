"""Windows: which publications belong to which, and what may be said of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.aggregate import parse
from tidings.errors import TidingsError
from tidings.window import DAY_MS, LONGEST_MS, MOST_AT_ONCE, BadWindow, Window, WindowKind, read_span, read_window

OF = {"n": "count()"}
COUNTING = (("n", parse("count()")),)
AVERAGE: dict[str, Any] = {
    "size_ms": 10000,
    "shift_ms": 5000,
    "of": {"n": "count()", "avg_speed": "avg(speed)"},
    "grace_ms": 250,
    "empty": True,
}


def test_a_window_of_time() -> None:
    functions = (("avg_speed", parse("avg(speed)")), ("n", parse("count()")))
    assert read_window(AVERAGE) == Window(10000, 5000, functions, counted=False, grace_ms=250, empty=True)


def test_a_window_of_publications() -> None:
    assert read_window({"size": 100, "shift": 50, "of": OF}) == Window(100, 50, COUNTING, counted=True)


def test_the_least_a_window_must_say() -> None:
    assert read_window({"size_ms": 7, "of": OF}) == Window(7, 7, COUNTING, grace_ms=1000, empty=False)
    assert read_window({"size": 7, "of": OF, "empty": True}) == Window(7, 7, COUNTING, counted=True, empty=True)


GOOD = [
    ({"size_ms": 1}, "the least size"),
    ({"size_ms": LONGEST_MS}, "the most, 31 days"),
    ({"size_ms": 1, "shift_ms": LONGEST_MS}, "a sample of a millisecond a month"),
    ({"size_ms": 1000, "shift_ms": 1}, "a publication is in a thousand windows"),
    ({"size_ms": 10, "shift_ms": 3}, "the shift does not divide the size"),
    ({"size": 1_000_000, "shift": 1000}, "a million publications"),
    ({"size_ms": 10, "grace_ms": 0}, "no grace"),
    ({"size_ms": 10, "grace_ms": DAY_MS}, "a day of grace"),
    ({"size_ms": 10, "of": {f"r{n}": "count()" for n in range(32)}}, "32 results"),
    ({"size_ms": 10, "of": {"ü" * 200: "count()"}}, "a long name"),
]


@pytest.mark.parametrize(("datum", "sentence"), GOOD, ids=[row[-1] for row in GOOD])
def test_limits_are_inclusive(datum: dict[str, Any], sentence: str) -> None:
    assert isinstance(read_window({"of": OF, **datum}), Window), sentence


SIZE = "'size_ms' must be an integer of milliseconds from 1 to 2678400000, not "
RESULTS = "'of' must be an object of 1 to 32 results, each a name and a function, not "
BAD = [
    ([], "it must be an object, not []"),
    (None, "it must be an object, not None"),
    ({}, "'size_ms' is required, or 'size' for a window of publications"),
    ({"size_ms": 5, "size": 5}, "'size_ms' is for a window of time and 'size' for one of publications: it cannot have both"),
    ({"size_ms": 5, "shift": 5}, "'shift' does not go with 'size_ms'"),
    ({"size": 5, "shift_ms": 5}, "'shift_ms' does not go with 'size'"),
    ({"size": 5, "grace_ms": 5}, "'grace_ms' does not go with 'size'"),
    ({"size_ms": 0}, SIZE + "0"),
    ({"size_ms": -1}, SIZE + "-1"),
    ({"size_ms": 365 * DAY_MS}, SIZE + "31536000000"),
    ({"size_ms": LONGEST_MS + 1}, SIZE + "2678400001"),
    ({"size_ms": True}, SIZE + "True"),
    ({"size_ms": 10.0}, SIZE + "10.0"),
    ({"size_ms": "10"}, SIZE + "'10'"),
    ({"size_ms": None}, SIZE + "None"),
    ({"size_ms": 10**5000}, SIZE + "a number of more than 64 bits"),
    ({"size_ms": 5, "shift_ms": 0}, "'shift_ms' must be an integer of milliseconds from 1 to 2678400000, not 0"),
    ({"size_ms": 5, "shift_ms": -5}, "'shift_ms' must be an integer of milliseconds from 1 to 2678400000, not -5"),
    (
        {"size_ms": 5, "shift_ms": 365 * DAY_MS},
        "'shift_ms' must be an integer of milliseconds from 1 to 2678400000, not 31536000000",
    ),
    ({"size_ms": 5, "shift_ms": False}, "'shift_ms' must be an integer of milliseconds from 1 to 2678400000, not False"),
    ({"size": 0}, "'size' must be an integer of publications from 1 to 1000000, not 0"),
    ({"size": 1_000_001}, "'size' must be an integer of publications from 1 to 1000000, not 1000001"),
    ({"size": 5, "shift": -5}, "'shift' must be an integer of publications from 1 to 1000000, not -5"),
    (
        {"size_ms": 1001, "shift_ms": 1},
        "'size_ms' must be at most 1000 times 'shift_ms', so that a publication is in at most 1000 windows, "
        "but they are 1001 and 1",
    ),
    (
        {"size": 2001, "shift": 2},
        "'size' must be at most 1000 times 'shift', so that a publication is in at most 1000 windows, but they are 2001 and 2",
    ),
    ({"size_ms": 5, "grace_ms": -1}, "'grace_ms' must be an integer of milliseconds from 0 to 86400000, not -1"),
    ({"size_ms": 5, "grace_ms": DAY_MS + 1}, "'grace_ms' must be an integer of milliseconds from 0 to 86400000, not 86400001"),
    ({"size_ms": 5, "empty": 1}, "'empty' must be true or false, not 1"),
    ({"size_ms": 5, "every_ms": 1, "color": 1}, "unknown property 'color'"),
    ({"size_ms": 5, "of": None}, RESULTS + "None"),
    ({"size_ms": 5, "of": {}}, RESULTS + "{}"),
    ({"size_ms": 5, "of": ["count()"]}, RESULTS + "['count()']"),
    (
        {"size_ms": 5, "of": {f"r{n:02}": "count()" for n in range(33)}},
        RESULTS + "{'r00': 'count()', 'r01': 'count()', 'r02': 'count()', 'r03': 'count()', ...}",
    ),
    ({"size_ms": 5, "of": {"": "count()"}}, "in 'of', the name of a result has 1 to 200 characters, not ''"),
    (
        {"size_ms": 5, "of": {"x" * 201: "count()"}},
        "in 'of', the name of a result has 1 to 200 characters, not 'xxxxxxxxxxxx...xxxxxxxxxxxxx'",
    ),
    ({"size_ms": 5, "of": {"\ud800": "count()"}}, "in 'of', the name of a result has 1 to 200 characters, not '\\ud800'"),
    ({"size_ms": 5, "of": {"n": 3}}, "in 'of', 'n' must be a function like 'avg(speed)', not 3"),
    (
        {"size_ms": 5, "grace_ms": 10**30},
        "'grace_ms' must be an integer of milliseconds from 0 to 86400000, not a number of more than 64 bits",
    ),
    ({"size_ms": 5, "grace_ms": None}, "'grace_ms' must be an integer of milliseconds from 0 to 86400000, not None"),
    (
        {"size_ms": 5, "of": {"n": "top(0, f)"}},
        "in 'of', 'n' does not parse: expected an integer from 1 to 100 of top(k, field), found '0' at position 4",
    ),
    (
        {"size_ms": 5, "of": {"n": "ema(f, 2)"}},
        "in 'of', 'n' does not parse: expected a number above 0 and up to 1 of ema(field, alpha), found '2' at position 7",
    ),
    (
        {"size_ms": 5, "of": {"n": "sum(f g)"}},
        "in 'of', 'n' does not parse: expected ')' of sum(field), found 'g' at position 6",
    ),
    (
        {"size_ms": 5, "of": {"n": "sum()"}},
        "in 'of', 'n' does not parse: expected a field of sum(field), found ')' at position 4",
    ),
]


@pytest.mark.parametrize(("datum", "detail"), BAD, ids=[row[-1][:60] for row in BAD])
def test_what_is_refused_says_why(datum: Any, detail: str) -> None:
    with pytest.raises(BadWindow) as caught:
        read_window({"of": OF, **datum} if isinstance(datum, dict) else datum)
    assert caught.value.detail == detail
    assert isinstance(caught.value, TidingsError)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just("avg(f)"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
properties = st.sampled_from(["size_ms", "size", "shift_ms", "shift", "of", "grace_ms", "empty", "other"])


@given(junk | st.dictionaries(properties, junk | st.integers(0, 3000)))
def test_anything_is_read_or_refused(datum: Any) -> None:
    try:
        window = read_window(datum)
    except BadWindow:
        return
    assert len(window.starts(10**6)) <= MOST_AT_ONCE


def test_input_is_not_changed() -> None:
    before = {**AVERAGE, "of": dict(AVERAGE["of"])}
    read_window(AVERAGE)
    assert before == AVERAGE


times = st.integers(0, 60) | st.integers(0, 2**63 - 1)
windows = st.builds(Window, st.integers(1, 20), st.integers(1, 20), st.just(COUNTING)) | st.builds(
    Window, st.integers(1, 1000), st.just(1), st.just(COUNTING)
)


@given(windows, st.integers(0, 60))
def test_starts_are_those_of_all_windows_that_contain_the_time(window: Window, time: int) -> None:
    everyone = range(0, time + 1, window.shift)
    assert list(window.starts(time)) == [start for start in everyone if start <= time < start + window.size]


@given(windows, times)
def test_every_time_is_in_as_many_windows_as_its_kind_says(window: Window, time: int) -> None:
    found = len(window.starts(time))
    match window.kind:
        case WindowKind.TUMBLING:
            assert found == 1
        case WindowKind.SAMPLING:
            assert found <= 1
        case WindowKind.SLIDING:
            most = -(-window.size // window.shift)
            assert 1 <= found <= most
            assert time < window.size or found >= window.size // window.shift
    assert all(start % window.shift == 0 and start <= time < start + window.size for start in window.starts(time))


def test_kinds() -> None:
    assert Window(10, 5, COUNTING).kind == "sliding"
    assert Window(10, 10, COUNTING).kind == "tumbling"
    assert Window(10, 11, COUNTING).kind == "sampling"


def test_nothing_was_published_before_the_first_window() -> None:
    assert list(Window(10, 4, COUNTING).starts(0)) == [0]
    assert list(Window(10, 4, COUNTING).starts(-1)) == []


def test_a_window_closes_when_its_grace_is_over() -> None:
    assert Window(10, 5, COUNTING, grace_ms=3).closes_ms(20) == 33


def test_a_window_is_decomposable_if_all_its_functions_are_and_it_is_of_time() -> None:
    small, large = ("a", parse("avg(f)")), ("b", parse("top(3, f)"))
    assert Window(10, 5, (small, small)).decomposable
    assert not Window(10, 5, (small, large)).decomposable
    assert not Window(10, 5, (small,), counted=True).decomposable


SPANS = [
    ("10s/5s", {"size_ms": 10_000, "shift_ms": 5_000}),
    ("1m", {"size_ms": 60_000}),
    ("100/50", {"size": 100, "shift": 50}),
    ("100", {"size": 100}),
    ("500ms/1d", {"size_ms": 500, "shift_ms": DAY_MS}),
    ("2h", {"size_ms": 7_200_000}),
    ("0s", {"size_ms": 0}),
]


@pytest.mark.parametrize(("text", "properties"), SPANS, ids=[row[0] for row in SPANS])
def test_spans(text: str, properties: dict[str, int]) -> None:
    assert read_span(text) == properties


@pytest.mark.parametrize(
    "text", ["", "/", "s", "10x/5s", "1.5s", "-1s", "10s/", "/5s", "10s/5", "10/5s", "1s/1s/1s", "1w", "1S", " 1s", "1s\n"]
)
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(BadWindow, match="is no span: write '10s/5s'"):
        read_span(text)


@given(st.text(max_size=8) | st.text(alphabet="0123456789msh/d", max_size=40))
def test_any_text_is_a_span_or_refused(text: str) -> None:
    try:
        properties = read_span(text)
    except BadWindow:
        return
    assert set(properties) in ({"size"}, {"size", "shift"}, {"size_ms"}, {"size_ms", "shift_ms"})


def test_an_overlong_span_is_refused() -> None:
    with pytest.raises(BadWindow):
        read_span("9" * 5000 + "s")
