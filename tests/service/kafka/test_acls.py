"""The rights that the documentation lists are those that the live test grants."""

from __future__ import annotations

import pytest

from clients.topics import service_topics
from service.kafka.acls import Operation, Party, Resource, acls
from tidings import names
from tidings.control import DEFAULT_BROKER


def test_the_service_has_rights_on_every_kafka_topic_that_it_makes():
    made = {spec.name for spec in service_topics(1, 1)} | {names.publish_topic("b"), names.link_topic("a", "b"), "notify.s"}
    rights = acls(Party.SETUP)
    assert all(any(name == a.name or (a.prefixed and name.startswith(a.name)) for a in rights) for name in made)
    assert {a.operation for a in rights} == {Operation.CREATE}


def test_only_who_changes_control_data_may_write_it():
    writers = {role for role in Party for a in acls(role, "x") if (a.name, a.operation) == (names.CONTROL, Operation.WRITE)}
    assert writers == {Party.CONTROL}


def test_only_the_service_may_write_what_others_trust():
    own = {names.CLOCK, names.BOOKS, names.LATE, names.DEAD_LETTER, names.DECISIONS, names.OFFERS, "notify.", "link."}
    writers = {role for role in Party for a in acls(role, "x") if a.name in own and a.operation is Operation.WRITE}
    assert writers == {Party.SERVICE}


def test_who_follows_decisions_reads_these_alone():
    rights = {(a.name, a.operation) for a in acls(Party.DECISIONS) if a.resource is Resource.TOPIC}
    assert rights == {(names.DECISIONS, Operation.READ)}


def test_what_brokers_offer_is_between_the_service_and_itself():
    users = {(role, a.operation) for role in Party for a in acls(role, "x") if a.name == names.OFFERS}
    of_service = {Operation.READ, Operation.WRITE, Operation.DESCRIBE_CONFIGS}
    assert users == {(Party.SETUP, Operation.CREATE), *((Party.SERVICE, operation) for operation in of_service)}


@pytest.mark.parametrize("role", Party)
def test_no_right_is_listed_twice_and_none_is_about_everything(role: Party):
    rights = [(a.resource, a.name, a.prefixed, a.operation) for a in acls(role, DEFAULT_BROKER)]
    assert len(set(rights)) == len(rights)
    assert all(name and "*" not in name for _, name, _, _ in rights)


def test_a_name_grants_nothing_beyond_itself():
    """`alice` must not reach what belongs to `alice2`: names of users are never prefixes."""
    for role in (Party.PUBLISHER, Party.SUBSCRIBER):
        assert not any(a.prefixed for a in acls(role, "alice"))
    assert {a.name for a in acls(Party.SUBSCRIBER, "alice") if a.resource is Resource.TOPIC} == {"notify.alice"}
