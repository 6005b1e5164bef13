"""Kafka client properties: read from a file as Java has it, hidden for the log, and put into librdkafka's words.

The file is the one Kafka's own tools take (``--command-config``). Spark uses it as it stands. librdkafka, below
confluent-kafka, refuses some of Java's words, so its clients need them translated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from tidings.errors import BadConfig

HIDDEN = "(hidden)"
_SECRET = re.compile(r"password|secret|jaas|token|credential|private|keystore\.key|key\.pem", re.IGNORECASE)

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

# fmt: off
OWN = frozenset({
    "bootstrap.servers", "group.id", "acks", "enable.idempotence", "transactional.id", "isolation.level",
    "enable.auto.commit", "auto.offset.reset", "interceptor.classes",
    "key.serializer", "value.serializer", "key.deserializer", "value.deserializer",
})
# fmt: on
"""What Tidings sets itself: a file that says otherwise would break a promise, or Spark."""

_JAAS = re.compile(r"""\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")

# A store of type PEM: librdkafka's words for its parts, in a file and in the property itself.
_STORES = {"ssl.truststore": ("ssl.ca.location",), "ssl.keystore": ("ssl.certificate.location", "ssl.key.location")}
_INLINE = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}


def is_secret(name: str) -> bool:
    """Whether the value of a property or setting with this name must stay out of logs and messages."""
    return _SECRET.search(name) is not None


def redacted(properties: Mapping[str, str]) -> dict[str, str]:
    """The same properties, for the log: passwords, keys and login configurations hidden."""
    return {name: HIDDEN if is_secret(name) else value for name, value in properties.items()}


def secrets_in(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The texts that must be seen nowhere: secret values as a whole, and the password within a login.

    >>> secrets_in({"sasl.mechanism": "PLAIN", "sasl.jaas.config": "M required username=a password='b c';"})
    ("M required username=a password='b c';", 'b c')
    """
    found = dict.fromkeys(value for name, value in properties.items() if value and is_secret(name))
    for match in _JAAS.finditer(properties.get("sasl.jaas.config", "")):
        if match[1] == "password":
            # As it stands there, and as it is sent: they differ where a character is escaped.
            written = next(group for group in match.groups()[1:] if group is not None)
            found |= dict.fromkeys(text for text in (written, _unquoted(*match.groups()[1:])) if text)
    return tuple(found)


def hide(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets; the longest go first, since one may be part of another.

    >>> hide("it is b c, I said", ["b c"])
    'it is (hidden), I said'
    """
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def parse(text: str, where: str) -> dict[str, str]:
    """``name=value`` lines, with Java's comments, continued lines and escapes; ``where`` is named by the errors.

    >>> parse("# how to log in\\nsasl.mechanism = PLAIN\\n", "client.properties")
    {'sasl.mechanism': 'PLAIN'}
    """
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        # No error shows the value: whatever stands in a wrong line may be a password.
        name, equals, value = line.partition("=")
        name = name.rstrip()
        if not equals:
            raise BadConfig(f"line {number}", HIDDEN, "it must be name=value, or start with #", where)
        if not _NAME.fullmatch(name):
            raise BadConfig(f"line {number}", HIDDEN, "before the = must stand the name of a property", where)
        if name in properties:
            raise BadConfig(name, HIDDEN, f"line {number} says it a second time", where)
        if name in OWN:
            raise BadConfig(name, HIDDEN, _whose(name), where)
        properties[name] = _ESCAPE.sub(_unescaped, value.lstrip())
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines but for comments and blanks, each joined to the next if it ends in a backslash; with the first one's number."""
    start, joined = 0, ""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.lstrip()
        if not joined and (not line or line[0] in "#!"):
            continue
        start = start or number
        backslashes = len(line) - len(line.rstrip("\\"))
        joined += line[:-1] if backslashes % 2 else line
        if not backslashes % 2:
            yield start, joined
            start, joined = 0, ""
    if joined:
        yield start, joined


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _CONTROL.get(escaped, escaped)


def _whose(name: str) -> str:
    return "set kafka.bootstrap_servers instead" if name == "bootstrap.servers" else "Tidings sets it itself"


def for_librdkafka(properties: Mapping[str, str], where: str = "kafka.properties_file") -> dict[str, str]:
    """The same settings in the words of librdkafka. Raises ``BadConfig`` for what it cannot do: Java's own key stores.

    >>> for_librdkafka({"ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem"})
    {'ssl.ca.location': 'ca.pem'}
    """
    out = {_INLINE.get(name, name): value for name, value in properties.items()}
    jaas = out.pop("sasl.jaas.config", None)
    if jaas is not None:
        out |= _login(jaas, where)
    if out.get("ssl.endpoint.identification.algorithm") == "":  # Java's way to say: do not check the host name
        out["ssl.endpoint.identification.algorithm"] = "none"
    for store, names in _STORES.items():
        kind = out.pop(f"{store}.type", "JKS").upper()
        location = out.get(f"{store}.location")
        if location is None or (kind, store) == ("PKCS12", "ssl.keystore"):
            continue
        if kind != "PEM":
            raise BadConfig(f"{store}.type", kind, "it must be PEM: the Python clients cannot read Java's stores", where)
        del out[f"{store}.location"]
        out |= dict.fromkeys(names, location)
    return out


def _login(jaas: str, where: str) -> dict[str, str]:
    found = {match[1]: _unquoted(*match.groups()[1:]) for match in _JAAS.finditer(jaas)}
    if found.keys() != {"username", "password"}:
        allowed = "it must hold username and password (PLAIN, SCRAM): the Python clients know no other login modules"
        raise BadConfig("sasl.jaas.config", HIDDEN, allowed, where)
    return {"sasl.username": found["username"], "sasl.password": found["password"]}


def _unquoted(double: str | None, single: str | None, bare: str | None) -> str:
    if bare is not None:
        return bare
    quoted = double if double is not None else single or ""
    return re.sub(r"\\(.)", r"\1", quoted)
