"""Time passes: windows close when nothing for them can come any more, and what they held crosses a link or is told."""

from __future__ import annotations

from streaming.model.outputs import Tell
from streaming.model.windows import WindowDecided
from streaming.windows.desk import WindowDesk
from streaming.windows.link import Expired, LinkWindows
from streaming.windows.local import LocalWindows
from streaming.windows.places import extra_ms, senders
from streaming.windows.state import At, LinkState
from topology.plan import Role


def advance(desk: WindowDesk, clock_ms: int) -> None:
    """All that was appended before has been offered. Close the windows that wait for no more than that."""
    desk.state.clock_ms = max(clock_ms, desk.state.clock_ms)
    for at in desk.order:
        links = desk.state.links[at]
        through_ms = min([_complete_ms(desk, at), *(desk.reached_ms(at, sender) for sender in senders(desk.plan, at))])
        if through_ms > links.through_ms:
            links.through_ms = through_ms
            _close(desk, at, links)
        desk.say(at)


def _complete_ms(desk: WindowDesk, at: At) -> int:
    """How far what the broker itself offers is complete: if it gathers, all that entered elsewhere must have come to it."""
    broker, _, topic = at
    if desk.plan.place(broker, topic).role is not Role.GATHERS:
        return desk.state.clock_ms
    return min(desk.state.clock_ms, desk.state.gathered_ms(broker, topic))


def _close(desk: WindowDesk, at: At, links: LinkState) -> None:
    """Close the windows of a place that end by its ``through_ms``: beyond a link something crosses, the broker's own are told."""
    match links.windows:
        case LinkWindows() as beyond:
            for expired in beyond.close(links.through_ms, desk.subscriptions(at)):
                for item in expired.sent:
                    desk.send(at, item, expired.range.end)  # whatever crosses for a range bears the time when it expired
                    desk.hand_on(at, item, crosses=False)
                _note_decision(desk, at, expired)
        case LocalWindows() as local:
            since, later_ms = desk.known_to_all(at), extra_ms(desk.plan, at[2])
            for result in local.close(links.through_ms, desk.subscriptions(at), since, later_ms):
                told, subscriber = result.notification, result.subscription
                desk.state.books_of(at[0]).notifications[told.reason] += 1
                desk.outputs.append(Tell(subscriber.deliver, subscriber.encoding, told, result.at_ms))


def _note_decision(desk: WindowDesk, at: At, expired: Expired) -> None:
    """Enter what was decided for a range into the books, and say so."""
    books = desk.state.books_of(at[0])
    books.windows[at[1], expired.decision.choice] += 1
    sent = len(expired.sent) + expired.hurried
    books.windows[at[1], "sent"] += sent
    for name, count in expired.would.items():
        books.windows[at[1], f"would-{name}"] += count
    window = expired.subscription.window
    desk.outputs.append(
        WindowDecided(
            sender=at[0],
            to=at[1],
            topic=at[2],
            subscription=expired.subscription.name,
            start_ms=expired.range.start,
            end_ms=expired.range.start + (window.size if window else 0),
            decider=expired.decider,
            choice=expired.decision.choice,
            reason=expired.decision.reason,
            items=expired.items,
            sent=sent,
            would=expired.would,
        )
    )
