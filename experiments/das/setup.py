"""The set-up of the experiments on DAS (Bittner and Hinze, section 4), and what is measured in it.

Each broker has one publisher and one client whose profiles ask for one value of the only attribute. An event matches if its
value is subscribed; each value is subscribed at one broker, its home, by as many profiles as the covering says. Nothing is
gathered, as in DAS: every event travels by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from random import Random
from time import process_time_ns
from typing import Any, TypeVar

from streaming.model.inputs import Arrived, Input
from streaming.model.outputs import Send
from streaming.world.process import ProcessOutput
from streaming.world.simulator import Delay, Simulator
from tidings.control import Snapshot
from tidings.message import Message
from tidings.predicate import Compare, In, Op
from tidings.topic import Filtering
from topology.plan import Plan
from topology.profile import EVERYTHING, Profile

T = TypeVar("T")

PAPER = "DAS (Bittner and Hinze)"
STRATEGIES = (Filtering.EVENT, Filtering.PROFILE, Filtering.RENDEZVOUS)
EVENT, PROFILE, RENDEZVOUS = STRATEGIES

LINE = (1, 2, 3)
"""Four brokers as a linear bus. The n-th entry is the broker that the one after the n-th is linked to."""
TREE = (1, 2, 2, 2, 1, 1, 3, 3)
"""Nine brokers, for figure 5, which the text does not draw. What it says fits this one: Broker 2 is the busiest from five brokers
on, three brokers are inner ones, and the others hang on them unevenly."""

ATTRIBUTE = "value"

_APART_MS, _HOP_MS = 100, 1
_LOWEST, _UNWANTED = 100_000, 500_000  # all values have six digits, so that size says nothing about matching


# ---- the set-up -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DasSetup:
    """The brokers and the profiles. ``covering`` is how many profiles ask for the same value, all at the same broker (σ)."""

    parents: tuple[int, ...] = LINE
    profiles: int = 800
    covering: int = 1
    rendezvous: tuple[int, ...] = (2,)
    """The broker of each event type."""

    def __post_init__(self) -> None:
        if self.profiles % self.covering or self.values < len(self.brokers) * len(self.types):
            raise ValueError(f"every broker needs a value of every type, and every value {self.covering} profiles: {self}")

    @property
    def brokers(self) -> list[str]:
        return [_broker(number) for number in range(1, len(self.parents) + 2)]

    @property
    def types(self) -> list[str]:
        return [f"type{number}" for number in range(1, len(self.rendezvous) + 1)]

    @property
    def values(self) -> int:
        return self.profiles // self.covering

    def home(self, value: int) -> tuple[str, str]:
        """The broker and the type of the n-th value: dealt to the brokers in turn, and so to the types."""
        brokers, types = self.brokers, self.types
        return brokers[value % len(brokers)], types[value // len(brokers) % len(types)]


def _broker(number: int) -> str:
    return f"b{number}"


@lru_cache(maxsize=256)
def plan_of(setup: DasSetup, filtering: Filtering) -> Plan:
    """The plan, with all that follows from it found already, so that it does not count as filtering."""
    records: list[dict[str, Any]] = [{"kind": "broker", "name": name} for name in setup.brokers]
    for number, parent in enumerate(setup.parents, 2):
        a, b = _broker(parent), _broker(number)
        records.append({"kind": "link", "name": f"{a}-{b}", "a": a, "b": b})
    for name, rendezvous in zip(setup.types, setup.rendezvous, strict=True):
        declared = {"kind": "topic", "name": name, "gather": False, "filter": str(filtering)}
        records.append(declared | ({"rendezvous": _broker(rendezvous)} if filtering is RENDEZVOUS else {}))
    for value, copy in product(range(setup.values), range(setup.covering)):
        broker, topic = setup.home(value)
        name, where = f"p{value:06d}-{copy}", f"{ATTRIBUTE} = {_LOWEST + value}"
        at = {"subscriber": broker, "broker": broker, "topic": topic}
        records.append({"kind": "subscription", "name": name, "where": where, **at})
    named = {f"{record['kind']}/{record['name']}": record for record in records}
    plan = Plan(Snapshot(1, named, since=dict.fromkeys(named, 1)))
    for broker, topic in product(setup.brokers, setup.types):
        plan.place(broker, topic)
    return plan


@dataclass(frozen=True, slots=True)
class DasWorkload:
    """What is published: a number of events, at all brokers in turn, of which an exact share match (p^e).

    ``locality`` is the share of the matching ones whose home is where they are published; None leaves it to chance.
    """

    seed: int
    events: int
    matching: float
    locality: float | None = None


def publications(setup: DasSetup, workload: DasWorkload) -> list[tuple[str, Message]]:
    """The events and the brokers that they are published at.

    Each draws the same chances whatever the covering is, so set-ups that differ in that alone get events of the same homes.
    """
    rng = Random(f"{workload.seed}/das")
    brokers, types = setup.brokers, setup.types
    at: dict[tuple[str, str], list[int]] = {}
    for value in range(setup.values):
        at.setdefault(setup.home(value), []).append(value)
    wanted = [number < round(workload.matching * workload.events) for number in range(workload.events)]
    rng.shuffle(wanted)
    found = []
    for number, matches in enumerate(wanted):
        broker = brokers[number % len(brokers)]
        topic = _drawn(types, rng.random())
        home = _home(brokers, broker, workload.locality, rng.random(), rng.random())
        value = _drawn(at[home, topic], rng.random())
        fields = {ATTRIBUTE: _LOWEST + value if matches else _UNWANTED + number}
        found.append((broker, Message(topic, f"sensor-{broker}", fields, id=f"m{number:06d}")))
    return found


def _drawn(items: Sequence[T], chance: float) -> T:
    return items[int(chance * len(items))]


def _home(brokers: Sequence[str], publisher: str, locality: float | None, near: float, which: float) -> str:
    if locality is None or len(brokers) == 1:
        return _drawn(brokers, which)
    return publisher if near < locality else _drawn([broker for broker in brokers if broker != publisher], which)


# ---- the measures -----------------------------------------------------------------------------------------------------


class TimedSimulator(Simulator):
    """Also keeps the CPU time that each broker spends on events, without what the simulator itself does for them."""

    def __init__(self, plan: Plan, delay: Delay, *, sizes: bool = False) -> None:
        self.cpu_ns: Counter[str] = Counter()
        self._apart_ns = 0
        super().__init__(plan, delay, sizes=sizes)

    def _step(self, name: str, happened: Input) -> Sequence[ProcessOutput]:
        if not isinstance(happened, Arrived):
            return super()._step(name, happened)
        self._apart_ns = 0
        began_ns = process_time_ns()
        outputs = super()._step(name, happened)
        self.cpu_ns[name] += process_time_ns() - began_ns - self._apart_ns
        return outputs

    def _send(self, send: Send) -> None:
        began_ns = process_time_ns()
        super()._send(send)
        self._apart_ns += process_time_ns() - began_ns


@dataclass(frozen=True, slots=True)
class Held:
    """What brokers hold to filter by: their clients' profiles, and what each link they ask for is asked by.

    ``entries`` has merged profiles as one. ``fullest`` are the profiles of the broker that holds the most.
    """

    profiles: int
    entries: int
    fullest: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One run. What is said of events is per published event, what is said of profiles per profile of a client."""

    notifications: float
    link_messages: float
    load_bytes: float
    duplication: float
    entries: float
    fullest: float
    efficiency: float
    """Events per CPU second of all brokers together."""
    saturation: float
    """Events per CPU second of the busiest broker: what brokers on machines of their own could keep up with."""


def held(setup: DasSetup, filtering: Filtering) -> Held:
    """What all brokers hold together."""
    plan = plan_of(setup, filtering)
    profiles: Counter[str] = Counter()
    entries = 0
    for broker, topic in product(setup.brokers, setup.types):
        local = len(plan.snapshot.by_topic.get((broker, topic), ()))
        asked = [profile for profile in plan.place(broker, topic).links.values() if profile != EVERYTHING]
        profiles[broker] += local + sum(map(_equalities, asked))
        entries += local + sum(len(profile.entries) for profile in asked)
    return Held(profiles.total(), entries, max(profiles.values()))


def _equalities(profile: Profile) -> int:
    """How many values a link's profile asks for."""
    found = 0
    for entry in profile.entries:
        match entry.where:
            case Compare(_, Op.EQ, _):
                found += 1
            case In(_, values):
                found += len(values)
            case other:
                raise ValueError(f"{other} is no list of values: profiles were merged to something more general")
    return found


class Run:
    """One workload on its way through one set-up, a few events at a time."""

    def __init__(self, setup: DasSetup, filtering: Filtering, workload: DasWorkload) -> None:
        self._setup, self._filtering, self._events = setup, filtering, workload.events
        self._simulator = TimedSimulator(plan_of(setup, filtering), lambda *_: _HOP_MS, sizes=True)
        self._simulator.run()  # the brokers take up the plan
        for number, (broker, message) in enumerate(publications(setup, workload), 1):
            self._simulator.publish(number * _APART_MS, broker, message)

    def advance(self, share: float) -> None:
        """Let the brokers take in that share of the events."""
        self._simulator.run(until_ms=round(share * self._events) * _APART_MS + _APART_MS // 2)

    def measured(self) -> Measured:
        simulator, events, profiles = self._simulator, self._events, self._setup.profiles
        kept = held(self._setup, self._filtering)
        return Measured(
            notifications=len(simulator.told) / events,
            link_messages=simulator.link_messages / events,
            load_bytes=sum(crossed.bytes for crossed in simulator.crossed.values()) / events,
            duplication=kept.profiles / profiles,
            entries=kept.entries / profiles,
            fullest=kept.fullest / profiles,
            efficiency=events / simulator.cpu_ns.total() * 1e9,
            saturation=events / max(simulator.cpu_ns.values()) * 1e9,
        )


def measure(setup: DasSetup, filtering: Filtering, workload: DasWorkload) -> Measured:
    """Run a workload through a set-up."""
    run = Run(setup, filtering, workload)
    run.advance(1)
    return run.measured()
