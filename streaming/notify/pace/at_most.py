"""`at_most`: no more than this many notifications about a key in any hour of append time, whichever of its events they are about.

Each notification takes a place for an hour, the last one of an event too. Without a free place, news waits until the oldest is
an hour old; then one digest tells all that waits for it (`streaming.notify.digest`). An event that ends first leaves its last
words for the digest.
"""

from __future__ import annotations

from streaming.model.ledger import HOUR_MS, Cap, Ledger
from streaming.notify.pace.pace import Pace, Telling
from tidings.notification import Digested
from tidings.subscription import Subscription

MOST_ENDED = 64
"""This many events of a key that have ended can wait for a place; beyond that the oldest gives way."""


class AtMost(Pace):
    """A ledger notes that news waits for a place; the cap of the key has the places, and when the next is free."""

    property = "at_most"
    word = "at-most"
    why = "told {asked} of this key within the hour, and no more"
    remembers_ms = 2 * HOUR_MS
    """A digest may come an hour after its event, and counts for an hour itself."""

    def takes_place(self, subscription: Subscription, ledger: Ledger, telling: Telling) -> bool:
        """Take a place among those of the hour, or wait for one."""
        if not subscription.at_most or telling.caps is None:
            return True
        cap = telling.caps.setdefault(subscription.name, Cap(telling.key))
        if telling.now_ms < self.free_ms(subscription, cap):
            ledger.capped, ledger.due_ms = True, None
            self.wait(subscription, cap, telling.now_ms)
            return False
        cap.note(telling.now_ms)
        return True

    def on_end(self, subscription: Subscription, ledger: Ledger, news: Digested, telling: Telling) -> int | None:
        """What waits for a place goes on waiting."""
        if not ledger.capped or telling.caps is None:
            return None
        cap = telling.caps.setdefault(subscription.name, Cap(telling.key))
        self.wait(subscription, cap, telling.now_ms)
        cap.ended.append(news)
        too_many = max(0, len(cap.ended) - MOST_ENDED)
        del cap.ended[:too_many]
        return too_many

    def free_ms(self, subscription: Subscription, cap: Cap) -> int:
        """The earliest time of another notification. One that was told later than that time counts too."""
        places = subscription.at_most
        return cap.told[-places] + HOUR_MS if 0 < places <= len(cap.told) else 0

    def wait(self, subscription: Subscription, cap: Cap, now_ms: int) -> None:
        """Something waits for a place."""
        cap.due_ms = max(now_ms, self.free_ms(subscription, cap))
