"""The settings of a service: a TOML file, environment variables and the command line, over defaults.

Each setting is declared once, as a field of its section. The checks, the name of its environment variable
(``TIDINGS_<SECTION>_<KEY>``) and its row in ``docs/configuration.md`` all come from that declaration.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from tidings import properties
from tidings.errors import BadConfig
from tidings.properties import redacted as redacted

_YEAR_MS = 366 * 24 * 3600 * 1000
_SERVER = r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}"
_SERVERS = f"({_SERVER}(,{_SERVER})*)?"
_MASTER = r"local(\[(\*|[1-9][0-9]*)(,[1-9][0-9]*)?\])?|spark://\S+|k8s://\S+|yarn"
_BROKER = "[A-Za-z0-9_-]{1,80}"
_LEVELS = "debug|info|warning|error"


def _whole(default: int, least: int, most: int, meaning: str) -> int:
    """A whole number between two bounds, both allowed."""
    allowed = f"a whole number from {least} to {most}"
    return field(default=default, metadata=_about(meaning, allowed, lambda value: least <= value <= most))


def _text(default: str, pattern: str, allowed: str, meaning: str) -> str:
    """A text that matches a pattern as a whole; ``allowed`` says the pattern in words."""
    fits = re.compile(pattern).fullmatch
    return field(default=default, metadata=_about(meaning, allowed, lambda value: fits(value) is not None))


def _switch(default: bool, meaning: str) -> bool:
    return field(default=default, metadata=_about(meaning, "`true` or `false`", lambda _: True))


def _about(meaning: str, allowed: str, accepts: Callable[[Any], bool]) -> dict[str, Any]:
    return {"meaning": meaning, "allowed": allowed, "accepts": accepts}


@dataclass(frozen=True)
class Kafka:
    """Which Kafka, and the Kafka topics the service creates in it."""

    bootstrap_servers: str = _text(
        "", _SERVERS, "`host:port`, more with commas; or empty", "The Kafka cluster; empty starts an embedded broker."
    )
    port: int = _whole(0, 0, 65535, "Port of the embedded broker; 0 takes a free one.")
    heap_mb: int = _whole(512, 128, 65536, "Java heap of the embedded broker.")
    partitions: int = _whole(2, 1, 1024, "Partitions of each publish topic the service creates.")
    replication: int = _whole(1, 1, 16, "Replicas of each Kafka topic the service creates.")
    properties_file: str = _text("", ".*", "a path, or empty", "Kafka client properties: see [Security](#security).")


@dataclass(frozen=True)
class Spark:
    """Where and how the query runs."""

    master: str = _text("local[2]", _MASTER, "`local[N]`, `spark://host:port`, `k8s://…`, `yarn`", "The Spark master.")
    buckets: int = _whole(8, 1, 4096, "Groups that events are hashed into; `tidings state migrate` changes them.")
    shuffle_partitions: int = _whole(2, 1, 4096, "Tasks that share the buckets; `tidings state migrate` changes them.")
    trigger_ms: int = _whole(0, 0, 3_600_000, "Time between batches; 0 starts one when the last is done.")
    max_offsets_per_trigger: int = _whole(200_000, 0, 2**53, "The most records in a batch; 0 is no limit.")
    driver_memory: str = _text("1g", "[1-9][0-9]*[kmgt]", "a number with `k`, `m`, `g` or `t`", "Heap of the driver.")
    stall_s: int = _whole(60, 0, 86_400, "Workers that do nothing while no batch ends for so long are replaced; 0: never.")
    ui: bool = _switch(False, "Whether Spark's own web page runs.")


@dataclass(frozen=True)
class Defaults:
    """For topics that do not say."""

    window_ms: int = _whole(60_000, 1, _YEAR_MS, "W: how long after its first message a key names the same event.")
    hold_ms: int = _whole(0, 0, _YEAR_MS, "T_m: how long news waits to be told with more. At most `remember_ms`.")
    remember_ms: int = _whole(
        0, 0, _YEAR_MS, "T_r: how long after its last news an event is remembered; 0: the window. At most `window_ms`."
    )


@dataclass(frozen=True)
class Limits:
    """What strangers can make the service keep."""

    message_bytes: int = _whole(1024**2, 1, 16 * 1024**2, "Size of a message; larger ones are dead-lettered.")
    fields: int = _whole(256, 1, 65536, "Fields in a message.")
    key_bytes: int = _whole(1024, 1, 65536, "Length of a topic or key, as UTF-8.")
    event_fields: int = _whole(512, 1, 65536, "Fields in an event, over all its messages.")
    union_items: int = _whole(64, 1, 65536, "Items in a `union` field.")
    conflicts: int = _whole(8, 0, 1024, "Other values kept for a field that reports disagree on.")
    sources: int = _whole(1024, 0, 1_000_000, "Sources told apart in an event.")
    open_events: int = _whole(1_000_000, 1, 2**31 - 1, "Events kept open at once; beyond it the oldest close early.")
    ahead_ms: int = _whole(300_000, 0, _YEAR_MS, "How far `published_ms` may lie after the append time.")
    patience_ms: int = _whole(30_000, 0, _YEAR_MS, "How long what has ended waits for reports on their way from other brokers.")


@dataclass(frozen=True)
class ServiceSettings:
    """The process itself."""

    dir: str = _text(".tidings", ".+", "a path", "Where everything the service writes is kept.")
    tick_ms: int = _whole(
        1000, 10, 60_000, "Least time between ticks where the last one has not been read; else they may be 0.2 s apart."
    )
    metrics_port: int = _whole(9464, 0, 65535, "Loopback port of `/metrics`, `/livez`, `/readyz`; 0 takes a free one.")
    brokers: str = _text(
        "",
        f"({_BROKER}(,{_BROKER})*)?",
        "names with commas; or empty",
        "The brokers of the overlay that this process serves; empty: all. Fixed for the life of a directory.",
    )
    log_level: str = _text("info", _LEVELS, "`debug`, `info`, `warning` or `error`", "The least severe line logged.")


@dataclass(frozen=True)
class Config:
    """All settings, checked."""

    kafka: Kafka = Kafka()
    spark: Spark = Spark()
    defaults: Defaults = Defaults()
    limits: Limits = Limits()
    service: ServiceSettings = ServiceSettings()


@dataclass(frozen=True)
class SettingInfo:
    """What is declared about one setting."""

    section: str
    key: str
    default: Any
    meaning: str
    allowed: str
    accepts: Callable[[Any], bool]

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        return f"TIDINGS_{self.section}_{self.key}".upper()

    def check(self, value: object, where: str) -> object:
        """``value``, if the setting may have it."""
        # The type must fit exactly: to Python, but to nobody else, `true` is a number.
        if type(value) is not type(self.default) or not self.accepts(value):
            raise BadConfig(self.name, value, f"it must be {self.allowed.replace('`', '')}", where)
        return value

    def read(self, given: object, where: str) -> object:
        """As ``check``, for values that may come as text."""
        if not isinstance(given, str | Path) or isinstance(self.default, str):
            return self.check(str(given) if isinstance(given, Path) else given, where)
        text = str(given)
        if isinstance(self.default, bool):
            return self.check({"true": True, "false": False}.get(text.lower(), text), where)
        return self.check(int(text) if re.fullmatch("[+-]?[0-9]{1,20}", text) else text, where)


def _declared() -> Iterator[SettingInfo]:
    for section in fields(Config):
        of_section: Any = section.default
        for key in fields(of_section):
            yield SettingInfo(section.name, key.name, key.default, **key.metadata)


SETTINGS: Mapping[str, SettingInfo] = MappingProxyType({setting.name: setting for setting in _declared()})
_SECTIONS = tuple(section.name for section in fields(Config))

# Kubernetes puts the address of every service into the environment; one that is named `tidings` looks like ours.
_OF_KUBERNETES = re.compile(r"_SERVICE_(HOST|PORT)(_\w+)?|_PORT_[0-9]+_(TCP|UDP)\w*")

_NOTHING: Mapping[str, object] = MappingProxyType({})
_Said: TypeAlias = tuple[object, str]
"""A value, and where it was said."""


def load(path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object] = _NOTHING) -> Config:
    """The settings of the file; what the environment says wins over them, and ``overrides`` over both.

    ``overrides`` are those of the command line, by ``section.key``; None is one not given. What is overruled is checked
    all the same: a wrong file stays wrong when the command line hides it. Raises ``BadConfig``.
    """
    said = _from_file(path) if path is not None else {}
    said |= _from_environment(environ)
    said |= _from_command_line(overrides)
    _check_times(said)
    sections: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    for name, (value, _) in said.items():
        section, key = name.split(".")
        sections[section][key] = value
    classes: dict[str, Any] = {section.name: type(section.default) for section in fields(Config)}
    return Config(**{section: classes[section](**values) for section, values in sections.items()})


def _from_file(path: Path) -> dict[str, _Said]:
    where = str(path)
    said: dict[str, _Said] = {}
    text = _content(path, "--config")
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+)", str(error))
        number = int(at[1]) if at else text.count("\n") + 1  # it says "at end of document" there
        raise BadConfig(f"line {number}", text.split("\n")[number - 1], f"it must be TOML: {error}", where) from error
    for section, table in tables.items():
        if section not in _SECTIONS:
            raise _unknown(section, table, where)
        if not isinstance(table, dict):
            raise BadConfig(section, table, f"it must be a section: [{section}]", where)
        for key, value in table.items():
            setting = _find(f"{section}.{key}", value, where)
            said[setting.name] = (setting.check(value, where), where)
    return said


def _content(path: Path, named_by: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        wrong = error.object[error.start : error.end]
        raise BadConfig(f"byte {error.start}", wrong, "the file must be UTF-8", str(path)) from error
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        reason = getattr(error, "strerror", None) or str(error)
        raise BadConfig(named_by, str(path), f"it must be a file that can be read: {reason}", str(path)) from error


def _from_environment(environ: Mapping[str, str]) -> dict[str, _Said]:
    variables = {setting.variable: setting for setting in SETTINGS.values()}
    ours = tuple(f"TIDINGS_{section}_".upper() for section in _SECTIONS)
    said: dict[str, _Said] = {}
    for variable in sorted(environ):
        if variable in variables:
            setting = variables[variable]
            said[setting.name] = (setting.read(environ[variable], variable), variable)
        elif variable.startswith(ours) and not _OF_KUBERNETES.search(variable):
            section, _, key = variable.removeprefix("TIDINGS_").lower().partition("_")
            raise _unknown(f"{section}.{key}", environ[variable], variable)
    return said


def _from_command_line(overrides: Mapping[str, object]) -> dict[str, _Said]:
    where = "command line"
    given = {name: value for name, value in overrides.items() if value is not None}
    return {name: (_find(name, value, where).read(value, where), where) for name, value in given.items()}


def _find(name: str, value: object, where: str) -> SettingInfo:
    if name not in SETTINGS:
        raise _unknown(name, value, where)
    return SETTINGS[name]


def _unknown(name: str, value: object, where: str) -> BadConfig:
    """The error for a name that is no setting, with the one that was probably meant."""
    section, _, key = name.rpartition(".")
    options = [known.key for known in SETTINGS.values() if known.section == section] or list(_SECTIONS)
    # A right key in a wrong section is more likely than a misspelt one.
    near = [known.name for known in SETTINGS.values() if known.key == key]
    near += [f"{section}.{option}".lstrip(".") for option in difflib.get_close_matches(key, options, n=1)]
    meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(options)}"
    shown = properties.HIDDEN if properties.is_secret(name) else list(value) if isinstance(value, dict) else value
    return BadConfig(name, shown, f"there is no such setting; {meant}", where)


def _check_times(said: Mapping[str, _Said]) -> None:
    """T_m <= T_r <= W, as in Agele: what is held is still remembered, and nothing is remembered beyond its event."""

    def ms(name: str) -> Any:
        return said[name][0] if name in said else SETTINGS[name].default

    window, hold, remember = "defaults.window_ms", "defaults.hold_ms", "defaults.remember_ms"
    for low, high in ((remember, window), (hold, remember if ms(remember) else window)):
        if ms(low) > ms(high):
            # The defaults keep the order with 0 as the lower ones, so whatever is too high was said by somebody.
            raise BadConfig(low, ms(low), f"it must be at most {high}, which is {ms(high)}", said[low][1])


def render_table() -> str:
    """All settings as a Markdown table, for ``docs/configuration.md``."""
    rows = ["| setting | default | environment variable | meaning | allowed |", "|---|---|---|---|---|"]
    for each in SETTINGS.values():
        default = json.dumps(each.default)  # JSON writes these types as TOML does
        rows.append(f"| `{each.name}` | `{default}` | `{each.variable}` | {each.meaning} | {each.allowed} |")
    return "\n".join(rows) + "\n"


def client_properties(config: Config) -> dict[str, str]:
    """What ``kafka.properties_file`` says, in the words of Kafka's Java clients; empty without a file."""
    if not config.kafka.properties_file:
        return {}
    path = Path(config.kafka.properties_file).expanduser()
    return properties.parse(_content(path, "kafka.properties_file"), str(path))
