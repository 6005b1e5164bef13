"""The `where` language: what texts mean, where bad ones are wrong, and the laws of reading, writing and judging."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.compiled import compiled, matcher
from tidings.errors import BadPredicate
from tidings.predicate import (
    MAX_LENGTH,
    MAX_NESTING,
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
    Truth,
    Verdict,
    evaluate,
    fields_of,
    judge,
    parse,
    render,
)
from tidings.subscription import Subscription
from tidings.values import INT64_MAX, INT64_MIN, Value

# The first parse builds the grammar, so a deadline would measure that.

OPTIMISTIC, PATIENT = Missing.OPTIMISTIC, Missing.PATIENT
MATCHES, DIFFERS, WAITS = Verdict.MATCHES, Verdict.DIFFERS, Verdict.WAITS

JUDGED = [
    ("", {}, PATIENT, MATCHES, "no condition matches, also when nothing is stated"),
    (" \n\t", {}, PATIENT, MATCHES, "whitespace is no condition"),
    ("a = 'x'", {"a": "x"}, PATIENT, MATCHES, "equal strings"),
    ("a = 'x'", {"a": "X"}, PATIENT, DIFFERS, "strings have a case"),
    ("a = 'x'", {}, PATIENT, WAITS, "the patient wait for a field"),
    ("a = 'x'", {}, OPTIMISTIC, MATCHES, "the optimistic do not"),
    ("a = 'x'", {"a": "y"}, OPTIMISTIC, DIFFERS, "a stated field is no matter of optimism"),
    ("not a = 'x'", {}, OPTIMISTIC, MATCHES, "the opposite of unknown is unknown"),
    ("a = 3", {"a": 3.0}, PATIENT, MATCHES, "integers and floats compare as numbers"),
    ("a < 3.5", {"a": 3}, PATIENT, MATCHES, "also in order"),
    ("a >= 3", {"a": 3.0}, PATIENT, MATCHES, "at the bound"),
    ("a > 9223372036854775806", {"a": INT64_MAX}, PATIENT, MATCHES, "large integers are not rounded"),
    ("a = 1", {"a": True}, PATIENT, DIFFERS, "true is not one"),
    ("a != 1", {"a": True}, PATIENT, MATCHES, "true is not one, so it is different"),
    ("a >= 0", {"a": True}, PATIENT, DIFFERS, "true has no size"),
    ("a < true", {"a": False}, PATIENT, MATCHES, "false comes before true"),
    ("a = '3'", {"a": 3}, PATIENT, DIFFERS, "a text of digits is no number"),
    ("a != '3'", {"a": 3}, PATIENT, MATCHES, "other kinds are different"),
    ("a < 'x'", {"a": 3}, PATIENT, DIFFERS, "other kinds have no order"),
    ("a >= 'x'", {"a": 3}, PATIENT, DIFFERS, "in neither direction"),
    ("a < 'b'", {"a": "abc"}, PATIENT, MATCHES, "strings are ordered by their characters"),
    ("a = null", {"a": None}, PATIENT, MATCHES, "stated as empty is null"),
    ("a != null", {"a": None}, PATIENT, DIFFERS, "and not different from null"),
    ("a = null", {}, PATIENT, WAITS, "not stated is not null"),
    ("a = null", {"a": ""}, PATIENT, DIFFERS, "the empty string is not null"),
    ("a = 'x'", {"a": None}, PATIENT, DIFFERS, "empty is no string"),
    ("a != 'x'", {"a": None}, PATIENT, MATCHES, "so it is different from one"),
    ("a <= null", {"a": None}, PATIENT, DIFFERS, "empty has no order, not even with itself"),
    ("a >= 0", {"a": None}, PATIENT, DIFFERS, "empty is not zero"),
    ("a prefix ''", {"a": None}, PATIENT, DIFFERS, "empty begins with nothing, not even with nothing"),
    ("a contains ''", {"a": None}, PATIENT, DIFFERS, "nor contains it"),
    ("a in ('x', null)", {"a": None}, PATIENT, MATCHES, "null can be listed"),
    ("a in ('x')", {"a": None}, PATIENT, DIFFERS, "empty is in no list without null"),
    ("a in ('x', 3, true)", {"a": 3.0}, PATIENT, MATCHES, "a list mixes kinds"),
    ("a in (1)", {"a": True}, PATIENT, DIFFERS, "membership is sameness of facts"),
    ("a not in ('x')", {"a": "y"}, PATIENT, MATCHES, "absence"),
    ("a not in ('x')", {}, PATIENT, WAITS, "absence of an unknown is unknown"),
    ("a prefix 'ab'", {"a": "abc"}, PATIENT, MATCHES, "a beginning"),
    ("a prefix 'bc'", {"a": "abc"}, PATIENT, DIFFERS, "an ending is no beginning"),
    ("a prefix '3'", {"a": 34}, PATIENT, DIFFERS, "numbers have no beginning"),
    ("a contains 'bc'", {"a": "abcd"}, PATIENT, MATCHES, "part of a string"),
    ("a contains 'b'", {"a": ("a", "b")}, PATIENT, MATCHES, "element of a list"),
    ("a contains 'b'", {"a": ("abc",)}, PATIENT, DIFFERS, "part of an element is no element"),
    ("a contains 'b'", {"a": ()}, PATIENT, DIFFERS, "an empty list is stated"),
    ("a = 'b'", {"a": ("b",)}, PATIENT, DIFFERS, "a list is not its element"),
    ("a != 'b'", {"a": ("b",)}, PATIENT, MATCHES, "but different from it"),
    ("a in ('b')", {"a": ("b",)}, PATIENT, DIFFERS, "a list is in no list of literals"),
    ("a prefix 'b'", {"a": ("b",)}, PATIENT, DIFFERS, "a list has no beginning"),
    ("exists(a)", {"a": None}, PATIENT, MATCHES, "stated as empty is stated"),
    ("exists(a)", {}, OPTIMISTIC, DIFFERS, "exists is never unknown"),
    ("not exists(a)", {}, PATIENT, MATCHES, "nor is its opposite"),
    ("a = 1 and b = 2", {"a": 0}, PATIENT, DIFFERS, "one false term decides an and"),
    ("b = 2 and a = 1", {"a": 0}, PATIENT, DIFFERS, "in any order"),
    ("a = 1 and b = 2", {"a": 1}, PATIENT, WAITS, "one true term does not"),
    ("a = 1 or b = 2", {"a": 1}, PATIENT, MATCHES, "one true term decides an or"),
    ("b = 2 or a = 1", {"a": 0}, PATIENT, WAITS, "one false term does not"),
    ("a = 1 or b = 2 and c = 3", {"a": 1, "b": 0, "c": 0}, PATIENT, MATCHES, "and binds tighter than or"),
    ("(a = 1 or b = 2) and c = 3", {"a": 1, "b": 0, "c": 0}, PATIENT, DIFFERS, "brackets bind tightest"),
    ("not a = 1 and b = 2", {"a": 0, "b": 0}, PATIENT, DIFFERS, "not binds tighter than and"),
    ("key prefix 'quake-'", {"key": "quake-7"}, PATIENT, MATCHES, "the key is a field like others"),
]


@pytest.mark.parametrize(("text", "facts", "missing", "verdict", "sentence"), JUDGED, ids=[row[-1] for row in JUDGED])
def test_judgement(text: str, facts: dict[str, Value], missing: Missing, verdict: Verdict, sentence: str) -> None:
    assert judge(parse(text), facts, missing) is verdict, sentence


READ = [
    ("a-1=-1", Compare("a-1", Op.EQ, -1), "a dash belongs to the name, and to the number"),
    ("a.b-c_d>=2", Compare("a.b-c_d", Op.GE, 2), "names have dots, dashes and underscores"),
    ("order = 1", Compare("order", Op.EQ, 1), "a name may begin like a keyword"),
    ("in-side = 1", Compare("in-side", Op.EQ, 1), "also up to a dash"),
    ("not.e = 1", Compare("not.e", Op.EQ, 1), "or a dot"),
    ("nota = 1", Compare("nota", Op.EQ, 1), "a keyword ends before the next name begins"),
    ('"in" In (1)', In("in", (1,)), "a quoted keyword is a field"),
    (r'"a \"b\" \\ c" = 1', Compare(r'a "b" \ c', Op.EQ, 1), "quoted names escape quotes and backslashes"),
    ('"" = 1', Compare("", Op.EQ, 1), "the empty name is a name"),
    ("a = 'it''s'", Compare("a", Op.EQ, "it's"), "a quote is doubled"),
    ("a = ''''", Compare("a", Op.EQ, "'"), "also alone"),
    ("a = ''", Compare("a", Op.EQ, ""), "two quotes are the empty string"),
    ("a = 'x\ny\\n\"'", Compare("a", Op.EQ, 'x\ny\\n"'), "all else is verbatim"),
    ("a = TRUE", Compare("a", Op.EQ, True), "constants have no case"),
    ("a != Null", Compare("a", Op.NE, None), "null neither"),
    ("a = 1e3", Compare("a", Op.EQ, 1000.0), "an exponent makes a float"),
    ("a = -0.5E-1", Compare("a", Op.EQ, -0.05), "of any sign"),
    (f"a = {INT64_MAX}", Compare("a", Op.EQ, INT64_MAX), "the largest integer"),
    (f"a = {INT64_MIN}", Compare("a", Op.EQ, INT64_MIN), "the smallest integer"),
    ("a Prefix 'x'", Prefix("a", "x"), "prefix"),
    ("a CONTAINS 'x'", Contains("a", "x"), "contains"),
    ("Exists (a)", Exists("a"), "exists"),
    ("a NOT  in (1,'x')", Not(In("a", (1, "x"))), "not in is the opposite of in"),
    ("not a in (1)", Not(In("a", (1,))), "and can be written before"),
    ("not not exists(a)", Not(Not(Exists("a"))), "two nots stay two"),
    ("exists(a) AND(exists(b) And exists(c))", And((Exists("a"), Exists("b"), Exists("c"))), "nested ands are one"),
    ("(exists(a)or exists(b)) or exists(c)", Or((Exists("a"), Exists("b"), Exists("c"))), "nested ors are one"),
    ("((exists(a)))", Exists("a"), "brackets leave no trace"),
    ("\f\v\r\n", Everything(), "any ASCII whitespace"),
]


@pytest.mark.parametrize(("text", "predicate", "sentence"), READ, ids=[row[-1] for row in READ])
def test_reading(text: str, predicate: Predicate, sentence: str) -> None:
    assert parse(text) == predicate, sentence


BAD = [
    (")", 0, "expected a comparison, found ')'"),
    ("and", 0, "expected a comparison, found 'and'"),
    ("a", 1, "expected an operator, found the end of the text"),
    ("a  ", 3, "expected an operator, found the end of the text"),
    ("a )", 2, "expected an operator, found ')'"),
    ("a b", 2, "expected an operator, found 'b'"),
    ("a # 1", 2, "expected an operator, found '#'"),
    ("a -1", 2, "expected an operator, found '-1'"),
    ("a\u00a0= 1", 1, "expected an operator, found '\\xa0'"),
    ("a \u0131n (1)", 2, "expected an operator, found '\u0131'"),
    ("a =", 3, "expected a literal (strings have single quotes), found the end of the text"),
    ("a == 1", 3, "expected a literal (strings have single quotes), found '='"),
    ("a <> 1", 3, "expected a literal (strings have single quotes), found '>'"),
    ('a = "x"', 4, "expected a literal (strings have single quotes), found '\"x\"'"),
    ("a = b", 4, "expected a literal (strings have single quotes), found 'b'"),
    ("a = +1", 4, "expected a literal (strings have single quotes), found '+'"),
    ("a = .5", 4, "expected a literal (strings have single quotes), found '.'"),
    ("a = nan", 4, "expected a literal (strings have single quotes), found 'nan'"),
    ("a = 5.", 5, "expected 'and' or 'or', found '.'"),
    ("a = 5x", 5, "expected 'and' or 'or', found 'x'"),
    ("a = 1 b = 2", 6, "expected 'and' or 'or', found 'b'"),
    ("a = 1)", 5, "expected 'and' or 'or', found ')'"),
    ("a = 'it's'", 8, "expected 'and' or 'or', found 's'"),
    ("(a = 1", 6, "expected 'and' or 'or' or ')', found the end of the text"),
    ("()", 1, "expected a comparison, found ')'"),
    ("a = 1 and", 9, "expected a comparison, found the end of the text"),
    ("a = 1 and or b = 2", 10, "expected a comparison, found 'or'"),
    ("a = 1 and in = 3", 10, "expected a comparison, found 'in'"),
    ("true", 0, "expected a comparison, found 'true'"),
    ("'x' = a", 0, "expected a comparison, found \"'x'\""),
    ("not", 3, "expected a comparison, found the end of the text"),
    ("not in = 3", 4, "expected a comparison, found 'in'"),
    ("a not = 3", 6, "expected 'in', found '='"),
    ("a in 3", 5, "expected '(', found '3'"),
    ("a in ()", 6, "expected a literal (strings have single quotes), found ')'"),
    ("a in (1", 7, "expected ',' or ')', found the end of the text"),
    ("a in (1 2)", 8, "expected ',' or ')', found '2'"),
    ("a in (1,)", 8, "expected a literal (strings have single quotes), found ')'"),
    ("a prefix 3", 9, "expected a string in single quotes, found '3'"),
    ("a contains null", 11, "expected a string in single quotes, found 'null'"),
    ("exists a", 7, "expected '(', found 'a'"),
    ("exists(3)", 7, "expected a field, found '3'"),
    ("exists(a", 8, "expected ')', found the end of the text"),
    ("exists(a, b)", 8, "expected ')', found ','"),
    ("a = 'x", 4, "this quote is never closed"),
    ("a = 'it''s", 4, "this quote is never closed"),
    ('"a = 1', 0, "this quote is never closed"),
    (r'"a\" = 1', 0, "this quote is never closed"),
    ('"a\\', 0, "this quote is never closed"),
    (r'"\\a\n" = 1', 4, "in a field name, only a quote or a backslash follows a backslash"),
    ("a = 9223372036854775808", 4, "this number does not fit into 64 bits"),
    ("a in (1, -9223372036854775809)", 9, "this number does not fit into 64 bits"),
    ("a = -1e400", 4, "this number does not fit into 64 bits"),
    ("a = 1 and " + "x" * 30, 40, "expected an operator, found the end of the text"),
    ("a = " + "x" * 30, 4, "expected a literal (strings have single quotes), found 'xxxxxxxxxxxxxxxxxxxx'"),
]


@pytest.mark.parametrize(("text", "position", "detail"), BAD, ids=[row[0] for row in BAD])
def test_bad_texts_say_where_and_what(text: str, position: int, detail: str) -> None:
    with pytest.raises(BadPredicate) as caught:
        parse(text)
    assert (caught.value.position, caught.value.detail, caught.value.text) == (position, detail, text)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("a = 1" + " " * MAX_LENGTH, MAX_LENGTH),
        (" " * (MAX_LENGTH + 1), MAX_LENGTH),
        ("(" * (MAX_NESTING + 1) + "a = 1" + ")" * (MAX_NESTING + 1), MAX_NESTING),
        ("a = 1 and " + "not " * (MAX_NESTING + 1) + "a = 1", 10 + 4 * MAX_NESTING),
        ("not(" * 33 + "a = 1" + ")" * 33, 4 * 32),
        ("(" * MAX_LENGTH, MAX_LENGTH),
        ("not " * (MAX_LENGTH // 4), MAX_LENGTH),
        ("(" * 2045 + "a = 1" + ")" * 2045, MAX_NESTING),
    ],
    ids=["long", "long and blank", "brackets", "nots", "both", "all brackets", "all nots", "brackets to the limit"],
)
def test_size_is_bounded(text: str, position: int) -> None:
    with pytest.raises(BadPredicate) as caught:
        parse(text)
    assert caught.value.position == position


def test_a_text_whose_canonical_text_would_be_too_long_is_refused() -> None:
    text = "or ".join(["a=1 "] * 580)
    assert len(text) <= MAX_LENGTH
    with pytest.raises(BadPredicate, match="written canonically"):
        parse(text)


def test_brackets_side_by_side_are_not_nested() -> None:
    assert parse(" or ".join(["not (a = 1 and b = 2)"] * 150)) is not None


def test_the_deepest_predicate_can_be_used_from_deep_within_a_program() -> None:
    deepest = parse("(a = 1 or b = 2 and " * MAX_NESTING + "c = 3" + ")" * MAX_NESTING)

    def use(frames: int) -> None:
        if frames:
            return use(frames - 1)
        assert parse(render(deepest)) == deepest == pickle.loads(pickle.dumps(deepest))
        assert evaluate(deepest, {"a": 0, "b": 2, "c": 3}) is Truth.TRUE
        assert fields_of(deepest) == {"a", "b", "c"}
        assert hash(deepest) == hash(parse(render(deepest)))
        return None

    use(200)


def test_predicates_are_equal_only_when_they_mean_the_same() -> None:
    assert parse("a = 1") != parse("a = true")
    assert parse("a in (0)") != parse("a in (false)")
    assert parse("a = 1") != parse("b = 1")
    assert parse("a = 1") == parse("a=1")
    assert len({parse("a = 1"), parse("a = true"), parse("(a = 1)")}) == 2


WRITTEN = [
    ("a=1  AND b IN('x',2)", "a = 1 and b in ('x', 2)"),
    ("not(a=1)", "not a = 1"),
    ("not(a=1 and b=2)", "not (a = 1 and b = 2)"),
    ("(a=1 and b=2)or c=3", "a = 1 and b = 2 or c = 3"),
    ("(a=1 or b=2)and(c=3)", "(a = 1 or b = 2) and c = 3"),
    ("not a in (1)", "a not in (1)"),
    ("not a not in (1)", "not a not in (1)"),
    ("not(not(exists(a)))", "not not exists(a)"),
    ('"a" = 1', "a = 1"),
    ('"AND" = 1', '"AND" = 1'),
    ('"a\nb" = 1', '"a\nb" = 1'),
    ('"a\n" = 1', '"a\n" = 1'),
    ('"é" = 1', '"é" = 1'),
    ('"\u0131n" = 1', '"\u0131n" = 1'),
    ("a = 'it''s'", "a = 'it''s'"),
    (r'"\\\"" = 1', r'"\\\"" = 1'),
    ("a = 1E3", "a = 1000.0"),
    ("a = 1e300", "a = 1e+300"),
    ("a = 007", "a = 7"),
    ("a != NULL or a = True", "a != null or a = true"),
    (" ", ""),
]


@pytest.mark.parametrize(("text", "canonical"), WRITTEN, ids=[row[0] for row in WRITTEN])
def test_canonical_text(text: str, canonical: str) -> None:
    assert render(parse(text)) == canonical
    assert render(parse(canonical)) == canonical


def test_fields_of_a_predicate() -> None:
    text = "a = 1 and (b in (1) or not c prefix 'x') and (d contains 'y' or exists(\"e f\") and a < 3)"
    assert fields_of(parse(text)) == {"a", "b", "c", "d", "e f"}
    assert fields_of(Everything()) == frozenset()


def test_importing_the_module_does_not_import_the_parser() -> None:
    check = "import sys, tidings.predicate; sys.exit('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


# Laws. Predicates are normalised as `parse` makes them: And and Or have two terms or more, none of their own kind.

FEW = ["a", "b", "key"]
# Chance alone seldom writes a quote.
texts = st.text(st.sampled_from("'\"\\ \nab-.") | st.characters(), max_size=8)
scalars = st.none() | st.booleans() | st.integers(INT64_MIN, INT64_MAX) | st.floats(allow_nan=False, allow_infinity=False) | texts
# Few values that are often alike, so that terms are often true: kinds that Python confuses, and neighbours in order.
near_scalars = st.sampled_from([None, True, False, 0, 1, 1.0, 1.5, 2, "", "a", "ab", "b", "1"])
facts_values = near_scalars | st.sampled_from([(), ("a",), ("ab", "b")])


def predicates(
    fields: st.SearchStrategy[str], literals: st.SearchStrategy[Value], texts: st.SearchStrategy[str], *, exists: bool = True
) -> st.SearchStrategy[Predicate]:
    leaves = (
        st.builds(Compare, fields, st.sampled_from(Op), literals)
        | st.builds(In, fields, st.lists(literals, min_size=1, max_size=3).map(tuple))
        | st.builds(Prefix, fields, texts)
        | st.builds(Contains, fields, texts)
    )
    if exists:
        leaves |= st.builds(Exists, fields)

    def joined(terms: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        return (
            st.builds(Not, terms)
            | st.lists(terms, min_size=2, max_size=3).map(lambda some: And(flat(And, some)))
            | st.lists(terms, min_size=2, max_size=3).map(lambda some: Or(flat(Or, some)))
        )

    return st.recursive(leaves, joined, max_leaves=8)


def flat(join: type[And] | type[Or], terms: list[Predicate]) -> tuple[Predicate, ...]:
    return tuple(part for term in terms for part in (term.terms if isinstance(term, join) else (term,)))


any_predicates = predicates(st.sampled_from(["a", "in", "Or", "x-1", "y.z"]) | texts, scalars, texts)
near_predicates = predicates(st.sampled_from(FEW), near_scalars, st.sampled_from(["", "a", "b", "ab"]))
near_predicates_without_exists = predicates(
    st.sampled_from(FEW), near_scalars, st.sampled_from(["", "a", "b", "ab"]), exists=False
)
some_facts = st.dictionaries(st.sampled_from(FEW), facts_values)
all_facts = st.fixed_dictionaries(dict.fromkeys(FEW, facts_values))


@given(any_predicates)
def test_what_is_written_reads_back_the_same(predicate: Predicate) -> None:
    again = parse(render(predicate))
    assert again == predicate
    assert repr(again) == repr(predicate)
    assert hash(again) == hash(predicate)


@given(
    st.text(alphabet="ab01 .-'\"\\()=<,#\n", max_size=12)
    | st.lists(
        st.sampled_from(["a", "b", "=", "<", "1", "'x'", "not", "in", "and", "or", "(", ")", ",", "exists", "prefix", "null"]),
        max_size=12,
    ).map(" ".join)
)
def test_any_text_is_read_or_refused_at_a_place_within(text: str) -> None:
    match read(text):
        case BadPredicate(position=position):
            assert 0 <= position <= len(text)
        case predicate:
            assert parse(render(predicate)) == predicate


def read(text: str) -> Predicate | BadPredicate:
    try:
        return parse(text)
    except BadPredicate as bad:
        return bad


@given(near_predicates, some_facts)
def test_evaluation_agrees_with_an_oracle(predicate: Predicate, facts: dict[str, Value]) -> None:
    assert evaluate(predicate, facts) is (Truth.FALSE, Truth.UNKNOWN, Truth.TRUE)[int(2 * oracle(predicate, facts))]


@given(near_predicates, some_facts)
def test_as_a_function_it_answers_the_same(predicate: Predicate, facts: dict[str, Value]) -> None:
    assert compiled(predicate)(facts) is evaluate(predicate, facts)


@given(near_predicates | st.just(Everything()), some_facts, st.sampled_from(Missing))
def test_a_subscription_matches_what_it_judges_to(predicate: Predicate, facts: dict[str, Value], missing: Missing) -> None:
    asks = Subscription("s", "s", "b1", "t", "notify.s", predicate, missing)
    matches = matcher(asks)
    assert (matches is None or matches({**facts, "key": "k"})) == (asks.judge("k", facts) is Verdict.MATCHES)


def oracle(predicate: Predicate, facts: dict[str, Value]) -> float:
    """Kleene's logic as numbers: false 0, unknown ½, true 1; `and` is the least, `or` the greatest."""
    match predicate:
        case And(terms):
            return min(oracle(term, facts) for term in terms)
        case Or(terms):
            return max(oracle(term, facts) for term in terms)
        case Not(term):
            return 1 - oracle(term, facts)
        case Exists(field):
            return float(field in facts)
        case Everything():
            return 1
    return float(oracle_of_one(predicate, facts[predicate.field])) if predicate.field in facts else 0.5


def oracle_of_one(test: Compare | In | Prefix | Contains, fact: Value) -> bool:
    def kind(value: Value) -> str:
        return {int: "number", float: "number"}.get(type(value), type(value).__name__)

    match test:
        case In(field, values):
            return any(oracle_of_one(Compare(field, Op.EQ, value), fact) for value in values)
        case Compare(_, op, value) if kind(fact) != kind(value):
            return op == "!="
        case Compare(_, op, None):
            return op == "="
        case Compare(_, op, value):
            return bool(eval(f"fact {'==' if op == '=' else op} value", {"fact": fact, "value": value}))
        case Prefix(_, text):
            return kind(fact) == "str" and fact[: len(text)] == text
        case Contains(_, text):
            return (kind(fact) == "tuple" and fact.count(text) > 0) or (kind(fact) == "str" and fact.find(text) >= 0)


@given(near_predicates, all_facts)
def test_nothing_is_unknown_when_all_fields_are_stated(predicate: Predicate, facts: dict[str, Value]) -> None:
    assert evaluate(predicate, facts) is not Truth.UNKNOWN
    assert judge(predicate, facts, OPTIMISTIC) is judge(predicate, facts, PATIENT)


@given(near_predicates_without_exists, all_facts, st.sets(st.sampled_from(FEW)))
def test_more_facts_never_overturn_a_decision(predicate: Predicate, facts: dict[str, Value], stated: set[str]) -> None:
    early = evaluate(predicate, {name: value for name, value in facts.items() if name in stated})
    assert early in (Truth.UNKNOWN, evaluate(predicate, facts))


@given(near_predicates, some_facts)
def test_only_the_named_fields_matter(predicate: Predicate, facts: dict[str, Value]) -> None:
    named = {name: value for name, value in facts.items() if name in fields_of(predicate)}
    assert evaluate(predicate, named) is evaluate(predicate, facts)


@given(st.lists(near_predicates, min_size=1, max_size=3).map(tuple), some_facts)
def test_de_morgan(terms: tuple[Predicate, ...], facts: dict[str, Value]) -> None:
    opposites = tuple(Not(term) for term in terms)
    assert evaluate(Not(And(terms)), facts) is evaluate(Or(opposites), facts)
    assert evaluate(Not(Or(terms)), facts) is evaluate(And(opposites), facts)
