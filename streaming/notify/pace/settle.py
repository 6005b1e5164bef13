"""`settle_ms`: only what has matched for this long, without a break, is told.

It counts from the report that made the event match, also while the news is held. A report that makes it stop matching cancels
what waits; the next that makes it match starts anew. What has been told need not settle again until it has stopped matching.
When the event ends, what has not settled is not told: it did not last. A measurement is over when it comes, so it is told at
once.
"""

from __future__ import annotations

from streaming.model.ledger import Ledger
from streaming.notify.pace.pace import Pace, Telling
from tidings.subscription import Subscription


class Settle(Pace):
    """The ledger notes since when the event has matched."""

    property = "settle_ms"
    word = "settle"
    why = "it must match for {asked} without a break"
    silence = ("not-settled", "its 'where' did not hold for as long as 'settle_ms' asks")

    def allowed_ms(self, subscription: Subscription, ledger: Ledger, telling: Telling) -> int:
        """When the event, which matches now, will have matched for long enough."""
        if not subscription.settle_ms or not telling.lasting:
            return 0
        return (telling.now_ms if ledger.true_ms is None else ledger.true_ms) + subscription.settle_ms

    def on_change(self, subscription: Subscription, ledger: Ledger, now_ms: int, *, matches: bool) -> bool:  # noqa: ARG002
        """It begins to count, goes on counting, or stops."""
        if matches:
            ledger.true_ms = now_ms if ledger.true_ms is None else ledger.true_ms
            return False
        stopped = ledger.true_ms is not None
        ledger.true_ms = None
        return stopped

    def reconsider(self, before: Subscription | None, now: Subscription, ledger: Ledger) -> None:
        """For how long another predicate has held is not known."""
        if before is None or (before.where, before.missing) != (now.where, now.missing):
            ledger.true_ms = None
