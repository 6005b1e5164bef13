"""How Kafka is reached, and what is said when it is not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from clients.connection import Connection
from tidings.errors import BadConfig, KafkaUnreachable


class TestConnection:
    def test_a_kafka_that_answers(self, connection: Connection) -> None:
        connection.check()
        assert connection.cluster_id() == Connection(connection.bootstrap).cluster_id()

    @pytest.mark.parametrize("address", ["127.0.0.1:1", "no-such-host.invalid:9092", "127.0.0.1:1,[::1]:1", "rubbish", ""])
    def test_nobody_there_is_one_line_at_once(self, address: str) -> None:
        started = time.monotonic()
        with pytest.raises(KafkaUnreachable) as caught:
            Connection(address).check()
        assert time.monotonic() - started < 5
        assert str(caught.value).startswith(f"no Kafka broker answers at {address}; ")
        assert "\n" not in str(caught.value)

    def test_one_of_several_servers_is_enough(self, connection: Connection) -> None:
        Connection(f"127.0.0.1:1,{connection.bootstrap}").check()

    def test_a_refused_login_is_told_from_a_kafka_that_is_gone(self, connection: Connection) -> None:
        jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="hush";'
        said = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
        with pytest.raises(KafkaUnreachable, match="refuses the login") as caught:
            Connection(connection.bootstrap, said).check()
        assert "hush" not in str(caught.value)

    def test_properties_are_put_into_librdkafkas_words(self) -> None:
        jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="hush";'
        said = {"sasl.jaas.config": jaas, "ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem", "client.id": "x"}
        config = Connection("host:1", said).config(**{"group.id": "g"})
        expected = {
            "sasl.username": "me",
            "sasl.password": "hush",
            "ssl.ca.location": "ca.pem",
            "client.id": "x",
            "group.id": "g",
        }
        assert config.items() >= expected.items()
        assert config["bootstrap.servers"] == "host:1"

    @pytest.mark.parametrize("make", [Connection.producer, Connection.consumer, Connection.admin, Connection.check])
    def test_a_property_nobody_knows_is_named(self, connection: Connection, make: Callable[[Connection], object]) -> None:
        with pytest.raises(BadConfig, match=r"no\.such"):
            make(Connection(connection.bootstrap, {"no.such": "1"}))

    def test_nothing_is_written_to_the_terminal(self, capfd: pytest.CaptureFixture[str]) -> None:
        producer = Connection("127.0.0.1:1").producer()
        producer.produce("nowhere", json.dumps({}).encode())
        producer.flush(0.5)
        producer.purge()
        producer.flush(1)
        assert capfd.readouterr() == ("", "")
