"""Printing what comes, until there was enough, the time is up, or somebody presses Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from cli import show
from tidings.errors import TidingsError

if TYPE_CHECKING:
    from clients.connection import Connection
    from clients.subscriber import Subscriber
    from tidings.notification import Notification

Count: TypeAlias = Annotated[
    int | None, typer.Option("--count", min=1, help="Stop after so many notifications.", show_default=False)
]
Timeout: TypeAlias = Annotated[
    float | None, typer.Option("--timeout", min=0, metavar="SECONDS", help="Stop after this time.", show_default=False)
]

_TURN_S = 0.25
_QUIET_S = 10.0
"""After this long without anything new, look whether Kafka is still there."""


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
    """Print the notifications that come. Raises when fewer came in time than were asked for."""
    console = show.console()

    def hear(timeout_s: float) -> bool | None:
        delivery = subscriber.receive(timeout_s)
        if delivery is None or not wanted(delivery.notification):
            return None if delivery is None else False
        if as_json:
            from streaming.wire.notification import notification_dict

            show.as_json(notification_dict(delivery.notification))
        else:
            console.print(show.notification_line(delivery.notification, delivery.append_ms))
        return True

    listen(connection, hear, "notification", count=count, timeout_s=timeout_s, meanwhile=meanwhile)


def listen(
    connection: Connection,
    hear: Callable[[float], bool | None],
    thing: str,
    *,
    count: int | None = None,
    timeout_s: float | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Have things heard as they come: ``hear`` says whether one was wanted, or None when none came in that many seconds.

    Raises when fewer came in time than were asked for.
    """
    started = heard = time.monotonic()
    number = 0
    while count is None or number < count:
        now = time.monotonic()
        if timeout_s is not None and now - started >= timeout_s:
            break
        wanted = hear(_TURN_S)
        if wanted is not None:
            heard = now
            number += wanted
            continue
        meanwhile()
        if now - heard > _QUIET_S:
            connection.check()
            heard = now
    if count is not None and number < count:
        raise TidingsError(f"only {number} of {show.count(count, thing)} came within {timeout_s:g} s")
