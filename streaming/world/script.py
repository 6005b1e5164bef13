"""What happens in a dry run, as a file says it: messages, and changes of the control data, each at its time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidings.control import DEFAULT_BROKER, Snapshot
from tidings.errors import BadControl
from tidings.topic import Timing

_LATEST_MS = 10**14


@dataclass(frozen=True, slots=True)
class MessageLine:
    """A line of the file is a message: it is appended at ``at_ms``, at a broker, as these bytes."""

    line: int
    at_ms: int
    broker: str
    value: bytes


@dataclass(frozen=True, slots=True)
class ControlLine:
    """A line of the file is a control record: the control data changes at ``at_ms``. A record of None deletes."""

    line: int
    at_ms: int
    key: str
    record: Mapping[str, Any] | None


Line: TypeAlias = MessageLine | ControlLine


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that says nothing that could happen."""

    line: int
    detail: str


def read_happenings(text: bytes, timing: Timing) -> tuple[list[Line], list[BadLine]]:
    """The lines of a file in the order of their times, and all that is wrong with it.

    A line says its time as ``at_ms``, or as ``after_ms`` since the line before; else it is its ``published_ms``, if that is
    later than the line before, else that line's time. A line with a ``kind`` is a control record. A message that nobody could
    read is no mistake of the file: it is dead-lettered, as the service would.
    """
    found: list[Line] = []
    wrong: list[BadLine] = []
    now_ms = 0
    for number, line in enumerate(text.split(b"\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith(b"#"):
            continue
        datum = _object(stripped)
        try:
            now_ms = _time_of(datum, now_ms)
            found.append(_happening(number, now_ms, datum, stripped, timing))
        except (ValueError, BadControl) as error:
            wrong.append(BadLine(number, error.detail if isinstance(error, BadControl) else str(error)))
    return sorted(found, key=lambda happening: happening.at_ms), wrong


def _object(line: bytes) -> dict[str, Any]:
    try:
        datum = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return datum if isinstance(datum, dict) else {}


def _time_of(datum: Mapping[str, Any], before_ms: int) -> int:
    if "at_ms" in datum and "after_ms" in datum:
        raise ValueError("'at_ms' and 'after_ms' exclude each other")
    for name in ("at_ms", "after_ms"):
        value = datum.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LATEST_MS:
            raise ValueError(f"{name!r} must be an integer of milliseconds from 0 to 10^14, not {value!r}")
    if "at_ms" in datum:
        return int(datum["at_ms"])
    published = datum.get("published_ms")
    if "after_ms" not in datum and type(published) is int and before_ms < published <= _LATEST_MS:
        return published
    return before_ms + int(datum.get("after_ms", 0))


def _happening(line: int, at_ms: int, datum: Mapping[str, Any], value: bytes, timing: Timing) -> Line:
    if "kind" in datum and "key" not in datum:
        key = f"{datum['kind']}/{datum.get('name')}"
        record = {name: each for name, each in datum.items() if name not in ("at_ms", "after_ms")}
        deletes = record.pop("delete", False) is True
        Snapshot(timing=timing).apply(0, key, None if deletes else encoded(record))
        return ControlLine(line, at_ms, key, None if deletes else record)
    broker = datum.get("broker", DEFAULT_BROKER)
    if not isinstance(broker, str) or not broker:
        raise ValueError(f"'broker' must be a broker's name, not {broker!r}")
    return MessageLine(line, at_ms, broker, value)


def encoded(record: Mapping[str, Any]) -> bytes:
    """A control record as it stands in Kafka."""
    return json.dumps(record, ensure_ascii=False).encode()
