"""Logins and certificates: what of them is secret, and how it is kept out of sight."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clients.connection import Connection
from service.kafka.secured import with_certificate, with_password
from streaming.spark.session import redaction_pattern
from tidings.errors import BadConfig
from tidings.properties import for_librdkafka, hide, parse, secrets_in


def login(password: str) -> dict[str, str]:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    return {"sasl.jaas.config": f'org.example.Module required username="tidings" password="{quoted}";'}


PASSWORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=30)


@given(PASSWORDS)
def test_the_password_in_a_login_is_found_as_it_is_written_and_as_it_is_sent(password: str):
    properties = login(password)
    found = secrets_in(properties)
    assert for_librdkafka(properties)["sasl.password"] == password
    assert {password, properties["sasl.jaas.config"]} <= set(found)
    assert password not in hide(f"the plan says {properties} and {password}", found).replace("(hidden)", "")


@pytest.mark.parametrize(
    ("properties", "secrets"),
    [
        ({}, ()),
        ({"security.protocol": "SSL", "ssl.truststore.location": "ca.pem"}, ()),
        ({"ssl.key.password": "hunter2", "ssl.keystore.password": ""}, ("hunter2",)),
        ({"ssl.keystore.key": "-----BEGIN PRIVATE KEY-----"}, ("-----BEGIN PRIVATE KEY-----",)),
        ({"sasl.oauthbearer.client.secret": "s"}, ("s",)),
    ],
)
def test_what_is_secret(properties: dict[str, str], secrets: tuple[str, ...]):
    assert secrets_in(properties) == secrets


def test_a_login_without_a_password_has_no_part_to_hide():
    assert secrets_in({"sasl.jaas.config": "Module required;"}) == ("Module required;",)


def test_a_secret_that_is_part_of_another_leaves_nothing_of_it():
    assert hide("abcdef", ["abc", "abcdef"]) == "(hidden)"


@example([r"a\Eb", r"\E\E", "x"], r"a\Eb ")
@given(st.lists(PASSWORDS, min_size=1, max_size=3), PASSWORDS)
def test_sparks_pattern_finds_the_secrets_and_nothing_else(secrets: list[str], other: str):
    """Python knows no \\Q…\\E: each such part is put into its words, then the pattern is tried."""
    parts = re.findall(r"\\Q(.*?)\\E|(\||\\\\E)", redaction_pattern(secrets))
    pattern = "".join(re.escape(quoted) if not plain else {"|": "|", r"\\E": r"\\E"}[plain] for quoted, plain in parts)
    for secret in secrets:
        assert re.fullmatch(pattern, secret)
    assert bool(re.fullmatch(pattern, other)) == (other in secrets)


def test_a_connection_shows_no_passwords_when_it_is_printed():
    connection = Connection("kafka:9092", login("hunter2"))
    assert "hunter2" not in f"{connection} {connection!r}"


def test_both_logins_of_the_guide_are_understood():
    from pathlib import Path

    password = for_librdkafka(with_password(Path("ca.pem"), "tidings", "hunter2"))
    assert password == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "tidings",
        "sasl.password": "hunter2",
        "ssl.ca.location": "ca.pem",
    }
    certificate = for_librdkafka(with_certificate(Path("ca.pem"), Path("me.pem")))
    assert certificate == {
        "security.protocol": "SSL",
        "ssl.ca.location": "ca.pem",
        "ssl.certificate.location": "me.pem",
        "ssl.key.location": "me.pem",
    }


@pytest.mark.parametrize("line", ["password", "=hunter2", "sasl.password=a\nsasl.password=hunter2", "acks=hunter2"])
def test_a_wrong_file_is_told_without_its_values(line: str):
    with pytest.raises(BadConfig) as caught:
        parse(line, "client.properties")
    assert "hunter2" not in str(caught.value)
