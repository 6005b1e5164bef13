"""Control records: read from files, checked, written to the `control` Kafka topic, and seen to be adopted.

A version of the control data is the offset up to which `control` was read; the ticks on `clock` name the one that holds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from confluent_kafka import KafkaError

from clients.connection import Connection
from clients.log import read_all, scan, watermarks
from clients.topics import control_spec, ensure_topics
from streaming.wire.clock import Tick, decode_tick
from streaming.wire.record import Record
from tidings import names
from tidings.control import Snapshot
from tidings.errors import BadControl, TidingsError
from tidings.topic import Timing

_ALIVE_MS = 5000
_ACK_S = 30.0
_LAST_TICKS = 200

ControlRecord: TypeAlias = tuple[str, dict[str, Any] | None]
"""Key and record; None deletes."""


# ---- writing ----------------------------------------------------------------------------------------------------------


def apply(connection: Connection, records: Sequence[ControlRecord]) -> int:
    """Write the records, in their order, and return the version that holds them all."""
    ensure_topics(connection, [control_spec()])
    producer = connection.producer(**{"linger.ms": 5})
    offsets: list[int] = []
    failures: list[KafkaError] = []

    def noted(error: KafkaError | None, message: Any) -> None:
        if error is None:
            offsets.append(message.offset())
        else:
            failures.append(error)

    with connection.plain_errors():
        for key, record in records:
            value = None if record is None else encode(record)
            producer.produce(names.CONTROL, key=key.encode(), value=value, partition=0, on_delivery=noted)
        left = producer.flush(_ACK_S)
    if failures:
        raise connection.in_plain_words(failures[0])
    if left:
        producer.purge()
        raise connection.unreachable()
    return max(offsets) + 1 if offsets else _end_of_control(connection)


def encode(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode()


def check(key: str, record: dict[str, Any] | None, timing: Timing | None = None) -> None:
    """Raise `BadControl` for what the service would put aside."""
    Snapshot(timing=timing or Timing()).apply(0, key, None if record is None else encode(record))


def _end_of_control(connection: Connection) -> int:
    consumer = connection.consumer()
    try:
        with connection.plain_errors():
            return watermarks(consumer, names.CONTROL, 0)[1]
    finally:
        consumer.close()


# ---- files ------------------------------------------------------------------------------------------------------------


def read_file(path: Path, timing: Timing | None = None) -> list[ControlRecord]:
    """The records in a file: objects one after the other (JSON lines), or in an array. All are checked.

    An object with ``"delete": true`` beside kind and name deletes. Raises `BadControl` with file and line.
    """
    try:
        return read_text(path.read_text(encoding="utf-8"), str(path), timing)
    except OSError as error:
        raise TidingsError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadControl(str(path), f"the file must be UTF-8; byte {error.start} is not") from error


def read_text(text: str, where: str, timing: Timing | None = None) -> list[ControlRecord]:
    """As `read_file`, for text that comes from ``where``."""
    records: list[ControlRecord] = []
    for line, datum in _values(text, where):
        key, record = _keyed(datum, f"{where}:{line}")
        try:
            check(key, record, timing)
        except BadControl as error:
            raise BadControl(key, f"{error.detail} ({where}:{line})") from None
        records.append((key, record))
    return records


def _keyed(datum: Any, at: str) -> ControlRecord:
    if not isinstance(datum, dict):
        raise BadControl(at, 'a control record must be an object, like {"kind": "broker", "name": "b1"}')
    kind, name = datum.get("kind"), datum.get("name")
    if not isinstance(kind, str) or not isinstance(name, str):
        raise BadControl(at, "a control record needs a 'kind' and a 'name', both strings")
    key = f"{kind}/{name}"
    return (key, None) if datum.get("delete") is True else (key, datum)


def _values(text: str, where: str) -> Iterator[tuple[int, Any]]:
    """The JSON values in a text with the line each begins on; an array around them is looked through."""
    decoder = json.JSONDecoder()
    in_array = text.lstrip().startswith("[")
    between = " \t\r\n,[" if in_array else " \t\r\n"
    at = 0
    while (at := _skip(text, at, between)) < len(text):
        if in_array and text[at] == "]":
            if (rest := _skip(text, at + 1, " \t\r\n")) < len(text):
                raise _not_json(where, text, rest, "nothing may follow the array")
            return
        line = text.count("\n", 0, at) + 1
        try:
            datum, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise _not_json(where, text, error.pos, error.msg) from None
        except RecursionError:
            raise _not_json(where, text, at, "nested too deeply") from None
        yield line, datum
    if in_array:
        raise _not_json(where, text, len(text), "the array is never closed")


def _skip(text: str, at: int, characters: str) -> int:
    while at < len(text) and text[at] in characters:
        at += 1
    return at


def _not_json(where: str, text: str, position: int, detail: str) -> BadControl:
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return BadControl(f"{where}:{line}", f"not JSON: {detail}, at column {column}")


# ---- reading ----------------------------------------------------------------------------------------------------------


def fold(records: Iterable[Record], timing: Timing | None = None) -> Iterator[Snapshot]:
    """The control data after each record. One that cannot be applied changes nothing but the version."""
    snapshot = Snapshot(timing=timing or Timing())
    for record in records:
        version = record.offset + 1
        try:
            snapshot = snapshot.apply(version, (record.key or b"").decode(errors="replace"), record.value)
        except BadControl:
            snapshot = snapshot.passing_over(version)
        yield snapshot


def read_control(connection: Connection, timing: Timing | None = None) -> Snapshot:
    """The control data as it is now."""
    history = list(fold(read_all(connection, [names.CONTROL]), timing))
    return history[-1] if history else Snapshot(timing=timing or Timing())


def last_ticks(connection: Connection) -> dict[str, Tick]:
    """The last tick of each service that ticked lately."""
    records = scan(connection, [names.CLOCK], last=_LAST_TICKS)
    return {tick.service: tick for record in records if (tick := decode_tick(record))}


def living(connection: Connection, now_ms: Callable[[], float] = lambda: time.time() * 1000) -> dict[str, Tick]:
    """The services that ticked within the last seconds and serve brokers."""
    return {
        service: tick
        for service, tick in last_ticks(connection).items()
        if now_ms() - tick.append_ms < _ALIVE_MS and tick.brokers != frozenset()
    }


def service_is_alive(connection: Connection, now_ms: Callable[[], float] = lambda: time.time() * 1000) -> bool:
    """Whether a service ticked within the last seconds."""
    return bool(living(connection, now_ms))


def wait_adopted(connection: Connection, version: int, timeout_s: float) -> bool:
    """Wait until every living service ticked with this version or a later one; False if that takes too long."""
    deadline = time.monotonic() + timeout_s
    while True:
        ticks = living(connection).values()
        if ticks and all(tick.version >= version for tick in ticks):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
