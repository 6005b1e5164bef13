"""How a subscription asks for a pace: by a property of its control record, a whole number where 0 asks for nothing.

A property is declared once, at the field of `Subscription` that holds it. Reading and checking control records, the options of
`tidings subscribe` and the table in the documentation all go by that. What a pace does stands in `streaming.notify.pace`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_type_hints


@dataclass(frozen=True, slots=True)
class PaceUnit:
    """What a property counts that is no number of milliseconds: from 1 to ``most``. ``one`` names a single one."""

    one: str
    units: str
    most: int


@dataclass(frozen=True, slots=True)
class PaceProperty:
    """``option`` describes it in the command line's help, ``means`` in the documentation."""

    option: str
    means: str
    counted: PaceUnit | None = None
    """None for a number of milliseconds."""
    of_events: bool = True
    """Whether it is about single events: then it makes news of them wait, and does not go with windows."""


def pace_properties(owner: type) -> dict[str, PaceProperty]:
    """The fields of a class that ask for a pace, in their order."""
    declared = {name: getattr(hint, "__metadata__", ()) for name, hint in get_type_hints(owner, include_extras=True).items()}
    return {name: said for name, notes in declared.items() for said in notes if isinstance(said, PaceProperty)}
