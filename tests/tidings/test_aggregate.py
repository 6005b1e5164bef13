"""Aggregate functions: what texts mean, where bad ones are wrong, and that partials merge exactly."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import reduce
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings import predicate
from tidings.aggregate import MAX_LENGTH, Aggregate, BadAggregate, Function, Of, Partial, added, empty, merged, parse, results
from tidings.errors import BadPredicate, TidingsError
from tidings.values import INT64_MAX, INT64_MIN, Value, sort_key

# The first parse builds the grammar of field names, so a deadline would measure that.
law = settings(deadline=None)

COUNT, SUM, MIN, MAX, AVG, VARIANCE = Function.COUNT, Function.SUM, Function.MIN, Function.MAX, Function.AVG, Function.VARIANCE
TOP, FIRST, LAST, DISTINCT, EMA = Function.TOP, Function.FIRST, Function.LAST, Function.DISTINCT, Function.EMA

READ = [
    ("count()", Aggregate(COUNT), "publications"),
    ("count(f)", Aggregate(COUNT, "f"), "those that state a field"),
    ("\n COUNT ( ) ", Aggregate(COUNT), "space and case do not matter"),
    ("Avg(F)", Aggregate(AVG, "F"), "the case of a field does matter"),
    ("variance(f)", Aggregate(VARIANCE, "f"), "variance"),
    ("top(1,f)", Aggregate(TOP, "f", k=1), "the least k"),
    ("top( 100 , f )", Aggregate(TOP, "f", k=100), "the most"),
    ("distinct(f)", Aggregate(DISTINCT, "f"), "an exact number"),
    ("distinct(f, Approx)", Aggregate(DISTINCT, "f", approx=True), "a sketch"),
    ("distinct(approx)", Aggregate(DISTINCT, "approx"), "a field of that name"),
    ("ema(f, 0.25)", Aggregate(EMA, "f", alpha=0.25), "ema"),
    ("ema(f,1)", Aggregate(EMA, "f", alpha=1.0), "the most alpha"),
    ("ema(f, 5e-324)", Aggregate(EMA, "f", alpha=5e-324), "the least"),
    ("sum(sum)", Aggregate(SUM, "sum"), "a function is no keyword"),
    ("sum(a.b-c_1)", Aggregate(SUM, "a.b-c_1"), "names have dots, dashes and underscores"),
    ('sum("in")', Aggregate(SUM, "in"), "a keyword in quotes"),
    (r'sum("a \"b\" \\ (,)")', Aggregate(SUM, r'a "b" \ (,)'), "quoted names have anything"),
    ('sum("")', Aggregate(SUM, ""), "the empty name is a name"),
]


@pytest.mark.parametrize(("text", "aggregate", "sentence"), READ, ids=[row[-1] for row in READ])
def test_reading(text: str, aggregate: Aggregate, sentence: str) -> None:
    assert parse(text) == aggregate, sentence
    assert parse(str(aggregate)) == aggregate, sentence


ALL = "count, sum, min, max, avg, variance, top, first, last, distinct, ema"
BAD = [
    ("", 0, f"expected one of {ALL}, found the end of the text"),
    ("median(f)", 0, f"expected one of {ALL}, found 'median'"),
    ("sum", 3, "expected '(' of sum(field), found the end of the text"),
    ("sum f", 4, "expected '(' of sum(field), found 'f'"),
    ("sum()", 4, "expected a field of sum(field), found ')'"),
    ("sum(3)", 4, "expected a field of sum(field), found '3'"),
    ("sum(in)", 4, "expected a field of sum(field), found 'in'"),
    ("sum(f, g)", 5, "expected ')' of sum(field), found ','"),
    ("sum(f) x", 7, "expected the end of sum(field), found 'x'"),
    ("count(f, g)", 7, "expected ')' of count([field]), found ','"),
    ("count(", 6, "expected a field of count([field]), found the end of the text"),
    ("top(k, f)", 4, "expected an integer from 1 to 100 of top(k, field), found 'k'"),
    ("top(0, f)", 4, "expected an integer from 1 to 100 of top(k, field), found '0'"),
    ("top(-1, f)", 4, "expected an integer from 1 to 100 of top(k, field), found '-1'"),
    ("top(101, f)", 4, "expected an integer from 1 to 100 of top(k, field), found '101'"),
    ("top(2.0, f)", 4, "expected an integer from 1 to 100 of top(k, field), found '2.0'"),
    ("top(\u0665, f)", 4, "expected an integer from 1 to 100 of top(k, field), found '\u0665'"),
    ("top(3)", 5, "expected ',' of top(k, field), found ')'"),
    ("top(3x, f)", 5, "expected ',' of top(k, field), found 'x'"),
    ("ema(f)", 5, "expected ',' of ema(field, alpha), found ')'"),
    ("ema(f, 0)", 7, "expected a number above 0 and up to 1 of ema(field, alpha), found '0'"),
    ("ema(f, 1e-400)", 7, "expected a number above 0 and up to 1 of ema(field, alpha), found '1e-400'"),
    ("ema(f, 1.01)", 7, "expected a number above 0 and up to 1 of ema(field, alpha), found '1.01'"),
    ("ema(f, -0.5)", 7, "expected a number above 0 and up to 1 of ema(field, alpha), found '-0.5'"),
    ("distinct(f, exact)", 12, "expected 'approx' of distinct(field[, approx]), found 'exact'"),
    ('distinct(f, "approx")', 12, "expected 'approx' of distinct(field[, approx]), found '\"approx\"'"),
    ("distinct(f,", 11, "expected 'approx' of distinct(field[, approx]), found the end of the text"),
    ("sum(\u00a0f)", 4, "expected a field of sum(field), found '\\xa0'"),
    ('sum("f)', 4, "this quote is never closed, or a backslash stands before neither a quote nor a backslash"),
    (r'sum("a\b")', 4, "this quote is never closed, or a backslash stands before neither a quote nor a backslash"),
    ("sum(((f)))", 4, "expected a field of sum(field), found '('"),
    ("sum(" * 999, 7, "expected ')' of sum(field), found '('"),
    ("(" * 10_000, MAX_LENGTH, "a function has at most 4000 characters"),
    ("sum(f)" + " " * 10_000, MAX_LENGTH, "a function has at most 4000 characters"),
    ("x" * MAX_LENGTH, 0, f"expected one of {ALL}, found 'xxxxxxxxxxxxxxxxxxxx'"),
    ("top(" + "9" * 3990 + ",f)", 4, "expected an integer from 1 to 100 of top(k, field), found '99999999999999999999'"),
    ("ema(" + "f" * 3992 + ",1)", 3999, "written canonically, it has more than 4000 characters"),
]


@pytest.mark.parametrize(("text", "position", "detail"), BAD, ids=[row[0][:30] for row in BAD])
def test_bad_texts_say_where_and_what(text: str, position: int, detail: str) -> None:
    with pytest.raises(BadAggregate) as caught:
        parse(text)
    assert (caught.value.position, caught.value.detail, caught.value.text) == (position, detail, text)
    assert isinstance(caught.value, TidingsError)
    assert len(str(caught.value)) < 700


names = st.sampled_from(["f", "in", "Or", "x-1", "approx", "key"]) | st.text()
aggregates = (
    st.builds(Aggregate, st.sampled_from([COUNT, SUM, MIN, MAX, AVG, VARIANCE, FIRST, LAST]), names)
    | st.just(Aggregate(COUNT))
    | st.builds(Aggregate, st.just(TOP), names, k=st.integers(1, 100))
    | st.builds(Aggregate, st.just(EMA), names, alpha=st.floats(0, 1, exclude_min=True))
    | st.builds(Aggregate, st.just(DISTINCT), names, approx=st.booleans())
)


@law
@given(aggregates)
def test_what_is_written_reads_back_the_same(aggregate: Aggregate) -> None:
    assert parse(str(aggregate)) == aggregate


def read(text: str) -> Aggregate | BadAggregate:
    try:
        return parse(text)
    except BadAggregate as bad:
        return bad


@law
@given(
    st.text(alphabet='sumtop(),"\\ 0.1e-f#\n', max_size=14)
    | st.lists(st.sampled_from(["sum", "top", "ema", "count", "(", ")", ",", "3", "0.5", "f", '"g"', "approx"])).map(" ".join)
)
def test_any_text_is_read_or_refused_at_a_place_within(text: str) -> None:
    match read(text):
        case BadAggregate(position=position):
            assert 0 <= position <= len(text)
        case aggregate:
            assert parse(str(aggregate)) == aggregate


@law
@given(names | st.text(alphabet='ab."\\ -1)(', max_size=8))
def test_fields_are_named_as_in_where(name: str) -> None:
    try:
        asked = predicate.parse(f"exists({name})")
    except BadPredicate:
        asked = None
    assert getattr(read(f"sum({name})"), "field", None) == (asked.field if isinstance(asked, predicate.Exists) else None)


# ---- partials -----------------------------------------------------------------------------------------------------------

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


@law
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


@law
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


@law
@given(partials, partials, partials)
def test_merging_is_associative_and_commutative_and_empty_is_its_unit(a: Partial, b: Partial, c: Partial) -> None:
    assert merged(a, b, EVERY) == merged(b, a, EVERY)
    assert merged(merged(a, b, EVERY), c, EVERY) == merged(a, merged(b, c, EVERY), EVERY)
    assert merged(a, empty(EVERY), EVERY) == a == merged(empty(EVERY), a, EVERY)


@law
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
