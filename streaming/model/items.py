"""What is offered to a link for the windows beyond it: publications, and aggregates that were made on the way."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct

from tidings.partial import Partial
from tidings.predicate import Verdict
from tidings.subscription import Subscription
from tidings.window import Window


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

    ``since`` names interests, each with the time from which all that concerns it crosses; only those that are new or changed.
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


def counted_in(item: Item) -> Mapping[str, Collection[int]]:
    """The windows that a publication has been counted in by somebody before: the starts, by interest."""
    found: dict[str, set[int]] = {}
    for interest, start in item.counted if isinstance(item, Publication) else ():
        found.setdefault(interest, set()).add(start)
    return found


def is_taken(subscriptions: Iterable[Subscription], item: Publication) -> bool:
    """Whether a publication counts for any of these subscriptions."""
    done = counted_in(item)
    return any(matches(each, item) and _counts(each, item, done.get(each.interest, ())) for each in subscriptions)


def _counts(subscription: Subscription, item: Publication, done: Collection[int]) -> bool:
    if subscription.window is not None and subscription.window.counted:
        return True
    return any(start not in done for start in starts_of(subscription, item))


def missed(subscriptions: Iterable[Subscription], item: Publication) -> list[str]:
    """The subscriptions with a window that a publication would have counted in, had it come before that closed."""
    return [each.name for each in subscriptions if each.window and _misses(each.window, item) and matches(each, item)]


def _misses(window: Window, item: Publication) -> bool:
    """Of the windows that a publication belongs to, the first is the first to close."""
    starts = window.starts(item.published_ms)
    return not window.counted and bool(starts) and item.entered_ms >= window.closes_ms(starts[0])
