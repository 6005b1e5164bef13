"""How client commands find the service: the options they share, and the connection these lead to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from tidings.errors import KafkaUnreachable

if TYPE_CHECKING:
    from clients.connection import Connection

_PANEL = "Where the service is"

_Servers: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        help="Its Kafka, HOST:PORT. Without it, the service that runs in --dir is asked.",
        envvar="TIDINGS_KAFKA_BOOTSTRAP_SERVERS",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
_Directory: TypeAlias = Annotated[
    Path,
    typer.Option("--dir", help="The directory of `tidings up`.", envvar="TIDINGS_SERVICE_DIR", rich_help_panel=_PANEL),
]
_Properties: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--properties",
        help="Kafka client properties, for a Kafka that asks who you are.",
        envvar="TIDINGS_KAFKA_PROPERTIES_FILE",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for a machine to read.")]

DEFAULT_DIRECTORY = Path(".tidings")


@dataclass(frozen=True)
class ServiceOptions:
    """Where the service is."""

    bootstrap_servers: _Servers = None
    dir: _Directory = DEFAULT_DIRECTORY
    properties: _Properties = None

    def connect(self) -> Connection:
        """A connection to its Kafka, which answers."""
        return connect(self.bootstrap_servers, self.dir, self.properties)


def connect(servers: str | None, directory: Path, properties: Path | None) -> Connection:
    """A connection to a Kafka that answers."""
    from clients.connection import Connection
    from tidings.config import Config, Kafka, client_properties

    bootstrap = servers or _located(directory)
    said = client_properties(Config(kafka=Kafka(properties_file=str(properties or ""))))
    connection = Connection(bootstrap, said)
    connection.check()
    return connection


def _located(directory: Path) -> str:
    from service.directory.directory import ServiceDirectory

    bootstrap = ServiceDirectory.locate(directory)
    if bootstrap is None:
        raise KafkaUnreachable(
            f"no service is ready in {directory}; start one with `tidings up`, name its directory with --dir, "
            "or a Kafka with --bootstrap-servers"
        )
    return bootstrap
