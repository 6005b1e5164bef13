"""Aggregate functions: what texts mean, and where bad ones are wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings import predicate
from tidings.aggregate import MAX_LENGTH, Aggregate, BadAggregate, Function, parse
from tidings.errors import BadPredicate, TidingsError

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


@given(aggregates)
def test_what_is_written_reads_back_the_same(aggregate: Aggregate) -> None:
    assert parse(str(aggregate)) == aggregate


def read(text: str) -> Aggregate | BadAggregate:
    try:
        return parse(text)
    except BadAggregate as bad:
        return bad


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


@given(names | st.text(alphabet='ab."\\ -1)(', max_size=8))
def test_fields_are_named_as_in_where(name: str) -> None:
    try:
        asked = predicate.parse(f"exists({name})")
    except BadPredicate:
        asked = None
    assert getattr(read(f"sum({name})"), "field", None) == (asked.field if isinstance(asked, predicate.Exists) else None)
