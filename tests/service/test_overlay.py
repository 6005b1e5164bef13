"""An overlay served by two processes on one Kafka: told as the simulator says, through moves, kills, cuts and lost links."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clients.books import from_publishers, read_books
from clients.connection import Connection
from producers.publisher import Publisher
from service.kafka.embedded import EmbeddedKafka
from service.kafka.java import Java
from streaming.model.outputs import Outcome
from streaming.wire.clock import decode_tick
from streaming.world.records import broker, link, plan, subscription, topic
from streaming.world.simulator import Simulator
from testing.service import RunningService, wait_for
from tidings.message import Message

pytestmark = pytest.mark.timeout(400)

# A ring of five with a tail; two processes share it.
HOSTS = {"west": "b1,b2", "east": "b3,b4,b5"}
BROKERS = [broker(f"b{n}") for n in range(1, 6)]
LINKS = [link("b1", "b2"), link("b2", "b3"), link("b3", "b4"), link("b1", "b4"), link("b4", "b5")]
SMALL = {"TIDINGS_SPARK_BUCKETS": "2", "TIDINGS_SPARK_SHUFFLE_PARTITIONS": "1", "TIDINGS_KAFKA_PARTITIONS": "1"}


class Overlay:
    """The two processes, and who publishes where."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.connection = Connection(bootstrap)
        self.env = {"TIDINGS_KAFKA_BOOTSTRAP_SERVERS": bootstrap, **SMALL}
        self.services: dict[str, RunningService] = {}
        self.published = 0
        starting = [threading.Thread(target=self._start, args=(folder, name)) for name in HOSTS]
        for thread in starting:
            thread.start()
        for thread in starting:
            thread.join()
        assert self.services.keys() == HOSTS.keys()
        self._publishers = {record["name"]: Publisher(self.connection, record["name"]) for record in BROKERS}

    def _start(self, folder: Path, name: str) -> None:
        self.services[name] = RunningService.start(folder / name, {**self.env, "TIDINGS_SERVICE_BROKERS": HOSTS[name]})

    @property
    def any(self) -> RunningService:
        return self.services["west"]

    def publish(self, at: str, topic: str, fields: dict[str, Any], key: str = "k", **more: Any) -> None:
        self._publishers[at].publish(Message(topic, key, fields, **more))
        self._publishers[at].flush()
        self.published += 1

    def told(self, name: str) -> list[dict[str, Any]]:
        """What a subscription was told; what came twice after a crash, once."""
        found = {each["id"]: each for each in self.any.told(f"notify.{name}")}
        return list(found.values())

    def wait_told(self, name: str, count: int, timeout_s: float = 60) -> list[dict[str, Any]]:
        found = wait_for(f"{count} for {name}", lambda: (t,) if len(t := self.told(name)) >= count else None, timeout_s)
        return found[0]

    def learned(self, name: str) -> dict[str, Any]:
        return {field: value for each in self.told(name) for field, value in each["news"].items()}

    def at_rest(self) -> bool:
        """Whether all that was published has been read, and all that was sent over a link has been heard."""
        books = read_books(self.connection)
        if from_publishers(books) < self.published:
            return False
        sent = {(name, to): n for name, each in books.items() for (to, _), n in _by_link(each.sent).items()}
        heard = {(sender, name): n for name, each in books.items() for (sender, _), n in _by_link(each.heard).items()}
        return sent == heard and all(each.balanced for each in books.values())

    def stop(self) -> None:
        for service in self.services.values():
            service.stop()


def _by_link(counts: dict[tuple[str, str], int]) -> dict[tuple[str, None], int]:
    found: dict[tuple[str, None], int] = defaultdict(int)
    for (neighbour, _), count in counts.items():
        found[neighbour, None] += count
    return dict(found)


@pytest.fixture(scope="module")
def overlay(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Overlay]:
    folder = tmp_path_factory.mktemp("overlay")
    with EmbeddedKafka.start(folder / "kafka", java) as kafka:
        overlay = Overlay(folder, kafka.bootstrap)
        try:
            overlay.any.apply(*BROKERS, *LINKS)
            yield overlay
        finally:
            overlay.stop()


def essence(notification: Any) -> tuple[Any, ...]:
    told = notification if isinstance(notification, dict) else notification.__dict__
    names = ("key", "revision", "reason", "reports", "sources")
    return (*(str(told[name]) for name in names), json.dumps(dict(told["news"]), sort_keys=True))


def test_live_and_simulated_brokers_tell_the_same(overlay: Overlay) -> None:
    wants = [
        subscription("all", topic="same", broker="b5"),
        subscription("fires", topic="same", broker="b1", where="what = 'fire'", missing="patient"),
        subscription("where", topic="same", broker="b3", fields=["where"]),
    ]
    declared = [topic("same", window_ms=120_000)]
    published = [
        [("b1", "same", {"where": "hall"}, "x"), ("b5", "same", {"what": "flood"}, "y")],
        [("b4", "same", {"what": "fire"}, "x")],
        [("b2", "same", {"what": "fire", "where": "hall"}, "x")],
        [("b3", "same", {"what": "smoke", "who": "ann"}, "x")],
    ]
    overlay.any.apply(*declared, *wants)
    simulator = Simulator(plan(*BROKERS, *LINKS, *declared, *wants), lambda *_: 10)
    for number, together in enumerate(published):
        at_ms = 10_000 * (number + 1)
        for at, name, fields, key in together:
            simulator.publish(at_ms, at, Message(name, key, fields, source=f"at-{at}"))
            overlay.publish(at, name, fields, key, source=f"at-{at}")
        simulator.run(until_ms=at_ms + 9_000)
        for want in wants:
            expected = [t.notification for _, t in simulator.told if t.notification.subscription == want["name"]]
            overlay.wait_told(want["name"], len(expected))
        wait_for("all that was published to be through", overlay.at_rest)
    for want in wants:
        expected = [t.notification for _, t in simulator.told if t.notification.subscription == want["name"]]
        fields = ("key", "revision", "reason", "reports", "sources", "news")
        wanted = [essence({name: getattr(each, name) for name in fields}) for each in expected]
        # Each event in its order; what happens to different events at the same time has none.
        assert sorted(essence(each) for each in overlay.told(want["name"])) == sorted(wanted)
    assert overlay.any.inspect().differences == []


def test_ticks_say_how_far_each_service_is(overlay: Overlay) -> None:
    """Else events end, and windows of them close, only when patience does."""
    overlay.any.apply(topic("far", window_ms=2_000), subscription("far", topic="far", broker="b5"))
    overlay.publish("b1", "far", {"what": "fire"})
    overlay.wait_told("far", 1)
    published_ms = overlay.any.told("notify.far")[0]["last_ms"]

    def how_far() -> dict[str, int]:
        ticks = [tick for record in overlay.any.read("clock") if (tick := decode_tick(record))]
        return {tick.service: tick.done_ms or 0 for tick in ticks}

    wait_for("both to be past it", lambda: len(far := how_far()) == len(HOSTS) and min(far.values()) > published_ms)


def test_the_gatherer_moves_and_nothing_is_told_twice_or_lost(overlay: Overlay) -> None:
    wants = [subscription(f"moved-{at}", topic="moved", broker=at) for at in ("b1", "b3", "b5")]
    overlay.any.apply(topic("moved", window_ms=120_000, filter="rendezvous", rendezvous="b1"), *wants)
    overlay.publish("b2", "moved", {"what": "fire"})
    for want in wants:
        overlay.wait_told(want["name"], 1)
    overlay.any.apply(topic("moved", window_ms=120_000, filter="rendezvous", rendezvous="b5"))
    overlay.publish("b1", "moved", {"what": "fire", "where": "hall"})
    overlay.publish("b3", "moved", {"what": "fire", "who": "ann"})
    expected = {"what": "fire", "where": "hall", "who": "ann"}
    for want in wants:
        wait_for(f"all to reach {want['name']}", lambda name=want["name"]: overlay.learned(name) == expected, 60)
        facts = [field for each in overlay.told(want["name"]) for field in each["news"]]
        assert sorted(facts) == ["what", "where", "who"]
        assert len({each["event"] for each in overlay.told(want["name"])}) == 1
    wait_for("the books to agree over all links", overlay.at_rest)
    handed = sum(
        n for each in read_books(overlay.connection).values() for (_, kind), n in each.sent.items() if kind == "HandOver"
    )
    assert handed >= 1


def test_every_filter_works_and_the_adaptive_one_says_what_it_chose(overlay: Overlay) -> None:
    filters = ("profile", "event", "rendezvous", "adaptive")
    overlay.any.apply(
        *(topic(f"by-{name}", gather=False, filter=name, window_ms=4000) for name in filters),
        *(subscription(f"by-{name}", topic=f"by-{name}", broker="b5", where="v < 10") for name in filters),
    )
    for name in filters:
        overlay.publish("b1", f"by-{name}", {"v": 1}, "wanted")
        overlay.publish("b1", f"by-{name}", {"v": 50}, "unwanted")
    for name in filters:
        assert [each["key"] for each in overlay.wait_told(f"by-{name}", 1)] == ["wanted"]

    def decided() -> list[dict[str, Any]]:
        overlay.publish("b1", "by-adaptive", {"v": 2}, "wanted")  # the window ends with the first message after it
        made = [json.loads(record.value or b"") for record in overlay.any.read("decisions")]
        return [each for each in made if each["from"] == "b1"]

    record = wait_for("a decision", decided)[0]
    assert (record["topic"], record["decider"], record["choice"]) == ("by-adaptive", "adaptive", "profile")
    assert record["would"]["profile"] <= record["sent"] <= record["offered"] == record["would"]["event"]
    assert "offered were wanted" in record["reason"]


def test_a_broker_is_served_by_one_process(overlay: Overlay, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"serves b2 already: stop it, or name other brokers"):
        RunningService.start(tmp_path / "third", {**overlay.env, "TIDINGS_SERVICE_BROKERS": "b2,b9"}, timeout_s=60)


def test_a_process_is_killed_and_started_again(overlay: Overlay) -> None:
    wants = [subscription(f"killed-{at}", topic="killed", broker=at) for at in ("b1", "b5")]
    overlay.any.apply(topic("killed", window_ms=300_000), *wants)
    keys = [f"k{n}" for n in range(12)]
    for number, key in enumerate(keys):
        overlay.publish(f"b{number % 5 + 1}", "killed", {"what": "fire"}, key)
        if number == 6:
            overlay.services["east"].kill()
    overlay.services["east"] = overlay.services["east"].restart()
    for key in keys:
        overlay.publish("b1", "killed", {"what": "fire"}, key)
    for want in wants:
        told = overlay.wait_told(want["name"], len(keys), 90)
        assert sorted(each["key"] for each in told) == sorted(keys)
    wait_for("the books to agree over all links", overlay.at_rest, 60)
    overlay.any.wait_as_reference(30)


@pytest.mark.slow
def test_a_link_topic_that_disappears_is_made_again(overlay: Overlay) -> None:
    overlay.any.apply(subscription("gone", topic="gone", broker="b5"), subscription("gone-1", topic="gone", broker="b1"))
    overlay.publish("b1", "gone", {"what": "fire"}, "before")
    overlay.wait_told("gone", 1)
    overlay.wait_told("gone-1", 1)
    admin = overlay.connection.admin()  # kept: its answers end with it
    admin.delete_topics(["link.b4.b5"])["link.b4.b5"].result(30)
    wait_for("the Kafka topic to be there again", lambda: "link.b4.b5" in overlay.connection.topics(), 30)

    def reaches() -> bool:
        overlay.publish("b1", "gone", {"what": "fire"}, f"after-{len(overlay.told('gone-1'))}")
        return any(each["key"].startswith("after") for each in overlay.told("gone"))

    wait_for("messages to reach the far end again", reaches, 90)
    assert all(each.balanced for each in read_books(overlay.connection).values())


def test_a_cut_is_named_and_what_it_keeps_back_is_told_or_put_aside(overlay: Overlay) -> None:
    overlay.any.apply(
        topic("cut", window_ms=15_000),
        topic("heal", window_ms=300_000),
        *(subscription(n, topic=n, broker="b5") for n in ("cut", "heal")),
    )
    overlay.any.apply(delete=("link/b4-b5",))
    log = (overlay.services["west"].directory / "logs" / "service.log").read_text()
    assert "the overlay falls into 2 parts" in log
    overlay.publish("b1", "cut", {"what": "fire"}, "lost")
    overlay.publish("b1", "heal", {"what": "fire"}, "kept")
    late = wait_for(
        "the message to be put aside", lambda: [r for r in overlay.any.read("late") if b"lost" in (r.value or b"")], 60
    )
    headers = {name: value.decode() for name, value in late[0].headers}
    assert headers["reason"] == "cut-off"
    assert "b5" in headers["detail"]
    assert json.loads(late[0].value or b"")["fields"] == {"what": "fire"}
    overlay.any.apply(link("b4", "b5"))
    assert [each["key"] for each in overlay.wait_told("heal", 1)] == ["kept"]
    assert overlay.told("cut") == []
    books = read_books(overlay.connection)
    assert all(each.balanced for each in books.values())
    assert sum(each.total(Outcome.LATE) for each in books.values()) == 1
