"""When a bucket next wants the time. Nothing makes time pass in silence but a tick, and ticks come when somebody wants one.

A wish is met by marks that are as late. So whoever waits for another to say how far it is wants the next moment after its own
clock: that wish is met by each tick, and comes again with it, for as long as the waiting lasts.
"""

from __future__ import annotations

from collections.abc import Iterable

from streaming.broker.pacing import next_beat_ms
from streaming.broker.state import NEVER, BucketState, Rules
from streaming.model.items import Through
from streaming.model.outputs import Offer, Output
from topology.plan import Plan


def wish_ms(state: BucketState, plan: Plan, rules: Rules, outputs: Iterable[Output] = ()) -> int:
    """The earliest time at which something is due; `NEVER` if nothing is, however long the silence lasts.

    Nobody is told that something is forgotten, so that waits for a tick that comes anyway. What a neighbour said of its windows,
    and this step ``outputs`` as offers, is believed when all before it has been read: that takes a tick.
    """
    soon_ms = state.clock_ms + 1
    if state.ending or any(state.beats_due.values()) or any(_is_word(output) for output in outputs):
        return soon_ms
    # Messages that came by newer ways than are known here wait for so long, and not longer.
    next_ms = state.slots.next_ms(plan.topic, forgets=bool(state.carried))
    return max(soon_ms, min(next_ms, next_beat_ms(state, plan, rules)))


def _is_word(output: Output) -> bool:
    return isinstance(output, Offer) and isinstance(output.item, Through)


def is_news(wish_ms: int, told_ms: int | None, clock_ms: int) -> bool:
    """Whether a wish has to be told, after another was. One that is still to come is enough: its tick asks again."""
    return wish_ms < NEVER and (told_ms is None or told_ms <= clock_ms or wish_ms < told_ms)
