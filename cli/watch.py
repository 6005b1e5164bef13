"""`tidings watch`: see what is told, to somebody or to everybody."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from cli import connecting, show
from cli.follow import Count, Timeout, follow
from cli.options import grouped
from tidings import names
from tidings.errors import TidingsError

if TYPE_CHECKING:
    from clients.connection import Connection
    from clients.subscriber import Subscriber
    from tidings.control import Snapshot

_LOOK_S = 3.0


@grouped
def watch(
    subscriber: Annotated[
        str | None, typer.Argument(help="Whose notifications; without it, everybody's.", show_default=False)
    ] = None,
    kafka_topic: Annotated[str | None, typer.Option(help="Read this Kafka topic instead.", show_default=False)] = None,
    new: Annotated[bool, typer.Option("--new", help="Only what comes from now on.")] = False,
    count: Count = None,
    timeout: Timeout = None,
    as_json: connecting.AsJson = False,
    *,
    service: connecting.ServiceOptions,
) -> None:
    """Print the notifications there are, and those that come, until Ctrl-C. Subscribes to nothing.

    Example: tidings watch ops --json --count 10
    """
    from clients.control import read_control
    from clients.subscriber import Subscriber

    if subscriber is not None and kafka_topic is not None:
        raise typer.BadParameter("name a subscriber or a Kafka topic, not both")
    connection = service.connect()
    if kafka_topic is not None:
        topics = {kafka_topic}
    else:
        topics = delivery_topics(read_control(connection), subscriber, connection.topics())
        if not topics:
            show.remark("nobody subscribes yet; waiting for somebody who does")
    with Subscriber(connection, topics, from_beginning=not new) as reader:
        follow(
            connection,
            reader,
            wanted=lambda notification: subscriber in (None, notification.subscriber),
            as_json=as_json,
            count=count,
            timeout_s=timeout,
            meanwhile=_Newcomers(connection, reader, subscriber) if kafka_topic is None else lambda: None,
        )


def delivery_topics(control: Snapshot, subscriber: str | None, there: dict[str, int]) -> set[str]:
    """The Kafka topics where a subscriber, or everybody, is told. Raises for a subscriber nobody knows."""
    found = {s.deliver for s in control.subscriptions.values() if subscriber in (None, s.subscriber)}
    if found or subscriber is None:
        return found
    former = names.notify_topic(subscriber)
    if former in there:  # they unsubscribed; what they were told is still there
        return {former}
    others = sorted({s.subscriber for s in control.subscriptions.values()})
    known = f"there are {', '.join(others)}" if others else "nobody does yet; try `tidings subscribe`"
    raise TidingsError(f"nobody called {subscriber!r} subscribes; {known}")


@dataclass
class _Newcomers:
    """Looks now and then for subscriptions that deliver elsewhere."""

    connection: Connection
    reader: Subscriber
    subscriber: str | None
    next_s: float = field(default_factory=lambda: time.monotonic() + _LOOK_S)

    def __call__(self) -> None:
        if time.monotonic() < self.next_s:
            return
        from clients.control import read_control

        control = read_control(self.connection)
        self.reader.add({s.deliver for s in control.subscriptions.values() if self.subscriber in (None, s.subscriber)})
        self.next_s = time.monotonic() + _LOOK_S
