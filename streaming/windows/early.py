"""What was offered by control data that does not hold here yet. It waits for that, unless windows close before.

A bucket goes by new control data as soon as one partition names it, and only then reads others that lag. What it finds there may
count in windows that close before that data holds here.
"""

from __future__ import annotations

from streaming.broker.state import NEVER
from streaming.model.items import Aggregated, Publication, Windowed
from streaming.windows.counting import take
from streaming.windows.desk import WindowDesk


def take_early(desk: WindowDesk, closing_ms: int) -> None:
    """Take what was offered early, if its control data holds by now, or windows are about to close that may take it."""
    state, led = desk.state, []
    waited, state.early = state.early, []
    for offer in waited:
        if offer.version <= state.version:
            take(desk, offer)
        elif _begins(offer.item) < closing_ms:
            take(desk, offer)
            led.append(offer)
        else:
            state.early.append(offer)
    desk.lead(led)


def _begins(item: Windowed) -> int:
    """Windows that close by then do not take it. How far a neighbour is may wait: not knowing it, windows close later."""
    if isinstance(item, Publication):
        return item.entered_ms
    return item.start if isinstance(item, Aggregated) else NEVER
