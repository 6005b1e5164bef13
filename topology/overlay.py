"""The overlay: brokers, and the links between them.

Two readings of the same data. Generators are held to the rules (`check`). A running service takes control records
as they come, in any order and while they change: it uses what makes sense and names the rest as problems (`of_snapshot`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import Any

from tidings.control import Link, Snapshot
from tidings.errors import BadOverlay, DoubleLink, NotConnected, UnknownBroker

_SHOWN_BROKERS = 5
_SHOWN_PARTS = 10


class SelfLink(BadOverlay):
    """A link whose two ends are the same broker."""

    def __init__(self, link: str, broker: str) -> None:
        super().__init__(f"the link {link!r} joins {broker!r} to itself; a link joins two different brokers")


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


def _link_record(link: Link) -> dict[str, Any]:
    record: dict[str, Any] = {"kind": "link", "name": link.name, "a": link.a, "b": link.b}
    if link.cost != 1:
        record["cost"] = link.cost
    if link.forbid:
        record["forbid"] = sorted(link.forbid)
    return record
