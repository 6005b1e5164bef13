"""`every_ms`: a cadence. The notifications about an event lie at least this far apart.

The first comes at once. What became news meanwhile is told when the time is over, as it is then. The end of the event waits for
no cadence: what is not told then would never be.
"""

from __future__ import annotations

from streaming.model.ledger import Ledger
from streaming.notify.pace.pace import Pace, Telling
from tidings.subscription import Subscription


class Every(Pace):
    """A subscription that asks for none has a cadence of 0 ms: what is told of an event still never goes back in time."""

    property = "every_ms"
    word = "every"
    why = "at least {asked} lie between two notifications"

    def allowed_ms(self, subscription: Subscription, ledger: Ledger, telling: Telling) -> int:
        """Counted from the notification before, about the same event."""
        return ledger.told_ms + subscription.every_ms if ledger.revision and not telling.closing else 0
