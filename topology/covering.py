"""When one `where` is more general than another, and when two of them are one: covering and merging, as DAS has them.

An event is known in parts, and `judge` is three-valued. One step makes that plain logic again: *not stated* counts as one more
value that a field can have. What an entry matches is then a union of **boxes**. A box says for each field that it asks about
which values the field may have, and holds where each of them has such a value.

All values of all kinds stand on one line in the order of `sort_key`, *not stated* before them. A set of values is a tuple of
**cuts** of that line: in from the first to the second, out to the third, and so on. Every test is such a set: `prefix 'ab'` is
all from 'ab' to before 'ac'. Only `contains` is none. A box asks it beside the fields, as a field with the values true and false.
The line has no gaps between numbers, but floats do: where none fits between two literals, an answer can be a careful no.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, cycle
from typing import Any, Final, TypeAlias

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
    Scalar,
    fields_of,
    render,
)
from tidings.values import sort_key

# A predicate that comes apart into more boxes is not analysed: their number can double with every `and`.
MOST_DISJUNCTS: Final = 64


@dataclass(frozen=True, slots=True)
class Interest:
    """What somebody asks for: a predicate, and what it makes of fields that are not stated."""

    where: Predicate
    missing: Missing


def covers(general: Interest, special: Interest) -> bool:
    """Whether ``general`` matches whatever ``special`` does. A yes is certain; with `contains` or many boxes, a no is careful."""
    return encloses(scope_of(general), scope_of(special))


def merged(a: Interest, b: Interest) -> Interest | None:
    """One entry that matches exactly when one of the two does. None if there is none that is simpler than the two."""
    return one_of(*sorted([scope_of(a), scope_of(b)], key=Scope.order))


Cut: TypeAlias = tuple[Any, ...]
Cuts: TypeAlias = tuple[Cut, ...]

_NULL, _BOOLEAN, _NUMBER, _TEXT, _LIST = [sort_key(value)[0] for value in (None, False, 0, "", ())]
_START, _END = (_NULL - 1,), (_LIST + 1,)
_ALL, _UNSTATED, _STATED, _WORDED = (_START, _END), (_START, (_NULL,)), ((_NULL,), _END), ((_TEXT,), _END)
_FALSE, _TRUE = ((_BOOLEAN,), (_BOOLEAN, True)), ((_BOOLEAN, True), (_NUMBER,))
_SEAMS = ((_NULL,), (_BOOLEAN,), (_BOOLEAN, True), (_NUMBER,), (_TEXT,), (_LIST,))


def _point(value: Scalar) -> Cuts:
    """The cuts before and after a value. Where a next value exists, or a kind begins, there is only one way to write it."""
    rank, fact = sort_key(value)
    if rank == _NUMBER:
        return ((rank, fact, 0), (rank, fact, 1))
    after = (rank, value + "\0") if isinstance(value, str) else (rank, True) if value is False else (rank + 1,)
    return ((rank, fact) if fact else (rank,), after)


def _after_prefix(text: str) -> Cut:
    """The cut after all strings that begin with ``text``."""
    text = text.rstrip("\U0010ffff")
    return (_TEXT, text[:-1] + chr(ord(text[-1]) + 1)) if text else (_LIST,)


def _overlaid(sets: Iterable[Cuts], depth: int) -> Cuts:
    """What lies in at least ``depth`` of the sets."""
    found: list[Cut] = []
    level = 0
    for cut, way in sorted([step for cuts in sets for step in zip(cuts, cycle((1, -1)), strict=False)]):
        if max(level, level + way) == depth:
            # The depth is reached or left here. Left and reached at the same cut, it goes on.
            if found and found[-1] == cut:
                found.pop()
            else:
                found.append(cut)
        level += way
    return tuple(found)


def _either(*sets: Cuts) -> Cuts:
    return _overlaid(sets, 1)


def _both(a: Cuts, b: Cuts) -> Cuts:
    return _overlaid((a, b), 2)


def _without(a: Cuts, b: Cuts) -> Cuts:
    opposite = b[1:] if b[:1] == (_START,) else (_START, *b)
    return _both(a, opposite[:-1] if opposite[-1:] == (_END,) else (*opposite, _END))


def _lies_in(cuts: Cuts, others: Cuts) -> bool:
    spans = zip(cuts[::2], cuts[1::2], strict=True)
    return all((place := bisect_right(others, low)) % 2 == 1 and high <= others[place] for low, high in spans)


def _pieces(cuts: Cuts) -> list[tuple[Cut, Cut]]:
    """The spans, cut once more where another kind begins. Also the two booleans are cut apart."""
    found = []
    for low, high in zip(cuts[::2], cuts[1::2], strict=True):
        for seam in _SEAMS if high[0] > low[0] else ():
            if low < seam < high:
                found.append((low, seam))
                low = seam
        found.append((low, high))
    return found


def _only(low: Cut, high: Cut) -> tuple[Scalar, ...]:
    """The one value of a piece, or nothing if it has more."""
    if low[0] in (_NULL, _BOOLEAN):
        return (len(low) > 1,) if low[0] == _BOOLEAN else (None,)
    value = low[1] if len(low) > 1 else ""
    return (value,) if low[0] != _LIST and (low, high) == _point(value) else ()


def _values_of(test: Compare | In | Prefix) -> Cuts:
    match test:
        case In(_, values):
            return _either(*map(_point, values))
        case Prefix(_, text):
            return (_point(text)[0], _after_prefix(text))
        case Compare(_, Op.EQ, value):
            return _point(value)
        case Compare(_, Op.NE, value):
            return _without(_STATED, _point(value))
        case Compare(_, op, value):
            rank, (before, after) = sort_key(value)[0], _point(value)
            low, high = {Op.GT: after, Op.GE: before}.get(op, (rank,)), {Op.LT: before, Op.LE: after}.get(op, (rank + 1,))
            return (low, high) if low < high and value is not None else ()


def _answers(question: Contains, cuts: Cuts) -> Cuts:
    """What `contains` can answer if its field has one of the values."""
    found: list[Cuts] = []
    for low, high in _pieces(cuts):
        start = low[1] if low[0] == _TEXT and len(low) > 1 and high <= _after_prefix(low[1]) else ""
        if low[0] == _TEXT and question.value in start:  # all of them begin with it
            found.append(_TRUE)
        elif low[0] >= _TEXT and not _only(low, high):
            found += [_FALSE, _TRUE]
        else:
            found.append(_FALSE if low[0] >= _NULL else _UNSTATED)
    return _either(*found)


Asked: TypeAlias = str | Contains
Box: TypeAlias = dict[Asked, Cuts]
"""Never with an empty set, nor with one of all values."""


class _TooMany(Exception):
    """More boxes than are worth the work."""


def _met(boxes: Iterable[Box]) -> list[Box]:
    """The box where all of them hold, if there is one."""
    sets: dict[Asked, list[Cuts]] = {}
    for asked, cuts in chain.from_iterable(box.items() for box in boxes):
        sets.setdefault(asked, []).append(cuts)
    met = {asked: _overlaid(several, len(several)) for asked, several in sets.items()}
    return [met] if all(met.values()) else []


def _possible(box: Box, asked: Asked) -> Cuts:
    """What can be answered where the box holds."""
    cuts = box.get(asked, _ALL)
    return cuts if isinstance(asked, str) else _both(cuts, _answers(asked, box.get(asked.field, _ALL)))


def _minus(box: Box, other: Box) -> list[Box]:
    """Boxes that together hold where the first does and the second does not."""
    left, rest = list[Box](), box
    for asked, cuts in other.items():
        mine = _possible(rest, asked)
        inside, outside = _both(mine, cuts), _without(mine, cuts)
        if not inside:
            return [box] if outside else left
        if outside:
            left.append({**rest, asked: outside})
        rest = {**rest, asked: inside}
    return left


def _gathered(boxes: Iterable[Box]) -> list[Box]:
    """The same boxes without repetitions, those that ask one thing only joined."""
    alone: dict[Asked, list[Cuts]] = {}
    found: dict[frozenset[tuple[Asked, Cuts]], Box] = {}
    for box in boxes:
        if not box:
            return [box]
        if len(box) == 1:
            alone.setdefault(next(iter(box)), []).extend(box.values())
        else:
            found[frozenset(box.items())] = box
    singles: list[Box] = [{asked: _either(*sets)} for asked, sets in alone.items()]
    if len(found) + len(singles) > MOST_DISJUNCTS:
        raise _TooMany
    return [{}] if any(_ALL in box.values() for box in singles) else [*singles, *found.values()]


def _boxes(predicate: Predicate, unknown: Cuts, holds: bool) -> list[Box]:
    """Where a predicate is true, or false if not ``holds``. ``unknown`` is what of *not stated* counts as well."""
    match predicate:
        case Everything():
            return [{}] if holds else []
        case Not(term):
            return _boxes(term, unknown, not holds)
        case And(terms) | Or(terms):
            parts = [_boxes(term, unknown, holds) for term in terms]
            if isinstance(predicate, Or) is holds:
                return _gathered(chain.from_iterable(parts))
            boxes = _met([part[0] for part in parts if len(part) == 1])
            for part in parts:
                if len(part) != 1:
                    boxes = _gathered([met for box in boxes for other in part for met in _met([box, other])])
            return boxes
        case Exists(field):
            return [{field: _STATED if holds else _UNSTATED}]
        case Contains(field):
            # What contains something is a string or a list: with that in the box, other tests of the field can be compared.
            kinds: Box = {field: _either(unknown, _WORDED)} if holds else {} if unknown else {field: _STATED}
            return [{predicate: _either(unknown, _TRUE if holds else _FALSE), **kinds}]
    values = _values_of(predicate)
    cuts = _either(unknown, values if holds else _without(_STATED, values))
    return [{predicate.field: cuts} if cuts != _ALL else {}] if cuts else []


@dataclass(frozen=True, slots=True)
class Scope:
    """An entry, with what comparing it needs: its text, and the boxes that it matches. None if they are too many."""

    entry: Interest
    text: str
    boxes: tuple[Box, ...] | None

    @property
    def box(self) -> Box | None:
        """The box, if there is one and no more."""
        return self.boxes[0] if self.boxes is not None and len(self.boxes) == 1 else None

    def order(self) -> tuple[str, str]:
        return (self.text, self.entry.missing)


def scope_of(entry: Interest) -> Scope:
    text, unknown = render(entry.where), _UNSTATED if entry.missing is Missing.OPTIMISTIC else ()
    try:
        boxes = _boxes(entry.where, unknown, True)
    except _TooMany:
        return Scope(entry, text, None)
    return Scope(entry, text, tuple([box for box in boxes if all(_possible(box, asked) for asked in box)]))


def encloses(general: Scope, special: Scope) -> bool:
    if general.boxes is None or special.boxes is None:
        # What is true is also not false: of one predicate, the optimistic reading covers the patient one.
        as_open = general.entry.missing in (special.entry.missing, Missing.OPTIMISTIC)
        return general.boxes == ({},) or special.boxes == () or (as_open and general.entry.where == special.entry.where)
    return lie_in(special.boxes, general.boxes)


def lie_in(boxes: Iterable[Box], others: Sequence[Box]) -> bool:
    """Whether one of the ``others`` holds wherever one of the boxes does. What is only in several of them is cut up."""
    left = []
    for box in boxes:
        ways = [_way_out(box, other) for other in others]
        if None not in ways:
            if len(set(ways)) == len(ways):  # each by a field of its own: all of them can be left at once
                return False
            left.append(box)
    for other in others:
        left = [part for box in left for part in _minus(box, other)]
        if len(left) > MOST_DISJUNCTS:
            break
    return not left


def _way_out(box: Box, other: Box) -> str | None:
    """A field by which the first box holds where the second does not; None if there is none, and it lies in the second."""
    for asked, cuts in other.items():
        if not _lies_in(_possible(box, asked), cuts):
            return asked if isinstance(asked, str) else asked.field
    return None


def one_of(a: Scope, b: Scope) -> Interest | None:
    """`merged`, of scopes in canonical order."""
    for general, special in ((a, b), (b, a)):
        if encloses(general, special):
            return general.entry
    if a.box is None or b.box is None or a.box.keys() != b.box.keys():
        return None
    differing = [asked for asked in a.box if a.box[asked] != b.box[asked]]
    joint = joined(differing[0], [a, b], whole=True) if len(differing) == 1 else None
    return joint[0] if joint else None


def joined(field: Asked, scopes: Sequence[Scope], *, whole: bool = False) -> list[Interest] | None:
    """Few entries, or one if ``whole``, that match where one of these scopes does: single boxes that differ in ``field`` only."""
    boxes = [scope.box for scope in scopes if scope.box]
    if isinstance(field, Contains) or any(asked.field == field for asked in boxes[0] if isinstance(asked, Contains)):
        return None
    cuts = _either(*[box[field] for box in boxes])
    for missing in sorted({scope.entry.missing for scope in scopes}):
        frames = (_frame(scope.entry.where, field) for scope in scopes if scope.entry.missing is missing)
        for parts in ([cuts],) if whole else ([cuts], _simple_parts(cuts)):
            written = [terms for part in parts if (terms := _written(field, part, missing)) is not None]
            if len(written) == len(parts) and (frame := next(filter(None, frames), None)):
                return [Interest(_conjunction((*frame[0], *terms, *frame[1])), missing) for terms in written]
    return None


def _frame(where: Predicate, field: str) -> tuple[tuple[Predicate, ...], tuple[Predicate, ...]] | None:
    """The terms before and after those about the field, unless it is entangled with others in one of them."""
    terms = where.terms if isinstance(where, And) else (where,)
    about = [term for term in terms if field in fields_of(term)]
    if any(len(fields_of(term)) > 1 for term in about):
        return None
    place = terms.index(about[0])
    return terms[:place], tuple([term for term in terms[place:] if field not in fields_of(term)])


def _conjunction(terms: tuple[Predicate, ...]) -> Predicate:
    return And(terms) if len(terms) > 1 else terms[0] if terms else Everything()


def _simple_parts(cuts: Cuts) -> list[Cuts]:
    """The single values as one set, and each range."""
    pieces = _pieces(_both(cuts, _STATED))
    singles = _either(*[piece for piece in pieces if _only(*piece)])
    parts = [singles, *[piece for piece in pieces if not _only(*piece)]]
    return [_either(_both(cuts, _UNSTATED), part) for part in parts if part]


def _written(field: str, cuts: Cuts, missing: Missing) -> tuple[Predicate, ...] | None:
    """The terms that match a set of values, if there are simple ones."""
    stated, unstated = _both(cuts, _STATED), _both(cuts, _UNSTATED)
    if stated in ((), _STATED):
        return () if cuts == _ALL else (Exists(field),) if stated else (Not(Exists(field)),)
    if unstated and missing is Missing.PATIENT:
        return None
    if stated[-1] != _END:
        terms = _simple(field, stated)
    else:  # no test holds of lists, so they are in by what is ruled out
        match _simple(field, _without(_STATED, stated)):
            case (Compare(_, Op.EQ, value),):
                terms = (Compare(field, Op.NE, value),)
            case opposite:
                terms = opposite and (Not(_conjunction(opposite)),)
    return (Exists(field), *terms) if terms and not unstated and missing is Missing.OPTIMISTIC else terms


def _simple(field: str, cuts: Cuts) -> tuple[Predicate, ...] | None:
    pieces = _pieces(cuts)
    values = [value for piece in pieces for value in _only(*piece)]
    if len(values) == len(pieces):
        return (Compare(field, Op.EQ, values[0]) if len(values) == 1 else In(field, tuple(values)),)
    return _range(field, *pieces[0]) if len(pieces) == 1 else None


def _range(field: str, low: Cut, high: Cut) -> tuple[Predicate, ...] | None:
    first, beyond = [cut[1] if cut[0] == _TEXT and len(cut) > 1 else "" for cut in (low, high)]
    if low[0] == _LIST or "\ud800" <= beyond[-1:] <= "\udfff":  # half a surrogate pair cannot be sent as text
        return None
    if low[0] == _TEXT and high == _after_prefix(first):
        return (Prefix(field, first),)
    terms: list[Predicate] = []
    for (_, *bound), at, past in ((low, Op.GE, Op.GT), (high, Op.LT, Op.LE)):
        match bound:
            case [str(text)]:
                terms.append(Compare(field, past, text[:-1]) if text.endswith("\0") else Compare(field, at, text))
            case [number, side]:
                terms.append(Compare(field, past if side else at, number))
    # No test alone holds of all numbers and of nothing else.
    return tuple(terms) or (Or((Compare(field, Op.LT, 0), Compare(field, Op.GE, 0))),)
