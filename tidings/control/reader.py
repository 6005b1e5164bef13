"""One control record as the wire has it: parsed, and its properties taken out one by one, with errors that name them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeAlias

from tidings.errors import BadControl
from tidings.pace import PaceUnit

_MISSING: Any = object()

Record: TypeAlias = Mapping[str, Any]


def parse(key: str, value: bytes) -> Record:
    """The record a value holds, which must be the one that its key names. What else it says is up to its kind."""
    try:
        record = json.loads(value, object_pairs_hook=_no_repeated_names)
    except (ValueError, RecursionError) as error:
        raise BadControl(key, f"not JSON: {error}") from None
    if not isinstance(record, dict):
        raise BadControl(key, "the value must be a JSON object")
    kind, _, name = key.partition("/")
    if record.get("kind") != kind or record.get("name") != name:
        raise BadControl(key, f"the record says kind {record.get('kind')!r} and name {record.get('name')!r}")
    return record


def _no_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two results of a window that have one name would be one, and nobody would say which."""
    names = [name for name, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"the name {twice!r} stands twice in one object")
    return dict(pairs)


class Reader:
    """Takes properties out of a record one by one, so that what is left over is known to be unknown."""

    def __init__(self, key: str, record: Record) -> None:
        self.key = key
        self.left = {name: value for name, value in record.items() if name not in ("kind", "name")}
        self.name: str = record["name"]

    def fail(self, detail: str, *about: str, position: int | None = None) -> BadControl:
        return BadControl(self.key, detail, about, position)

    def text(self, name: str, default: Any = _MISSING) -> str:
        value = self.left.pop(name, default)
        if value is _MISSING:
            raise self.fail(f"{name!r} is required", name)
        if not isinstance(value, str) or not value:
            raise self.fail(f"{name!r} must be a string that is not empty, not {value!r}", name)
        return value

    def milliseconds(self, name: str, default: int) -> int:
        value = self.left.pop(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10**12:
            raise self.fail(f"{name!r} must be an integer of milliseconds from 0 to 10^12, not {value!r}", name)
        return value

    def pace(self, name: str, counted: PaceUnit | None) -> Any:
        """A whole number; 0 when it is not said."""
        if counted is None:
            return self.milliseconds(name, 0)
        value = self.left.pop(name, _MISSING)
        if value is _MISSING:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= counted.most:
            raise self.fail(f"{name!r} must be an integer of {counted.units} from 1 to {counted.most}, not {value!r}", name)
        return value

    def names(self, name: str) -> frozenset[str] | None:
        value = self.left.pop(name, None)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self.fail(f"{name!r} must be a list of names, not {value!r}", name)
        return frozenset(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.left.pop(name, default)
        if not isinstance(value, bool):
            raise self.fail(f"{name!r} must be true or false, not {value!r}", name)
        return value

    def choice(self, name: str, choices: type[StrEnum], default: str) -> Any:
        value = self.left.pop(name, default)
        allowed = [str(choice) for choice in choices]
        if value not in allowed:
            raise self.fail(f"{name!r} must be one of {', '.join(allowed)}, not {value!r}", name)
        return choices(value)

    def end(self) -> None:
        if self.left:
            unknown = min(self.left)
            raise self.fail(f"unknown property {unknown!r}", unknown)
