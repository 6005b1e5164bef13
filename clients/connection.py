"""How to reach a Kafka cluster, and in what words its clients fail.

Every confluent-kafka client of Tidings is made from a `Connection`, so that all of them log in alike, keep librdkafka's
chatter out of the terminal, and fail with an error that a person can act on.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tidings import properties
from tidings.errors import BadConfig, KafkaUnreachable, TidingsError

_PROBE_S = 2.0

PATIENT = {"fetch.wait.max.ms": 1000}
"""For a consumer that follows a partition for as long as it lives. Nothing comes later by it: Kafka answers at once when there is
something, and is asked once a second when there is nothing."""

# librdkafka would write to standard error whenever a broker is not there yet; what matters comes as an exception too.
_SILENT = logging.getLogger("tidings.kafka.client")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False

_NO_ANSWER = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
_REFUSES_LOGIN = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL})
_NO_RIGHT = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


@dataclass(frozen=True)
class Connection:
    """``properties`` are those of Kafka's Java clients, as `tidings.properties.parse` reads them from a file.

    They hold passwords, so they do not show when a connection is printed.
    """

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def config(self, **extra: Any) -> dict[str, Any]:
        """The settings of a confluent-kafka client; ``extra`` has librdkafka's names and wins."""
        return {
            "bootstrap.servers": self.bootstrap,
            # A broker that restarts is found again within a second, not ten.
            "reconnect.backoff.max.ms": 1000,
            "log_level": 0,
            "logger": _SILENT,
            "error_cb": _ignore,
            **properties.for_librdkafka(self.properties),
            **extra,
        }

    def producer(self, **extra: Any) -> Producer:
        """A producer that loses and repeats nothing, and puts a key where Java's clients put it."""
        promised = {"acks": "all", "enable.idempotence": True, "partitioner": "murmur2_random"}
        with self.plain_errors():
            return Producer(self.config(**promised | extra))

    def consumer(self, **extra: Any) -> Consumer:
        """A consumer that commits nothing unless ``extra`` says so. It need not be in a group, but librdkafka wants a name."""
        modest = {"group.id": "tidings-reader", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        # A partition that is added waits for the question that is on its way: not the usual half second.
        with self.plain_errors():
            return Consumer(self.config(**modest | {"fetch.wait.max.ms": 100} | extra))

    def admin(self) -> AdminClient:
        with self.plain_errors():
            return AdminClient(self.config())

    def check(self, timeout_s: float = 5) -> None:
        """Raise `KafkaUnreachable` unless a broker answers."""
        self._metadata(timeout_s)

    def cluster_id(self) -> str:
        """The name the cluster gave itself: another cluster at the same address has another one."""
        return str(self._metadata(10).cluster_id)

    def topics(self, timeout_s: float = 10) -> dict[str, int]:
        """All Kafka topics with their numbers of partitions. Asking for all creates none, asking for one might."""
        found = self._metadata(timeout_s).topics
        return {name: len(topic.partitions) for name, topic in found.items() if topic.error is None}

    def _metadata(self, timeout_s: float) -> Any:
        complaints: list[KafkaError] = []
        deadline = time.monotonic() + timeout_s
        if not _anyone_listens(self.bootstrap, min(timeout_s, _PROBE_S)):
            raise self.unreachable()
        with self.plain_errors():
            admin = AdminClient(self.config(error_cb=complaints.append))
        while True:
            try:
                # In short turns: a refused login is only reported between them.
                return admin.list_topics(timeout=min(1.0, timeout_s))
            except KafkaException as error:
                admin.poll(0)
                refused = [complaint for complaint in complaints if complaint.code() in _REFUSES_LOGIN]
                if refused or time.monotonic() > deadline:
                    raise self.in_plain_words(refused[0] if refused else error.args[0]) from error

    def unreachable(self) -> KafkaUnreachable:
        """The error for when nobody answers."""
        return KafkaUnreachable(
            f"no Kafka broker answers at {self.bootstrap}; start the service with `tidings up`, "
            "or name another with --bootstrap-servers"
        )

    def in_plain_words(self, error: KafkaError) -> TidingsError:
        """What a person can make of an error of Kafka's."""
        if error.code() in _NO_ANSWER:
            return self.unreachable()
        if error.code() in _REFUSES_LOGIN:
            return KafkaUnreachable(
                f"Kafka at {self.bootstrap} refuses the login: {error.str()}; see the Kafka client properties"
            )
        if error.code() in _NO_RIGHT:
            return TidingsError(
                f"Kafka at {self.bootstrap} does not allow this to who you log in as: {error.str()}; "
                "docs/security.md lists the rights"
            )
        if error.code() == KafkaError._INVALID_ARG:
            named = re.search(r'property:? "([^"]+)"', error.str())
            name = named[1] if named else "a property"
            return BadConfig(name, properties.HIDDEN, f"librdkafka says: {error.str()}", "Kafka client properties")
        return TidingsError(f"Kafka at {self.bootstrap} says: {error.str()}")

    @contextlib.contextmanager
    def plain_errors(self) -> Iterator[None]:
        """Turn Kafka's exceptions into ours."""
        try:
            yield
        except KafkaException as error:
            raise self.in_plain_words(error.args[0]) from error
        except SystemError as error:
            # A producer that may write nowhere fails between two callbacks, where Python cannot raise Kafka's own error.
            if not isinstance(error.__cause__, KafkaException):
                raise
            raise self.in_plain_words(error.__cause__.args[0]) from error


def _ignore(_error: KafkaError) -> None:
    """librdkafka goes on trying after what it reports here; what ends an operation is raised there."""


def _anyone_listens(bootstrap: str, timeout_s: float) -> bool:
    """Whether a connection can be made at all. librdkafka would keep trying for its whole timeout."""
    for server in bootstrap.split(","):
        host, _, port = server.strip().rpartition("://")[2].rpartition(":")
        with contextlib.suppress(OSError, ValueError):
            socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()
            return True
    return False
