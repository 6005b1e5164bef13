"""The client commands as people and scripts meet them. A Kafka is there; the service is played by the test."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from clients.connection import Connection
from clients.control import apply, read_control
from clients.log import read_all
from clients.topics import delivery_specs, ensure_topics, publish_specs, service_topics
from service.kafka.embedded import EmbeddedKafka
from service.kafka.java import Java
from streaming.model.books import Books
from streaming.model.outputs import Outcome
from streaming.wire.clock import MARK_START, Tick, encode_tick
from streaming.wire.message import MessageLimits, decode_message
from streaming.wire.notification import encode_notification
from testing.commands import Tidings
from tidings import names
from tidings.notification import Encoding, Notification, Reason

CONTROL = ["control apply", "control list", "control delete"]
COMMANDS = ["publish", "subscribe", "watch", "books", "explain", "check", "replay", *CONTROL]
PROGRAM = [sys.executable, "-c", "from cli.main import run; run()"]


class TestWithoutAService:
    @pytest.mark.parametrize("command", [*COMMANDS, "control", ""])
    def test_help_has_an_example(self, tidings: Tidings, command: str) -> None:
        said = tidings(*command.split(), "--help")
        assert said.code == 0
        assert "Example" in said.out

    @pytest.mark.parametrize("command", ["books", "up", "demo", "control"])
    def test_it_starts_in_no_time(self, command: str) -> None:
        taken: list[float] = []
        while len(taken) < 3 and min(taken, default=9.0) >= 1.5:  # the machine may be busy with something else for a moment
            started = time.monotonic()
            subprocess.run([*PROGRAM, command, "--help"], capture_output=True, check=True)
            taken.append(time.monotonic() - started)
        assert min(taken) < 1.5

    def test_neither_spark_nor_pandas_is_loaded(self) -> None:
        code = (
            "import sys\nfrom cli import main\n"
            "import producers.publisher, clients.subscriber, audit.story, clients.control, streaming.broker.settings\n"
            "import service.directory.directory\n"
            "print([name for name in ('pyspark', 'pandas', 'pyarrow', 'numpy') if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"

    @pytest.mark.parametrize("arguments", [["books"], ["watch"], ["explain", "a", "b"], ["control", "list"], ["publish"]])
    def test_no_service_is_one_line(self, tidings: Tidings, arguments: list[str]) -> None:
        said = tidings(*arguments, "--dir", "nowhere")
        assert said.code == 1
        assert said.complaint.startswith("no service is ready in nowhere; start one with `tidings up`")

    def test_an_unreachable_kafka_is_one_line(self, tidings: Tidings) -> None:
        said = tidings("books", "--bootstrap-servers", "127.0.0.1:1")
        assert said.code == 1
        assert said.complaint.startswith("no Kafka broker answers at 127.0.0.1:1; ")

    def test_the_environment_names_the_kafka(self, tidings: Tidings, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TIDINGS_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:2")
        assert "127.0.0.1:2" in tidings("watch").complaint

    @pytest.mark.parametrize("arguments", [["--debug", "books"], ["books", "--debug"]])
    def test_debug_shows_the_trace_wherever_it_stands(self, tidings: Tidings, arguments: list[str]) -> None:
        said = tidings(*arguments, "--dir", "nowhere")
        assert said.code == 1
        assert "Traceback" in said.err
        assert said.err.splitlines()[-1].startswith("tidings: no service is ready")

    def test_a_defect_is_one_line_too(self, tidings: Tidings, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: object) -> None:
            raise ZeroDivisionError("oh")

        monkeypatch.setattr("cli.connecting.connect", broken)
        said = tidings("books")
        assert said.code == 1
        assert "ZeroDivisionError: oh" in said.complaint

    def test_a_wrong_option_is_a_usage_error(self, tidings: Tidings) -> None:
        said = tidings("books", "--nonsense")
        assert said.code == 2
        assert "No such option" in said.err

    def test_the_version(self, tidings: Tidings) -> None:
        assert tidings("--version").out.startswith("tidings 0.")

    def test_wrong_properties_name_their_line(self, tidings: Tidings, tmp_path: Path) -> None:
        (tmp_path / "client.properties").write_text("\nrubbish\n")
        said = tidings("books", "--bootstrap-servers", "127.0.0.1:1", "--properties", "client.properties")
        assert said.code == 2
        assert "client.properties: line 2" in said.complaint

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ('{"topic": "t"}', "bad-shape: 'key' is required"),
            ("rubbish", "unknown-format"),
            ('{"topic": "t", "key": "k", "fields": {"a": NaN}}', "not-finite"),
            ('{"topic": "t", "key": "k", "fields": {"a": {}}}', "nested-value"),
        ],
    )
    def test_a_wrong_message_names_file_and_line(self, tidings: Tidings, tmp_path: Path, line: str, reason: str) -> None:
        (tmp_path / "m.jsonl").write_text(f'{{"topic": "t", "key": "k", "fields": {{}}}}\n\n{line}\n')
        said = tidings("publish", "m.jsonl")
        assert said.code == 2
        assert said.complaint.startswith(reason)
        assert said.complaint.endswith("(m.jsonl:3)")

    def test_a_wrong_control_record_names_file_and_line(self, tidings: Tidings, tmp_path: Path) -> None:
        (tmp_path / "c.jsonl").write_text('{"kind": "broker", "name": "b1"}\n{"kind": "topic", "name": "x", "hold_ms": "no"}\n')
        said = tidings("control", "apply", "c.jsonl")
        assert said.code == 2
        assert "'topic/x': 'hold_ms' must be" in said.complaint
        assert said.complaint.endswith("(c.jsonl:2)")

    def test_a_wrong_subscription_names_the_position(self, tidings: Tidings) -> None:
        said = tidings("subscribe", "ops", "--topic", "incident", "--where", "severity >")
        assert said.code == 2
        assert said.complaint.endswith("at position 10")

    def test_a_file_that_is_not_there(self, tidings: Tidings) -> None:
        assert "none cannot be read: No such file" in tidings("publish", "none").complaint
        assert "none cannot be read: No such file" in tidings("control", "apply", "none").complaint

    def test_a_key_of_no_kind(self, tidings: Tidings) -> None:
        said = tidings("control", "delete", "nonsense")
        assert said.code == 2
        assert "'<kind>/<name>'" in said.complaint

    def test_books_are_readable_after_the_service_stopped(self, tidings: Tidings, tmp_path: Path) -> None:
        from clients.books import to_dict

        books = Books(received=2)
        books.enter(Outcome.TOLD, "first", 2)
        (tmp_path / "books.json").write_text(json.dumps(to_dict({"b1": books})))
        said = tidings("books", "--json", "--dir", str(tmp_path))
        assert (said.code, said.json["told"]) == (0, 2)
        assert "the service has stopped" in said.err


# ---- with a Kafka -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def connection(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """To a Kafka of these tests' own, with the topics of a service."""
    with EmbeddedKafka.start(tmp_path_factory.mktemp("cli-kafka"), java) as broker:
        connection = Connection(broker.bootstrap)
        ensure_topics(connection, [*service_topics(1, 1), *publish_specs(["b1"], 2, 1)])
        yield connection
    _producers.clear()


@pytest.fixture
def here(connection: Connection, monkeypatch: pytest.MonkeyPatch, tidings: Tidings) -> Tidings:
    """As ``tidings``, with the Kafka found through the environment."""
    monkeypatch.setenv("TIDINGS_KAFKA_BOOTSTRAP_SERVERS", connection.bootstrap)
    return tidings


@pytest.fixture
def service(connection: Connection) -> Iterator[None]:
    """Somebody who adopts each version of the control data and makes its Kafka topics, as a service does."""
    stopping = threading.Event()

    def adopt() -> None:
        while not stopping.wait(0.2):
            control = read_control(connection)
            ensure_topics(connection, delivery_specs(sorted({s.deliver for s in control.subscriptions.values()}), 1))
            tick(connection, control.version)

    thread = threading.Thread(target=adopt)
    tick(connection, read_control(connection).version)
    thread.start()
    yield
    stopping.set()
    thread.join()


def tick(connection: Connection, version: int) -> None:
    partitions = ["clock-0", "publish.b1-0", "publish.b1-1"]
    write(connection, names.CLOCK, encode_tick(Tick("cli", version, tuple(partitions))))
    for partition in (0, 1):
        write(connection, "publish.b1", MARK_START, partition=partition)


_producers: dict[str, Any] = {}
"""One for each Kafka: a new one takes half a second until it knows who it is."""


def write(connection: Connection, kafka_topic: str, value: bytes | str, **more: Any) -> None:
    producer = _producers.get(connection.bootstrap) or connection.producer()
    _producers[connection.bootstrap] = producer
    producer.produce(kafka_topic, value, **more)
    assert producer.flush(10) == 0


def told(subscriber: str, number: int, key: str = "5th and Main") -> Notification:
    news = {"what": "fi\x1b[31mre [bold]", "floor": number}
    return Notification(
        f"n-{subscriber}-{number}",
        subscriber,
        subscriber,
        "incident",
        key,
        f"e{number}",
        1,
        Reason.FIRST,
        news,
        2,
        1,
        0,
        0,
        {"what": ("smoke",)},
    )


def deliver(connection: Connection, kafka_topic: str, *notifications: Notification) -> None:
    ensure_topics(connection, delivery_specs([kafka_topic], 1))
    for notification in notifications:
        write(connection, kafka_topic, encode_notification(notification, Encoding.JSON))


def fresh(word: str) -> str:
    return f"{word}{uuid4().hex[:8]}"


class TestPublish:
    MESSAGES = '{"topic": "t", "key": "k", "fields": {"a": 1}}\n\n{"topic": "t", "key": "k", "fields": {"a": 2}}\n'

    def test_from_a_file_and_from_a_pipe(self, here: Tidings, connection: Connection, tmp_path: Path) -> None:
        (tmp_path / "m.jsonl").write_text(self.MESSAGES.replace('"t"', '"of-a-file"'))
        assert here("publish", "m.jsonl").out == "2 messages published at b1\n"
        assert here("publish", "--json", "--avro", stdin=self.MESSAGES).json == {"published": 2, "broker": "b1"}
        values = [record.value for record in read_all(connection, ["publish.b1"]) if record.value != MARK_START]
        found = [decode_message(value, MessageLimits()) for value in values[-4:]]
        assert {message.topic for message in found} == {"of-a-file", "t"}
        assert [message.fields["a"] for message in found if message.topic == "t"] == [1, 2]

    def test_a_wrong_line_in_a_pipe_says_what_was_sent_before_it(self, here: Tidings) -> None:
        said = here("publish", stdin=self.MESSAGES + "rubbish\n")
        assert said.code == 2
        assert said.complaint.endswith("(stdin:4); the 2 before it were published")

    def test_a_broker_that_is_not_there(self, here: Tidings, connection: Connection) -> None:
        said = here("publish", "--broker", "b9", stdin=self.MESSAGES)
        assert said.code == 1
        assert said.complaint == "nobody listens at broker 'b9'; there are b1"
        assert "publish.b9" not in connection.topics()


class TestControl:
    @pytest.mark.usefixtures("service")
    def test_applied_and_adopted_listed_and_deleted(self, here: Tidings) -> None:
        name = fresh("topic")
        record = {"kind": "topic", "name": name, "hold_ms": 5}
        said = here("control", "apply", "-", stdin=json.dumps(record))
        assert said.code == 0
        assert said.out.endswith("and adopted by the service\n")
        assert here("control", "list", "--json").json["records"][f"topic/{name}"] == record
        assert name in here("control", "list").out
        deleted = here("control", "delete", f"topic/{name}", "--json")
        assert (deleted.json["records"], deleted.json["adopted"]) == (1, True)
        again = here("control", "delete", f"topic/{name}")
        assert (again.code, f"there is no topic/{name}" in again.complaint) == (1, True)

    def test_without_waiting(self, here: Tidings) -> None:
        said = here("control", "apply", "-", "--no-wait", "--json", stdin='{"kind": "topic", "name": "unwaited"}')
        assert said.json["adopted"] is None

    def test_nothing_to_apply(self, here: Tidings) -> None:
        said = here("control", "apply", "-", stdin="\n")
        assert (said.code, "no control records" in said.complaint) == (1, True)

    def test_names_of_strangers_are_not_markup(self, here: Tidings, connection: Connection) -> None:
        name = "[red]\x1b[2J"
        apply(connection, [(f"topic/{name}", {"kind": "topic", "name": name})])
        assert "[red]\\x1b[2J" in here("control", "list").out
        apply(connection, [(f"topic/{name}", None)])


class TestSubscribeAndWatch:
    @pytest.mark.usefixtures("service")
    def test_subscribe_writes_the_subscription_and_prints_what_comes(self, here: Tidings, connection: Connection) -> None:
        name = fresh("ops")
        later = threading.Timer(1, deliver, (connection, f"notify.{name}", told(name, 1), told(name, 1), told(name, 2)))
        later.start()
        options = ["--where", "floor > 0", "--fields", "what, floor", "--every-ms", "50", "--missing", "patient"]
        options += ["--settle-ms", "20", "--at-most", "12", "--heartbeat-ms", "60000"]
        said = here("subscribe", name, "--topic", "incident", *options, "--count", "2", "--timeout", "20", "--json")
        later.join()
        assert said.code == 0
        assert [json.loads(line)["news"]["floor"] for line in said.out.splitlines()] == [1, 2]
        assert read_control(connection).records[f"subscription/{name}"] == {
            "kind": "subscription",
            "name": name,
            "subscriber": name,
            "broker": "b1",
            "topic": "incident",
            "where": "floor > 0",
            "fields": ["what", "floor"],
            "every_ms": 50,
            "settle_ms": 20,
            "at_most": 12,
            "heartbeat_ms": 60000,
            "missing": "patient",
        }

    @pytest.mark.usefixtures("service")
    def test_subscribe_shows_old_ones_only_when_asked(self, here: Tidings, connection: Connection) -> None:
        name = fresh("ops")
        deliver(connection, f"notify.{name}", told(name, 1))
        asked = ["subscribe", name, "--topic", "incident", "--timeout", "0.5"]
        assert here(*asked).out == ""
        assert "floor=1" in here(*asked, "--from-beginning").out

    @pytest.mark.usefixtures("service")
    def test_subscribe_and_leave(self, here: Tidings) -> None:
        said = here("subscribe", fresh("ops"), "--topic", "incident", "--no-follow", "--broker", "b7")
        assert said.code == 0
        assert "and adopted by the service" in said.out
        assert "there is no broker 'b7' yet" in said.err

    @pytest.mark.usefixtures("service")
    def test_watch_a_subscriber(self, here: Tidings, connection: Connection) -> None:
        name = fresh("ops")
        here("subscribe", name, "--topic", "incident", "--no-follow", "--deliver", "shared")
        deliver(connection, "shared", told("another", 1), told(name, 2))
        said = here("watch", name, "--count", "1", "--timeout", "10")
        assert said.code == 0
        [line] = said.out.splitlines()
        # What a stranger wrote neither colours nor moves anything.
        assert "incident · 5th and Main  first     floor=2, what=fi\\x1b[31mre [bold]  (2 reports, 1 source)" in line
        assert line.endswith(f"disputed: what also smoke  → {name}")

    @pytest.mark.usefixtures("service")
    def test_watch_everybody_also_those_who_come_later(self, here: Tidings, connection: Connection) -> None:
        name = fresh("ops")

        def subscribe() -> None:
            apply(
                connection, [(f"subscription/{name}", {"kind": "subscription", "name": name, "subscriber": name, "topic": "t"})]
            )
            deliver(connection, f"notify.{name}", told(name, 7))

        later = threading.Timer(0.5, subscribe)
        later.start()
        said = here("watch", "--new", "--count", "1", "--timeout", "20", "--json")
        later.join()
        assert said.json["subscriber"] == name

    def test_watch_a_kafka_topic(self, here: Tidings, connection: Connection) -> None:
        name = fresh("elsewhere")
        deliver(connection, name, told("x", 1), told("y", 2))
        said = here("watch", "--kafka-topic", name, "--count", "2", "--timeout", "10", "--json")
        assert [json.loads(line)["subscriber"] for line in said.out.splitlines()] == ["x", "y"]

    def test_too_few_is_a_failure(self, here: Tidings, connection: Connection) -> None:
        name = fresh("few")
        deliver(connection, name)
        said = here("watch", "--kafka-topic", name, "--count", "3", "--timeout", "0.3")
        assert said.code == 1
        assert said.complaint == "only 0 of 3 notifications came within 0.3 s"

    def test_nobody_of_that_name(self, here: Tidings) -> None:
        said = here("watch", "nobody")
        assert said.code == 1
        assert said.complaint.startswith("nobody called 'nobody' subscribes; ")

    def test_not_both(self, here: Tidings) -> None:
        assert here("watch", "ops", "--kafka-topic", "x").code == 2

    def test_ctrl_c_ends_it_quietly(self, connection: Connection) -> None:
        name = fresh("ctrl")
        deliver(connection, name, told("x", 1))
        with watching(connection, name) as process:
            assert process.stdout is not None
            assert "floor=1" in process.stdout.readline()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=10)
        assert (process.returncode, out, err) == (130, "", "")

    def test_a_reader_that_goes_away_ends_it_quietly(self, connection: Connection) -> None:
        name = fresh("pipe")
        deliver(connection, name, told("x", 1))
        with watching(connection, name) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            deliver(connection, name, told("x", 2), told("x", 3))
            process.wait(timeout=10)
            assert process.stderr.read() == ""


def watching(connection: Connection, kafka_topic: str) -> subprocess.Popen[str]:
    command = [*PROGRAM, "watch", "--kafka-topic", kafka_topic, "--bootstrap-servers", connection.bootstrap]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class TestBooks:
    def test_a_table_json_and_the_exit_code(self, here: Tidings, connection: Connection) -> None:
        assert here("books").out == "Nothing has been received yet.\n"
        empty = here("books", "--json").json
        assert (empty["received"], empty["balanced"], empty["brokers"]) == (0, True, {})
        books = Books(received=1000, conflicts=3)
        books.enter(Outcome.TOLD, "first", 100)
        books.enter(Outcome.REDUNDANT, "known", 900)
        books.notifications["first"] = 120
        self.record(connection, books)
        said = here("books")
        assert said.code == 0
        for expected in ("Broker b1", "known 900", "90.0% suppressed", "120 notifications (first 120)", "3 conflicts", "balance"):
            assert expected in said.out
        totals = here("books", "--json").json
        assert {"received": 1000, "told": 100, "redundant": 900, "held": 0, "balanced": True}.items() <= totals.items()
        assert totals["reasons"] == {"told": {"first": 100}, "redundant": {"known": 900}}
        assert totals["brokers"]["b1"]["notifications"] == 120
        books.received += 1
        self.record(connection, books)
        said = here("books")
        assert said.code == 1
        assert "THE BOOKS DO NOT BALANCE" in said.out

    def record(self, connection: Connection, books: Books) -> None:
        entry = {"service": "s", "broker": "b1", "bucket": 0, **books.to_dict()}
        write(connection, names.BOOKS, json.dumps(entry), key=b"s/b1/0")

    def test_watching_them(self, connection: Connection) -> None:
        command = [*PROGRAM, "books", "--watch", "--json", "--bootstrap-servers", connection.bootstrap]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert "received" in json.loads(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=10) == ("", "")
        assert process.returncode == 130


class TestExplain:
    @pytest.mark.usefixtures("service")
    def test_the_story_of_an_event(self, here: Tidings, connection: Connection) -> None:
        key = fresh("corner ")
        here("subscribe", "explained", "--topic", "story", "--no-follow")
        lines = [
            {"topic": "story", "key": key, "fields": {"what": "fire"}, "source": "A", "id": "m-1"},
            {"topic": "story", "key": key, "fields": {"what": "fire"}, "source": "B"},
            {
                "topic": "story",
                "key": key,
                "fields": {"what": "smoke"},
                "published_ms": int(time.time() * 1000) + 60_000,
            },  # later than the others, on a slow day too
        ]
        here("publish", stdin="\n".join(json.dumps(line) for line in lines))
        said = here("explain", "story", key, "--json").json
        assert (said["topic"], said["key"], said["services"]) == ("story", key, ["cli"])
        story = [(each["what"], each["reason"]) for each in said["story"]]
        assert story == [("message", "holding"), ("notification", "first"), ("message", "known"), ("message", "conflict")]
        assert said["story"][0]["told_in"] == [said["story"][1]["id"]]
        assert said["story"][1]["delivered"] is False
        text = here("explain", "story", key).out
        assert f"story · {key}  3 messages, 1 notification" in text
        assert "A said what=fire  [m-1 at b1]  added what" in text
        assert "→ explained was told what=fire  [first, revision 1, on notify.explained]  not delivered so far" in text
        assert "redundant, known: nothing new" in text
        assert "merged, conflict: it disagrees about what" in text
        written = {name: value for name, value in said["story"][1].items() if name not in ("ms", "what", "delivered")}
        write(connection, "notify.explained", json.dumps(written))
        assert here("explain", "story", key, "--json").json["story"][1]["delivered"] is True
        assert re.search(r"on notify\.explained\]  delivered \d+\.\d s later", here("explain", "story", key).out)

    def test_nothing_is_known_about_it(self, here: Tidings) -> None:
        said = here("explain", "incident", "nowhere")
        assert said.code == 1
        assert said.complaint == "nothing is known about incident 'nowhere': no message in the log is about it"
