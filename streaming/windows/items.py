"""What is offered to a link for the windows beyond it: publications, and aggregates that were made on the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

from tidings.aggregate import Partial
from tidings.predicate import Verdict
from tidings.subscription import Subscription


class Publication(Struct, array_like=True, frozen=True, tag=1):
    """A publication, or an event that has been merged. ``counted`` are windows that it crossed the last link for already,
    in an aggregate: by their interest and start."""

    key: str
    id: str
    published_ms: int
    entered_ms: int
    """When it entered the overlay, by Kafka's clock: what decides whether it came in time."""
    entered_at: tuple[str, int, int]
    """Kafka topic, partition and offset: with the time, one order for all publications."""
    fields: dict[str, bool | int | float | str | tuple[str, ...] | None]
    counted: tuple[tuple[str, int], ...] = ()


class Aggregated(Struct, array_like=True, frozen=True, tag=2):
    """What a window is known to hold so far, put together on the way. It is never taken apart."""

    interest: str
    start: int
    partial: Partial


class Through(Struct, array_like=True, frozen=True, tag=3):
    """All that concerns windows which close by ``through_ms`` has crossed the link.

    ``since`` names interests, and from when on all that concerns them crosses: what is new or changed of that.
    """

    through_ms: int
    since: tuple[tuple[str, int], ...] = ()


Item: TypeAlias = Publication | Aggregated
Windowed: TypeAlias = Publication | Aggregated | Through


def matches(subscription: Subscription, item: Item) -> bool:
    """Whether an aggregate subscription asks for this, whatever the time."""
    if isinstance(item, Aggregated):
        return item.interest == subscription.interest
    return subscription.judge(item.key, item.fields) is Verdict.MATCHES


def starts_of(subscription: Subscription, item: Publication) -> list[int]:
    """The windows that a publication counts in: it was published in them, and it came before they closed."""
    window = subscription.window
    if window is None or window.counted:
        return []
    return [start for start in window.starts(item.published_ms) if item.entered_ms < window.closes_ms(start)]


def open_starts(subscription: Subscription, item: Publication) -> list[int]:
    """Those of them that it has not been counted in by somebody before."""
    found = starts_of(subscription, item)
    if not item.counted:
        return found
    done = {start for interest, start in item.counted if interest == subscription.interest}
    return [start for start in found if start not in done]


def takes(subscription: Subscription, item: Item) -> bool:
    """Whether an item counts for a subscription."""
    if isinstance(item, Aggregated):
        return item.interest == subscription.interest
    if not matches(subscription, item):
        return False
    window = subscription.window
    return window is not None and (window.counted or bool(open_starts(subscription, item)))


def missed(subscriptions: Iterable[Subscription], item: Publication) -> list[str]:
    """The subscriptions that a publication would have counted for, had it come before their windows closed."""
    return [
        subscription.name
        for subscription in subscriptions
        if subscription.window is not None
        and not subscription.window.counted
        and subscription.window.starts(item.published_ms)
        and not starts_of(subscription, item)
        and matches(subscription, item)
    ]
