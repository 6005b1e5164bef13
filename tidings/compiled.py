"""Predicates as functions, for those who ask the same one over and over: `tidings.predicate.evaluate` says what each answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import ge, gt, le, lt
from typing import TypeAlias

from tidings.predicate import And, Compare, Everything, Exists, Missing, Not, Op, Or, Predicate, Prefix, Test, Truth, holds
from tidings.subscription import Subscription
from tidings.values import Value

Facts: TypeAlias = Mapping[str, Value]
Asked: TypeAlias = Callable[[Facts], Truth]

_TRUE, _FALSE, _UNKNOWN = Truth.TRUE, Truth.FALSE, Truth.UNKNOWN
_ORDERINGS: Mapping[Op, Callable[[float, float], bool]] = {Op.LT: lt, Op.LE: le, Op.GT: gt, Op.GE: ge}


def matcher(subscription: Subscription) -> Callable[[Facts], bool] | None:
    """Whether an event is the subscription's business; its facts must have the event's key as `key`. None if every one is."""
    if isinstance(subscription.where, Everything):
        return None
    asked, optimistic = compiled(subscription.where), subscription.missing is Missing.OPTIMISTIC

    def matches(facts: Facts) -> bool:
        truth = asked(facts)
        return truth is _TRUE or (optimistic and truth is _UNKNOWN)

    return matches


def compiled(predicate: Predicate) -> Asked:
    """The function that answers what `evaluate` does."""
    match predicate:
        case Everything():
            return lambda _: _TRUE
        case Exists(field):
            return lambda facts: _TRUE if field in facts else _FALSE
        case Not(term):
            return _negated(compiled(term))
        case And(terms):
            return _decided(tuple(map(compiled, terms)), _FALSE, _TRUE)
        case Or(terms):
            return _decided(tuple(map(compiled, terms)), _TRUE, _FALSE)
    return _tested(predicate.field, _test(predicate))


def _negated(asked: Asked) -> Asked:
    opposite = {_TRUE: _FALSE, _FALSE: _TRUE, _UNKNOWN: _UNKNOWN}
    return lambda facts: opposite[asked(facts)]


def _decided(terms: tuple[Asked, ...], decisive: Truth, otherwise: Truth) -> Asked:
    """One decisive term decides, whatever the others will turn out to be."""

    def asked(facts: Facts) -> Truth:
        result = otherwise
        for term in terms:
            truth = term(facts)
            if truth is decisive:
                return truth
            if truth is _UNKNOWN:
                result = truth
        return result

    return asked


def _tested(field: str, test: Callable[[Value], bool]) -> Asked:
    def asked(facts: Facts) -> Truth:
        if field not in facts:
            return _UNKNOWN
        return _TRUE if test(facts[field]) else _FALSE

    return asked


def _test(predicate: Test) -> Callable[[Value], bool]:
    """What a fact is asked; the usual ones without a look at what is asked."""
    match predicate:
        case Compare(_, op, int() | float() as value) if op in _ORDERINGS and not isinstance(value, bool):
            ordered, number = _ORDERINGS[op], value
            return lambda fact: isinstance(fact, int | float) and not isinstance(fact, bool) and ordered(fact, number)
        case Prefix(_, text):
            return lambda fact: isinstance(fact, str) and fact.startswith(text)
    return lambda fact: holds(predicate, fact)
