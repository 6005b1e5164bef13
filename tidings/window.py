"""The window of an aggregate subscription: which publications it takes together, and what it tells of them.

    {"size_ms": 10000, "shift_ms": 5000, "of": {"avg_speed": "avg(speed)"}, "grace_ms": 1000, "empty": false}
    {"size": 100, "shift": 50, "of": {"avg_speed": "avg(speed)"}}

The first is a window of time: it is about the publications of ten seconds, and a new one begins every five. Windows begin at
multiples of the shift, so all brokers know the same ones. The second is a window of a hundred publications.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tidings.aggregate import Aggregate, BadAggregate, Of, parse
from tidings.errors import TidingsError
from tidings.values import INT64_MAX, INT64_MIN

DAY_MS = 86_400_000
LONGEST_MS = 31 * DAY_MS
MOST_COUNTED = 1_000_000
MOST_AT_ONCE = 1000
"""A publication is in no more windows of one subscription than this."""
MOST_RESULTS, LONGEST_NAME = 32, 200


class BadWindow(TidingsError):
    """A window that cannot be; ``detail`` names the property and the limit."""

    exit_code = 2

    def __init__(self, detail: str) -> None:
        super().__init__(f"window: {detail}")
        self.detail = detail


class WindowKind(StrEnum):
    """How the windows of a subscription follow each other."""

    SLIDING = "sliding"
    """Windows overlap: a publication is in several."""
    TUMBLING = "tumbling"
    """One begins where the other ends: a publication is in one."""
    SAMPLING = "sampling"
    """There are gaps: a publication is in one, or in none."""


@dataclass(frozen=True, slots=True)
class Window:
    """Which publications are taken together, and what is told of them.

    ``size`` and ``shift`` are milliseconds, or publications if it is ``counted``; ``of`` is in the order of the names.

    A publication counts if it was appended before the end and ``grace_ms``. ``empty`` is whether a window without any is told.
    """

    size: int
    shift: int
    of: Of
    counted: bool = False
    grace_ms: int = 1000
    empty: bool = False
    decomposable: bool = field(init=False, compare=False)
    """Whether brokers on the way can send partials. To count publications, all of them must be seen in one place."""

    def __post_init__(self) -> None:
        # Once for all: it is asked for every publication.
        decomposable = not self.counted and all(aggregate.decomposable for _, aggregate in self.of)
        object.__setattr__(self, "decomposable", decomposable)

    @property
    def kind(self) -> WindowKind:
        if self.shift == self.size:
            return WindowKind.TUMBLING
        return WindowKind.SLIDING if self.shift < self.size else WindowKind.SAMPLING

    def starts(self, published_ms: int) -> range:
        """The starts of the windows that contain a time; or, if it is counted, the number of a publication, from 0 on.

        >>> list(Window(10, 4, ()).starts(17))
        [8, 12, 16]
        """
        first = max(0, (published_ms - self.size) // self.shift + 1)
        return range(first * self.shift, published_ms + 1, self.shift)

    def closes_ms(self, start: int) -> int:
        """When a window of time is told: what is appended later does not count."""
        return start + self.size + self.grace_ms


def read_window(datum: object) -> Window:
    """The window that the property `window` of a subscription describes; raises `BadWindow`."""
    if not isinstance(datum, dict):
        raise BadWindow(f"it must be an object, not {_shown(datum)}")
    left = dict(datum)
    counted = "size" in left
    _refuse_mixtures(left)
    unit, limit = ("", MOST_COUNTED) if counted else ("_ms", LONGEST_MS)
    size = _integer(left, f"size{unit}", 1, limit)
    shift = _integer(left, f"shift{unit}", 1, limit, default=size)
    if size > MOST_AT_ONCE * shift:
        raise BadWindow(
            f"'size{unit}' must be at most {MOST_AT_ONCE} times 'shift{unit}', so that a publication is in at most "
            f"{MOST_AT_ONCE} windows, but they are {size} and {shift}"
        )
    window = Window(
        size=size,
        shift=shift,
        of=_functions(left),
        counted=counted,
        grace_ms=_integer(left, "grace_ms", 0, DAY_MS, default=1000),
        empty=_flag(left, "empty"),
    )
    if left:
        raise BadWindow(f"unknown property {min(map(_shown, left))}")
    return window


def _refuse_mixtures(left: Mapping[Any, Any]) -> None:
    """A window is of time or of publications."""
    if "size" in left and "size_ms" in left:
        raise BadWindow("'size_ms' is for a window of time and 'size' for one of publications: it cannot have both")
    if "size" not in left and "size_ms" not in left:
        raise BadWindow("'size_ms' is required, or 'size' for a window of publications")
    for name in ("shift_ms", "grace_ms") if "size" in left else ("shift",):
        if name in left:
            raise BadWindow(f"{name!r} does not go with {'size' if 'size' in left else 'size_ms'!r}")


def _integer(left: dict[Any, Any], name: str, least: int, most: int, default: int | None = None) -> int:
    value = left.pop(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        unit = "milliseconds" if name.endswith("_ms") else "publications"
        raise BadWindow(f"{name!r} must be an integer of {unit} from {least} to {most}, not {_shown(value)}")
    return value


def _flag(left: dict[Any, Any], name: str) -> bool:
    value = left.pop(name, False)
    if not isinstance(value, bool):
        raise BadWindow(f"{name!r} must be true or false, not {_shown(value)}")
    return value


def _functions(left: dict[Any, Any]) -> Of:
    of = left.pop("of", None)
    if not isinstance(of, dict) or not 1 <= len(of) <= MOST_RESULTS:
        raise BadWindow(f"'of' must be an object of 1 to {MOST_RESULTS} results, each a name and a function, not {_shown(of)}")
    for name, text in of.items():
        if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME or not _is_unicode(name):
            raise BadWindow(f"in 'of', the name of a result has 1 to {LONGEST_NAME} characters, not {_shown(name)}")
        if not isinstance(text, str):
            raise BadWindow(f"in 'of', {_shown(name)} must be a function like 'avg(speed)', not {_shown(text)}")
    return tuple((name, _function(name, of[name])) for name in sorted(of))


def _function(name: str, text: str) -> Aggregate:
    try:
        return parse(text)
    except BadAggregate as error:
        raise BadWindow(f"in 'of', {_shown(name)} does not parse: {error.detail} at position {error.position}") from None


def _is_unicode(text: str) -> bool:
    """Half a surrogate pair can be written in JSON, but not told."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: object) -> str:
    """A value in an error, however large it is."""
    if isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX:
        return "a number of more than 64 bits"
    return reprlib.repr(value)


_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": DAY_MS}
_SPAN = re.compile(r"([0-9]{1,15})(ms|s|m|h|d|)")


def read_span(text: str) -> dict[str, int]:
    """A window as the command line has it, as the properties that `read_window` takes.

    >>> read_span("10s/5s"), read_span("1m"), read_span("100/50")
    ({'size_ms': 10000, 'shift_ms': 5000}, {'size_ms': 60000}, {'size': 100, 'shift': 50})
    """
    parts = text.split("/")
    spans = [_SPAN.fullmatch(part) for part in parts]
    counted = {span is not None and not span[2] for span in spans}
    if len(parts) > 2 or None in spans or len(counted) > 1:
        raise BadWindow(f"{_shown(text)} is no span: write '10s/5s' or '1m', with ms, s, m, h or d, or '100/50' for publications")
    found = [int(span[1]) * _UNITS_MS.get(span[2], 1) for span in spans if span is not None]
    names = ("size", "shift") if counted == {True} else ("size_ms", "shift_ms")
    return dict(zip(names, found, strict=False))
