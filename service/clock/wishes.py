"""When to tick: as soon as somebody wants the time, and now and then to show that all is well.

Buckets of all services say on `pulse` when they next want a tick. All tickers follow all of them: a bucket may wait for another
service to say how far it is, and that stands in the other one's ticks.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from confluent_kafka import OFFSET_END, KafkaException, TopicPartition

from clients.connection import PATIENT, Connection
from clients.log import to_record
from streaming.broker.state import NEVER
from streaming.wire.pulse import read_wish
from tidings import names

_log = logging.getLogger("tidings.ticker")

LIFE_MS = 30_000
"""Without a wish, a tick comes this often: it bounds what a lost wish can cost, and what is to be forgotten is."""
SOON_MS = 200
"""When the last tick has been read, the next one may come after so long: it need not wait behind the other."""


class Wishes:
    """Pure: what is wished for, and what has been met. Times are Kafka's."""

    def __init__(self, tick_ms: int) -> None:
        self._tick_ms = tick_ms
        self._open: dict[str, int] = {}
        self._soon = False
        self._met_ms = 0
        self._ticked_ms = 0
        self.hurry = True
        """While a service starts, it ticks as fast as it may: its first batches come of that."""
        self.read = False
        """Whether the last tick has been read here."""

    def wish(self, of: str, wants_ms: int) -> None:
        """Somebody wants the time; what it wanted before does not count any more."""
        if wants_ms > self._met_ms:
            self._open[of] = wants_ms
            self._soon = self._soon or wants_ms == self._met_ms + 1
        else:
            self._open.pop(of, None)

    def ticked(self, now_ms: int) -> None:
        """A tick is on its way."""
        self._ticked_ms = now_ms
        self._soon = self.read = False

    def met(self, marks_ms: int) -> None:
        """All marks of a tick are written, none with an earlier time than this."""
        self._met_ms = max(marks_ms, self._met_ms)
        self._open = {of: wants_ms for of, wants_ms in self._open.items() if wants_ms > self._met_ms}

    @property
    def next_ms(self) -> int:
        """When the next tick is due."""
        # Who waits for others has read the last tick, and says so by wanting the next.
        least_ms = min(SOON_MS, self._tick_ms) if self._soon or self.read else self._tick_ms
        return self._ticked_ms + min(max(self._wanted_ms - self._ticked_ms, least_ms), max(LIFE_MS, self._tick_ms))

    @property
    def is_held_back(self) -> bool:
        """Whether the next tick would come sooner, had the last one been read."""
        return not (self._soon or self.read) and self._wanted_ms < self._ticked_ms + self._tick_ms

    @property
    def _wanted_ms(self) -> int:
        return 0 if self.hurry else min(self._open.values(), default=NEVER)


class WishFollower(threading.Thread):
    """Reads `pulse` from now on, and says each wish. Who wished before will say it again, or has been heard."""

    def __init__(self, connection: Connection, heard: Callable[[str, int], None]) -> None:
        super().__init__(name="wish-follower", daemon=True)
        self._heard = heard
        self._stopping = threading.Event()
        self._consumer = connection.consumer(**PATIENT)
        self._consumer.assign([TopicPartition(names.PULSE, 0, OFFSET_END)])

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                message = self._consumer.poll(0.5)
            except KafkaException as error:
                _log.warning("wishes cannot be read now: %s", error)
                self._stopping.wait(1)
                continue
            if message is not None and message.error() is None and (wish := read_wish(to_record(message))):
                self._heard(*wish)

    def stop(self) -> None:
        self._stopping.set()
        if self.is_alive():
            self.join(timeout=5)
        self._consumer.close()
