"""Who decides whether a range is forwarded or aggregated when it expires: one decider for each outgoing link."""

from __future__ import annotations

from streaming.windows.deciders.adock import Adock
from streaming.windows.deciders.always import AlwaysAggregate, AlwaysForward
from streaming.windows.deciders.bat import Bat
from streaming.windows.deciders.decision import Choice, ChoiceReason, Decider, Decision
from streaming.windows.deciders.foresight import Foresight
from streaming.windows.deciders.wad import Wad
from tidings.errors import TidingsError

__all__ = ["DECIDERS", "Choice", "ChoiceReason", "Decider", "Decision", "UnknownDecider", "decider"]

_BY_NAME: dict[str, type[Decider]] = {made.name: made for made in (Foresight, Adock, Wad, Bat, AlwaysForward, AlwaysAggregate)}
DECIDERS: tuple[str, ...] = tuple(_BY_NAME)


class UnknownDecider(TidingsError, KeyError):
    """There is no decider of this name."""

    exit_code = 2

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no decider {name!r}; there are {', '.join(DECIDERS)}")

    __str__ = TidingsError.__str__


def decider(name: str) -> Decider:
    """A new decider, which has learned nothing yet."""
    try:
        return _BY_NAME[name]()
    except KeyError:
        raise UnknownDecider(name) from None
