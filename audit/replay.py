"""The log replayed through the plain logic: what the service should have done, and why.

The same records, in the same order, through the same `step`, but in one bucket, in one go and without Spark. The demo and
the tests hold the service to it; `tidings explain` tells its story.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from clients import control
from clients.connection import Connection
from clients.log import read_all, scan, watermarks
from streaming.broker.state import BucketState, Rules
from streaming.model.books import Books, total
from streaming.model.entry import Origin
from streaming.model.inputs import Arrived, Heard, Input
from streaming.model.outputs import Decided, PutAside, Send, Tell
from streaming.wire.clock import Tick, TickerIdentity, decode_tick
from streaming.wire.inputs import MESSAGE, handed_on, in_log_order, kind_of, read
from streaming.wire.message import MessageLimits
from streaming.wire.record import Record
from streaming.world.process import Process, ProcessOutput
from tidings import names
from tidings.control import Snapshot
from tidings.topic import Timing
from topology.plan import Plan


@dataclass(frozen=True, slots=True)
class Replay:
    """What happened, and what was to be done about it. ``services`` maps each to the brokers it was the last to serve."""

    services: Mapping[str | None, frozenset[str]]
    inputs: tuple[Input, ...]
    outputs: tuple[ProcessOutput, ...]
    books: dict[str, Books]
    control: Snapshot
    """The control data that holds now."""
    clocks: Mapping[str | None, int] = field(default_factory=dict)
    """The time up to which each service was followed: what is due until then is decided."""
    states: tuple[BucketState, ...] = ()
    """What each service remembers then."""

    def with_part(
        self,
        service: str | None,
        brokers: frozenset[str],
        inputs: Iterable[Input],
        outputs: Iterable[ProcessOutput],
        process: Process,
    ) -> Replay:
        """This and what one more service did."""
        state = process.events
        books = {broker: total(process.books_of(broker)) for broker in sorted(state.books.keys() | process.windows.books.keys())}
        own = {broker: found for broker, found in books.items() if broker in brokers or service is None}
        return replace(
            self,
            services={**self.services, service: brokers},
            inputs=(*self.inputs, *inputs),
            outputs=(*self.outputs, *outputs),
            books={**self.books, **own},
            clocks={**self.clocks, service: state.clock_ms},
            states=(*self.states, state),
        )

    @property
    def arrived(self) -> dict[Origin, Arrived]:
        """The messages that could be read."""
        return {happened.origin: happened for happened in self.inputs if isinstance(happened, Arrived)}

    @property
    def told(self) -> list[Tell]:
        return [output for output in self.outputs if isinstance(output, Tell)]

    @property
    def decided(self) -> list[Decided]:
        return [output for output in self.outputs if isinstance(output, Decided)]

    @property
    def put_aside(self) -> dict[Origin, PutAside]:
        found = [output for output in self.outputs if isinstance(output, PutAside)]
        # What a message itself became comes before what became of its event.
        return {output.origin: output for output in sorted(found, key=lambda each: not each.merged)}


@dataclass(frozen=True, slots=True)
class Log:
    """What Kafka holds of the log. The same log always gives the same `decide`."""

    ticks: tuple[tuple[Tick, Record], ...]
    history: tuple[Snapshot, ...]
    """The control data after each of its records."""
    rows: tuple[Record, ...]
    """Messages, what crossed links, and marks."""
    brokers: frozenset[str]
    """Those that have Kafka topics to read from."""
    cuts: Mapping[str, int | None] = field(default_factory=dict)
    """Partitions that have lost their beginning, with the append time of the first record left; None if none is."""


def replay(
    connection: Connection,
    *,
    service: str | None,
    limits: MessageLimits,
    rules: Rules,
    timing: Timing,
    only: tuple[str, str] | None = None,
) -> Replay:
    """Read the log up to its end now, and run it. ``service`` None is for each broker the one that served it last.

    ``only`` leaves out all messages but those about one topic and key; the result for those is the same. (Unless the
    service had to make room: ``rules.open_events`` counts all events of a bucket.) The `control` Kafka topic is compacted, so
    long after a change the control data from before it may not be known any more.
    """
    log = read_log(connection, limits=limits, timing=timing, only=only)
    return decide(log, service=service, limits=limits, rules=rules, timing=timing, windows=only is None)


def read_log(connection: Connection, *, limits: MessageLimits, timing: Timing, only: tuple[str, str] | None = None) -> Log:
    """The log up to its end now."""
    clock = read_all(connection, [names.CLOCK])
    # The control data after the clock: it then has all that the ticks name.
    history = control.fold(read_all(connection, [names.CONTROL]), timing)
    inputs = re.compile(names.input_pattern())
    found = connection.topics()
    readable = [name for name in found if inputs.fullmatch(name) and name != names.CLOCK]
    first = {(record.kafka_topic, record.partition): record for record in reversed(clock)}
    rows = _message_rows(_noting_first(scan(connection, readable), first), limits, only)
    partitions = [(name, number) for name in [names.CLOCK, *readable] for number in range(found.get(name, 0))]
    return Log(
        ticks=tuple((tick, record) for record in clock if (tick := decode_tick(record))),
        history=tuple(history),
        rows=tuple(rows),
        brokers=frozenset(names.broker_of(name) for name in readable),
        cuts=cuts(connection, partitions, first),
    )


def _noting_first(records: Iterable[Record], first: dict[tuple[str, int], Record]) -> Iterator[Record]:
    for record in records:
        first.setdefault((record.kafka_topic, record.partition), record)
        yield record


def cuts(
    connection: Connection, partitions: Iterable[tuple[str, int]], first: Mapping[tuple[str, int], Record]
) -> dict[str, int | None]:
    """The partitions that no longer go back to their beginning, as `Log` has them; ``first`` is the first record of each."""
    lost: dict[str, int | None] = {}
    empty = []
    for at in partitions:
        if at not in first:
            empty.append(at)
        elif first[at].offset > 0:
            lost[names.partition_name(*at)] = first[at].append_ms
    if empty:
        consumer = connection.consumer()
        try:
            with connection.plain_errors():
                lost |= {names.partition_name(*at): None for at in empty if watermarks(consumer, *at)[1] > 0}
        finally:
            consumer.close()
    return lost


def decide(log: Log, *, service: str | None, limits: MessageLimits, rules: Rules, timing: Timing, windows: bool = True) -> Replay:
    """Run a log through the plain logic; ``windows`` leaves out what is told of windows, which needs the whole log."""
    ticks = [(tick, row) for tick, row in log.ticks if service in (None, tick.service)]
    control_at = _control_at(log.history, timing)
    plan_at = cache(lambda version: Plan(control_at(version)))
    whole = Replay({}, (), (), {}, control_at(max((tick.version for tick, _ in ticks), default=0)))
    alone = {tick.service for tick, _ in ticks if tick.brokers is None}
    handing_on = {tick.service for tick, _ in ticks if tick.hands_on}
    for each, brokers in _served(ticks, log.brokers).items():
        # Of the others it hears how far they are. Where nobody ticks who is asked for, there is no clock at all.
        own = [row for _, row in log.ticks] if each is not None else []
        # Windows take another way where one process serves all; and events too, unless its directory is from before that.
        hosted = None if each in alone and brokers == log.brokers else brokers
        own_rules = rules if each is None else replace(rules, hosted=hosted, hands_on=hosted is None and each in handing_on)
        pattern = re.compile(own_rules.reads)
        own += [row for row in log.rows if names.broker_of(row.kafka_topic) in brokers and pattern.fullmatch(row.kafka_topic)]
        happened = [input for row in in_log_order(own) for input in read(row, limits, TickerIdentity(each))]
        process = Process(plan_at, own_rules, str(each))
        outputs = process.step(happened)
        if own_rules.hands_on:
            happened += [handed_on(output) for output in outputs if isinstance(output, Send)]
        if not windows:
            outputs = [output for output in outputs if not _is_of_window(output)]
        whole = whole.with_part(each, brokers, happened, outputs, process)
    return whole


def _is_of_window(output: ProcessOutput) -> bool:
    return isinstance(output, Tell) and output.notification.window is not None


def _served(ticks: list[tuple[Tick, Record]], brokers: frozenset[str]) -> dict[str | None, frozenset[str]]:
    """Each service with the brokers that it was the last to serve; without any tick, nobody serves them all."""
    last: dict[str, str] = {}
    for broker in brokers:
        for tick, _ in ticks:
            if tick.serves(broker):
                last[broker] = tick.service
    if not ticks:
        return {None: brokers}
    return {service: frozenset(b for b in brokers if last.get(b) == service) for service in sorted(set(last.values()))}


def _message_rows(records: Iterable[Record], limits: MessageLimits, only: tuple[str, str] | None) -> list[Record]:
    return [
        record
        for record in records
        if only is None or kind_of(record) != MESSAGE or _is_about(read(record, limits, TickerIdentity(None)), only)
    ]


def _is_about(happened: list[Input], only: tuple[str, str]) -> bool:
    match happened:
        case [Arrived(message=message)]:
            return (message.topic, message.key) == only
        case [Heard(record=record)]:
            return record.about == only
    return False


def _control_at(history: Sequence[Snapshot], timing: Timing) -> Callable[[int], Snapshot]:
    """The control data of a version: all records with a lower offset."""
    versions = [snapshot.version for snapshot in history]

    def at(version: int) -> Snapshot:
        index = bisect_right(versions, version)
        return history[index - 1] if index else Snapshot(timing=timing)

    return at
