"""What a decider is asked and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol

from streaming.windows.graph import Graph, Range


class Choice(StrEnum):
    """What becomes of a range that expires."""

    FORWARD = "forward"
    """Its items cross as they came."""
    AGGREGATE = "aggregate"
    """One aggregate of its items crosses."""


class ChoiceReason(StrEnum):
    """Why a decider chose so."""

    EMPTY = "empty"
    """All its items crossed before: nothing is left to send."""
    NOT_DECOMPOSABLE = "not-decomposable"
    """What it asks for can only be told from the items themselves. No decider is asked then."""
    ALWAYS = "always"
    """The decider never does anything else."""
    IN_COVER = "in-cover"
    """A minimum vertex cover of what is known has the range."""
    NOT_IN_COVER = "not-in-cover"
    """No minimum vertex cover of what is known has the range."""
    WEIGHT_AT_LEAST_ONE = "weight-at-least-one"
    """The shares that the range has in its items make a whole message."""
    WEIGHT_BELOW_ONE = "weight-below-one"
    """The shares that the range has in its items make less than a message."""
    RATE_OF_ITEMS = "rate-of-items"
    """Lately fewer ranges than items came to the link."""
    RATE_OF_RANGES = "rate-of-ranges"
    """Lately no more items than ranges came to the link."""
    SINGLE = "single"
    """It has one item left, which costs no more than its aggregate and serves other ranges as well."""
    AS_WAD = "as-wad"
    """More was sent than WAD would have: for now it is followed."""
    EXPECTED_IN_COVER = "expected-in-cover"
    """Enough is expected for the ranges that share its items to be aggregated anyway."""
    EXPECTED_NOT_IN_COVER = "expected-not-in-cover"
    """What is known and expected is fewer items than ranges."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A choice and its reason."""

    choice: Choice
    reason: ChoiceReason


class Decider(Protocol):
    """Decides for one link, range by range, in the order they expire.

    What it says is a function of what came before, so a link that is run again decides the same.
    """

    name: ClassVar[str]

    def arrived(self, graph: Graph, item: int, ranges: Sequence[Range], now: int, /, *, crosses: bool) -> None:
        """An item was offered to the link; it is in the graph by now unless it ``crosses`` anyway."""

    def decide(self, graph: Graph, range_: Range, now: int, /) -> Decision:
        """What becomes of a range that expires now. The graph is the caller's to change."""

    def state(self) -> bytes:
        """What it has learned."""

    def restore(self, data: bytes) -> None:
        """Go on where another left off."""


class Unlearned:
    """What deciders that learn nothing have in common: the graph is all they need."""

    def arrived(self, graph: Graph, item: int, ranges: Sequence[Range], now: int, /, *, crosses: bool) -> None:
        """Nothing to learn."""

    def state(self) -> bytes:
        return b""

    def restore(self, data: bytes) -> None:
        """Nothing was learned."""
