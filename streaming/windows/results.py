"""What a subscriber is told when a window has closed."""

from __future__ import annotations

from streaming.windows.local import WindowResult
from tidings.notification import Notification, Reason, ToldWindow, window_id
from tidings.partial import left_out, results


def notification_of(result: WindowResult) -> Notification:
    """The same bytes for the same window, however often it is worked out."""
    subscription, partial, window = result.subscription, result.partial, result.subscription.window
    assert window is not None
    return Notification(
        id=window_id(subscription.name, subscription.since, subscription.interest, result.start),
        subscriber=subscription.subscriber,
        subscription=subscription.name,
        topic=subscription.topic,
        key="",
        event="",
        revision=1,
        reason=Reason.AGGREGATE,
        news=results(partial, window.of),
        reports=partial.publications,
        sources=0,
        first_ms=result.start if partial.first_ms is None else partial.first_ms,
        last_ms=result.end if partial.last_ms is None else partial.last_ms,
        window=ToldWindow(result.start, result.end, window.counted, left_out(partial, window.of)),
    )
