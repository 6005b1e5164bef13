"""A broker is served by one process at a time: the ticks on `clock`, and the signs of life between them, say who serves which.

The clock is one partition, so all see its records in the same order: of two that start at once, the first to tick wins.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from clients import control
from clients.connection import Connection
from streaming.wire.clock import Tick
from tidings.errors import BrokerTaken

_LOOK_S = 0.2
_GONE_S = 6.0
"""A service that has given no sign of life for this long is gone."""


def wait_until_free(
    connection: Connection, service: str, brokers: frozenset[str] | None, say: Callable[[str], None], gone_s: float = _GONE_S
) -> None:
    """Return when nobody else serves one of these brokers; raise `BrokerTaken` if somebody does and is alive.

    A service that was killed looks alive for some seconds: only one that gives another sign meanwhile is.
    """
    first = _others(connection, service, brokers)
    if not first:
        return
    say("another service served these brokers a moment ago; looking whether it is still there")
    deadline = time.monotonic() + gone_s
    while (found := _others(connection, service, brokers)) and time.monotonic() < deadline:
        for name, tick in found.items():
            if name not in first or tick.append_ms > first[name].append_ms:
                raise _taken(tick, brokers)
        time.sleep(_LOOK_S)
    for tick in found.values():
        raise _taken(tick, brokers)


def check_first(connection: Connection, service: str, brokers: frozenset[str] | None) -> None:
    """After the first own tick: raise `BrokerTaken` if somebody else ticked for the same brokers before it."""
    ticks = control.last_ticks(connection)
    own = ticks.get(service)
    for name, tick in _others(connection, service, brokers).items():
        # One that lives and has not ticked lately was there before.
        if own is None or (theirs := ticks.get(name)) is None or theirs.offset < own.offset:
            raise _taken(tick, brokers)


def _others(connection: Connection, service: str, brokers: frozenset[str] | None) -> dict[str, Tick]:
    alive = control.living(connection).items()
    return {name: tick for name, tick in alive if name != service and _shared(tick.brokers, brokers) != frozenset()}


def _shared(a: frozenset[str] | None, b: frozenset[str] | None) -> frozenset[str] | None:
    """The brokers that both serve; None stands for all."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


def _taken(tick: Tick, brokers: frozenset[str] | None) -> BrokerTaken:
    shared = _shared(tick.brokers, brokers)
    return BrokerTaken("all brokers" if shared is None else ", ".join(sorted(shared)), tick.service)
