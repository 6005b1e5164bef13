"""The rights in Kafka that each sort of user needs, and no more.

`docs/security.md` has them as a table, made from here; a live test grants exactly these and sees that all is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from clients.connection import Connection
from tidings import names

_READERS_GROUP = "tidings-reader"
_ASK_S = 30.0


class Party(StrEnum):
    """Those who ask for rights."""

    SERVICE = "service"
    SETUP = "setup"
    """What the service needs beside that while it makes Kafka topics itself."""
    PUBLISHER = "publisher"
    SUBSCRIBER = "subscriber"
    CONTROL = "control"
    BOOKS = "books"
    DECISIONS = "decisions"
    AUDITOR = "auditor"
    """Whoever asks `tidings explain`, or replays the log."""


class Resource(StrEnum):
    """What a right is about."""

    TOPIC = "topic"
    GROUP = "group"


class Operation(StrEnum):
    """Kafka's words. To read and to write include to describe."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"


@dataclass(frozen=True, slots=True)
class Acl:
    """A right to do something with what has this name, or with all whose names begin so."""

    resource: Resource
    name: str
    operation: Operation
    why: str
    prefixed: bool = False


def acls(role: Party, name: str = "") -> tuple[Acl, ...]:
    """The rights of a role. ``name`` is the broker that a publisher publishes at, or the subscriber."""
    match role:
        case Party.SERVICE:
            return tuple(_of_service())
        case Party.SETUP:
            return tuple(Acl(a.resource, a.name, Operation.CREATE, "to make it", a.prefixed) for a in _described(_of_service()))
        case Party.PUBLISHER:
            return (_topic(names.publish_topic(name), Operation.WRITE, "messages"),)
        case Party.SUBSCRIBER:
            return (
                _topic(names.notify_topic(name), Operation.READ, "notifications"),
                Acl(Resource.GROUP, name, Operation.READ, "to read as a group of this name and remember how far"),
                _reads(),
            )
        case Party.CONTROL:
            return (
                _topic(names.CONTROL, Operation.READ, "to list control records"),
                _topic(names.CONTROL, Operation.WRITE, "to change them"),
                _topic(names.CONTROL, Operation.DESCRIBE_CONFIGS, "to see that it is compacted, before writing"),
                _topic(names.CLOCK, Operation.READ, "to see that a change was adopted"),
                _reads(),
            )
        case Party.BOOKS:
            return (_topic(names.BOOKS, Operation.READ, "the books"), _reads())
        case Party.DECISIONS:
            return (_topic(names.DECISIONS, Operation.READ, "the choices"), _reads())
        case Party.AUDITOR:
            return tuple(_of_auditor())


def _of_service() -> Iterator[Acl]:
    settings = "to see that its settings are right"
    for topic in names.SERVICE_TOPICS:
        for operation, why in ((Operation.READ, topic.reads), (Operation.WRITE, topic.writes)):
            if why:
                yield _topic(topic.name, operation, why)
        yield _topic(topic.name, Operation.DESCRIBE_CONFIGS, settings)
    from_others = "what neighbours send that other processes serve"
    for prefix, uses in (
        (names.PUBLISH, {Operation.READ: "messages", Operation.WRITE: "marks"}),
        (names.LINK, {Operation.READ: from_others, Operation.WRITE: "what goes to neighbours, and marks"}),
        (names.NOTIFY, {Operation.WRITE: "notifications"}),
    ):
        yield from (_topic(prefix, operation, why, prefixed=True) for operation, why in uses.items())
        yield _topic(prefix, Operation.DESCRIBE_CONFIGS, settings, prefixed=True)
    yield _reads()


def _of_auditor() -> Iterator[Acl]:
    for name in (names.CONTROL, names.CLOCK):
        yield _topic(name, Operation.READ, "what held when")
    for prefix in (names.PUBLISH, names.LINK, names.NOTIFY):
        yield _topic(prefix, Operation.READ, "what was said", prefixed=True)
    yield _reads()


def _described(rights: Iterable[Acl]) -> list[Acl]:
    return [right for right in rights if right.operation is Operation.DESCRIBE_CONFIGS]


def _topic(name: str, operation: Operation, why: str, *, prefixed: bool = False) -> Acl:
    return Acl(Resource.TOPIC, name, operation, why, prefixed)


def _reads() -> Acl:
    # librdkafka asks who coordinates the group of every consumer, also of those that read without one.
    return Acl(Resource.GROUP, _READERS_GROUP, Operation.DESCRIBE, "the Python clients ask for it before they read")


# ---- in Kafka ---------------------------------------------------------------------------------------------------------


def grant(connection: Connection, user: str, rights: Iterable[Acl]) -> None:
    """Give a user rights. ``connection`` must be that of somebody who may."""
    admin = connection.admin()  # it must outlive its answers
    with connection.plain_errors():
        for answer in admin.create_acls([AclBinding(*_pattern(user, right)) for right in rights]).values():
            answer.result(_ASK_S)


def revoke(connection: Connection, user: str, rights: Iterable[Acl]) -> None:
    """Take rights away."""
    admin = connection.admin()
    with connection.plain_errors():
        for answer in admin.delete_acls([AclBindingFilter(*_pattern(user, right)) for right in rights]).values():
            answer.result(_ASK_S)


_RESOURCES = {Resource.TOPIC: ResourceType.TOPIC, Resource.GROUP: ResourceType.GROUP}
_OPERATIONS = {
    Operation.READ: AclOperation.READ,
    Operation.WRITE: AclOperation.WRITE,
    Operation.CREATE: AclOperation.CREATE,
    Operation.DESCRIBE: AclOperation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS: AclOperation.DESCRIBE_CONFIGS,
}


def _pattern(user: str, right: Acl) -> tuple[object, ...]:
    kind = ResourcePatternType.PREFIXED if right.prefixed else ResourcePatternType.LITERAL
    operation = _OPERATIONS[right.operation]
    return _RESOURCES[right.resource], right.name, kind, f"User:{user}", "*", operation, AclPermissionType.ALLOW


# ---- for people -------------------------------------------------------------------------------------------------------

_SHOWN = (
    (Party.SERVICE, "", "the service"),
    (Party.SETUP, "", "the service, to make its Kafka topics itself"),
    (Party.PUBLISHER, "<broker>", "a publisher at a broker"),
    (Party.SUBSCRIBER, "<subscriber>", "a subscriber"),
    (Party.CONTROL, "", "whoever changes control data"),
    (Party.BOOKS, "", "whoever reads the books"),
    (Party.DECISIONS, "", "whoever follows `tidings decisions`"),
    (Party.AUDITOR, "", "whoever asks `tidings explain`"),
)


def render_table() -> str:
    """All rights as a Markdown table, for ``docs/security.md``."""
    rows = ["| who | on | pattern | operations |", "|---|---|---|---|"]
    for role, name, who in _SHOWN:
        said = who
        for resource, on, prefixed, operations in _grouped(acls(role, name)):
            rows.append(f"| {said} | {resource} `{on}` | {'prefixed' if prefixed else 'literal'} | {operations} |")
            said = ""
    return "\n".join(rows) + "\n"


def _grouped(rights: Iterable[Acl]) -> Iterator[tuple[Resource, str, bool, str]]:
    found: dict[tuple[Resource, str, bool], list[Acl]] = {}
    for right in rights:
        found.setdefault((right.resource, right.name, right.prefixed), []).append(right)
    for (resource, name, prefixed), same in found.items():
        yield resource, name, prefixed, ", ".join(f"{right.operation} ({right.why})" for right in same)
