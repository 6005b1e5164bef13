"""A test kit: a broker whose clock you move by hand.

>>> from streaming.world.records import subscription
>>> script = Script()
>>> script.control(subscription("ops"))
>>> script.publish({"what": "fire"})
>>> [(told.reason.value, dict(told.news)) for told in script.told("ops")]
[('first', {'what': 'fire'})]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streaming.broker.state import BucketState, Rules
from streaming.broker.step import step
from streaming.model.books import Books, total
from streaming.model.entry import Entry, Origin
from streaming.model.inputs import Arrived, Input, Marked, Progressed, Refused, Ticked
from streaming.model.links import PassedOn, Stamp
from streaming.model.outputs import Decided, Output, PutAside, Tell
from streaming.wire.inputs import arrival
from streaming.wire.message import encode_message
from streaming.world.versions import Versions
from tidings import names
from tidings.errors import Unreadable
from tidings.message import Message
from tidings.notification import Notification
from tidings.values import Value
from topology.plan import Plan

PARTITION = names.partition_name(names.publish_topic("b1"), 0)


@dataclass
class Script:
    """Records what happens at a broker; `run` gives it to `step`, in one piece or cut into batches."""

    rules: Rules = field(default_factory=Rules)
    now_ms: int = 1_000_000
    inputs: list[Input] = field(default_factory=list)
    snapshots: Versions = field(default_factory=Versions)
    _offset: int = 0
    _passed: int = 0

    def publish(
        self,
        fields: Mapping[str, Value],
        key: str = "5th and Main",
        topic: str = "incident",
        *,
        source: str | None = None,
        id: str | None = None,
        published_ms: int | None = None,
        broker: str = "b1",
    ) -> None:
        """A publisher's message arrives now."""
        message = Message(topic, key, dict(fields), source, id, published_ms)
        self.inputs.append(Arrived(self._origin(broker), broker, message))

    def pass_on(
        self,
        fields: Mapping[str, Value],
        key: str = "5th and Main",
        topic: str = "incident",
        *,
        way_ms: int,
        published_ms: int | None = None,
        sender: str = "b2",
        broker: str = "b1",
        version: int = 0,
        **more: str,
    ) -> None:
        """A message comes now from a neighbour, where it entered ``way_ms`` ago, and which goes by that version."""
        self._passed += 1
        entered_ms = self.now_ms - way_ms
        message = Message(topic, key, dict(fields), published_ms=published_ms, **more)
        entry = Entry(Origin(names.publish_topic(sender), 0, self._passed, entered_ms), None, encode_message(message))
        record = PassedOn(message, entered_ms if published_ms is None else published_ms, entry, 1, version)
        stamp = Stamp(sender, self._passed)
        origin = Origin(names.link_topic(sender, broker), 0, self._passed, self.now_ms)
        self.inputs.append(arrival(origin, sender, broker, record, stamp))

    def progress(self, done_ms: int, brokers: tuple[str, ...] | None = None, service: str = "all") -> None:
        """A service says that it has read all that was appended before, and written what follows."""
        self.inputs.append(Progressed(self.now_ms, service, None if brokers is None else frozenset(brokers), done_ms))

    def refuse(self, reason: Unreadable = Unreadable.BAD_JSON) -> None:
        self.inputs.append(Refused(self._origin(), "b1", reason, "unreadable"))

    def control(self, *records: Mapping[str, Any], delete: tuple[str, ...] = ()) -> None:
        """The control data changes now; the clock ticks with the new version."""
        self.snapshots.change(records, delete)
        self.tick(0)

    def tick(self, after_ms: int = 1000, partitions: tuple[str, ...] = (PARTITION,)) -> None:
        """Time passes in silence: a tick, and a mark in every partition."""
        self.now_ms += after_ms
        version = self.snapshots.latest
        self.inputs.append(Ticked(self.now_ms, version, partitions))
        self.inputs.extend(Marked(partition, self.now_ms, version) for partition in partitions)

    def plan_at(self, version: int) -> Plan:
        return self.snapshots.plan_at(version)

    def wait(self, ms: int) -> None:
        """Time passes and nobody says so."""
        self.now_ms += ms

    def run(self, cuts: tuple[int, ...] = ()) -> tuple[BucketState, list[Output]]:
        """Give everything to `step`, cut into batches before the inputs of the given numbers."""
        state, outputs = BucketState(), []
        for start, end in zip((0, *cuts), (*cuts, len(self.inputs)), strict=True):
            state, more = step(state, self.inputs[start:end], self.plan_at, self.rules)
            outputs += more
        return state, outputs

    # ---- what came of it ----------------------------------------------------------------------------------------------

    def told(self, subscription: str | None = None) -> list[Notification]:
        return [t.notification for t in self.tells() if subscription in (None, t.notification.subscription)]

    def tells(self) -> list[Tell]:
        return [output for output in self.run()[1] if isinstance(output, Tell)]

    def put_aside(self) -> list[PutAside]:
        return [output for output in self.run()[1] if isinstance(output, PutAside)]

    def decisions(self) -> list[tuple[str, str]]:
        return [(str(o.outcome), str(o.reason)) for o in self.run()[1] if isinstance(o, Decided)]

    def books(self) -> Books:
        return total(self.run()[0].books.values())

    def _origin(self, broker: str = "b1") -> Origin:
        self._offset += 1
        return Origin(names.publish_topic(broker), 0, self._offset, self.now_ms)
