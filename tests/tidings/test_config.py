"""Settings: where each may come from, who wins, and what a wrong one is answered with."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from tidings.config import SETTINGS, Config, client_properties, load, redacted
from tidings.errors import BadConfig
from tidings.properties import for_librdkafka

BAD_CONFIGS = Path(__file__).parent / "bad_configs"

BAD_FILES = {
    "unknown_key.toml": "kafka.prot = 9092 is not allowed; there is no such setting; did you mean kafka.port?",
    "unknown_key_like_no_other.toml": "service.zzz = 1 is not allowed; there is no such setting; "
    "there are dir, tick_ms, metrics_port, brokers, log_level",
    "unknown_section.toml": "kafak = ['port'] is not allowed; there is no such setting; did you mean kafka?",
    "key_in_another_section.toml": "service.buckets = 4 is not allowed; there is no such setting; did you mean spark.buckets?",
    "key_outside_a_section.toml": "window_ms = 1000 is not allowed; there is no such setting; did you mean defaults.window_ms?",
    "section_is_not_a_table.toml": "kafka = 'localhost:9092' is not allowed; it must be a section: [kafka]",
    "secret_in_an_unknown_key.toml": "kafka.sasl_password = '(hidden)' is not allowed; there is no such setting; "
    "there are bootstrap_servers, port, heap_mb, partitions, replication, properties_file",
    "text_for_a_number.toml": "kafka.port = '9092' is not allowed; it must be a whole number from 0 to 65535",
    "fraction_for_a_number.toml": "service.tick_ms = 0.5 is not allowed; it must be a whole number from 10 to 60000",
    "switch_for_a_number.toml": "limits.conflicts = True is not allowed; it must be a whole number from 0 to 1024",
    "number_for_a_text.toml": "spark.driver_memory = 1 is not allowed; it must be a number with k, m, g or t",
    "number_for_a_switch.toml": "spark.ui = 1 is not allowed; it must be true or false",
    "list_for_a_text.toml": "kafka.bootstrap_servers = ['a:9092', 'b:9092'] is not allowed; "
    "it must be host:port, more with commas; or empty",
    "port_out_of_range.toml": "service.metrics_port = 65536 is not allowed; it must be a whole number from 0 to 65535",
    "negative_limit.toml": "limits.fields = -1 is not allowed; it must be a whole number from 1 to 65536",
    "no_buckets.toml": "spark.buckets = 0 is not allowed; it must be a whole number from 1 to 4096",
    "unknown_log_level.toml": "service.log_level = 'loud' is not allowed; it must be debug, info, warning or error",
    "unknown_master.toml": "spark.master = 'local[0]' is not allowed; it must be local[N], spark://host:port, k8s://…, yarn",
    "server_without_port.toml": "kafka.bootstrap_servers = 'kafka' is not allowed; "
    "it must be host:port, more with commas; or empty",
    "memory_without_unit.toml": "spark.driver_memory = '1024' is not allowed; it must be a number with k, m, g or t",
    "empty_directory.toml": "service.dir = '' is not allowed; it must be a path",
    "hold_beyond_remember.toml": "defaults.hold_ms = 5000 is not allowed; it must be at most defaults.remember_ms, which is 4000",
    "hold_beyond_window.toml": "defaults.hold_ms = 61000 is not allowed; it must be at most defaults.window_ms, which is 60000",
    "remember_beyond_window.toml": "defaults.remember_ms = 2000 is not allowed; "
    "it must be at most defaults.window_ms, which is 1000",
    "not_toml.toml": "line 2 = 'port 9092' is not allowed; "
    "it must be TOML: Expected '=' after a key in a key/value pair (at line 2, column 6)",
    "key_twice.toml": "line 3 = 'port = 2' is not allowed; it must be TOML: Cannot overwrite a value (at line 3, column 9)",
    "not_utf8.toml": r"byte 17 = b'\xff' is not allowed; the file must be UTF-8",
}

BAD_PROPERTIES = {
    "line_without_equals.properties": "line 3 = '(hidden)' is not allowed; it must be name=value, or start with #",
    "line_without_name.properties": "line 1 = '(hidden)' is not allowed; before the = must stand the name of a property",
    "name_is_not_a_name.properties": "line 1 = '(hidden)' is not allowed; before the = must stand the name of a property",
    "name_twice.properties": "sasl.mechanism = '(hidden)' is not allowed; line 3 says it a second time",
    "set_by_tidings.properties": "acks = '(hidden)' is not allowed; Tidings sets it itself",
    "servers.properties": "bootstrap.servers = '(hidden)' is not allowed; set kafka.bootstrap_servers instead",
}


def test_every_bad_file_is_in_a_table() -> None:
    assert {path.name for path in BAD_CONFIGS.iterdir()} == BAD_FILES.keys() | BAD_PROPERTIES.keys()


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_names_the_key_the_value_and_what_is_allowed(name: str) -> None:
    path = BAD_CONFIGS / name
    with pytest.raises(BadConfig) as caught:
        load(path, {})
    assert str(caught.value) == f"{path}: {BAD_FILES[name]}"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {"TIDINGS_KAFKA_PROT": "1"},
            "TIDINGS_KAFKA_PROT: kafka.prot = '1' is not allowed; there is no such setting; did you mean",
        ),
        ({"TIDINGS_KAFKA_PORT": "x"}, "TIDINGS_KAFKA_PORT: kafka.port = 'x' is not allowed; it must be a whole number"),
        ({"TIDINGS_KAFKA_PORT": ""}, "TIDINGS_KAFKA_PORT: kafka.port = '' is not allowed"),
        ({"TIDINGS_KAFKA_PORT": "9" * 5000}, "TIDINGS_KAFKA_PORT: kafka.port = '999"),
        ({"TIDINGS_SPARK_UI": "yes"}, "TIDINGS_SPARK_UI: spark.ui = 'yes' is not allowed; it must be true or false"),
        ({"TIDINGS_DEFAULTS_HOLD_MS": "60001"}, "TIDINGS_DEFAULTS_HOLD_MS: defaults.hold_ms = 60001 is not allowed"),
    ],
)
def test_a_bad_variable_is_named(environ: dict[str, str], message: str) -> None:
    with pytest.raises(BadConfig) as caught:
        load(None, environ)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"kafka.prot": 1}, "command line: kafka.prot = 1 is not allowed; there is no such setting; did you mean kafka.port?"),
        ({"kafka.port": -1}, "command line: kafka.port = -1 is not allowed; it must be a whole number from 0 to 65535"),
        ({"port": 1}, "command line: port = 1 is not allowed; there is no such setting; did you mean kafka.port?"),
    ],
)
def test_a_bad_option_is_named(overrides: dict[str, object], message: str) -> None:
    with pytest.raises(BadConfig) as caught:
        load(None, {}, overrides)
    assert str(caught.value) == message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"--config = .* it must be a file that can be read: No such file or directory"):
        load(tmp_path / "tidings.toml", {})
    with pytest.raises(BadConfig, match="it must be a file that can be read: Is a directory"):
        load(tmp_path, {})


def test_without_anything_the_defaults_stand() -> None:
    assert load(None, {}) == Config()


def test_every_default_is_allowed() -> None:
    for setting in SETTINGS.values():
        assert setting.check(setting.default, "the declaration") == setting.default


def test_the_command_line_wins_over_the_environment_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "tidings.toml"
    file.write_text("[kafka]\nport = 1\nheap_mb = 256\npartitions = 4\n", encoding="utf-8")
    config = load(file, {"TIDINGS_KAFKA_PORT": "2", "TIDINGS_KAFKA_HEAP_MB": "300"}, {"kafka.port": 3, "kafka.replication": None})
    assert (config.kafka.port, config.kafka.heap_mb, config.kafka.partitions, config.kafka.replication) == (3, 300, 4, 1)


def test_a_wrong_value_is_told_even_if_overruled() -> None:
    with pytest.raises(BadConfig, match=r"kafka.port"):
        load(BAD_CONFIGS / "text_for_a_number.toml", {}, {"kafka.port": 9092})


@pytest.mark.parametrize(
    ("environ", "name", "value"),
    [
        ({"TIDINGS_SPARK_UI": "True"}, "spark.ui", True),
        ({"TIDINGS_SPARK_UI": "false"}, "spark.ui", False),
        ({"TIDINGS_SPARK_MASTER": "spark://a:7077"}, "spark.master", "spark://a:7077"),
        ({"TIDINGS_SPARK_MASTER": "local[*]"}, "spark.master", "local[*]"),
        ({"TIDINGS_KAFKA_BOOTSTRAP_SERVERS": "a.b:1,[::1]:9092"}, "kafka.bootstrap_servers", "a.b:1,[::1]:9092"),
        ({"TIDINGS_KAFKA_BOOTSTRAP_SERVERS": ""}, "kafka.bootstrap_servers", ""),
        ({"TIDINGS_LIMITS_AHEAD_MS": "0"}, "limits.ahead_ms", 0),
    ],
)
def test_variables_are_read_as_the_type_of_their_setting(environ: dict[str, str], name: str, value: object) -> None:
    section, key = name.split(".")
    assert getattr(getattr(load(None, environ), section), key) == value


def test_variables_of_others_are_left_alone() -> None:
    others = {
        "TIDINGS_CACHE": "/tmp",
        "TIDINGS_SERVICE_HOST": "10.0.0.1",
        "TIDINGS_SERVICE_PORT_METRICS": "9464",
        "TIDINGS_KAFKA_PORT_9092_TCP_ADDR": "10.0.0.2",
    }
    assert load(None, others) == Config()


def test_a_path_is_an_override_too(tmp_path: Path) -> None:
    assert load(None, {}, {"service.dir": tmp_path}).service.dir == str(tmp_path)


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ({"hold_ms": 60_000}, "held for the whole window, remembered as long"),
        ({"hold_ms": 4000, "remember_ms": 4000}, "equal is allowed"),
        ({"window_ms": 1000, "remember_ms": 1000}, "remembered for the whole window"),
        ({"window_ms": 1}, "a short window, nothing held"),
    ],
)
def test_times_in_order(times: dict[str, int], why: str) -> None:
    assert load(None, {}, {f"defaults.{key}": value for key, value in times.items()}), why


def test_a_config_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Config().kafka.port = 1  # type: ignore[misc]


def properties_of(path: Path) -> dict[str, str]:
    return client_properties(load(None, {"TIDINGS_KAFKA_PROPERTIES_FILE": str(path)}))


@pytest.mark.parametrize("name", BAD_PROPERTIES)
def test_a_bad_properties_file_is_told_without_its_secrets(name: str) -> None:
    path = BAD_CONFIGS / name
    with pytest.raises(BadConfig) as caught:
        properties_of(path)
    assert str(caught.value) == f"{path}: {BAD_PROPERTIES[name]}"


def test_a_properties_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"kafka.properties_file = .* No such file"):
        properties_of(tmp_path / "client.properties")


def test_no_properties_file_no_properties() -> None:
    assert client_properties(Config()) == {}


LOGIN = r"""
# how to log in
! also a comment
security.protocol = SASL_SSL
  sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
    username="alice" \
    password="p=a\\"ss;";
ssl.truststore.type=PEM
ssl.truststore.location=/etc/certificates/\u0063a.pem
ssl.endpoint.identification.algorithm=
"""


@pytest.fixture
def login(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "client.properties"
    path.write_text(LOGIN, encoding="utf-8")
    return properties_of(path)


def test_properties_are_read_as_java_reads_them(login: dict[str, str]) -> None:
    assert login == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        r'username="alice" password="p=a\"ss;";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/etc/certificates/ca.pem",
        "ssl.endpoint.identification.algorithm": "",
    }


def test_librdkafka_gets_its_own_words(login: dict[str, str]) -> None:
    assert for_librdkafka(login) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": 'p=a"ss;',
        "ssl.ca.location": "/etc/certificates/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }


@pytest.mark.parametrize(
    ("java", "librdkafka"),
    [
        ({}, {}),
        ({"client.id": "x"}, {"client.id": "x"}),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "me.pem", "ssl.key.password": "x"},
            {"ssl.certificate.location": "me.pem", "ssl.key.location": "me.pem", "ssl.key.password": "x"},
        ),
        ({"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "me.p12"}, {"ssl.keystore.location": "me.p12"}),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "-----BEGIN"}, {"ssl.ca.pem": "-----BEGIN"}),
        ({"sasl.jaas.config": "M required username=a password='b c';"}, {"sasl.username": "a", "sasl.password": "b c"}),
    ],
)
def test_each_word_of_librdkafka(java: dict[str, str], librdkafka: dict[str, str]) -> None:
    assert for_librdkafka(java) == librdkafka


@pytest.mark.parametrize(
    ("java", "message"),
    [
        ({"ssl.truststore.location": "trust.jks"}, "ssl.truststore.type = 'JKS' is not allowed; it must be PEM"),
        ({"ssl.truststore.type": "PKCS12", "ssl.truststore.location": "t.p12"}, "ssl.truststore.type = 'PKCS12' is not allowed"),
        ({"sasl.jaas.config": "Krb5LoginModule required useKeyTab=true;"}, "sasl.jaas.config = '(hidden)' is not allowed"),
    ],
)
def test_what_librdkafka_cannot_do_is_told(java: dict[str, str], message: str) -> None:
    with pytest.raises(BadConfig, match=r"^client\.properties: ") as caught:
        for_librdkafka(java, "client.properties")
    assert message in str(caught.value)


def test_secrets_are_hidden_for_the_log(login: dict[str, str]) -> None:
    shown = redacted(login | {"ssl.key.password": "hunter2", "sasl.password": "hunter2", "ssl.keystore.key": "-----BEGIN"})
    assert {name for name, value in shown.items() if value == "(hidden)"} == {
        "sasl.jaas.config",
        "ssl.key.password",
        "sasl.password",
        "ssl.keystore.key",
    }
    assert shown["security.protocol"] == "SASL_SSL"
