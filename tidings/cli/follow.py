"""Printing notifications as they come, until there were enough, the time is over, or somebody presses Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from tidings.cli import show
from tidings.errors import TidingsError

if TYPE_CHECKING:
    from producers.connection import Connection
    from producers.subscriber import Subscriber
    from tidings.notification import Notification

Count: TypeAlias = Annotated[
    int | None, typer.Option("--count", min=1, help="Stop after so many notifications.", show_default=False)
]
Timeout: TypeAlias = Annotated[
    float | None, typer.Option("--timeout", min=0, metavar="SECONDS", help="Stop after this time.", show_default=False)
]

_TURN_S = 0.25
_QUIET_S = 10.0
"""After so long without a notification, look whether Kafka is still there."""


def follow(
    connection: Connection,
    subscriber: Subscriber,
    *,
    wanted: Callable[[Notification], bool] = lambda _: True,
    as_json: bool = False,
    count: int | None = None,
    timeout_s: float | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Print what comes. Raises when fewer came in time than were asked for."""
    console = show.console()
    started = heard = time.monotonic()
    shown = 0
    while count is None or shown < count:
        now = time.monotonic()
        if timeout_s is not None and now - started >= timeout_s:
            break
        delivery = subscriber.receive(_TURN_S)
        if delivery is None:
            meanwhile()
            if now - heard > _QUIET_S:
                connection.check()
                heard = now
            continue
        heard = now
        if not wanted(delivery.notification):
            continue
        shown += 1
        if as_json:
            from tidings.codec import notification_dict

            show.as_json(notification_dict(delivery.notification))
        else:
            console.print(show.notification_line(delivery.notification, delivery.append_ms))
    if count is not None and shown < count:
        raise TidingsError(f"only {shown} of {show.count(count, 'notification')} came within {timeout_s:g} s")
