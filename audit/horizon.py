"""How far back a log decides: Kafka deletes old records and compacts the control data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from audit.replay import Log, Replay
from streaming.model.inputs import Arrived, Heard
from streaming.notify.pace import PACES
from tidings.topic import Timing

ALWAYS = -(2**62)

About: TypeAlias = tuple[str, str]
"""Topic and key."""


@dataclass(frozen=True)
class Reach:
    """The time from which the log is whole, and for each key the time from which what is known about it follows from the log.

    What a broker remembers of a key ends two windows after the last thing that was said about it. So a key that was silent for
    that long, with the log whole, has nothing hidden behind it: from there on all is decided. One that is never silent is not.
    """

    since_ms: int | None
    """None: the log goes back to its beginning."""
    notes: tuple[str, ...] = ()
    exact_ids: bool = True
    """False when the control data may have forgotten when a subscription came: ids follow from that."""
    quiet_ms: Mapping[str, int] = field(default_factory=dict)
    default_quiet_ms: int = 0
    arrivals: Mapping[About, tuple[int, ...]] = field(default_factory=dict)

    def quiet(self, topic: str) -> int:
        return self.quiet_ms.get(topic, self.default_quiet_ms)

    def known_ms(self, about: About | None) -> int:
        """The time from which it is known what is decided about a topic and key."""
        if self.since_ms is None:
            return ALWAYS
        if about is None:  # what cannot be read needs no memory to be decided
            return self.since_ms
        quiet_ms, silent_ms = self.quiet(about[0]), self.since_ms
        for at_ms in self.arrivals.get(about, ()):
            if at_ms - silent_ms >= quiet_ms:
                break
            silent_ms = max(silent_ms, at_ms)
        return silent_ms + quiet_ms


def reach_of(log: Log, replay: Replay, timing: Timing, ahead_ms: int) -> Reach:
    """How far back the log decides; ``ahead_ms`` is how much longer than its windows something may be remembered."""
    since: list[int] = []
    notes: list[str] = []
    end_ms = max((tick.append_ms for tick, _ in log.ticks), default=0)
    for partition, first_ms in sorted(log.cuts.items()):
        since.append(end_ms if first_ms is None else first_ms)
        notes.append(f"{partition} has lost its beginning" if first_ms is not None else f"all that was in {partition} is gone")
    compacted = [snapshot.version for snapshot in log.history] != list(range(1, len(log.history) + 1))
    if compacted:
        last = log.history[-1].version
        since.append(min((tick.append_ms for tick, _ in log.ticks if tick.version >= last), default=end_ms))
        notes.append("control was compacted: what held before its last change is not known any more")
    arrivals: dict[About, list[int]] = {}
    if since:
        for happened in replay.inputs:
            if isinstance(happened, Arrived | Heard) and (said := about(happened)) is not None:
                arrivals.setdefault(said, []).append(happened.origin.append_ms)
    return Reach(
        since_ms=max(since, default=None),
        notes=tuple(notes),
        exact_ids=not compacted,
        quiet_ms=_quiet(log, ahead_ms) if since and log.history else {},
        default_quiet_ms=2 * timing.window_ms + ahead_ms,
        arrivals={about: tuple(sorted(times)) for about, times in arrivals.items()},
    )


def _quiet(log: Log, ahead_ms: int) -> dict[str, int]:
    """For each topic, how long a key must be silent before nothing of it is remembered, by the longest window it ever had."""
    held = {tick.version for tick, _ in log.ticks}
    used = [snapshot for snapshot in log.history if snapshot.version in held] or [log.history[-1]]
    paced: dict[str, int] = {}
    for snapshot in used:
        for pace in PACES:
            for _, topic in snapshot.asking[pace.property] if pace.remembers_ms else ():
                paced[topic] = max(pace.remembers_ms, paced.get(topic, 0))
    quiet = {}
    for name in {name for snapshot in used for name in snapshot.declared} | paced.keys():
        windows_ms = [snapshot.topic(name).timing.window_ms for snapshot in used]
        quiet[name] = 2 * max(windows_ms) + ahead_ms + paced.get(name, 0)
    return quiet


def about(happened: object) -> About | None:
    """The topic and key that something is about; None if it is not about one, or cannot be read."""
    match happened:
        case Arrived(message=message):
            return message.topic, message.key
        case Heard(record=record):
            return record.about
    return None
