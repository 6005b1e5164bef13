"""What is known of some publications: what functions answer, and that partials merge exactly."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import reduce
from random import Random
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.aggregate import Function, Of, parse
from tidings.partial import Partial, added, empty, left_out, merged, results
from tidings.values import INT64_MAX, INT64_MIN, Value, sort_key

COUNT, SUM, MIN, MAX, AVG, VARIANCE = Function.COUNT, Function.SUM, Function.MIN, Function.MAX, Function.AVG, Function.VARIANCE
TOP, FIRST, LAST, DISTINCT, EMA = Function.TOP, Function.FIRST, Function.LAST, Function.DISTINCT, Function.EMA

Publication = tuple[int, str, dict[str, Value]]

SMALL = ["count()", "distinct(f, approx)", *(f"{name}(f)" for name in (COUNT, SUM, MIN, MAX, AVG, VARIANCE, FIRST, LAST))]
LARGE = ["distinct(f)", "top(1, f)", "top(3, f)", "ema(f, 0.3)", "ema(f, 1)"]
DECOMPOSABLE: Of = tuple((text, parse(text)) for text in SMALL)
EVERY: Of = tuple((text, parse(text)) for text in SMALL + LARGE)


def test_what_needs_every_value_or_its_order_is_not_decomposable() -> None:
    assert all(parse(text).decomposable for text in SMALL)
    assert not any(parse(text).decomposable for text in LARGE)


def of(*texts: str) -> Of:
    return tuple((text, parse(text)) for text in texts)


def known(functions: Of, publications: list[Publication]) -> Partial:
    partial = empty(functions)
    for published_ms, message_id, fields in publications:
        added(partial, functions, published_ms, message_id, fields)
    return partial


def told(text: str, *values: Value) -> Value:
    """What a function makes of values that are published one after the other."""
    partial = known(of(text), [(ms, f"m{ms}", {"f": value}) for ms, value in enumerate(values)])
    return results(partial, of(text))[text]


def packed(partial: Partial) -> bytes:
    return msgspec.msgpack.encode(partial)


def unpacked(value: bytes) -> Partial:
    return msgspec.msgpack.decode(value, type=Partial)


ANSWERS = [
    ("count()", [1, None, "x"], 3, "what is published counts, whatever it states"),
    ("count(f)", [1, None, "x", False, ""], 4, "empty is not stated"),
    ("sum(f)", [], 0, "of nothing"),
    ("sum(f)", [True, "3", ("3",)], 0, "true and a text of digits are no numbers"),
    ("sum(f)", [0.1] * 10, 1.0, "rounded once"),
    ("sum(f)", [1e16, 1.0, -1e16], 1.0, "nothing is lost on the way"),
    ("sum(f)", [1, 2.0], 3.0, "one float makes a float"),
    ("sum(f)", [INT64_MAX - 1, 1], INT64_MAX, "the largest integer"),
    ("sum(f)", [INT64_MAX, 1], 2.0**63, "one more is a float"),
    ("sum(f)", [INT64_MAX, 1, -1], INT64_MAX, "what came between does not matter"),
    ("sum(f)", [1.7e308, 1.7e308], None, "no float is large enough"),
    ("sum(f)", [1.7e308, 1.7e308, -1.7e308], 1.7e308, "but what came between does not matter"),
    ("sum(f)", [5e-324, 1e308, -1e308], 5e-324, "the smallest beside the largest"),
    ("sum(f)", [math.nan, math.inf, 10**30, 1], 1, "what no message can bring spoils nothing"),
    ("avg(f)", [], None, "of nothing"),
    ("avg(f)", [1, 2], 1.5, "of integers"),
    ("avg(f)", [1.7e308, 1.7e308], 1.7e308, "the sum may be larger than any float"),
    ("avg(f)", [4, "x", 8], 6.0, "what is no number is left out"),
    ("variance(f)", [], None, "of nothing"),
    ("variance(f)", [2, 4, 4, 4, 5, 5, 7, 9], 4.0, "of a population"),
    ("variance(f)", [1e9 + 1, 1e9 + 2, 1e9 + 3], 2 / 3, "of large numbers that differ little"),
    ("variance(f)", [1.7e308, -1.7e308], None, "no float is large enough"),
    ("min(f)", [], None, "of nothing"),
    ("min(f)", ["a", 2, 1.5, ("a",)], 1.5, "numbers come before texts"),
    ("min(f)", ["a", 2, False, None], False, "booleans before numbers, and empty is not stated"),
    ("max(f)", [2**53 + 1, 2.0**53], 2**53 + 1, "integers are not rounded"),
    ("max(f)", [-3, "", ("a",)], ("a",), "lists come last"),
    ("min(f)", [math.nan, 1, -math.inf], 1, "what no message can bring has no place in the order"),
    ("first(f)", [None, "b", "a"], "b", "the first that is stated"),
    ("last(f)", ["b", ("a",), None], ("a",), "the last that is stated"),
    ("distinct(f)", [3, 3.0, True, "3", ("3",), None], 4, "3 and 3.0 are one fact, true and 1 two"),
    ("distinct(f)", [2**60, 2.0**60, 1], 2, "also when they are large"),
    ("distinct(f, approx)", [3, 3.0, True, "3", ("3",), None, 2**60, 2.0**60], 5, "and in a sketch"),
    ("top(2, f)", [], (), "of nothing"),
    ("top(2, f)", ["b", "c", "a", "c"], ("c", "a"), "a tie is in the order of values"),
    ("top(9, f)", ["x", 2, 10, False, ("a", "ö"), 2.0], ("2", "false", "10", "x", '["a", "ö"]'), "values as texts"),
    ("top(1, f)", [0.5, 1e300, 1e300], ("1e+300",), "numbers as texts"),
    ("ema(f, 0.5)", [], None, "of nothing"),
    ("ema(f, 0.5)", [4, 8, "x", 2], 4.0, "4, then 6, then 4"),
    ("ema(f, 1)", [4, 8, 2], 2.0, "the last alone"),
]


@pytest.mark.parametrize(("text", "values", "answer", "sentence"), ANSWERS, ids=[f"{row[0]} {row[-1]}" for row in ANSWERS])
def test_answers(text: str, values: list[Value], answer: Value, sentence: str) -> None:
    assert repr(told(text, *values)) == repr(answer), sentence


def test_first_and_last_go_by_published_time_then_message_id() -> None:
    publications: list[Publication] = [(2, "a", {"f": 1}), (1, "z", {"f": 2}), (1, "b", {"f": 3}), (2, "c", {"f": 4})]
    functions = of("first(f)", "last(f)", "ema(f, 1)")
    assert results(known(functions, publications), functions) == {"first(f)": 3, "last(f)": 4, "ema(f, 1)": 4.0}


def test_a_partial_says_how_many_from_when_to_when_and_what_was_left_out() -> None:
    functions = of("count()", "sum(f)", "max(f)")
    partial = known(functions, [(7, "a", {"f": 1}), (3, "b", {"f": "x"}), (5, "c", {}), (4, "d", {"f": math.inf})])
    assert (partial.publications, partial.first_ms, partial.last_ms) == (4, 3, 7)
    assert partial.left_out == {"max(f)": 1, "sum(f)": 2}
    nothing = empty(functions)
    assert (nothing.publications, nothing.first_ms, nothing.last_ms, nothing.left_out) == (0, None, None, {})


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(INT64_MIN, INT64_MAX),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 0.1, 3.0, 5e-324, 1.7976931348623157e308, 2.0**53, 2**53, "", "a", "3", ("a",), ()]),
)
publications = st.tuples(st.integers(0, 3), st.sampled_from(["m1", "m2", "m3"]), st.dictionaries(st.sampled_from("fg"), scalars))
some = st.lists(publications, max_size=8)
partials = some.map(lambda stream: known(EVERY, stream))


def brute_force(text: str, stream: list[Publication]) -> Value:
    """By looking at all publications at once, in exact numbers."""
    aggregate = parse(text)
    if aggregate.field is None:
        return len(stream)
    stated = [(ms, name, fields["f"]) for ms, name, fields in stream if fields.get("f") is not None]
    values = [each[2] for each in sorted(stated, key=lambda each: (*each[:2], sort_key(each[2]), repr(each[2])))]
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    facts = Counter(map(sort_key, values))
    match aggregate.function:
        case Function.COUNT:
            return len(values)
        case Function.DISTINCT:
            return len(facts)
        case Function.MIN | Function.MAX:
            edge = min if aggregate.function is MIN else max
            return edge(values, key=lambda value: (sort_key(value), repr(value)), default=None)
        case Function.FIRST:
            return values[0] if values else None
        case Function.LAST:
            return values[-1] if values else None
        case Function.TOP:
            often = sorted(facts, key=lambda fact: (-facts[fact], fact))[: aggregate.k]
            return tuple(plain_text(fact[1]) for fact in often)
        case Function.EMA:
            floats = [float(number) + 0.0 for number in numbers]
            steps = lambda e, x: aggregate.alpha * x + (1 - aggregate.alpha) * e  # noqa: E731
            average = reduce(steps, floats) if floats else math.nan
            return average if math.isfinite(average) else None
    exact = [Fraction(number) for number in numbers]
    if aggregate.function is SUM:
        whole = all(isinstance(number, int) for number in numbers) and INT64_MIN <= sum(numbers) <= INT64_MAX
        return sum(numbers) if whole else nearest(sum(exact, Fraction()))
    if not exact:
        return None
    mean = sum(exact) / len(exact)
    return nearest(mean if aggregate.function is AVG else sum((each - mean) ** 2 for each in exact) / len(exact))


def nearest(number: Fraction | int) -> float | None:
    try:
        return float(number)
    except OverflowError:
        return None


def plain_text(value: object) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        value = int(value)
    writings = {bool: lambda: str(value).lower(), tuple: lambda: str(list(value)).replace("'", '"')}  # type: ignore[call-overload]
    return writings.get(type(value), lambda: str(value))()


@given(st.lists(publications, max_size=16), st.randoms(use_true_random=False))
def test_any_split_and_any_order_gives_what_one_look_at_all_gives(stream: list[Publication], random: Random) -> None:
    shuffled = random.sample(stream, len(stream))
    parts = [empty(EVERY) for _ in range(random.randint(1, 5))]
    for each in shuffled:
        added(random.choice(parts), EVERY, *each)
    while len(parts) > 1:
        random.shuffle(parts)
        both = merged(parts.pop(), parts.pop(), EVERY)
        parts.append(unpacked(packed(both)) if random.random() < 0.5 else both)
    expected = {text: brute_force(text, stream) for text, _ in EVERY}
    assert repr(results(parts[0], EVERY)) == repr(expected)
    assert parts[0] == known(EVERY, stream)


@given(some, st.randoms(use_true_random=False))
def test_what_can_be_sent_has_one_writing(stream: list[Publication], random: Random) -> None:
    cut = random.randint(0, len(stream))
    shuffled = random.sample(stream, len(stream))
    halves = merged(known(DECOMPOSABLE, shuffled[:cut]), known(DECOMPOSABLE, shuffled[cut:]), DECOMPOSABLE)
    assert packed(halves) == packed(known(DECOMPOSABLE, stream))


@pytest.mark.parametrize(("a", "b"), [(3, 3.0), (0.0, -0.0), (2**53, 2.0**53)])
def test_which_writing_of_a_fact_is_told_does_not_depend_on_the_order(a: Value, b: Value) -> None:
    one, other = known(EVERY, [(0, "m", {"f": a})]), known(EVERY, [(0, "m", {"f": b})])
    both = merged(one, other, EVERY)
    assert packed(both) == packed(merged(other, one, EVERY)) == packed(known(EVERY, [(0, "m", {"f": b}), (0, "m", {"f": a})]))


@given(partials, partials, partials)
def test_merging_is_associative_and_commutative_and_empty_is_its_unit(a: Partial, b: Partial, c: Partial) -> None:
    assert merged(a, b, EVERY) == merged(b, a, EVERY)
    assert merged(merged(a, b, EVERY), c, EVERY) == merged(a, merged(b, c, EVERY), EVERY)
    assert merged(a, empty(EVERY), EVERY) == a == merged(empty(EVERY), a, EVERY)


@given(partials, partials, publications)
def test_what_was_merged_is_not_changed_by_what_comes_after(a: Partial, b: Partial, publication: Publication) -> None:
    before = packed(a), packed(b)
    added(merged(a, b, EVERY), EVERY, *publication)
    assert (packed(a), packed(b)) == before


@pytest.mark.parametrize("number", [159, 160, 161, 162, 300, 3000])
def test_a_sketch_depends_on_the_values_alone(number: int) -> None:
    functions, random = of("distinct(f, approx)"), Random(number)
    stream: list[Publication] = [(0, "m", {"f": f"v{n}"}) for n in range(number)]
    whole = known(functions, stream)
    for parts in (1, 2, 7):
        again = random.sample(stream, number) + random.choices(stream, k=number // 3)
        random.shuffle(again)
        pieces = [known(functions, again[part::parts]) for part in range(parts)]
        random.shuffle(pieces)
        both = reduce(lambda a, b: merged(a, b, functions), pieces)
        assert both.parts == whole.parts
        assert results(both, functions) == results(whole, functions)


@pytest.mark.parametrize("number", [100, 1000, 30_000])
def test_a_sketch_is_near(number: int) -> None:
    estimate = told("distinct(f, approx)", *range(number))
    assert isinstance(estimate, int)
    assert abs(estimate - number) <= (0 if number <= 160 else 3 * 0.023 * number)


def test_a_partial_that_can_be_sent_stays_small() -> None:
    extremes = [5e-324, 1.7976931348623157e308, -0.1, INT64_MIN] * 250
    stream: list[Publication] = [(ms, f"m{ms}", {"f": value, "g": ms}) for ms, value in enumerate(extremes)]
    assert len(packed(known(of("avg(g)"), stream))) < 40
    assert len(packed(known(DECOMPOSABLE[2:], stream))) < 2500
    assert len(packed(known(of("distinct(g, approx)"), stream))) < 1700


# ---- what does not fit ------------------------------------------------------------------------------------------------

BOUNDED = of("distinct(f)", "top(2, f)", "ema(f, 0.5)", "sum(f)", "count(f)")
bounded_streams = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5) | st.just("x")), max_size=12)


@given(bounded_streams, st.randoms(use_true_random=False))
def test_what_is_too_much_to_keep_is_said_whatever_the_order(values: list[tuple[int, Value]], random: Random) -> None:
    stream = [(ms, f"m{place:02}", {"f": value}) for place, (ms, value) in enumerate(values)]
    with patch("tidings.partial.MOST_VALUES", 3):
        cut, shuffled = random.randint(0, len(stream)), random.sample(stream, len(stream))
        both = merged(known(BOUNDED, shuffled[:cut]), known(BOUNDED, shuffled[cut:]), BOUNDED)
        assert both == known(BOUNDED, stream) == unpacked(packed(both))
        found, missing = results(both, BOUNDED), left_out(both, BOUNDED)
    numbers = [fields["f"] for _, _, fields in sorted(stream) if isinstance(fields["f"], int)]
    fits = len({value for _, value in values}) <= 3
    assert found["distinct(f)"] == (brute_force("distinct(f)", stream) if fits else None)
    assert found["top(2, f)"] == (brute_force("top(2, f)", stream) if fits else None)
    assert found["ema(f, 0.5)"] == brute_force("ema(f, 0.5)", [(ms, f"{ms}", {"f": n}) for ms, n in enumerate(numbers[-3:])])
    assert (found["sum(f)"], found["count(f)"]) == (sum(numbers), len(stream))
    texts = len(stream) - len(numbers)
    wanted = {"distinct(f)": 0 if fits else len(stream), "ema(f, 0.5)": texts + max(0, len(numbers) - 3), "sum(f)": texts}
    wanted["top(2, f)"] = wanted["distinct(f)"]
    assert missing == {name: count for name, count in wanted.items() if count}


@pytest.mark.parametrize("value", ["x" * 2000, ("x" * 1000, "y" * 1000)])
def test_long_values_count_as_several(value: Value) -> None:
    with patch("tidings.partial.MOST_VALUES", 20):
        assert told("distinct(f)", value) is None
    with patch("tidings.partial.MOST_VALUES", 21):
        assert told("distinct(f)", value) == 1


@pytest.mark.parametrize("text", ["distinct(f)", "top(100, f)", "ema(f, 0.1)"])
def test_a_window_keeps_no_more_than_it_may(text: str) -> None:
    with patch("tidings.partial.MOST_VALUES", 1000):
        functions = of(text)
        kept = known(functions, [(ms, f"m{ms}", {"f": ms}) for ms in range(1000)])
        full = known(functions, [(ms, f"m{ms}", {"f": ms}) for ms in range(3000)])
    assert len(packed(full)) <= len(packed(kept)) + 2000
    assert left_out(kept, functions) == {}
    assert left_out(full, functions) == {text: 2000 if text.startswith("ema") else 3000}


@pytest.mark.parametrize(
    ("values", "total", "mean"),
    [
        ([2**53 + 1, 2**53 + 1], 2**54 + 2, 2.0**53),
        ([2**53 + 1, 1.0], 2.0**53 + 2, 2.0**52 + 1),
        ([INT64_MAX] * 4, 2.0**65, 2.0**63),
        ([INT64_MIN, INT64_MAX], -1, -0.5),
    ],
)
def test_large_integers_are_not_rounded_before_they_are_told(values: list[Value], total: Value, mean: Value) -> None:
    assert (told("sum(f)", *values), told("avg(f)", *values)) == (total, mean)
