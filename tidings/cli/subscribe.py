"""`tidings subscribe`: subscribe to a topic, and see what is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli import reach, show
from tidings.cli.control import write
from tidings.cli.follow import Count, Timeout, follow
from tidings.predicate import Missing

if TYPE_CHECKING:
    from producers.connection import Connection

_PANEL = "What is told"


def subscribe(
    name: Annotated[str, typer.Argument(help="The subscription's name.")],
    topic: Annotated[str, typer.Option(help="The topic it is about.", rich_help_panel=_PANEL)],
    subscriber: Annotated[
        str | None,
        typer.Option(help="Who is told; by default the subscription's name.", show_default=False, rich_help_panel=_PANEL),
    ] = None,
    where: Annotated[
        str,
        typer.Option(help="Which events, as in: severity >= 2 and kind prefix 'fi'", show_default=False, rich_help_panel=_PANEL),
    ] = "",
    fields: Annotated[
        str, typer.Option(help="Only these fields, with commas between.", show_default=False, rich_help_panel=_PANEL)
    ] = "",
    every_ms: Annotated[int, typer.Option(min=0, help="At most once in this time for an event.", rich_help_panel=_PANEL)] = 0,
    settle_ms: Annotated[
        int, typer.Option(min=0, help="Only what has matched WHERE for this long, without a break.", rich_help_panel=_PANEL)
    ] = 0,
    at_most: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=3600,
            help="So many times an hour about a key; the rest as a digest.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    heartbeat_ms: Annotated[
        int, typer.Option(min=0, help="A sign of life this often, also when there is no news.", rich_help_panel=_PANEL)
    ] = 0,
    missing: Annotated[
        Missing, typer.Option(help="A field that WHERE needs is not known yet: tell, or wait?", rich_help_panel=_PANEL)
    ] = Missing.OPTIMISTIC,
    broker: Annotated[str, typer.Option(help="The broker to subscribe at.", rich_help_panel=_PANEL)] = "b1",
    deliver: Annotated[
        str | None, typer.Option(help="The Kafka topic for it.", show_default="notify.SUBSCRIBER", rich_help_panel=_PANEL)
    ] = None,
    no_follow: Annotated[bool, typer.Option("--no-follow", help="Subscribe, and leave the reading to others.")] = False,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Also show what this subscription was told before.")
    ] = False,
    count: Count = None,
    timeout: Timeout = None,
    as_json: reach.AsJson = False,
    bootstrap_servers: reach.Servers = None,
    dir: reach.Directory = reach.DEFAULT_DIRECTORY,
    properties: reach.Properties = None,
) -> None:
    """Subscribe, wait until the service knows, then print notifications until Ctrl-C.

    The subscription stays when this command ends; `tidings control delete subscription/NAME` ends it.

    Example: tidings subscribe ops --topic incident --where "severity >= 2" --fields what,where
    """
    from producers import control
    from producers.subscriber import Subscriber

    key = f"subscription/{name}"
    said: dict[str, Any] = {
        "where": where,
        "fields": [each.strip() for each in fields.split(",") if each.strip()],
        "every_ms": every_ms,
        "settle_ms": settle_ms,
        "at_most": at_most,
        "heartbeat_ms": heartbeat_ms,
        "missing": "" if missing is Missing.OPTIMISTIC else str(missing),
        "deliver": deliver,
    }
    record = {"kind": "subscription", "name": name, "subscriber": subscriber or name, "broker": broker, "topic": topic}
    record |= {property: value for property, value in said.items() if value}
    control.check(key, record)
    connection = reach.connect(bootstrap_servers, dir, properties)
    if no_follow:
        _announce(connection, key, record, quiet=False, as_json=as_json)
        return
    # Reading starts before the subscription does, so nothing it is told can be missed.
    kafka_topic = deliver or f"notify.{record['subscriber']}"
    with Subscriber(connection, kafka_topic, name, from_beginning) as reader:
        _announce(connection, key, record, quiet=True)
        show.remark(f"{name} is told on the Kafka topic {kafka_topic}; Ctrl-C ends the reading, not the subscription")
        follow(connection, reader, as_json=as_json, count=count, timeout_s=timeout)


def _announce(connection: Connection, key: str, record: dict[str, Any], *, quiet: bool, as_json: bool = False) -> None:
    from producers.control import read_control

    known = read_control(connection)
    if record["broker"] not in known.brokers:
        show.remark(f"there is no broker {record['broker']!r} yet (there are {', '.join(known.brokers)}): nothing will be told")
    # Written once more even if it is there already: whoever waits for the version then waits for the right one.
    write(connection, [(key, record)], wait=True, as_json=as_json, quiet=quiet)
