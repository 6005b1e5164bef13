"""`tidings publish`: send messages from a file or a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import connecting, show
from cli.options import grouped
from tidings.errors import BadMessage, TidingsError

if TYPE_CHECKING:
    from clients.connection import Connection
    from streaming.wire.message import MessageLimits
    from tidings.message import Message


@grouped
def publish(
    file: Annotated[Path, typer.Argument(metavar="[FILE|-]", help="Messages, one JSON object a line; - is the pipe.")] = Path(
        "-"
    ),
    broker: Annotated[str, typer.Option(help="The broker to publish at.")] = "b1",
    avro: Annotated[bool, typer.Option("--avro", help="Send Avro instead of JSON.")] = False,
    as_json: connecting.AsJson = False,
    *,
    service: connecting.ServiceOptions,
) -> None:
    """Publish messages. Each is checked before it is sent; of a file with a wrong line, nothing is sent.

    Example: tidings publish messages.jsonl

    Example: echo '{"topic": "incident", "key": "5th and Main", "fields": {"what": "fire"}}' | tidings publish
    """
    from streaming.broker.settings import message_limits_of
    from tidings.config import load

    limits = message_limits_of(load(None, os.environ))
    if str(file) == "-":
        show.from_keyboard("messages")
        # A pipe may never end: each line is checked and sent as it comes.
        messages = checked(sys.stdin.buffer, "stdin", limits)
    else:
        messages = iter(list(checked(_lines(file), str(file), limits)))
    connection = service.connect()
    sent = _send(connection, messages, broker, avro)
    if as_json:
        show.as_json({"published": sent, "broker": broker})
    else:
        print(f"{show.count(sent, 'message')} published at {broker}")


def checked(lines: Iterable[bytes], where: str, limits: MessageLimits) -> Iterator[Message]:
    """The messages in lines; blank ones are skipped. Raises `BadMessage` with the line's number."""
    from streaming.wire.message import decode_message

    for number, line in enumerate(lines, 1):
        if not (stripped := line.strip()):
            continue
        try:
            yield decode_message(stripped, limits)
        except BadMessage as error:
            raise BadMessage(error.reason, f"{error.detail} ({where}:{number})") from None


def _lines(file: Path) -> list[bytes]:
    try:
        return file.read_bytes().split(b"\n")
    except OSError as error:
        raise TidingsError(f"{file} cannot be read: {error.strerror or error}") from error


def _send(connection: Connection, messages: Iterator[Message], broker: str, avro: bool) -> int:
    from producers.publisher import Publisher
    from tidings import names
    from tidings.notification import Encoding

    known = connection.topics()
    if names.publish_topic(broker) not in known:
        brokers = [names.broker_of(name) for name in sorted(known) if name.startswith(names.PUBLISH)]
        there = f"there are {', '.join(brokers)}" if brokers else "start the service with `tidings up`"
        raise TidingsError(f"nobody listens at broker {broker!r}; {there}")
    with Publisher(connection, broker) as publisher:
        try:
            for message in messages:
                publisher.publish(message, Encoding.AVRO if avro else Encoding.JSON)
        except BadMessage as error:
            publisher.flush()
            raise BadMessage(error.reason, f"{error.detail}; the {publisher.sent} before it were published") from None
    return publisher.sent
