"""`heartbeat_ms`: a sign of life at every multiple of it, whether there is news or not.

It makes no news wait. A heartbeat says what nothing else can say: all that was appended before its time has been read, in every
partition. Which multiples are beats, and when one may leave, follows from ticks and marks (`streaming.broker.pacing`).
"""

from __future__ import annotations

from streaming.notify.pace.pace import Pace
from tidings.notification import Notification, Reason, heartbeat_id
from tidings.subscription import Subscription


class Heartbeat(Pace):
    """About no event."""

    property = "heartbeat_ms"
    word = "heartbeat"

    def beat_ms(self, subscription: Subscription, now_ms: int) -> int:
        """The last beat up to now."""
        return now_ms - now_ms % subscription.heartbeat_ms

    def notification(self, subscription: Subscription, beat_ms: int) -> Notification:
        return Notification(
            id=heartbeat_id(subscription.name, subscription.since, beat_ms),
            subscriber=subscription.subscriber,
            subscription=subscription.name,
            topic=subscription.topic,
            key="",
            event="",
            revision=0,
            reason=Reason.HEARTBEAT,
            news={},
            reports=0,
            sources=0,
            first_ms=beat_ms,
            last_ms=beat_ms,
        )
