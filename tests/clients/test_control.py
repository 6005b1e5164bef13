"""Control records: from a file to the version that holds them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.connection import Connection
from clients.control import apply, last_ticks, read_control, read_file, service_is_alive, wait_adopted
from service.kafka.embedded import EmbeddedKafka
from service.kafka.java import Java
from streaming.wire.clock import Tick, encode_tick
from tidings import names
from tidings.errors import BadControl, TidingsError

TOPIC = {"kind": "topic", "name": "incident", "hold_ms": 4000}
OPS = {"kind": "subscription", "name": "ops", "subscriber": "ops", "topic": "incident"}


class TestFiles:
    """Pure: what a file may look like, and where it is wrong."""

    @pytest.mark.parametrize(
        "text",
        [
            f"{json.dumps(TOPIC)}\n{json.dumps(OPS)}\n",
            f"\n\n  {json.dumps(TOPIC)}\n\n{json.dumps(OPS)}",
            json.dumps([TOPIC, OPS]),
            json.dumps([TOPIC, OPS], indent=2),
            f"{json.dumps(TOPIC, indent=4)}\n{json.dumps(OPS, indent=4)}\n",
        ],
        ids=["lines", "blank lines", "array", "array over lines", "objects over lines"],
    )
    def test_lines_arrays_and_objects(self, tmp_path: Path, text: str) -> None:
        assert read_file(written(tmp_path, text)) == [("topic/incident", TOPIC), ("subscription/ops", OPS)]

    def test_one_object_and_an_empty_file(self, tmp_path: Path) -> None:
        assert read_file(written(tmp_path, json.dumps(TOPIC, indent=2))) == [("topic/incident", TOPIC)]
        assert read_file(written(tmp_path, " \n")) == []
        assert read_file(written(tmp_path, "[]")) == []

    def test_a_deletion(self, tmp_path: Path) -> None:
        assert read_file(written(tmp_path, '{"kind": "topic", "name": "a/b", "delete": true}')) == [("topic/a/b", None)]

    @pytest.mark.parametrize(
        ("text", "line", "said"),
        [
            (f'{json.dumps(TOPIC)}\n\n{{"kind": "topic"}}', 3, "needs a 'kind' and a 'name'"),
            (f'{json.dumps(TOPIC)}\n{{"kind": "topic", "name": "x", "hold_ms": -1}}', 2, "'hold_ms' must be"),
            (f'[\n{json.dumps(TOPIC)},\n{{"kind": "topic", "name": "x", "hodl_ms": 1}}]', 3, "unknown property 'hodl_ms'"),
            ('{"kind": "planet", "name": "x"}', 1, "with a kind of: advertisement, broker, link, subscription, topic"),
            (
                '{"kind": "subscription", "name": "x", "subscriber": "x", "topic": "t", "where": "a >"}',
                1,
                "'where' does not parse",
            ),
            ('{"kind": "topic", "name": "x", "hold_ms": 90000}', 1, "hold_ms <= remember_ms <= window_ms must hold"),
            (f"{json.dumps(TOPIC)}\n{{", 2, "not JSON"),
            (f"[{json.dumps(TOPIC)}\n", 2, "the array is never closed"),
            (f"[{json.dumps(TOPIC)}]\n\n{json.dumps(OPS)}", 3, "nothing may follow the array"),
            ("\n42", 2, "must be an object"),
            ("[" * 100_000, 1, "not JSON"),
            ('{"kind": 3, "name": "x"}', 1, "both strings"),
            ('{"kind": "topic", "name": "", "delete": true}', 1, "the key must be"),
        ],
    )
    def test_what_is_wrong_is_named_with_its_line(self, tmp_path: Path, text: str, line: int, said: str) -> None:
        path = written(tmp_path, text)
        with pytest.raises(BadControl) as caught:
            read_file(path)
        assert said in str(caught.value)
        assert f"{path}:{line}" in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_a_file_that_cannot_be_read(self, tmp_path: Path) -> None:
        with pytest.raises(TidingsError, match="cannot be read: No such file"):
            read_file(tmp_path / "none")
        path = tmp_path / "latin"
        path.write_bytes(b'{"kind": "topic", "name": "caf\xe9"}')
        with pytest.raises(BadControl, match="must be UTF-8"):
            read_file(path)


@pytest.fixture(scope="module")
def connection(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """To a Kafka of these tests' own: there is only one `control`."""
    with EmbeddedKafka.start(tmp_path_factory.mktemp("control-kafka"), java) as broker:
        yield Connection(broker.bootstrap)


class TestOnKafka:
    def test_before_there_is_anything(self, connection: Connection) -> None:
        assert read_control(connection).records == {}
        assert last_ticks(connection) == {}
        assert not service_is_alive(connection)
        assert not wait_adopted(connection, 1, 0.2)

    def test_the_version_holds_what_was_applied(self, connection: Connection) -> None:
        start = read_control(connection).version
        version = apply(connection, [("topic/incident", TOPIC), ("subscription/ops", OPS)])
        assert version == start + 2
        snapshot = read_control(connection)
        assert snapshot.version == version
        assert snapshot.records == {"topic/incident": TOPIC, "subscription/ops": OPS}
        assert apply(connection, []) == version
        assert apply(connection, [("subscription/ops", None)]) == version + 1
        assert read_control(connection).records == {"topic/incident": TOPIC}

    def test_what_cannot_be_applied_only_counts(self, connection: Connection) -> None:
        before = read_control(connection)
        producer = connection.producer()
        # One without a key is refused by Kafka itself, as the topic is compacted.
        for key, value in [(b"topic/bad", b"rubbish"), (b"", b"{}"), (b"\xff", None), (b"topic/x", b'{"kind": "topic"}')]:
            producer.produce(names.CONTROL, value, key=key)
        assert producer.flush(10) == 0
        after = read_control(connection)
        assert (after.records, after.version) == (before.records, before.version + 4)

    def test_a_version_is_adopted_when_a_tick_names_it(self, connection: Connection) -> None:
        version = apply(connection, [("broker/b1", {"kind": "broker", "name": "b1"})])
        tick(connection, version - 1)
        assert service_is_alive(connection)
        assert not service_is_alive(connection, now_ms=lambda: time.time() * 1000 + 6000)
        assert not wait_adopted(connection, version, 0.2)
        later = threading.Timer(0.4, tick, (connection, version))
        later.start()
        assert wait_adopted(connection, version, 10)
        later.join()
        assert wait_adopted(connection, version - 1, 0)
        newest = last_ticks(connection)["s1"]
        assert (newest.service, newest.version, newest.partitions) == ("s1", version, ("clock-0",))

    def test_rubbish_on_the_clock_is_passed_over(self, connection: Connection) -> None:
        producer = connection.producer()
        for value in (b"rubbish", b"{}", b"[]", b"3", None):
            producer.produce(names.CLOCK, value)
        producer.flush(10)
        assert set(last_ticks(connection)) == {"s1"}


def tick(connection: Connection, version: int) -> None:
    producer = connection.producer()
    producer.produce(names.CLOCK, encode_tick(Tick("s1", version, ("clock-0",))))
    producer.flush(10)


def written(folder: Path, text: str) -> Path:
    path = folder / "records.jsonl"
    path.write_text(text, encoding="utf-8")
    return path
