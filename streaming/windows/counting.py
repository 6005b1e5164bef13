"""What is offered at a place is put into the windows that it counts in, and what came too late for them is named."""

from __future__ import annotations

from collections.abc import Sequence

from streaming.broker.aside import merged_entry
from streaming.model.books import WindowItem
from streaming.model.entry import Origin
from streaming.model.items import Item, Publication, Through
from streaming.model.outputs import MessageReason, Offer, Outcome, PutAside
from streaming.windows.desk import WindowDesk
from streaming.windows.link import Asked, LinkWindows, asked_by, still_open
from streaming.windows.local import LocalWindows
from streaming.windows.places import extra_ms
from streaming.windows.state import At


def take(desk: WindowDesk, offer: Offer) -> None:
    """Take in what a broker offered. What crosses a link by it counts beyond that, too."""
    at = offer.sender, offer.to, offer.topic
    if isinstance(offer.item, Through):
        desk.hear(offer)
    elif count(desk, at, offer.item, crosses=offer.crosses):
        desk.hand_on(at, offer.item, crosses=offer.crosses)


def count(desk: WindowDesk, at: At, item: Item, *, crosses: bool, again: bool = False) -> bool:
    """Put something into the windows that it counts in; ``again`` if it comes from another place.

    Returns whether it crosses the link now: because it ``crosses`` anyway, or since only the item itself will do.
    """
    links = desk.state.links.get(at)
    if links is None:
        desk.enter(at, WindowItem.LEFT_OUT)  # nobody asks any more
        return False
    wanted = asked_by(desk.candidates(at, item), item, links.since, extra_ms(desk.plan, at[2]))
    asked = still_open(wanted, links.through_ms)
    _enter(desk, at, item, wanted, asked, again=again)
    if not asked:
        return False
    match links.windows:
        case LinkWindows() as beyond:
            hurries = beyond.offer(item, asked, desk.state.clock_ms, crosses=crosses)
            if hurries:
                desk.send(at, item, desk.state.clock_ms)
            return crosses or hurries
        case LocalWindows() as local:
            local.offer(item, asked)
    return False


def _enter(desk: WindowDesk, at: At, item: Item, wanted: Sequence[Asked], asked: Sequence[Asked], *, again: bool) -> None:
    """Enter it into the books. Where it came first it is put aside, if windows had closed without it."""
    desk.enter(at, WindowItem.COUNTED if asked else WindowItem.LATE if wanted else WindowItem.LEFT_OUT)
    if asked != wanted and not again:
        _put_aside(desk, at, item, [each.subscription.name for each in wanted if each not in asked])


def _put_aside(desk: WindowDesk, at: At, item: Item, names: Sequence[str]) -> None:
    """It came after windows had closed without it: from where nobody was said to publish, or after patience had ended."""
    desk.state.books_of(at[0]).left_out["window"] += 1
    if isinstance(item, Publication):
        origin = Origin(*item.entered_at, item.entered_ms)
        entry = merged_entry(origin, at[2], item.key, item.id, item.published_ms, item.fields)
        detail = f"it came to {at[0]} after the windows of {', '.join(names)} had closed"
        desk.outputs.append(PutAside(origin, Outcome.LATE, MessageReason.WINDOW_CLOSED, detail, entry, merged=True))
