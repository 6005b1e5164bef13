"""`tidings up`: run the service until it is told to stop."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from cli import show
from cli.options import grouped

if TYPE_CHECKING:
    from service.profile.profiling import FlameGraph
    from tidings.config import Config

_LOOK_S = 0.25
"""How often to look whether all is well."""


@dataclass(frozen=True)
class SettingOptions:
    """The settings that a command line may overrule, and the file of all settings."""

    dir: Annotated[Path | None, typer.Option(help="Where everything the service writes is kept.", show_default=".tidings")] = None
    config: Annotated[Path | None, typer.Option(help="A TOML file with settings.")] = None
    bootstrap_servers: Annotated[
        str | None, typer.Option(help="An existing Kafka; without it a broker is started.", show_default=False)
    ] = None
    master: Annotated[str | None, typer.Option(help="The Spark master.", show_default="local[2]")] = None
    metrics_port: Annotated[int | None, typer.Option(help="Loopback port of /metrics.", show_default="9464")] = None
    brokers: Annotated[str | None, typer.Option(help="The brokers this process serves, with commas.", show_default="all")] = None
    port: Annotated[int | None, typer.Option(help="Port of the embedded Kafka.", show_default="a free one")] = None

    def load(self) -> Config:
        """All settings: of the command line, the environment and the file."""
        from tidings.config import load

        overrides = {
            "service.dir": None if self.dir is None else str(self.dir),
            "kafka.bootstrap_servers": self.bootstrap_servers,
            "spark.master": self.master,
            "service.metrics_port": self.metrics_port,
            "kafka.port": self.port,
            "service.brokers": self.brokers,
        }
        return load(self.config, os.environ, {name: value for name, value in overrides.items() if value is not None})


@dataclass(frozen=True)
class ProfileOptions:
    """Whether a profile of the service is asked for."""

    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="When ready, sample Java and Python, and write a flame graph (HTML).", show_default=False
        ),
    ] = None
    profile_seconds: Annotated[int, typer.Option(min=1, max=86_400, help="How long --profile samples.")] = 60

    def flame_graph(self) -> FlameGraph | None:
        """The page that is asked for; raises `CannotRun` if it cannot be made."""
        from service.profile.profiling import FlameGraph

        if self.profile is None:
            return None
        wanted = FlameGraph(self.profile, self.profile_seconds)
        wanted.check(show.remark)
        return wanted


@grouped
def up(settings: SettingOptions, profile: ProfileOptions) -> None:
    """Run the service until SIGTERM or Ctrl-C.

    Prints `ready bootstrap=HOST:PORT` when messages flow.

    Example: tidings up --dir /var/lib/tidings --config tidings.toml
    """
    config = settings.load()
    # Imported after the settings are read: whoever has one wrong should not wait for Spark.
    from service.profile.profiling import profiled
    from service.up import Service

    flame_graph = profile.flame_graph()
    service = Service(config, show.remark)
    with _Asked() as asked:
        try:
            started = service.start()
            asked.only_note()
            show.remark(f"metrics at http://{started.metrics_address}/metrics; Ctrl-C stops")
            print(f"ready bootstrap={started.bootstrap}", flush=True)
            with profiled(flame_graph, started.java, started.directory.path / "profile", show.remark):
                while not asked.to_stop.wait(_LOOK_S):
                    started.check()
        except _StopAsked:
            pass  # asked while starting
        finally:
            asked.only_note()
            show.remark("stopping")
            service.stop()


class _StopAsked(BaseException):
    """SIGTERM or Ctrl-C came while the service was starting."""


class _Asked:
    """Turns SIGTERM and Ctrl-C into a request: at once while starting, noted afterwards. A second request changes nothing."""

    def __init__(self) -> None:
        self.to_stop = threading.Event()
        self._interrupts = True

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def only_note(self) -> None:
        self._interrupts = False

    def _ask(self, *_: object) -> None:
        self.to_stop.set()
        if self._interrupts:
            self._interrupts = False
            raise _StopAsked
