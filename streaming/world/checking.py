"""Everything that is wrong with control records in a file, not only the first of it.

`tidings control apply` stops at the first record that cannot be applied; who writes a file wants to see them all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidings import predicate
from tidings.control import Snapshot
from tidings.errors import BadControl, BadPredicate
from tidings.topic import Timing
from topology.overlay import ProblemKind
from topology.plan import Plan

_WRONG = frozenset({ProblemKind.UNKNOWN_BROKER, ProblemKind.DOUBLE_LINK})
"""Problems of the overlay that are mistakes; one that falls into parts, or a topic that does, may be meant so."""
_SPACE = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Complaint:
    """Something to put right. ``where`` is file and line, ``pointer`` shows the place within a `where`."""

    where: str
    about: str
    detail: str
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """The control data that the good records make, what is wrong with the others, and what may be meant otherwise."""

    snapshot: Snapshot
    problems: tuple[Complaint, ...] = ()
    remarks: tuple[Complaint, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)
    """Where the record of each key stands."""

    @property
    def records(self) -> int:
        return len(self.snapshot.records)


def check_text(text: str, where: str, before: Checked) -> Checked:
    """Apply the records of one more file, which holds JSON lines, an array or one object."""
    checked = before
    for line, piece in _pieces(text):
        at = f"{where}:{line}"
        if isinstance(piece, _NoPiece):
            checked = replace(checked, problems=(*checked.problems, Complaint(at, "", piece.detail)))
        else:
            checked = _take(checked, at, piece)
    return checked


def check_whole(checked: Checked) -> Checked:
    """What is only wrong of all records together."""
    plan = Plan(checked.snapshot)
    problems = [*checked.problems]
    remarks = [*checked.remarks]
    for problem in plan.problems:
        (problems if problem.kind in _WRONG else remarks).append(Complaint("", "the overlay", problem.text))
    remarks += [replace(each, where=checked.places.get(each.about, "")) for each in _doubts(plan)]
    return replace(checked, problems=tuple(problems), remarks=tuple(remarks))


def _take(checked: Checked, at: str, piece: str) -> Checked:
    """One record more: applied, or named as a problem."""
    try:
        key, record = _keyed(piece)
    except ValueError as error:
        return replace(checked, problems=(*checked.problems, Complaint(at, "", str(error))))
    version = checked.snapshot.version + 1
    if complaints := list(_complaints(key, record, checked.snapshot.timing)):
        wrong = [Complaint(at, key, detail, _pointer(record, detail)) for detail in complaints]
        return replace(checked, problems=(*checked.problems, *wrong), snapshot=checked.snapshot.passing_over(version))
    remarks, places = checked.remarks, {**checked.places}
    if record is not None and key in places:
        remarks = (*remarks, Complaint(at, key, f"replaces the record at {places[key]}"))
    places[key] = at
    return replace(checked, snapshot=checked.snapshot.apply(version, key, _encoded(record)), remarks=remarks, places=places)


def _encoded(record: Mapping[str, Any] | None) -> bytes | None:
    return None if record is None else json.dumps(record, ensure_ascii=False).encode(errors="surrogatepass")


def _keyed(piece: str) -> tuple[str, dict[str, Any] | None]:
    try:
        datum = json.loads(piece)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg}, at column {error.pos + 1} of the record") from None
    except RecursionError:
        raise ValueError("not JSON: nested too deeply") from None
    if not isinstance(datum, dict):
        raise ValueError('a control record must be an object, like {"kind": "broker", "name": "b1"}')
    kind, name = datum.get("kind"), datum.get("name")
    if not isinstance(kind, str) or not isinstance(name, str):
        raise ValueError("a control record needs a 'kind' and a 'name', both strings")
    return f"{kind}/{name}", None if datum.get("delete") is True else datum


def _complaints(key: str, record: Mapping[str, Any] | None, timing: Timing) -> Iterator[str]:
    """All that is wrong with a record: the properties that a complaint names are left out, and the rest is asked again."""
    left = {} if record is None else dict(record)
    detail = _complaint(key, record, timing)
    while detail is not None:
        yield detail
        before = detail
        for name in _named(left, detail):
            del left[name]
            if (_complaint(key, left, timing) or "").startswith(f"{name!r} is required"):
                left[name] = "-"  # it is there, only wrong
        detail = _complaint(key, left, timing)
        if detail == before:
            return


def _named(record: Mapping[str, Any], detail: str) -> list[str]:
    """The properties that a complaint is about: in quotes if it is one, in plain words if they contradict each other."""
    names = [name for name in record if name not in ("kind", "name")]
    quoted = [name for name in names if repr(name) in detail][:1]
    return quoted or [name for name in names if re.search(rf"\b{re.escape(name)}\b", detail)]


def _complaint(key: str, record: Mapping[str, Any] | None, timing: Timing) -> str | None:
    try:
        Snapshot(timing=timing).apply(0, key, _encoded(record))
    except BadControl as error:
        return error.detail
    return None


def _pointer(record: Mapping[str, Any] | None, detail: str) -> str:
    """The text of a `where` that does not parse, and below it a sign at the place."""
    where = (record or {}).get("where")
    if not isinstance(where, str) or "'where' does not parse" not in detail:
        return ""
    try:
        predicate.parse(where)
    except BadPredicate as error:
        return f"{where}\n{' ' * error.position}^"
    return ""


def _doubts(plan: Plan) -> Iterator[Complaint]:
    """What the service takes, and somebody may have meant otherwise."""
    records = plan.snapshot.records
    declared = {record["name"] for record in records.values() if record["kind"] == "topic"}
    for key, record in sorted(records.items()):
        broker = record.get("broker", "b1") if record["kind"] in ("subscription", "advertisement") else record.get("rendezvous")
        if broker is not None and not plan.has(broker):
            yield Complaint("", key, f"names the broker {broker!r}, which is not in the overlay")
        if record["kind"] == "subscription" and declared and record["topic"] not in declared:
            yield Complaint("", key, f"the topic {record['topic']!r} is not declared; it has the defaults")


# ---- the records in a text --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _NoPiece:
    """The array is not what it should be."""

    detail: str


def _pieces(text: str) -> Iterator[tuple[int, str | _NoPiece]]:
    """Each value with its line. One that is no JSON goes on to the end of its line, so that what follows is still seen."""
    decoder = json.JSONDecoder()
    in_array = text.lstrip().startswith("[")
    between = _SPACE + ",[" if in_array else _SPACE
    at = 0
    while (at := _skip(text, at, between)) < len(text):
        line = text.count("\n", 0, at) + 1
        if in_array and text[at] == "]":
            if (rest := _skip(text, at + 1, _SPACE)) < len(text):
                yield text.count("\n", 0, rest) + 1, _NoPiece("nothing may follow the array")
            return
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
        yield line, text[at:end]
        at = end
    if in_array:
        yield text.count("\n") + 1, _NoPiece("the array is never closed")


def _skip(text: str, at: int, characters: str) -> int:
    while at < len(text) and text[at] in characters:
        at += 1
    return at
