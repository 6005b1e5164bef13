"""The function handed to `applyInPandasWithState`: converts, calls `step`, converts back. Nothing else.

Workers find the control data of a version in a file of its own, which never changes once it is there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from streaming.broker import blob, crossing
from streaming.broker.books import Books
from streaming.broker.inputs import MOST_VALUE_BYTES, Ticker, in_log_order, to_inputs
from streaming.broker.state import BucketState, Rules
from streaming.broker.step import step
from streaming.broker.values import FilterDecided, Outcome, Output, PutAside, Send, Tell
from tidings.codec import MessageLimits, encode_notification
from tidings.control import Snapshot
from tidings.errors import BadState
from tidings.topic import Timing
from topology import names
from topology.plan import Plan

STATE_SCHEMA = "blob binary"
OUTPUT_SCHEMA = "topic string, key binary, value binary, headers array<struct<key: string, value: binary>>"
OUTPUT_COLUMNS = ["topic", "key", "value", "headers"]


@dataclass(frozen=True)
class BucketSettings:
    """All a worker needs to know; it travels to the workers with the function."""

    ticker: Ticker
    control_dir: str
    rules: Rules = field(default_factory=Rules)
    limits: MessageLimits = field(default_factory=MessageLimits)
    timing: Timing = field(default_factory=Timing)


def snapshot_path(control_dir: Path, version: int) -> Path:
    """The file that holds the control data of a version."""
    return control_dir / f"{version:012d}.json"


def bucket_function(settings: BucketSettings) -> Callable[[Any, Iterable[pd.DataFrame], Any], Iterator[pd.DataFrame]]:
    """The stateful function of one bucket."""

    def run(key: tuple[int], frames: Iterable[pd.DataFrame], group_state: Any) -> Iterator[pd.DataFrame]:
        state = blob.decode(bytes(group_state.get[0])) if group_state.exists else BucketState()
        rows = [row for frame in frames for row in frame.itertuples(index=False)]
        inputs = [happened for row in in_log_order(rows) for happened in to_inputs(row, settings.limits, settings.ticker)]
        before = {broker: books.to_dict() for broker, books in state.books.items()}
        rules = replace(settings.rules, bucket=f"{settings.ticker.service}/{key[0]}")
        state, outputs = step(state, inputs, lambda version: load_plan(settings, version), rules)
        if state.changed or not group_state.exists:
            group_state.update((blob.encode(state),))
        records = [*to_records(outputs, rows), *books_records(str(settings.ticker.service), int(key[0]), before, state.books)]
        if records:
            yield pd.DataFrame(records, columns=OUTPUT_COLUMNS)

    return run


def to_records(outputs: Iterable[Output], rows: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Kafka records for what is to be done; records put aside carry the bytes as they came."""
    origins = {(row.kafka_topic, row.partition, row.offset): row for row in rows}
    for output in outputs:
        match output:
            case Tell():
                told = output.notification
                value = encode_notification(told, output.encoding)
                yield output.kafka_topic, names.record_key(told.topic, told.key), value, []
            case Send():
                link = names.link_topic(output.sender, output.to)
                yield link, names.record_key(*output.record.about), crossing.encode(output.record, output.stamp), []
            case PutAside():
                origin = output.origin
                record = output.entry or origins[origin.kafka_topic, origin.partition, origin.offset]
                topic = names.LATE if output.outcome is Outcome.LATE else names.DEAD_LETTER
                yield topic, record.record_key, record.value, list(aside_headers(output, record.value))
            case FilterDecided():
                yield names.DECISIONS, names.record_key(output.sender, output.topic), _decision(output), []
            case _:
                pass


def _decision(decided: FilterDecided) -> bytes:
    """A choice in the words of the wire."""
    datum = {
        "from": decided.sender,
        "topic": decided.topic,
        "window": {"start_ms": decided.start_ms, "end_ms": decided.end_ms},
        "decider": "adaptive",
        "choice": str(decided.choice),
        "reason": decided.reason,
        "offered": decided.offered,
        "sent": decided.sent,
        "would": dict(decided.would),
    }
    return json.dumps(datum, separators=(",", ":")).encode()


def aside_headers(aside: PutAside, value: bytes | None) -> Iterator[tuple[str, bytes]]:
    """Why a record was put aside, where it came from and when."""
    origin = aside.origin
    yield "reason", str(aside.reason).encode()
    yield "detail", aside.detail.encode(errors="replace")
    yield "origin", origin.kafka_topic.encode()
    yield "partition", str(origin.partition).encode()
    yield "offset", str(origin.offset).encode()
    yield "time", str(origin.append_ms).encode()
    if value is not None and len(value) == MOST_VALUE_BYTES:
        yield "cut", b"true"


def books_records(service: str, bucket: int, before: dict[str, Any], books: dict[str, Books]) -> Iterator[tuple[Any, ...]]:
    """The bucket's totals for every broker where they changed: the latest record of a key is the truth."""
    for broker, current in sorted(books.items()):
        totals = current.to_dict()
        if totals != before.get(broker):
            value = json.dumps({"service": service, "broker": broker, "bucket": bucket, **totals}, separators=(",", ":"))
            yield names.BOOKS, f"{service}/{broker}/{bucket}".encode(), value.encode(), []


@lru_cache(maxsize=8)
def load_plan(settings: BucketSettings, version: int) -> Plan:
    """What follows from a version of the control data."""
    return Plan(load_control(settings, version))


def load_control(settings: BucketSettings, version: int) -> Snapshot:
    """The control data of a version. Version 0 is the empty control data from before the first tick."""
    if version == 0:
        return Snapshot(timing=settings.timing)
    path = snapshot_path(Path(settings.control_dir), version)
    try:
        return Snapshot.from_json(path.read_text(encoding="utf-8"), settings.timing)
    except FileNotFoundError:
        raise BadState(f"the control data of version {version} is missing: {path.name} must be in the control folder") from None
