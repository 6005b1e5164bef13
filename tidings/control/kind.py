"""What a kind of control records is to the rest of the house: the seam that every kind stands on.

A kind reads its records, and says what else follows from one. Whoever needs to know that asks the snapshot, which asks all kinds,
so nobody has to know which kinds there are. What a record does that is no business of anybody else (a broker, a link) is looked
up by whoever needs it, with `Snapshot.of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from tidings.control.reader import Reader
from tidings.names import AskedTopic
from tidings.subscription import Subscription
from tidings.topic import Timing, Topic

if TYPE_CHECKING:
    from tidings.control.snapshot import Snapshot

T = TypeVar("T")


def nothing(*_: object) -> tuple[()]:
    """What most kinds say to most questions."""
    return ()


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A kind of control records. ``read`` raises `BadControl`, with the property, for a record that cannot be taken."""

    name: str
    """The first half of the key of such a record, and its property `kind`."""
    read: Callable[[Reader, Timing], T]
    declares: Callable[[T], Iterable[Topic]] = nothing
    """What can be subscribed to and published on by its name, because of a record: a topic, or what is made to be like one."""
    subscribes: Callable[[T], Iterable[Subscription]] = nothing
    """The subscriptions there are because of a record. The snapshot fills in since when."""
    advertises: Callable[[T], Iterable[tuple[str, str]]] = nothing
    """The topics that are published because of a record, each with the broker where."""
    kafka_topics: Callable[[T], Iterable[AskedTopic]] = nothing
    """What has to be there before anybody goes by a record."""
    doubts: Callable[[T, Snapshot], Iterable[str]] = nothing
    """What the service takes, and somebody may have meant otherwise, in view of all other records: `tidings check` says so."""
    without: Mapping[str, T] = field(default_factory=dict)
    """What there is, by name, while there is no record of this kind."""
