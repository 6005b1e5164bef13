"""A Kafka that asks who you are: the service and its clients log in, have exactly the rights they need, and tell no secrets."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

from audit.replay import replay
from clients import control
from clients.books import read_books
from clients.connection import Connection
from clients.decisions import read_decisions
from clients.subscriber import Subscriber
from clients.topics import delivery_specs, ensure_topics, link_specs, publish_specs, service_topics
from producers.publisher import Publisher
from service.directory.directory import ServiceDirectory
from service.kafka.acls import Acl, Party, acls, grant, revoke
from service.kafka.embedded import EmbeddedKafka
from service.kafka.java import Java
from service.kafka.secured import Guard, with_certificate, with_password
from streaming.broker.state import Rules
from streaming.model.books import Books
from streaming.model.windows import WindowDecided
from streaming.wire import avro
from streaming.wire.books import books_records
from streaming.wire.clock import Tick, encode_tick
from streaming.wire.decisions import decision_record
from streaming.wire.message import MessageLimits
from streaming.world.records import broker, link, subscription, topic
from testing.service import RunningService, wait_for
from testing.tls import Authority
from tidings.control import Link
from tidings.errors import KafkaUnreachable, TidingsError
from tidings.message import Message
from tidings.topic import Timing

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(300)]

PASSWORDS = {name: f'hush-{name}-\\"hush' for name in ("admin", "tidings", "press", "desk", "chief", "clerk", "judge", "auditor")}
ROLES = {
    "press": (Party.PUBLISHER, "b1"),
    "desk": (Party.SUBSCRIBER, "desk"),
    "chief": (Party.CONTROL, ""),
    "clerk": (Party.BOOKS, ""),
    "judge": (Party.DECISIONS, ""),
    "auditor": (Party.AUDITOR, ""),
}
"""Who the users are, but for the service itself."""

_INPUTS = {"publish.b1", "publish.b2", "link.b1.b2", "link.b2.b1"}
OURS = {"control", "clock", "books", "decisions", "offers", "late", "dead-letter", *_INPUTS}
TOPICS = frozenset({*OURS, "notify.desk", "notify.other", "payroll"})
"""Those of a service with two brokers; `payroll` is somebody else's."""

BOMB = avro.schema("message").header + b"\x02t\x02k" + b"\x02\x02a\x0a" + b"\x80\x80\x80\x80\x08" + b"\x02x" + bytes(5)
"""An Avro message whose field `a` claims to be a list of 2^30 strings: Spark's Java would make room for all of them."""

REFUSED = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
_RULE = re.compile(r"resourceType=(\w+), resourceName=([^,]+), patternType=(\w+), principal=User:(\w+), .*?operation=(\w+)")


@dataclass(frozen=True)
class Secured:
    """A broker that asks, and how each user reaches it."""

    kafka: EmbeddedKafka
    authority: Authority

    def with_password(self, name: str) -> Connection:
        return Connection(self.kafka.bootstrap, with_password(self.authority.certificate, name, PASSWORDS[name]))

    def with_certificate(self, name: str) -> Connection:
        return Connection(
            self.kafka.certificate_bootstrap, with_certificate(self.authority.certificate, self.authority.issue(name))
        )

    def grant(self, name: str, *roles: Party) -> None:
        grant(self.with_password("admin"), name, [right for role in roles for right in acls(role)])

    def audit(self, name: str, since: int = 0) -> tuple[set[tuple[str, str, bool, str]], list[str]]:
        """The rights that a user made use of, and what the user was refused, from a place of the log on."""
        lines = (self.kafka.directory / "audit.log").read_text().splitlines()[since:]
        own = [line for line in lines if f"Principal = User:{name} " in line]
        used = set()
        for line in own:
            if found := _RULE.search(line):
                kind, on, pattern, principal, operation = found.groups()
                assert principal == name
                used.add((kind.lower(), on, pattern == "PREFIXED", operation.replace("_", "").lower()))
        return used, [line for line in own if " is Denied " in line]

    def audited(self) -> int:
        return len((self.kafka.directory / "audit.log").read_text().splitlines())


@pytest.fixture(scope="module")
def secured(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority.make(folder / "certificates")
    guard = Guard(authority.issue("kafka"), authority.certificate, plain_passwords(), ("kafka", "admin"))
    with EmbeddedKafka.start(folder / "kafka", java, guard=guard) as kafka:
        found = Secured(kafka, authority)
        for name, (role, of) in ROLES.items():
            grant(found.with_password("admin"), name, acls(role, of))
        yield found


def plain_passwords() -> dict[str, str]:
    """As Kafka knows them: in a login they stand in quotes, and a quote within them is escaped."""
    return {name: password.replace('\\"', '"') for name, password in PASSWORDS.items()}


def keys_of(rights: tuple[Acl, ...]) -> set[tuple[str, str, bool, str]]:
    return {(str(a.resource), a.name, a.prefixed, a.operation.lower()) for a in rights}


# ---- the service ------------------------------------------------------------------------------------------------------


def write_properties(path: Path, connection: Connection) -> None:
    """As Java reads it: backslashes doubled."""
    text = "".join(f"{name}={value}\n".replace("\\", "\\\\") for name, value in connection.properties.items())
    path.write_text(text)
    path.chmod(0o600)


def start(folder: Path, connection: Connection) -> RunningService:
    properties = folder / "client.properties"
    write_properties(properties, connection)
    env = {"TIDINGS_KAFKA_BOOTSTRAP_SERVERS": connection.bootstrap, "TIDINGS_KAFKA_PROPERTIES_FILE": str(properties)}
    return RunningService.start(folder / "dir", env)


def publish(connection: Connection, *messages: Message, broker: str = "b1") -> None:
    with Publisher(connection, broker) as publisher:
        for message in messages:
            publisher.publish(message)


def test_with_passwords_everybody_can_do_their_part_and_all_rights_are_used(secured: Secured, tmp_path: Path) -> None:
    """Runs first, while the Kafka has no topics: to make them takes rights too."""
    secured.grant("tidings", Party.SERVICE, Party.SETUP)
    press, desk, clerk = (secured.with_password(name) for name in ("press", "desk", "clerk"))
    since = secured.audited()
    with start(tmp_path, secured.with_password("tidings")) as service:
        service.connection = secured.with_password("chief")
        adaptive = topic("fire", filter="adaptive", window_ms=1000)
        window = {"size_ms": 1000, "of": {"n": "count()"}}
        counted = subscription("count", topic="fire", broker="b2", window=window, deliver="notify.n")
        overlay = broker("b1"), broker("b2"), link("b1", "b2")
        service.apply(*overlay, adaptive, subscription("desk", topic="fire", broker="b2"), counted)
        publish(press, Message("fire", "5th", {"what": "smoke"}), Message("fire", "5th", {"what": "smoke"}))
        with Subscriber(desk, "notify.desk") as reader:
            told = reader.poll(60)
            assert told is not None
            assert (told.key, dict(told.news)) == ("5th", {"what": "smoke"})
            time.sleep(1.1)  # a window of the adaptive filter ends
            publish(press, Message("fire", "6th", {"what": "flames"}), Message("fire", "7th", {"a": 1}, published_ms=1))
            with Publisher(press) as publisher:
                publisher.publish_raw(b"rubbish")
                publisher.publish_raw(BOMB)
            assert reader.poll(60) is not None
        with Subscriber(desk, "notify.desk", group="desk") as reader:
            assert reader.poll(60) is not None
        wait_for("the books", lambda: sum(b.received for b in read_books(clerk).values()) >= 8)
        service.connection = secured.with_password("auditor")
        wait_for("a window", lambda: service.told("notify.n"), 60)
        decided = replay(service.connection, service=None, limits=MessageLimits(), rules=Rules(), timing=Timing())
        assert decided.told, "whoever may explain can decide the log again"
        service.connection = secured.with_password("admin")  # what was put aside and the books are not for everybody
        service.wait_as_reference(60)
        secrets = [*PASSWORDS.values(), *plain_passwords().values()]
        assert leaks(service, clerk, tmp_path, secrets) == []
    used, refused = secured.audit("tidings", since)
    assert refused == []
    granted = keys_of((*acls(Party.SERVICE), *acls(Party.SETUP)))
    # That one is for a service that serves some of the brokers: what its own ones send each other, this one need not read.
    assert used == granted - {("topic", "link.", True, "read")}
    assert leaks(service, clerk, tmp_path, secrets) == []


def test_with_certificates_and_topics_made_beforehand(secured: Secured, tmp_path: Path) -> None:
    """A name has the same rights however it logs in; and the service need not be allowed to make Kafka topics."""
    admin = secured.with_certificate("admin")
    make_topics(admin)
    revoke(admin, "tidings", acls(Party.SETUP))
    secured.grant("tidings", Party.SERVICE)
    since = secured.audited()
    with start(tmp_path, secured.with_certificate("tidings")) as service:
        service.connection = secured.with_certificate("chief")
        service.apply(broker("b1"), broker("b2"), link("b1", "b2"), subscription("other", topic="flood", broker="b2"))
        publish(secured.with_certificate("press"), Message("flood", "river", {"level": 3}))
        service.connection = secured.with_certificate("auditor")
        (told,) = wait_for("the notification", lambda: service.told("notify.other"))
        assert told["news"] == {"level": 3}
        key = (secured.authority.folder / "tidings.key").read_text().splitlines()[1]
        assert leaks(service, secured.with_certificate("clerk"), tmp_path, [key]) == []
    assert secured.audit("tidings", since)[1] == []


def leaks(service: RunningService, clerk: Connection, folder: Path, secrets: list[str]) -> list[str]:
    """Where one of the secrets, or the service's own, can be read: its logs, what it printed, its metrics, its commands."""
    own = (service.directory / "secret").read_text().strip()
    texts = {str(path): path.read_text(errors="replace") for path in logs_of(service)}
    write_properties(folder / "clerk.properties", clerk)
    at = ["--bootstrap-servers", clerk.bootstrap, "--properties", str(folder / "clerk.properties")]
    command = [sys.executable, "-m", "tidings", "books", "--json", *at]
    texts["books --json"] = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    ready = ServiceDirectory.ready(service.directory)
    if ready is not None:
        with urllib.request.urlopen(f"http://{ready.metrics}/metrics", timeout=5) as answer:
            texts["metrics"] = answer.read().decode()
        processes = json.loads((service.directory / "processes.json").read_text())
        for process in [{"pid": service.process.pid}, *processes]:
            texts[f"command line of {process}"] = Path(f"/proc/{process['pid']}/cmdline").read_text()
    assert all(texts[name] for name in texts if name.endswith((".log", "books --json", "metrics")))
    return [f"{secret} in {name}" for name, text in texts.items() for secret in (own, *secrets) if secret in text]


def logs_of(service: RunningService) -> list[Path]:
    folder = service.directory
    found = [path for path in (folder / "logs").rglob("*") if path.is_file()]
    return [
        *found,
        folder.with_suffix(".stdout"),
        folder.with_suffix(".stderr"),
        folder / "books.json",
        folder / "made-with.json",
    ]


# ---- who may do what --------------------------------------------------------------------------------------------------


def make_topics(admin: Connection) -> None:
    specs = [*service_topics(1, 1), *publish_specs(["b1", "b2"], 1, 1), *link_specs([Link("l", "b1", "b2")], 1)]
    ensure_topics(admin, [*specs, *delivery_specs(["notify.desk", "notify.other", "payroll"], 1)])


def writable(connection: Connection) -> set[str]:
    """The Kafka topics that take a record; no other reason against it than a missing right is accepted."""
    errors: dict[str, KafkaError | None] = {}
    producer = connection.producer(**{"enable.idempotence": False})
    for kafka_topic in TOPICS:
        noted = partial(lambda kafka_topic, error, _record: errors.update({kafka_topic: error}), kafka_topic)
        producer.produce(kafka_topic, b"probe", key=b"probe", partition=0, on_delivery=noted)
    assert producer.flush(20) == 0
    assert {error.code() for error in errors.values() if error} <= REFUSED, errors
    return {kafka_topic for kafka_topic in TOPICS if errors[kafka_topic] is None}


def readable(connection: Connection) -> set[str]:
    """The Kafka topics that give their records. Those that may not even be described are not there for who asks."""
    shown = TOPICS & connection.topics().keys()
    consumer = connection.consumer(**{"enable.partition.eof": True})
    consumer.assign([TopicPartition(kafka_topic, 0, OFFSET_BEGINNING) for kafka_topic in shown])
    answers: dict[str, bool] = {}

    def asked() -> bool:
        for message in consumer.consume(100, timeout=0.2):
            error = message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                answers[message.topic()] = True
            elif error.code() in REFUSED:
                answers[message.topic()] = False
        return answers.keys() >= shown

    try:
        wait_for("an answer about every Kafka topic", asked)
    finally:
        consumer.close()
    return {kafka_topic for kafka_topic in shown if answers[kafka_topic]}


def test_nobody_may_do_more_than_their_part(secured: Secured) -> None:
    make_topics(secured.with_password("admin"))
    may = {
        "press": ({"publish.b1"}, set()),
        "desk": (set(), {"notify.desk"}),
        "chief": ({"control"}, {"control", "clock"}),
        "clerk": (set(), {"books"}),
        "judge": (set(), {"decisions"}),
        "auditor": (set(), {name for name in TOPICS if name.startswith(("publish.", "link.", "notify."))} | {"control", "clock"}),
    }
    for name in ROLES:
        connection = secured.with_password(name)
        assert (writable(connection), readable(connection)) == may[name], name


def test_the_service_may_not_write_control_data_nor_what_is_not_its_own(secured: Secured) -> None:
    make_topics(secured.with_password("admin"))
    secured.grant("tidings", Party.SERVICE)
    tidings = secured.with_password("tidings")
    assert TOPICS - writable(tidings) == {"control", "payroll"}
    assert readable(tidings) == {"control", "clock", "books", "offers", *_INPUTS}


def works(act: Callable[[], object]) -> bool:
    try:
        return bool(act())
    except TidingsError:
        return False


def test_each_right_of_a_client_is_needed(secured: Secured) -> None:
    """Without it, something that the client is for does not work."""
    admin = secured.with_password("admin")
    make_topics(admin)
    press, desk, chief, clerk, judge = (secured.with_password(name) for name in ("press", "desk", "chief", "clerk", "judge"))
    fill(admin)

    def reads(group: str | None) -> bool:
        notify(admin)  # the group has read the ones before
        with Subscriber(desk, "notify.desk", group=group) as reader:
            return reader.poll(5) is not None

    def published() -> bool:
        publish(press, Message("t", "k", {"a": 1}))
        return True

    acts: dict[str, tuple[Callable[[], object], ...]] = {
        "press": (published,),
        "desk": (lambda: reads(None), lambda: reads("desk")),
        "chief": (
            lambda: control.apply(chief, [("topic/t", {"kind": "topic", "name": "t"})]),
            lambda: control.read_control(chief).records,
            lambda: control.last_ticks(chief),
        ),
        "clerk": (lambda: read_books(clerk),),
        "judge": (lambda: read_decisions(judge),),
    }
    for name, of_client in acts.items():
        for right in acls(*ROLES[name]):
            wait_for(f"{name} to work", lambda of_client=of_client: all(map(works, of_client)))
            revoke(admin, name, [right])
            wait_for(f"{name} to need {right}", lambda of_client=of_client: not all(map(works, of_client)))
            grant(admin, name, [right])


WOULD = {"forward": 1, "aggregate": 1, "wad": 1, "adock": 1}
DECIDED = WindowDecided("b1", "b2", "t", "s", 0, 1000, "wad", "forward", "weight-below-one", 1, 1, WOULD)


def fill(admin: Connection) -> None:
    """A record wherever a client looks for one."""
    producer = admin.producer()
    for record in (*books_records("s", 0, {}, {"nobody": Books()}), decision_record(DECIDED)):
        producer.produce(record.topic, record.value, record.key, partition=0)
    producer.produce("clock", encode_tick(Tick("gone", 1, brokers=frozenset())), partition=0)
    producer.produce("control", b'{"kind": "topic", "name": "t"}', key=b"topic/t", partition=0)
    assert producer.flush(20) == 0


def notify(admin: Connection) -> None:
    about = {"subscriber": "desk", "subscription": "desk", "topic": "t", "key": "k", "event": "e"}
    counts = {"revision": 1, "reports": 1, "sources": 1, "first_ms": 1, "last_ms": 1}
    said = {"id": uuid4().hex, **about, **counts, "reason": "first", "news": {}, "conflicts": {}}
    producer = admin.producer()
    producer.produce("notify.desk", json.dumps(said), partition=0)
    assert producer.flush(20) == 0


# ---- who are you? -----------------------------------------------------------------------------------------------------


def test_strangers_are_told_that_the_login_was_refused(secured: Secured) -> None:
    authority = secured.authority.certificate
    with pytest.raises(KafkaUnreachable, match="refuses the login") as caught:
        Connection(secured.kafka.bootstrap, with_password(authority, "press", "guessed")).check()
    assert "guessed" not in str(caught.value)


def test_who_has_no_certificate_is_not_let_in(secured: Secured) -> None:
    bare = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured.authority.certificate),
    }
    with pytest.raises(KafkaUnreachable):
        Connection(secured.kafka.certificate_bootstrap, bare).check(3)


def test_a_broker_that_another_authority_vouches_for_is_not_trusted(secured: Secured, tmp_path: Path) -> None:
    other = Authority.make(tmp_path / "other").certificate
    with pytest.raises(KafkaUnreachable, match="certificate"):
        Connection(secured.kafka.bootstrap, with_password(other, "press", PASSWORDS["press"])).check(5)


def test_without_tls_nobody_answers(secured: Secured) -> None:
    with pytest.raises(KafkaUnreachable):
        Connection(secured.kafka.bootstrap).check(3)
