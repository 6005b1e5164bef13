"""A world in memory: a log of Kafka topics, services with both pipelines, and a clock that you move by hand.

What happens is appended to the log, and batches read on in it, all there is or some of it. So everything that Kafka and Spark may
do to the order of things can be tried: pieces of any size, buckets that write at once, a crash after half of a batch was written,
links that take their time, brokers that are served by several processes.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any, ClassVar

from streaming.broker.progress import clocked
from streaming.broker.state import BucketState, Rules
from streaming.broker.step import step
from streaming.broker.wishes import wish_ms
from streaming.model.books import Books, total
from streaming.model.links import kind_of
from streaming.model.outputs import Offer, Output, PutAside, Send, Tell
from streaming.model.windows import Clocked, Offered, WindowDecided, WindowInput, WindowOutput
from streaming.windows import state_codec
from streaming.windows.pipeline import step as window_step
from streaming.windows.rules import WindowRules
from streaming.windows.state import WindowState
from streaming.windows.wishes import wish_ms as window_wish_ms
from streaming.wire.inputs import in_log_order
from streaming.world.log import Appended, Mark, WorldLog, WorldTick, inputs_of, is_for
from streaming.world.process import Process
from streaming.world.versions import Versions
from tidings import names
from tidings.message import Message
from tidings.notification import Notification
from topology.plan import Plan

SERVICE = "s"
TICK_MS = 1000


@dataclass
class _Service:
    """What one service remembers, and how far it has read."""

    name: str
    hosted: frozenset[str] | None
    hands_on: bool
    events: list[BucketState]
    windows: list[WindowState]
    offers: list[tuple[str, Offer] | Clocked] = field(default_factory=list)
    read: dict[str, int] = field(default_factory=dict)
    read_offers: int = 0
    clocked: dict[int, Clocked] = field(default_factory=dict)
    """By bucket, how far it last said it was."""

    def serves(self, kafka_topic: str) -> bool:
        return self.hosted is None or names.broker_of(kafka_topic) in self.hosted

    def reads(self, kafka_topic: str) -> bool:
        return kafka_topic == names.CLOCK or (self.serves(kafka_topic) and not (self.hands_on and names.sender_of(kafka_topic)))

    @property
    def done(self) -> tuple[int, int]:
        return min((state.clock_ms, state.version) for state in self.events)

    @property
    def buckets(self) -> Iterator[tuple[BucketState, Rules]]:
        return ((state, self.rules(index)) for index, state in enumerate(self.events))

    def rules(self, index: int) -> Rules:
        of_bucket = Rules(bucket=f"{self.name}/{index}", bucket_index=index, buckets=len(self.events))
        return replace(of_bucket, hosted=self.hosted, hands_on=self.hands_on)


@dataclass
class World:
    """Brokers, links and subscriptions as control records make them; several buckets of each pipeline.

    ``services`` says which brokers each serves, None for all; ``delay_ms`` how long it takes until something that was sent over a
    link stands in the log, the same for all links or each by the names of its ends.
    """

    records: Iterable[Mapping[str, Any]] = ()
    buckets: int = 2
    window_buckets: int = 2
    seed: int = 0
    now_ms: int = 1_000_000
    services: Mapping[str, Iterable[str] | None] = field(default_factory=lambda: {SERVICE: None})
    delay_ms: int | Mapping[tuple[str, str], int] = 0
    hands_on: bool = False
    """Whether a service that serves all brokers hands on at once what one sends to another: then links take no time."""
    told: list[Notification] = field(default_factory=list)
    decided: list[WindowDecided] = field(default_factory=list)
    put_aside: list[PutAside] = field(default_factory=list)
    crossed: list[Send] = field(default_factory=list)
    published: list[tuple[int, str, Message]] = field(default_factory=list)
    """When each entered, at which broker."""
    since_ms: dict[str, int] = field(default_factory=dict)
    """By subscription, when the tick came that first named it as it is."""
    log: WorldLog = field(default_factory=WorldLog)
    versions: Versions = field(default_factory=Versions)

    topic: ClassVar[str] = "incident"
    """What messages are about unless they say so."""

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._records: dict[str, Mapping[str, Any]] = {}
        self._ticked_ms = self.now_ms
        self._on_links: list[tuple[int, int, Send, str, tuple[int, int]]] = []
        """When each comes, the order, who sent it, and how far that service was before."""
        self._order = count()
        self._services = {
            name: _Service(
                name,
                None if brokers is None else frozenset(brokers),
                self.hands_on and brokers is None,
                [BucketState() for _ in range(self.buckets)],
                [WindowState() for _ in range(self.window_buckets)],
            )
            for name, brokers in self.services.items()
        }
        self.control(*self.records)

    # ---- what happens -------------------------------------------------------------------------------------------------

    def control(self, *records: Mapping[str, Any], delete: Iterable[str] = ()) -> None:
        """Other control data holds from now on: the clock ticks with it."""
        gone = list(delete)
        self._records |= {f"{record['kind']}/{record['name']}": record for record in records}
        self._records = {key: record for key, record in self._records.items() if key not in gone}
        had = self.versions.snapshot.subscriptions
        self.versions.change(records, gone)
        for name in self.plan.overlay.brokers:
            self.log.create(names.publish_topic(name))
            for neighbour in self.plan.overlay.neighbours(name):
                self.log.create(names.link_topic(name, neighbour))
        self.tick(0)
        has = self.versions.snapshot.subscriptions
        self.since_ms = {name: self.since_ms[name] if had.get(name) == each else self.now_ms for name, each in has.items()}

    def publish(self, broker: str, fields: Mapping[str, Any], *, after_ms: int = 0, key: str = "k", **more: Any) -> None:
        """A publisher's message is appended."""
        self.wait(after_ms)
        message = Message(more.pop("topic", self.topic), key, dict(fields), **more)
        self.published.append((self.now_ms, broker, message))
        self.log.append(names.publish_topic(broker), self.now_ms, message)

    def wait(self, ms: int) -> None:
        """Time passes and nobody says so; what is on its way over a link comes when it is due."""
        self.now_ms += ms
        while self._on_links and self._on_links[0][0] <= self.now_ms:
            due_ms, _, send, *_ = heapq.heappop(self._on_links)
            self.log.append(names.link_topic(send.sender, send.to), due_ms, send)

    def tick(self, after_ms: int = TICK_MS) -> None:
        """Time passes: a mark in every partition, then a tick of every service."""
        self.wait(after_ms)
        self._ticked_ms, version = self.now_ms, self.versions.latest
        for service in self._services.values():
            served = [name for name in self.log if name != names.CLOCK and service.reads(name)]
            for kafka_topic in served:
                self.log.append(kafka_topic, self.now_ms, Mark(service.name, version))
            partitions = tuple(sorted(names.partition_name(each, 0) for each in (*served, names.CLOCK)))
            done = min([service.done, *(before for *_, sender, before in self._on_links if sender == service.name)])
            self.log.append(names.CLOCK, self.now_ms, WorldTick(service.name, version, partitions, service.hosted, done))

    def advance(self, ms: int, *, resting: bool = False) -> None:
        """Time passes as it does for services that keep up: a tick every second, and all there is to read is read at once.

        Services that are ``resting`` tick only when one of their buckets wants them to.
        """
        until_ms = self.now_ms + ms
        self._keep_up()
        while self.now_ms < until_ms:
            tick_ms = max(self._ticked_ms + TICK_MS, self.now_ms, self.wish_ms if resting else 0)
            next_ms = min([until_ms, tick_ms, *(due_ms for due_ms, *_ in self._on_links[:1])])
            (self.tick if next_ms == tick_ms else self.wait)(next_ms - self.now_ms)
            self._keep_up()

    @property
    def wish_ms(self) -> int:
        """When a bucket of any service next wants the time."""
        services = self._services.values()
        wanted = [wish_ms(each, self._plan_of(each), rules) for service in services for each, rules in service.buckets]
        wanted += [window_wish_ms(each, self._plan_of(each)) for each in self.window_states]
        return min(wanted)

    def _plan_of(self, state: BucketState | WindowState) -> Plan:
        return self.versions.plan_at(state.version)

    def _keep_up(self) -> None:
        while any(self._unread(service) for service in self._services.values()):
            self.event_batch()
            self.window_batch()

    def _unread(self, service: _Service) -> bool:
        return any(service.read.get(name, 0) < len(rows) for name, rows in self.log.items() if service.reads(name))

    # ---- what came of it ----------------------------------------------------------------------------------------------

    def told_to(self, subscription: str) -> list[Notification]:
        """What a subscription was told."""
        return [each for each in self.told if each.subscription == subscription]

    def results(self, subscription: str) -> dict[int, list[Notification]]:
        """What a subscription was told, by the start of the window; after a crash some are told again."""
        found: dict[int, list[Notification]] = {}
        for each in self.told_to(subscription):
            if each.window is not None:
                found.setdefault(each.window.start, []).append(each)
        return found

    @property
    def crossings(self) -> Counter[tuple[str, str, str]]:
        """How often which kind of record was sent from a broker to a neighbour."""
        return Counter((send.sender, send.to, str(kind_of(send.record))) for send in self.crossed)

    def books(self, broker: str) -> Books:
        """What both pipelines have entered for a broker."""
        kept = [state.books for service in self._services.values() for state in service.events]
        kept += [state.books for state in self.window_states]
        return total([books[broker] for books in kept if broker in books])

    @property
    def plan(self) -> Plan:
        """What follows from the control data as it is now."""
        return self.versions.plan

    @property
    def records_now(self) -> Mapping[str, Mapping[str, Any]]:
        """The control data, by key."""
        return self._records

    @property
    def window_states(self) -> list[WindowState]:
        """What the pipeline of windows remembers, bucket by bucket."""
        return [state for service in self._services.values() for state in service.windows]

    def replayed(self) -> list[Notification]:
        """What is told if all that is in the log is decided again in one go, service by service."""
        found = []
        for service in self._services.values():
            process = Process(self.versions.plan_at, replace(service.rules(0), bucket="replay", buckets=1), service.name)
            rows = in_log_order([row for name, rows in self.log.items() if service.reads(name) for row in rows])
            outputs = process.step([each for row in rows for each in inputs_of(row, service.name)])
            found += [output.notification for output in outputs if isinstance(output, Tell)]
        return found

    # ---- batches ------------------------------------------------------------------------------------------------------

    def run(self, *, crashes: bool = False) -> None:
        """Some batches of both pipelines."""
        for _ in range(self._random.randint(1, 3)):
            crash = crashes and self._random.random() < 0.3
            batch = self.event_batch if self._random.random() < 0.5 else self.window_batch
            batch(whole=self._random.random() < 0.5, crash=crash)

    def settle(self, seconds: int = 60) -> None:
        """Time passes in silence, until all that is due has come."""
        for _ in range(seconds):
            self.tick()
            self.event_batch()
            self.window_batch()

    def event_batch(self, *, whole: bool = True, crash: bool = False) -> None:
        """Read on in every partition, all there is or some of it. A crash before the end makes the batch run again."""
        for service in self._services.values():
            before = service.done
            ordered = list(in_log_order(self._read_on(service, whole)))
            runs: list[tuple[str, Sequence[Any]]] = []
            for index, state in enumerate(service.events):
                rules = service.rules(index)
                inputs = [
                    each
                    for row in ordered
                    if is_for(row, index, self.buckets, hands_on=service.hands_on)
                    for each in inputs_of(row, service.name)
                ]
                after, outputs = step(state, inputs, self.versions.plan_at, rules)
                service.events[index] = after
                clock = clocked(after, self.versions.plan_at(after.version), rules)
                runs.append((rules.bucket, [*outputs, *([clock] if clock != service.clocked.get(index) else [])]))
                service.clocked[index] = clock
            self._write(service, runs, before, crash)

    def _read_on(self, service: _Service, whole: bool) -> list[Appended]:
        taken: list[Appended] = []
        for kafka_topic, rows in self.log.items():
            if service.reads(kafka_topic):
                start = service.read.get(kafka_topic, 0)
                end = service.read[kafka_topic] = len(rows) if whole else self._random.randint(start, len(rows))
                taken += rows[start:end]
        return taken

    def window_batch(self, *, whole: bool = True, crash: bool = False) -> None:
        """Read on in what was offered. Between batches a state is bytes, now and then."""
        for service in self._services.values():
            start, offers = service.read_offers, service.offers
            end = service.read_offers = len(offers) if whole else self._random.randint(start, len(offers))
            runs: list[tuple[str, Sequence[Any]]] = []
            for index, state in enumerate(service.windows):
                rules = WindowRules(service.name, index, len(service.windows), service.hosted, service.hands_on)
                if self._random.random() < 0.3:
                    state = state_codec.decode(state_codec.encode(state))
                inputs = [found for each in offers[start:end] if (found := _offered(each, rules))]
                service.windows[index], outputs = window_step(state, inputs, self.versions.plan_at, rules)
                runs.append((rules.name, outputs))
            self._write(service, runs, service.done, crash)

    def _write(self, service: _Service, runs: Sequence[tuple[str, Sequence[Any]]], before: tuple[int, int], crash: bool) -> None:
        """The buckets' outputs reach the log each in its order, but mixed with each other. After a crash, some do so twice."""
        if crash:
            half = [(name, outputs[: self._random.randint(0, len(outputs))]) for name, outputs in runs]
            self._write(service, half, before, crash=False)
        queues = [(name, list(outputs)) for name, outputs in runs if outputs]
        while queues:
            place = self._random.randrange(len(queues))
            name, outputs = queues[place]
            self._put(service, name, outputs.pop(0), before)
            if not outputs:
                queues.pop(place)

    def _put(self, service: _Service, bucket: str, output: Output | WindowOutput | Clocked, before: tuple[int, int]) -> None:
        match output:
            case Clocked():
                service.offers.append(output)
            case Offer():
                service.offers.append((bucket, output))
            case Send() if service.hands_on:
                self.crossed.append(output)
                self.log.append(names.link_topic(output.sender, output.to), output.at_ms, output)
            case Send():
                self.crossed.append(output)
                way = (output.sender, output.to)
                delay_ms = self.delay_ms if isinstance(self.delay_ms, int) else self.delay_ms.get(way, 0)
                heapq.heappush(self._on_links, (self.now_ms + delay_ms, next(self._order), output, service.name, before))
                self.wait(0)
            case Tell():
                self.told.append(output.notification)
            case PutAside():
                self.put_aside.append(output)
            case WindowDecided():
                self.decided.append(output)
            case _:
                pass


def _offered(each: tuple[str, Offer] | Clocked, rules: WindowRules) -> WindowInput | None:
    """What a bucket of links is told, if it is for that bucket."""
    if isinstance(each, Clocked):
        return each
    bucket, offer = each
    return Offered(bucket, offer) if rules.has((offer.sender, offer.to, offer.topic)) else None
