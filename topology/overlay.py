"""The overlay: brokers, and the links between them.

Two readings of the same data. Files and generators are held to the rules (`check`). A running service takes control records
as they come, in any order and while they change: it uses what makes sense and names the rest as problems (`of_snapshot`).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeAlias

import networkx as nx

from tidings.control import Link, Record, Snapshot, read_record
from tidings.errors import BadControl, BadOverlay, DoubleLink, NotConnected, UnknownBroker
from tidings.topic import Timing

LONGEST_NAME: Final = 80
"""The most characters that the name of a broker may have."""

_SHOWN_BROKERS = 5
_SHOWN_PARTS = 10
_GRAPH_SUFFIXES = (".gml", ".graphml")
# Letters that Unicode does not take apart into a plain letter and a mark. Apostrophes go without leaving a gap.
_PLAIN = str.maketrans(
    {"ß": "ss", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ı": "i"}
    | dict.fromkeys("'’‘")
)

_Placed: TypeAlias = tuple[str, Any]
"""A value that should be a control record, and where it stands."""


class SelfLink(BadOverlay):
    """A link whose two ends are the same broker."""

    def __init__(self, link: str, broker: str) -> None:
        super().__init__(f"the link {link!r} joins {broker!r} to itself; a link joins two different brokers")


class UnreadableOverlay(BadOverlay):
    """A file or a record that does not say what a broker or a link is; ``where`` is its place."""

    def __init__(self, where: str, detail: str) -> None:
        super().__init__(f"{where}: {detail}")
        self.where = where
        self.detail = detail


class ProblemKind(StrEnum):
    """What is wrong with the overlay of a running service."""

    UNKNOWN_BROKER = "unknown-broker"
    """A link names a broker that is not in the overlay; the link is left out."""
    DOUBLE_LINK = "double-link"
    """Two links join the same pair of brokers; the second is left out."""
    CUT = "cut"
    """The links leave the overlay in parts."""
    UNLINKED = "unlinked"
    """There are several brokers and no link at all: each tells its own subscribers only."""
    FORBIDDEN = "forbidden"
    """Links forbid a topic so that some who subscribe to it cannot be reached."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that the service works around; ``text`` says what, for a person who can put it right."""

    kind: ProblemKind
    text: str


@dataclass(frozen=True)
class Overlay:
    """Brokers and the links between them, both in the order of their names.

    It holds what it is given: `check` says whether that makes sense. What is computed from it leaves out links without two
    brokers of the overlay at their ends, and all but the first link of a pair.
    """

    brokers: tuple[str, ...]
    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "brokers", tuple(sorted(set(self.brokers))))
        object.__setattr__(self, "links", tuple(sorted(self.links, key=_by_name)))

    def neighbours(self, broker: str) -> Mapping[str, Link]:
        """The brokers next to one, in the order of their names, and the link to each."""
        try:
            return self._adjacent[broker]
        except KeyError:
            raise UnknownBroker(broker, "the request") from None

    def for_topic(self, topic: str) -> Overlay:
        """The same brokers with the links that may carry a topic."""
        if not any(topic in link.forbid for link in self.links):
            return self
        return Overlay(self.brokers, tuple(link for link in self.links if topic not in link.forbid))

    @cached_property
    def parts(self) -> tuple[frozenset[str], ...]:
        """The brokers that reach each other: the largest part first, equally large ones by name."""
        found: list[frozenset[str]] = []
        seen: set[str] = set()
        for start in self.brokers:
            if start not in seen:
                found.append(self._reached_from(start))
                seen |= found[-1]
        # A stable sort: parts were found in the order of their first names.
        return tuple(sorted(found, key=len, reverse=True))

    @property
    def is_connected(self) -> bool:
        return len(self.parts) <= 1

    def _reached_from(self, start: str) -> frozenset[str]:
        seen, waiting = {start}, [start]
        while waiting:
            new = [broker for broker in self._adjacent[waiting.pop()] if broker not in seen]
            seen.update(new)
            waiting.extend(new)
        return frozenset(seen)

    @cached_property
    def _adjacent(self) -> dict[str, dict[str, Link]]:
        found: dict[str, dict[str, Link]] = {broker: {} for broker in self.brokers}
        for link in self.links:
            if link.a in found and link.b in found and link.a != link.b:
                found[link.a].setdefault(link.b, link)
                found[link.b].setdefault(link.a, link)
        return {broker: dict(sorted(beside.items())) for broker, beside in found.items()}


# ---- the rules --------------------------------------------------------------------------------------------------------


def check(overlay: Overlay) -> None:
    """Raise the first of: `UnknownBroker`, `SelfLink`, `DoubleLink`, `NotConnected`. Within a kind, links go by name."""
    for _, error in chain(_strangers(overlay), _loops(overlay), _doubles(overlay)):
        raise error
    if not overlay.is_connected:
        raise NotConnected(overlay.parts)


def of_snapshot(snapshot: Snapshot) -> tuple[Overlay, tuple[Problem, ...]]:
    """The overlay a service can use, and what in the control data it cannot."""
    overlay = Overlay(snapshot.brokers, snapshot.links)
    problems: list[Problem] = []
    strangers = list(_strangers(overlay))
    problems += [Problem(ProblemKind.UNKNOWN_BROKER, f"{error}; the link is left out") for _, error in strangers]
    overlay = _without(overlay, [link for link, _ in strangers])
    doubles = list(_doubles(overlay))
    problems += [Problem(ProblemKind.DOUBLE_LINK, f"{error}; until then, {error.links[0]!r} is used") for _, error in doubles]
    overlay = _without(overlay, [link for link, _ in doubles])
    if not overlay.is_connected:
        problems.append(_cut(overlay) if snapshot.links else _unlinked(overlay))
    return overlay, tuple(problems)


def forbidden(overlay: Overlay, topic: str, subscribers: frozenset[str], publishers: frozenset[str] | None) -> Problem | None:
    """Whether links that forbid a topic part somebody who subscribes to it from somebody who may publish on it.

    No publishers named means that there are some at every broker. Brokers that the overlay does not join at all are another
    problem, and are not named twice.
    """
    parts = overlay.for_topic(topic).parts
    publishing = frozenset(overlay.brokers) if publishers is None else publishers
    whole_of = {broker: whole for whole in overlay.parts for broker in whole}
    publish_in = {whole: len(whole & publishing) for whole in overlay.parts}
    torn: set[frozenset[str]] = set()
    away: set[str] = set()
    for part in parts:
        whole = whole_of[next(iter(part))]
        if (here := part & subscribers) and len(part & publishing) < publish_in[whole]:
            torn.add(whole)
            away |= here
    if not away:
        return None
    into = [part for part in parts if whole_of[next(iter(part))] in torn]
    who = _some(sorted(away), _SHOWN_BROKERS, ", ", "brokers")
    text = (
        f"the topic {topic!r} is forbidden on links and falls into {len(into)} parts: {_named(into)} "
        f"(who subscribes at {who} is not told what is published in another part)"
    )
    return Problem(ProblemKind.FORBIDDEN, text)


def _strangers(overlay: Overlay) -> Iterator[tuple[Link, UnknownBroker]]:
    known = set(overlay.brokers)
    for link in overlay.links:
        for end in (link.a, link.b):
            if end not in known:
                yield link, UnknownBroker(end, f"the link {link.name!r}")


def _loops(overlay: Overlay) -> Iterator[tuple[Link, SelfLink]]:
    for link in overlay.links:
        if link.a == link.b:
            yield link, SelfLink(link.name, link.a)


def _doubles(overlay: Overlay) -> Iterator[tuple[Link, DoubleLink]]:
    """The links whose pair has a link already, by name."""
    first: dict[tuple[str, str], Link] = {}
    for link in overlay.links:
        a, b = sorted((link.a, link.b))
        if (a, b) in first:
            yield link, DoubleLink(first[a, b].name, link.name, a, b)
        first.setdefault((a, b), link)


def _without(overlay: Overlay, links: Iterable[Link]) -> Overlay:
    gone = set(links)
    return Overlay(overlay.brokers, tuple(link for link in overlay.links if link not in gone)) if gone else overlay


def _cut(overlay: Overlay) -> Problem:
    return Problem(ProblemKind.CUT, f"the overlay falls into {len(overlay.parts)} parts: {_named(overlay.parts)}")


def _unlinked(overlay: Overlay) -> Problem:
    text = f"there are {len(overlay.brokers)} brokers and no links: each stands alone until links are declared"
    return Problem(ProblemKind.UNLINKED, text)


def _named(parts: Iterable[frozenset[str]]) -> str:
    # Thousands of names in a line of the log would help nobody.
    return _some([_some(sorted(part), _SHOWN_BROKERS, ", ", "brokers") for part in parts], _SHOWN_PARTS, "; ", "parts")


def _some(names: list[str], shown: int, between: str, what: str) -> str:
    more = [f"and {len(names) - shown} more {what}"] if len(names) > shown else []
    return between.join(names[:shown] + more)


def _by_name(link: Link) -> tuple[str, str, str]:
    return link.name, link.a, link.b


# ---- control records --------------------------------------------------------------------------------------------------


def to_records(overlay: Overlay) -> list[dict[str, Any]]:
    """The control records that declare an overlay, brokers first. What is as by default is not said."""
    return [{"kind": "broker", "name": broker} for broker in overlay.brokers] + [_link_record(link) for link in overlay.links]


def from_records(records: Iterable[Record]) -> Overlay:
    """The overlay that control records declare; records of other kinds are passed over.

    As on the control topic, a later record replaces one of the same kind and name, and without any broker there is `b1`.
    Raises `UnreadableOverlay`, with the record's number, for what is no control record. Does not `check`.
    """
    return _declared((f"record {number}", record) for number, record in enumerate(records, 1))


def _link_record(link: Link) -> dict[str, Any]:
    record: dict[str, Any] = {"kind": "link", "name": link.name, "a": link.a, "b": link.b}
    if link.cost != 1:
        record["cost"] = link.cost
    if link.forbid:
        record["forbid"] = sorted(link.forbid)
    return record


def _declared(values: Iterable[_Placed]) -> Overlay:
    kept: dict[str, Record] = {}
    for where, value in values:
        kind, name = _kind_and_name(where, value)
        key = f"{kind}/{name}"
        if kind not in ("broker", "link"):
            continue
        if value.get("delete") is True:
            kept.pop(key, None)
            continue
        try:
            kept[key] = read_record(key, json.dumps(value).encode(), Timing())
        except (BadControl, TypeError, ValueError) as error:
            raise UnreadableOverlay(where, str(error)) from None
    snapshot = Snapshot(records=kept)
    return Overlay(snapshot.brokers, snapshot.links)


def _kind_and_name(where: str, value: object) -> tuple[str, str]:
    if not isinstance(value, Mapping):
        raise UnreadableOverlay(where, 'a control record must be an object, like {"kind": "broker", "name": "b1"}')
    kind, name = value.get("kind"), value.get("name")
    if not isinstance(kind, str) or not isinstance(name, str) or not kind or not name:
        raise UnreadableOverlay(where, "a control record needs a 'kind' and a 'name', both strings that are not empty")
    return kind, name


# ---- files ------------------------------------------------------------------------------------------------------------


def from_file(path: Path) -> Overlay:
    """The overlay in a file, checked: control records as JSON lines or in an array, or a graph (.gml, .graphml).

    In a graph, nodes go by their label or name (see `broker_names`), and a link's cost is the edge's `cost`, or else its
    `weight`, or else 1. Raises `UnreadableOverlay` with file and line or record, and what `check` raises.
    """
    try:
        is_graph = path.suffix.lower() in _GRAPH_SUFFIXES
        overlay = _declared(_graph_values(path) if is_graph else _json_values(path.read_text(encoding="utf-8"), str(path)))
    except OSError as error:
        raise UnreadableOverlay(str(path), f"the file cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UnreadableOverlay(str(path), f"the file must be UTF-8; byte {error.start} is not") from error
    check(overlay)
    return overlay


def _json_values(text: str, path: str) -> Iterator[_Placed]:
    """The values in a text, each with the line it begins on or its number in the array."""
    decoder = json.JSONDecoder()
    at, line = _skip_space(text, 0), 1
    try:
        if text[at : at + 1] == "[":
            yield from ((f"{path}, record {number}", value) for number, value in enumerate(json.loads(text), 1))
            return
        line += text.count("\n", 0, at)
        while at < len(text):
            value, end = decoder.raw_decode(text, at)
            yield f"{path}:{line}", value
            end = _skip_space(text, end)
            line += text.count("\n", at, end)
            at = end
    except json.JSONDecodeError as error:
        raise UnreadableOverlay(f"{path}:{error.lineno}", f"not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise UnreadableOverlay(f"{path}:{line}", f"not JSON: {error}") from None


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _graph_values(path: Path) -> Iterator[_Placed]:
    """A graph as control records. Directed edges there and back at the same cost are one link."""
    graph = _read_graph(path)
    nodes = list(graph.nodes(data=True))
    names = broker_names(str(data.get("label") or data.get("name") or node) for node, data in nodes)
    name_of = dict(zip((node for node, _ in nodes), names, strict=True))
    yield from ((str(path), {"kind": "broker", "name": name}) for name in names)
    edges = [(name_of[u], name_of[v], data.get("cost", data.get("weight", 1))) for u, v, data in graph.edges(data=True)]
    if graph.is_directed():
        there = {(a, b, str(cost)) for a, b, cost in edges}
        edges = [(a, b, cost) for a, b, cost in edges if a <= b or (b, a, str(cost)) not in there]
    ends = [(*sorted((a, b)), cost) for a, b, cost in edges]
    for name, (a, b, cost) in zip(distinct(f"{a}-{b}" for a, b, _ in ends), ends, strict=True):
        yield str(path), {"kind": "link", "name": name, "a": a, "b": b, "cost": cost}


def _read_graph(path: Path) -> nx.Graph[Any]:
    try:
        # Labels need not be unique in a file, so the nodes keep their numbers here.
        return nx.read_gml(path, label="id") if path.suffix.lower() == ".gml" else nx.read_graphml(path)
    except (OSError, UnicodeDecodeError):
        raise
    except Exception as error:
        # networkx has no common error for a file that makes no sense to it.
        raise UnreadableOverlay(str(path), f"the graph cannot be read: {error}") from error


# ---- names ------------------------------------------------------------------------------------------------------------


def broker_names(labels: Iterable[str]) -> tuple[str, ...]:
    """Legal names for brokers, as readable as their labels, all different; a label without letters becomes a number.

    >>> broker_names(["New York", "Łódź", "New York", "ra's"])
    ('New-York', 'Lodz', 'New-York-2', 'ras')
    """
    plain = [_plain(label) for label in labels]
    width = len(str(len(plain)))
    return distinct(name or f"b{number:0{width}}" for number, name in enumerate(plain, 1))


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """The names, with a number behind each that was there before."""
    found: dict[str, None] = {}
    last: dict[str, int] = {}
    for name in names:
        new = name
        while new in found:
            last[name] = last.get(name, 1) + 1
            end = f"-{last[name]}"
            new = name[: LONGEST_NAME - len(end)] + end
        found[new] = None
    return tuple(found)


def _plain(label: str) -> str:
    # Marks come off their letters, and what is then still foreign to Kafka becomes a dash.
    letters = unicodedata.normalize("NFKD", label.translate(_PLAIN))
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.sub(r"[^A-Za-z0-9_-]+", "-", bare).strip("-")[:LONGEST_NAME]
