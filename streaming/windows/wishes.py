"""When a bucket of links next wants the time, as `streaming.broker.wishes` has it for events."""

from __future__ import annotations

from collections.abc import Iterator

from streaming.broker.state import NEVER
from streaming.windows.local import LocalWindows
from streaming.windows.places import extra_ms
from streaming.windows.state import LinkState, WindowState
from topology.plan import LOCAL, Plan


def wish_ms(state: WindowState, plan: Plan) -> int:
    """The earliest time at which a window closes that holds something, or is told without; `NEVER` if there is none.

    One that should have closed waits for somebody to say how far it is.
    """
    soon_ms = state.clock_ms + 1
    heard = (up.coming for links in state.links.values() for up in links.upstream.values())
    if state.versions or state.early or any(heard):
        return soon_ms
    empty = (ms for (broker, to, topic), links in state.links.items() if to == LOCAL for ms in _empty(links, plan, broker, topic))
    next_ms = min(state.next_ms, min(empty, default=NEVER))
    return next_ms if next_ms == NEVER else max(soon_ms, next_ms)


def _empty(links: LinkState, plan: Plan, broker: str, topic: str) -> Iterator[int]:
    """When the next windows close of those who want to hear of empty ones."""
    assert isinstance(links.windows, LocalWindows)
    for subscription in plan.windows(broker, topic).get(LOCAL, ()):
        window, since_ms = subscription.window, links.since.get(subscription.interest)
        if window is not None and window.empty and not window.counted and since_ms is not None:
            first = -(-since_ms // window.shift) * window.shift
            start = links.windows.next_empty.get(subscription.interest, first)
            yield window.closes_ms(start) + extra_ms(plan, topic)
