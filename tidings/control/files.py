"""Control records in a file: objects one after the other (JSON lines), or in an array. Everybody reads such files here.

`tidings control apply` stops at the first thing that is wrong (`read_text`); `tidings check` names them all (`values`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tidings.control.snapshot import Snapshot
from tidings.errors import BadControl, TidingsError
from tidings.topic import Timing

_SPACE = " \t\r\n"

ControlRecord: TypeAlias = tuple[str, dict[str, Any] | None]
"""Key and record; None deletes."""


@dataclass(frozen=True, slots=True)
class Value:
    """A JSON value and the line it begins on."""

    line: int
    datum: Any


@dataclass(frozen=True, slots=True)
class Flaw:
    """A place where there should be a value and is none; ``line`` is where it would begin."""

    line: int
    detail: str
    """What is wrong if it ends with its line."""
    position: int
    """Where in the whole text reading came to an end, and why."""
    reason: str


def read_file(path: Path, timing: Timing | None = None) -> list[ControlRecord]:
    """The records in a file, all of them checked.

    An object with ``"delete": true`` beside kind and name deletes. Raises `BadControl` with file and line.
    """
    try:
        return read_text(path.read_text(encoding="utf-8"), str(path), timing)
    except OSError as error:
        raise TidingsError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadControl(str(path), f"the file must be UTF-8; byte {error.start} is not") from error


def read_text(text: str, where: str, timing: Timing | None = None) -> list[ControlRecord]:
    """As `read_file`, for text that comes from ``where``."""
    records: list[ControlRecord] = []
    for value in values(text):
        if isinstance(value, Flaw):
            raise _not_json(where, text, value)
        at = f"{where}:{value.line}"
        key, record = keyed(value.datum, at)
        try:
            check(key, record, timing)
        except BadControl as error:
            raise BadControl(key, f"{error.detail} ({at})", error.about, error.position) from None
        records.append((key, record))
    return records


def check(key: str, record: dict[str, Any] | None, timing: Timing | None = None) -> None:
    """Raise `BadControl` for what the service would put aside."""
    Snapshot(timing=timing or Timing()).apply(0, key, None if record is None else encode(record))


def encode(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode()


def keyed(datum: Any, at: str) -> ControlRecord:
    """A value as a control record; raises `BadControl`, with the place, for one that is none."""
    if not isinstance(datum, dict):
        raise BadControl(at, 'a control record must be an object, like {"kind": "broker", "name": "b1"}')
    kind, name = datum.get("kind"), datum.get("name")
    if not isinstance(kind, str) or not isinstance(name, str):
        raise BadControl(at, "a control record needs a 'kind' and a 'name', both strings")
    return f"{kind}/{name}", None if datum.get("delete") is True else datum


def values(text: str) -> Iterator[Value | Flaw]:
    """The JSON values in a text; an array around them is looked through.

    One that cannot be read is taken to end with its line, so that what follows is still seen.
    """
    decoder = json.JSONDecoder()
    in_array = text.lstrip().startswith("[")
    between = _SPACE + ",[" if in_array else _SPACE
    at, line = 0, 1
    while (start := _skip(text, at, between)) < len(text):
        line += text.count("\n", at, start)
        if in_array and text[start] == "]":
            if (rest := _skip(text, start + 1, _SPACE)) < len(text):
                detail = "nothing may follow the array"
                yield Flaw(line + text.count("\n", start, rest), detail, rest, detail)
            return
        try:
            datum, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            at = _end_of_line(text, start)
            yield Flaw(line, _by_itself(text[start:at]), getattr(error, "pos", start), _reason(error))
        else:
            yield Value(line, datum)
        line += text.count("\n", start, at)
    if in_array:
        detail = "the array is never closed"
        yield Flaw(text.count("\n") + 1, detail, len(text), detail)


def _by_itself(line: str) -> str:
    """What is wrong with a value that ends with its line: the rest of the text may not be about it."""
    try:
        json.loads(line)
    except json.JSONDecodeError as error:
        return f"not JSON: {error.msg}, at column {error.pos + 1} of the record"
    except RecursionError as error:
        return f"not JSON: {_reason(error)}"
    except ValueError as error:
        return str(error)
    return "not JSON"


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return error.msg
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _not_json(where: str, text: str, flaw: Flaw) -> BadControl:
    line = text.count("\n", 0, flaw.position) + 1
    column = flaw.position - text.rfind("\n", 0, flaw.position)
    return BadControl(f"{where}:{line}", f"not JSON: {flaw.reason}, at column {column}")


def _skip(text: str, at: int, characters: str) -> int:
    while at < len(text) and text[at] in characters:
        at += 1
    return at


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
