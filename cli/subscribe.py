"""`tidings subscribe`: subscribe to a topic, and see what is told."""

from __future__ import annotations

import itertools
from collections.abc import Container
from dataclasses import asdict, dataclass, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from cli import connecting, show
from cli.control import write
from cli.follow import Count, Timeout, follow
from cli.options import grouped
from tidings import names
from tidings.predicate import Missing
from tidings.subscription import PACE_PROPERTIES

if TYPE_CHECKING:
    from clients.connection import Connection
    from tidings.aggregate import Aggregate
    from tidings.pace import PaceProperty

_PANEL = "What is told"
_WINDOWS = "Over windows"
_PACES = dict(sorted(PACE_PROPERTIES.items(), key=lambda item: not item[1].of_events))
"""What makes news wait comes first."""
_LONGEST_NAME = 80
"""Of a result that is named after its function."""


@dataclass(frozen=True)
class ToldOptions:
    """What is told, and to whom."""

    topic: Annotated[
        str | None, typer.Option(help="The topic it is about; by default the subscription's name.", rich_help_panel=_PANEL)
    ] = None
    subscriber: Annotated[
        str | None,
        typer.Option(help="Who is told; by default the subscription's name.", show_default=False, rich_help_panel=_PANEL),
    ] = None
    where: Annotated[
        str,
        typer.Option(help="Which events, as in: severity >= 2 and kind prefix 'fi'", show_default=False, rich_help_panel=_PANEL),
    ] = ""
    fields: Annotated[
        str, typer.Option(help="Only these fields, with commas between.", show_default=False, rich_help_panel=_PANEL)
    ] = ""


@dataclass(frozen=True)
class DeliveryOptions:
    """Where it is told, and what becomes of fields that are not stated."""

    missing: Annotated[
        Missing, typer.Option(help="A field that WHERE needs is not known yet: tell, or wait?", rich_help_panel=_PANEL)
    ] = Missing.OPTIMISTIC
    broker: Annotated[str, typer.Option(help="The broker to subscribe at.", rich_help_panel=_PANEL)] = "b1"
    deliver: Annotated[
        str | None,
        typer.Option(help="The Kafka topic for it.", show_default=names.notify_topic("SUBSCRIBER"), rich_help_panel=_PANEL),
    ] = None


def _pace_option(asked: PaceProperty) -> tuple[Any, int | None]:
    """The option for a pace that a subscription can ask for, and its default."""
    if counted := asked.counted:
        option = typer.Option(min=1, max=counted.most, help=asked.option, show_default=False, rich_help_panel=_PANEL)
        return Annotated[int | None, option], None
    return Annotated[int, typer.Option(min=0, help=asked.option, rich_help_panel=_PANEL)], 0


if TYPE_CHECKING:
    PaceOptions: TypeAlias = Any
else:
    PaceOptions = make_dataclass("PaceOptions", [(name, *_pace_option(asked)) for name, asked in _PACES.items()], frozen=True)


@dataclass(frozen=True)
class WindowOptions:
    """Over windows."""

    window: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE[/SHIFT]",
            help="Tell of windows, not of events: 10s/5s is ten seconds every five, 1m every minute, 100/50 is publications.",
            show_default=False,
            rich_help_panel=_WINDOWS,
        ),
    ] = None
    of: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FUNCTION",
            help="What of each window, as in: avg(speed). May be given again.",
            show_default=False,
            rich_help_panel=_WINDOWS,
        ),
    ] = None
    grace: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="How long a window waits for what comes late.", show_default="1s", rich_help_panel=_WINDOWS
        ),
    ] = None
    empty: Annotated[
        bool, typer.Option("--empty", help="Tell also of windows without publications.", rich_help_panel=_WINDOWS)
    ] = False

    def asked(self) -> dict[str, Any] | None:
        """The property `window` that they ask for, if they ask for one."""
        if self.window is None:
            for option, given in (("--of", self.of), ("--grace", self.grace), ("--empty", self.empty)):
                if given:
                    raise typer.BadParameter("this is about windows: name one too, as in --window 10s/5s", param_hint=option)
            return None
        if not self.of:
            raise typer.BadParameter("say what is told of each window, as in --of 'avg(speed)'", param_hint="--window")
        from tidings.window import read_span

        said: dict[str, Any] = {**read_span(self.window), "of": results(self.of)}
        if self.grace is not None:
            said["grace_ms"] = _milliseconds(self.grace)
        return said | ({"empty": True} if self.empty else {})


@grouped
def subscribe(
    name: Annotated[str, typer.Argument(help="The subscription's name.")],
    no_follow: Annotated[bool, typer.Option("--no-follow", help="Subscribe, and leave the reading to others.")] = False,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Also show what this subscription was told before.")
    ] = False,
    count: Count = None,
    timeout: Timeout = None,
    as_json: connecting.AsJson = False,
    *,
    told: ToldOptions,
    pace: PaceOptions,
    delivery: DeliveryOptions,
    windows: WindowOptions,
    service: connecting.ServiceOptions,
) -> None:
    """Subscribe, wait until the service knows, then print notifications until Ctrl-C.

    The subscription stays when this command ends; `tidings control delete subscription/NAME` ends it.

    Example: tidings subscribe ops --topic incident --where "severity >= 2" --fields what,where

    Over windows: tidings subscribe speed --window 10s/5s --of 'avg(speed)' --where "road = 'E45'"
    """
    from clients.subscriber import Subscriber
    from tidings.control.files import check

    key = f"subscription/{name}"
    record = _record(name, told, pace, delivery)
    if (over := windows.asked()) is not None:
        _refuse_options_of_events(record)
        record["window"] = over
    check(key, record)
    connection = service.connect()
    if no_follow:
        _announce(connection, key, record, quiet=False, as_json=as_json)
        return
    # Reading starts before the subscription does, so nothing it is told can be missed.
    kafka_topic = delivery.deliver or names.notify_topic(record["subscriber"])
    with Subscriber(connection, kafka_topic, name, from_beginning) as reader:
        _announce(connection, key, record, quiet=True)
        show.remark(f"{name} is told on the Kafka topic {kafka_topic}; Ctrl-C ends the reading, not the subscription")
        follow(connection, reader, as_json=as_json, count=count, timeout_s=timeout)


def _record(name: str, told: ToldOptions, pace: PaceOptions, delivery: DeliveryOptions) -> dict[str, Any]:
    """The control record that the options ask for."""
    said: dict[str, Any] = {
        "where": told.where,
        "fields": [each.strip() for each in told.fields.split(",") if each.strip()],
        **asdict(pace),
        "missing": "" if delivery.missing is Missing.OPTIMISTIC else str(delivery.missing),
        "deliver": delivery.deliver,
    }
    about = {"subscriber": told.subscriber or name, "broker": delivery.broker, "topic": told.topic or name}
    asked = {property: value for property, value in said.items() if value}
    return {"kind": "subscription", "name": name, **about, **asked}


def _refuse_options_of_events(record: dict[str, Any]) -> None:
    for property in (*(name for name, asked in _PACES.items() if asked.of_events), "fields"):
        if property in record:
            raise typer.BadParameter(
                "this is about single events, and with --window none is told", param_hint=f"--{property.replace('_', '-')}"
            )


def _milliseconds(text: str) -> int:
    from tidings.window import BadWindow, read_span

    try:
        [(unit, number)] = read_span(text).items()
    except (BadWindow, ValueError):
        unit, number = "", 0
    if unit != "size_ms":
        raise typer.BadParameter(f"{text!r} is no time; it is written as 500ms, 2s or 1m", param_hint="--grace")
    return number


def results(of: list[str]) -> dict[str, str]:
    """Each result's name and function. One that was given no name is called after its function and field.

    >>> results(["avg(speed)", "count()", "n=count(speed)"])
    {'n': 'count(speed)', 'avg_speed': 'avg(speed)', 'count': 'count()'}
    >>> results(["ema(speed, 0.1)", "ema(speed, 0.5)"])
    {'ema_speed': 'ema(speed, 0.1)', 'ema_speed_2': 'ema(speed, 0.5)'}
    """
    from tidings.aggregate import parse

    found: dict[str, str] = {}
    unnamed = []
    for text in of:
        name, equals, function = text.partition("=")
        if not equals or "(" in name:  # a field in quotes may have a '=' too
            unnamed.append(parse(text))
            continue
        name = name.strip()
        if name in found:
            raise typer.BadParameter(f"two results are called {name!r}", param_hint="--of")
        found[name] = str(parse(function))
    for aggregate in dict.fromkeys(unnamed):
        found[_unused(_called(aggregate), found)] = str(aggregate)
    return found


def _called(aggregate: Aggregate) -> str:
    """A name that needs no quotes, whatever the field is called."""
    field = "".join(each if each.isalnum() else "_" for each in aggregate.field or "")
    words = [str(aggregate.function), *(word for word in field.split("_") if word)]
    return "_".join(words)[:_LONGEST_NAME]


def _unused(name: str, used: Container[str]) -> str:
    numbered = (name if number == 1 else f"{name}_{number}" for number in itertools.count(1))
    return next(each for each in numbered if each not in used)


def _announce(connection: Connection, key: str, record: dict[str, Any], *, quiet: bool, as_json: bool = False) -> None:
    from clients.control import read_control

    known = read_control(connection)
    if record["broker"] not in known.brokers:
        show.remark(f"there is no broker {record['broker']!r} yet (there are {', '.join(known.brokers)}): nothing will be told")
    if "window" in record and known.topic(record["topic"]).gather:
        show.remark(
            f"the topic {record['topic']!r} gathers, so its events count, each once, when it has ended; with "
            '"gather": false every publication would'
        )
    # Written once more even if it is there already: whoever waits for the version then waits for the right one.
    write(connection, [(key, record)], wait=True, as_json=as_json, quiet=quiet)
