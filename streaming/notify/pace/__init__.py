"""The paces there are, in the order in which news meets them.

A new one is a module beside this one, an entry in `PACES`, and the field of `tidings.subscription.Subscription` that asks for it.
"""

from __future__ import annotations

from streaming.model.ledger import Ledger
from streaming.notify.pace.at_most import AtMost
from streaming.notify.pace.every import Every
from streaming.notify.pace.heartbeat import Heartbeat
from streaming.notify.pace.pace import Pace, Telling
from streaming.notify.pace.settle import Settle
from tidings.subscription import Subscription

EVERY, SETTLE, AT_MOST, HEARTBEAT = Every(), Settle(), AtMost(), Heartbeat()
PACES: tuple[Pace, ...] = (EVERY, SETTLE, AT_MOST, HEARTBEAT)


def _that_say(method: str) -> tuple[Pace, ...]:
    """Those that do something of their own there: the others need not be asked."""
    return tuple(pace for pace in PACES if getattr(type(pace), method) is not getattr(Pace, method))


_BY_TIME = _that_say("allowed_ms")
_ALLOWED_MS = tuple(pace.allowed_ms for pace in _BY_TIME)  # asked for every notification, so they are looked up once
_TAKE_PLACES = tuple(pace.takes_place for pace in _that_say("takes_place"))
WATCHING = _that_say("on_change")
KEEPING = _that_say("on_end")


def allowed_ms(subscription: Subscription, ledger: Ledger, telling: Telling) -> int:
    """The time from which all paces allow news to be told."""
    latest_ms = 0
    for allowed in _ALLOWED_MS:
        if (at_ms := allowed(subscription, ledger, telling)) > latest_ms:
            latest_ms = at_ms
    return latest_ms


def takes_place(subscription: Subscription, ledger: Ledger, telling: Telling) -> bool:
    """Whether news that may be told now finds a place, which it takes; else its ledger notes that it waits for one."""
    for takes in _TAKE_PLACES:  # noqa: SIM110 (a generator takes longer than what it asks)
        if not takes(subscription, ledger, telling):
            return False
    return True


def keeps_back(subscription: Subscription, ledger: Ledger, telling: Telling) -> Pace | None:
    """The last pace that does not allow news to be told yet."""
    return next((p for p in reversed(_BY_TIME) if telling.now_ms < p.allowed_ms(subscription, ledger, telling)), None)


def waited_for(subscription: Subscription, ledger: Ledger, due_ms: int) -> Pace:
    """The pace for which news waits until ``due_ms``: the last that allows it just then."""
    then = Telling("", due_ms)
    return next((p for p in reversed(_BY_TIME) if p.allowed_ms(subscription, ledger, then) == due_ms), EVERY)


def reconsider(before: Subscription | None, now: Subscription, ledger: Ledger) -> None:
    """The subscription has changed: what waits is looked at anew."""
    ledger.due_ms = None
    for pace in PACES:
        pace.reconsider(before, now, ledger)
