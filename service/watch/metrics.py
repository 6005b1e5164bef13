"""What operators look at: Prometheus metrics and health checks on a loopback port.

The numbers are the query's own books, read from the `books` Kafka topic: what is shown is what is in the state.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from clients.books import NewestBooks, to_dict
from clients.connection import PATIENT, Connection
from service.directory.directory import replace_text
from streaming.model.books import Books
from streaming.model.outputs import Outcome
from tidings import names
from tidings.errors import CannotRun

_log = logging.getLogger("tidings.metrics")


class BooksFollower(threading.Thread):
    """Follows the `books` Kafka topic: the newest record of each broker and bucket.

    ``path`` gets a copy, so that the books can be read when the service and its Kafka have gone.
    """

    def __init__(self, connection: Connection, path: Path) -> None:
        super().__init__(name="books-follower", daemon=True)
        self._path = path
        self._newest = NewestBooks()
        self._stopping = threading.Event()
        self._consumer = connection.consumer(**PATIENT)

    def run(self) -> None:
        self._consumer.assign([TopicPartition(names.BOOKS, 0, OFFSET_BEGINNING)])
        while not self._stopping.is_set():
            messages = self._consumer.consume(num_messages=100, timeout=0.5)
            for message in messages:
                if not message.error():
                    self._newest.take(message.value())
            if messages:
                self._keep_copy()
        self._consumer.close()

    def _keep_copy(self) -> None:
        try:
            replace_text(self._path, json.dumps(to_dict(self.by_broker()), indent=2) + "\n")
        except OSError as error:  # the books are in Kafka all the same, and the next record tries again
            _log.warning("the copy of the books could not be written: %s", error)

    def by_broker(self) -> dict[str, Books]:
        return self._newest.by_broker()

    def stop(self) -> None:
        self._stopping.set()
        if self.is_alive():
            self.join(timeout=5)


Metric: TypeAlias = CounterMetricFamily | GaugeMetricFamily


@dataclass(eq=False)  # the registry keeps collectors by identity
class ServiceCollector(Collector):
    """The service's metrics at the moment of a scrape."""

    books: Callable[[], dict[str, Books]]
    progress: Callable[[], Mapping[str, Mapping[str, float]]]
    """By the beginning of the metric's name, what each query says of its last batch."""
    control: Callable[[], tuple[int, int, int]]
    handled: Callable[[], Mapping[str, int]] = dict
    """By the way that they took through the engine, how many messages."""

    def collect(self) -> Iterator[Metric]:
        books = self.books()
        yield from _of_messages(books)
        yield from _of_links(books)
        yield from _of_windows(books)
        for query, batch in self.progress().items():
            for name, value in batch.items():
                yield GaugeMetricFamily(f"{query}_{name}", f"Of the last batch: {name.replace('_', ' ')}.", value=value)
        handled = CounterMetricFamily(
            "tidings_handled", "Messages by their way through the engine, since the start.", labels=["way"]
        )
        for way, count in sorted(self.handled().items()):
            handled.add_metric([way], count)
        yield handled
        version, rejected, problems = self.control()
        yield GaugeMetricFamily("tidings_overlay_problems", "What is wrong with the overlay.", value=problems)
        yield GaugeMetricFamily("tidings_control_version", "Version of the control data.", value=version)
        yield CounterMetricFamily("tidings_control_rejected", "Control records that could not be applied.", value=rejected)


def _of_messages(by_broker: Mapping[str, Books]) -> tuple[Metric, ...]:
    received = CounterMetricFamily("tidings_received", "Messages received.", labels=["broker"])
    outcomes = CounterMetricFamily("tidings_messages", "What became of them.", labels=["broker", "outcome", "reason"])
    held = GaugeMetricFamily("tidings_held_messages", "Messages with news that is not due yet.", labels=["broker"])
    told = CounterMetricFamily("tidings_notifications", "Notifications written.", labels=["broker", "reason"])
    conflicts = CounterMetricFamily("tidings_conflicts", "Values that disagreed.", labels=["broker"])
    evicted = CounterMetricFamily("tidings_evicted_events", "Events closed early to make room.", labels=["broker"])
    left_out = CounterMetricFamily("tidings_left_out", "What a bound kept out.", labels=["broker", "bound"])
    waited = CounterMetricFamily("tidings_waited_in_vain", "Events that waited for a broker in vain.", labels=["broker", "for"])
    cancelled = CounterMetricFamily("tidings_cancelled", "What waited and was not told.", labels=["broker", "waited_for"])
    balanced = GaugeMetricFamily("tidings_books_balanced", "1 while the books balance.", labels=["broker"])
    for broker, books in by_broker.items():
        received.add_metric([broker], books.received)
        held.add_metric([broker], books.total(Outcome.HELD))
        conflicts.add_metric([broker], books.conflicts)
        evicted.add_metric([broker], books.evicted)
        balanced.add_metric([broker], int(books.balanced))
        for (outcome, reason), count in sorted(books.outcomes.items()):
            if outcome != Outcome.HELD:
                outcomes.add_metric([broker, outcome, reason], count)
        for family, counts in (
            (told, books.notifications),
            (left_out, books.left_out),
            (waited, books.waited),
            (cancelled, books.cancelled),
        ):
            for word, count in sorted(counts.items()):
                family.add_metric([broker, word], count)
    return received, outcomes, held, told, conflicts, evicted, left_out, waited, cancelled, balanced


def _of_links(by_broker: Mapping[str, Books]) -> tuple[Metric, ...]:
    crossed = CounterMetricFamily("tidings_link_records", "Records that came over a link.", labels=["sender", "to", "kind"])
    size = CounterMetricFamily("tidings_link_bytes", "Their bytes.", labels=["sender", "to"])
    unsent = CounterMetricFamily("tidings_link_unsent", "Messages it did not have to carry.", labels=["sender", "to", "reason"])
    for broker, books in by_broker.items():
        for (sender, kind), count in sorted(books.heard.items()):
            crossed.add_metric([sender, broker, kind], count)
        for sender, count in sorted(books.heard_bytes.items()):
            size.add_metric([sender, broker], count)
        for (to, reason), count in sorted(books.unsent.items()):
            unsent.add_metric([broker, to, reason], count)
    return crossed, size, unsent


def _of_windows(by_broker: Mapping[str, Books]) -> tuple[Metric, ...]:
    decided = CounterMetricFamily("tidings_link_windows", "Windows decided for a link.", labels=["sender", "to", "choice"])
    crossed = CounterMetricFamily("tidings_link_window_records", "What crossed for them.", labels=["sender", "to"])
    would = CounterMetricFamily("tidings_link_window_would", "What would have crossed.", labels=["sender", "to", "decider"])
    items = CounterMetricFamily(
        "tidings_window_items", "What windows ask for, by what became of it.", labels=["broker", "to", "what"]
    )
    for broker, books in by_broker.items():
        for (to, word), count in sorted(books.windows.items()):
            if word == "sent":
                crossed.add_metric([broker, to], count)
            elif word.startswith("would-"):
                would.add_metric([broker, to, word.removeprefix("would-")], count)
            else:
                decided.add_metric([broker, to, word], count)
        for (to, what), count in sorted(books.window_items.items()):
            items.add_metric([broker, to, str(what)], count)
    return decided, crossed, would, items


class MetricsServer:
    """``/metrics``, ``/livez`` (the process works) and ``/readyz`` (messages flow)."""

    def __init__(self, collector: Collector, port: int, live: Callable[[], bool], ready: Callable[[], bool]) -> None:
        registry = CollectorRegistry()
        registry.register(collector)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                match self.path.partition("?")[0]:
                    case "/metrics":
                        self._answer(200, generate_latest(registry), CONTENT_TYPE_LATEST)
                    case "/livez":
                        self._check(live())
                    case "/readyz":
                        self._check(ready())
                    case _:
                        self._answer(404, b"/metrics, /livez and /readyz are here\n", "text/plain")

            def _check(self, good: bool) -> None:
                self._answer(200 if good else 503, b"ok\n" if good else b"not ok\n", "text/plain")

            def _answer(self, status: int, body: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                _log.debug(format, *args)

        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError as error:
            raise CannotRun(f"the metrics port {port} is in use ({error.strerror}); set service.metrics_port") from None
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)
