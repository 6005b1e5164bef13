"""Whether a link carries something: the profile of its far end says so; or, where nearly all matches, nobody is asked.

A topic whose filter is `adaptive` starts by asking profiles. A window in which nearly everything offered to the links of a
broker was wanted makes that broker send without asking in the next one. It still asks for one in `SAMPLE`, scattered, so it
knows what asking would have saved, and it goes back to asking when the surplus is `SURPLUS` of what had to be sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streaming.broker.desk import Desk
from streaming.broker.state import Filter, FilterMode
from streaming.model.outputs import FilterDecided
from tidings.values import Value
from topology.plan import Place
from topology.profile import Profile

SAMPLE = 8
ENTER = 0.98
"""The share that must match before nobody is asked."""
LEAST = 32
"""This many must have been offered before a share means anything."""
SURPLUS = 0.02
"""Of the 5 % that sending without asking may cost; the rest is for what happens between two samples."""
_SCATTER = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio: its multiples are spread evenly, and in step with no regular traffic."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that may cross the links of a broker."""

    broker: str
    topic: str
    key: str
    facts: Mapping[str, Value]
    now_ms: int


def wanted(desk: Desk, place: Place, offered: Candidate, links: Mapping[str, Profile]) -> dict[str, bool]:
    """For each link, whether it carries this."""
    if not place.adaptive:
        return {neighbour: profile.matches(offered.key, offered.facts) for neighbour, profile in links.items()}
    counts = _window(desk, offered)
    return {neighbour: _decide(desk, place, counts, offered, neighbour, profile) for neighbour, profile in links.items()}


def _decide(desk: Desk, place: Place, counts: Filter, offered: Candidate, neighbour: str, profile: Profile) -> bool:
    counts.offered += 1
    asks = counts.mode is FilterMode.PROFILE
    weight = 1 if asks else SAMPLE
    matches = True
    if asks or _is_sampled(counts.offered):
        matches = profile.matches(offered.key, offered.facts)
        counts.asked += weight
        counts.matched += weight * matches
        counts.rendezvous += weight * (matches or neighbour == place.toward)
    sent = matches or not asks
    counts.sent += sent
    if not asks and not matches and counts.surplus > SURPLUS * counts.needed:
        _end_window(desk, counts, offered, FilterMode.PROFILE, "too much was sent that nobody beyond wants")
    return sent


def _is_sampled(number: int) -> bool:
    """One in `SAMPLE`. Every eighth would always meet the same link, or the same sort of message, where these take turns."""
    return number * _SCATTER % 2**64 < 2**64 // SAMPLE


def _window(desk: Desk, offered: Candidate) -> Filter:
    """The counts of the current window; the end of a window is where the mode may change."""
    window_ms = desk.topic(offered.topic).timing.window_ms
    start_ms = offered.now_ms - offered.now_ms % window_ms
    at = (offered.broker, offered.topic)
    counts = desk.state.filters.get(at)
    if counts is None:
        counts = desk.state.filters[at] = Filter(start_ms)
    elif start_ms > counts.start_ms:
        if counts.asked:
            _choose(desk, counts, offered)
        counts.start_ms = start_ms
    return counts


def _choose(desk: Desk, counts: Filter, offered: Candidate) -> None:
    rate = counts.matched / counts.asked
    said = f"{rate:.1%} of {counts.asked} offered were wanted"
    if rate >= ENTER and counts.asked >= LEAST and counts.surplus + SAMPLE <= SURPLUS * counts.needed:
        _end_window(desk, counts, offered, FilterMode.EVENT, f"{said}: asking saves little")
    else:
        _end_window(desk, counts, offered, FilterMode.PROFILE, f"{said}: asking pays")


def _end_window(desk: Desk, counts: Filter, offered: Candidate, mode: FilterMode, reason: str) -> None:
    """Say what was done, what the fixed ways would have sent, and what comes next."""
    desk.outputs.append(
        FilterDecided(
            sender=offered.broker,
            topic=offered.topic,
            start_ms=counts.start_ms,
            end_ms=offered.now_ms,
            choice=mode,
            reason=reason,
            offered=counts.offered,
            sent=counts.sent,
            would={"event": counts.offered, "profile": counts.matched, "rendezvous": counts.rendezvous},
        )
    )
    counts.close(mode)
