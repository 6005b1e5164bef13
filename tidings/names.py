"""The Kafka topics that carry what, for which broker.

Names are built and matched here and nowhere else (a test looks); nothing that a publisher wrote becomes part of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

CONTROL: Final = "control"
"""Topics, subscriptions, advertisements, brokers and links. Record key: `<kind>/<name>`."""
CLOCK: Final = "clock"
"""Ticks. Without a record key."""
BOOKS: Final = "books"
"""The totals of each broker and bucket. Record key: `<service>/<broker>/<bucket>`."""
LATE: Final = "late"
"""What came too late, as it came, with the reason in headers. Record key: that of the record."""
DEAD_LETTER: Final = "dead-letter"
"""What could not be read or taken, as it came, with the reason in headers. Record key: that of the record."""
DECISIONS: Final = "decisions"
"""What an adaptive filter chose, or a decider for a link and a window, and what others would have sent. Record key:
`<broker>/<topic>` or `<from>/<to>`."""
OFFERS: Final = "offers"
"""What brokers offer to the windows beyond their links, and how far they are: from one pipeline to the other. Record key:
`<service>/<from>/<to>/<topic>`."""

PULSE: Final = "pulse"
"""That services live, and when each of their buckets next wants the time. Record key: `<service>` or `<service>/<bucket>`."""


@dataclass(frozen=True, slots=True)
class ServiceTopic:
    """A Kafka topic that every service has, whatever its overlay: what the service reads and writes there, in words, and how it
    is kept. It is made, put right and granted by this."""

    name: str
    reads: str = ""
    writes: str = ""
    compacted: bool = False
    passing: bool = False
    """Whether only the last minutes of it are of any use: it is kept for an hour."""
    put_aside: bool = False
    """Whether it takes publications as they came: then it is as wide as theirs, and a record may be larger."""


SERVICE_TOPICS: Final = (
    ServiceTopic(CONTROL, reads="control data", compacted=True),
    ServiceTopic(CLOCK, reads="ticks", writes="ticks"),
    ServiceTopic(PULSE, reads="when somebody wants the time", writes="the same, and signs of life", passing=True),
    ServiceTopic(BOOKS, reads="for the metrics", writes="the books", compacted=True),
    ServiceTopic(DECISIONS, writes="what was chosen for windows and by adaptive filters"),
    ServiceTopic(OFFERS, reads="what brokers offer to their links' windows", writes="the same"),
    ServiceTopic(LATE, writes="what came too late", put_aside=True),
    ServiceTopic(DEAD_LETTER, writes="what cannot be read", put_aside=True),
)
"""All of them: a new one is a name above and an entry here."""

LARGEST_RECORD_BYTES: Final = 16 * 1024 * 1024
"""The largest record a publisher may send, as Kafka stores it."""
LARGEST_WITH_HEADERS_BYTES: Final = LARGEST_RECORD_BYTES + 1024 * 1024
"""The same with what is said of it: why it was put aside, or where it entered."""

PUBLISH: Final = "publish."
LINK: Final = "link."
NOTIFY: Final = "notify."
"""How the names begin where there is a Kafka topic for each broker, link or subscriber."""


@dataclass(frozen=True, slots=True)
class TopicFamily:
    """Kafka topics that control records ask for, one for each broker, link or subscriber: how their names begin, and how they are
    made and put right."""

    prefix: str
    wide: bool = False
    """Whether they have as many partitions as the settings say; else one, and so one order."""
    largest_bytes: int | None = None
    """The largest record that they take; None for what Kafka takes by default."""


PUBLICATIONS: Final = TopicFamily(PUBLISH, wide=True, largest_bytes=LARGEST_RECORD_BYTES)
LINKS: Final = TopicFamily(LINK, largest_bytes=LARGEST_WITH_HEADERS_BYTES)
"""One partition: a link carries little, and every partition costs a mark with each tick."""
DELIVERIES: Final = TopicFamily(NOTIFY)
"""A subscription may name another Kafka topic, and many may share one. One partition: a subscriber then reads all events in one
order."""

FAMILIES: Final = (PUBLICATIONS, LINKS, DELIVERIES)


@dataclass(frozen=True, slots=True)
class AskedTopic:
    """A Kafka topic that a control record asks for."""

    name: str
    family: TopicFamily


_LEGAL = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_OURS = frozenset(topic.name for topic in SERVICE_TOPICS)
_ANY_LINK = re.compile(rf"\b{re.escape(LINK)}[\w-]+\.[\w-]+")


def publish_topic(broker: str) -> str:
    """What publishers at a broker send, JSON or Avro, and marks. Record key: `<topic>/<key>`, from our publisher."""
    return f"{PUBLISH}{broker}"


def link_topic(sender: str, to: str) -> str:
    """What one broker sends to a neighbour, in Avro, and marks. Record key: `<topic>/<key>`."""
    return f"{LINK}{sender}.{to}"


def notify_topic(subscriber: str) -> str:
    """The Kafka topic that a subscriber is told on, unless the subscription names another."""
    return f"{NOTIFY}{subscriber}"


def is_legal(name: str) -> bool:
    """Whether Kafka takes a name, with room for what may be put before it."""
    return _LEGAL.fullmatch(name) is not None


def can_deliver_to(kafka_topic: str) -> bool:
    """Whether subscribers may be told on a Kafka topic: not on those that carry something else, nor on Kafka's own."""
    return is_legal(kafka_topic) and kafka_topic not in _OURS and not kafka_topic.startswith((PUBLISH, LINK, "__"))


def names_a_link(text: str) -> bool:
    """Whether a text, such as an error of Spark's, names the Kafka topic of a link."""
    return _ANY_LINK.search(text) is not None


@lru_cache(maxsize=4096)
def broker_of(kafka_topic: str) -> str:
    """The broker that reads a Kafka topic: its own publishers' or a link to it.

    >>> broker_of("publish.b1"), broker_of("link.b2.b1")
    ('b1', 'b1')
    """
    if not kafka_topic.startswith((PUBLISH, LINK)):
        raise ValueError(f"{kafka_topic!r} is no input of a broker")
    return kafka_topic.rpartition(".")[2]


@lru_cache(maxsize=4096)
def sender_of(kafka_topic: str) -> str | None:
    """The neighbour that writes to a Kafka topic; None for one that publishers write to.

    >>> sender_of("link.b2.b1"), sender_of("publish.b1")
    ('b2', None)
    """
    return kafka_topic.split(".")[1] if kafka_topic.startswith(LINK) else None


def input_pattern(brokers: Iterable[str] | None = None, *, links: bool = True) -> str:
    """A Java regular expression for the Kafka topics a process reads; without names, those of every broker.

    ``links`` leaves out what one broker sends to another.

    Spark looks for it anywhere in a name: without the anchors, `notify.clocks` would be read, and `publish.b12` for broker b1.
    """
    own = "[^.]+" if brokers is None else "|".join(re.escape(name) for name in sorted(brokers))
    of_links = rf"|{re.escape(LINK)}[^.]+\.({own})" if links else ""
    return rf"^(?:{CLOCK}|{re.escape(PUBLISH)}({own}){of_links})$"


def partition_name(kafka_topic: str, partition: int) -> str:
    """How a partition is named in ticks."""
    return f"{kafka_topic}-{partition}"


def record_key(topic: str, key: str) -> bytes:
    """The Kafka record key of all that concerns one event: it stays in one partition, so its order is kept."""
    return f"{topic}/{key}".encode()
