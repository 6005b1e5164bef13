"""Everything that is wrong with control records in a file, not only the first of it.

`tidings control apply` stops at the first record that cannot be applied; whoever writes a file wants to see them all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidings.control import Snapshot
from tidings.control.files import Flaw, keyed, values
from tidings.errors import BadControl
from tidings.topic import Timing
from topology.overlay import ProblemKind
from topology.plan import Plan

_WRONG = frozenset({ProblemKind.UNKNOWN_BROKER, ProblemKind.DOUBLE_LINK})
"""Problems of the overlay that are mistakes; one that falls into parts, or a topic that does, may be meant so."""


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
    for value in values(text):
        at = f"{where}:{value.line}"
        if isinstance(value, Flaw):
            checked = _with_problems(checked, Complaint(at, "", value.detail))
        else:
            checked = _take(checked, at, value.datum)
    return checked


def check_whole(checked: Checked) -> Checked:
    """What is only wrong of all records together."""
    problems = [*checked.problems]
    remarks = [*checked.remarks]
    for problem in Plan(checked.snapshot).problems:
        (problems if problem.kind in _WRONG else remarks).append(Complaint("", "the overlay", problem.text))
    remarks += [Complaint(checked.places.get(key, ""), key, doubt) for key, doubt in checked.snapshot.doubts()]
    return replace(checked, problems=tuple(problems), remarks=tuple(remarks))


def _take(checked: Checked, at: str, datum: Any) -> Checked:
    """One record more: applied, or named as a problem."""
    try:
        key, record = keyed(datum, at)
    except BadControl as error:
        return _with_problems(checked, Complaint(at, "", error.detail))
    version = checked.snapshot.version + 1
    if errors := list(_errors(key, record, checked.snapshot.timing)):
        wrong = [Complaint(at, key, error.detail, _pointer(record, error)) for error in errors]
        return replace(_with_problems(checked, *wrong), snapshot=checked.snapshot.passing_over(version))
    remarks, places = checked.remarks, {**checked.places}
    if record is not None and key in places:
        remarks = (*remarks, Complaint(at, key, f"replaces the record at {places[key]}"))
    places[key] = at
    return replace(checked, snapshot=checked.snapshot.apply(version, key, _encoded(record)), remarks=remarks, places=places)


def _with_problems(checked: Checked, *problems: Complaint) -> Checked:
    return replace(checked, problems=(*checked.problems, *problems))


def _encoded(record: Mapping[str, Any] | None) -> bytes | None:
    return None if record is None else json.dumps(record, ensure_ascii=False).encode(errors="surrogatepass")


def _errors(key: str, record: Mapping[str, Any] | None, timing: Timing) -> Iterator[BadControl]:
    """All that is wrong with a record: the properties that an error is about are left out, and the rest is asked again."""
    left = {} if record is None else dict(record)
    error = _error(key, record, timing)
    while error is not None:
        yield error
        before = error.detail
        for name in [name for name in error.about if name in left]:
            del left[name]
            if (still := _error(key, left, timing)) and still.about == (name,):
                left[name] = "-"  # it is required: it is there, only wrong
        error = _error(key, left, timing)
        if error is not None and error.detail == before:
            return


def _error(key: str, record: Mapping[str, Any] | None, timing: Timing) -> BadControl | None:
    try:
        Snapshot(timing=timing).apply(0, key, _encoded(record))
    except BadControl as error:
        return error
    return None


def _pointer(record: Mapping[str, Any] | None, error: BadControl) -> str:
    """The text of a property that does not parse, and below it a sign at the place."""
    if record is None or error.position is None:
        return ""
    return f"{record[error.about[0]]}\n{' ' * error.position}^"
