"""What makes the embedded broker ask who you are: TLS on every port, a login, and rights that must have been granted.

It has two ports for clients: one for a name with a password (SASL_SSL, SCRAM-SHA-512), one for a certificate (mTLS). A name
has the same rights on both. What was allowed or refused, and by which right, is written to ``audit.log``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.kafka.ports import HOST

MECHANISM = "SCRAM-SHA-512"

AUDIT_LOGGING = """\
appender.audit.type = File
appender.audit.name = audit
appender.audit.fileName = audit.log
appender.audit.layout.type = PatternLayout
appender.audit.layout.pattern = %m%n
logger.audit.name = kafka.authorizer.logger
logger.audit.level = DEBUG
logger.audit.additivity = false
logger.audit.appenderRef.audit.ref = audit
"""


@dataclass(frozen=True, slots=True)
class Guard:
    """``keystore`` (key and certificate) and ``truststore`` are PEM files; ``users`` maps names to passwords.

    The name in the broker's own certificate must be among ``super_users``, who may do everything.
    """

    keystore: Path
    truststore: Path
    users: Mapping[str, str]
    super_users: tuple[str, ...]

    def settings(self, password_port: int, certificate_port: int, controller_port: int) -> dict[str, str | int]:
        """The broker's settings, in place of those for a broker that trusts everybody."""
        clients = f"SASL_SSL://{HOST}:{password_port},SSL://{HOST}:{certificate_port}"
        return {
            "listeners": f"{clients},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": clients,
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:SSL",
            "inter.broker.listener.name": "SSL",
            "sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": _jaas(),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.truststore),
            "ssl.client.auth": "required",
            # The name in the certificate alone, as logins with a password have it.
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/,DEFAULT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(f"User:{name}" for name in self.super_users),
            "auto.create.topics.enable": "false",
        }

    def format_arguments(self) -> list[str]:
        """For the tool that formats the storage: the users must be there before the first one can log in."""
        logins = (f"{MECHANISM}=[name={name},password={password}]" for name, password in self.users.items())
        return [part for login in logins for part in ("--add-scram", login)]

    def as_broker(self) -> dict[str, Any]:
        """The settings of a librdkafka client that comes with the broker's own certificate."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.truststore),
            "ssl.certificate.location": str(self.keystore),
            "ssl.key.location": str(self.keystore),
        }


def with_password(authority: Path, name: str, password: str) -> dict[str, str]:
    """The Kafka client properties of somebody who logs in with a password."""
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": _jaas(f' username="{name}" password="{password}"'),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
    }


def with_certificate(authority: Path, keystore: Path) -> dict[str, str]:
    """The Kafka client properties of somebody who comes with a certificate."""
    return {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
    }


def _jaas(options: str = "") -> str:
    return f"org.apache.kafka.common.security.scram.ScramLoginModule required{options};"
