"""The set-up of the experiments on DAS (Bittner and Hinze, section 4), and what is measured in it.

Each broker has one publisher and one client whose profiles ask for one value of the only attribute. An event matches if its
value is subscribed; each value is subscribed at one broker, its home, by as many profiles as the covering says. Nothing is
gathered, as in DAS: every event travels by itself.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product
from random import Random
from statistics import median
from time import process_time_ns
from typing import Any, TypeVar

from experiments.harness import Cell, Plot, Row, Series, Settings, Spread, Table, spread
from experiments.simulator import Delay, Simulator
from streaming.broker.values import Arrived, Input, Send
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
SAME = 0.02
"""Loads that differ by less are the same: values and hops take a byte more or less."""
NOISE = 0.1
"""Efficiencies that differ by less are the same: a shared machine does not measure better."""

_APART_MS, _HOP_MS = 100, 1
_TURNS = 10
_LOWEST, _UNWANTED = 100_000, 500_000  # all values have six digits, so that size says nothing about matching

TREE_NOTE = (
    "Figure 5 is not in the text. Assumed: links 1-2, 2-3, 2-4, 2-5, 1-6, 1-7, 3-8, 3-9. That fits what is said of it: Broker 2 has "
    "the most links from five brokers on, 1 to 3 are inner brokers, the rest outer ones, and the tree is uneven."
)
TIME_NOTE = (
    "Efficiency is published events by the CPU seconds that all brokers spend in the step function; the simulator's own work, "
    "encoding and networks are left out. It is shown relative to event forwarding in the same run, as the machine is shared."
)
SCAN_NOTE = (
    "Ours asks the subscriptions of a broker one after the other, DAS has a tree of them. So an event costs what the brokers cost "
    "that see it, in proportion to their clients' profiles; what is asked of a link is one look into a set, and cheap."
)
LOAD_NOTE = "Network load is what brokers receive from brokers, as encoded on a link; what publishers send is the same for all."
MEMORY_NOTE = (
    "Duplication counts an equality as one profile, as DAS does. Ours also merges: what a link is asked for is one list of values, "
    "so `entries` is far lower."
)


def scale_note(profiles: str, paper: str) -> str:
    """How much smaller this is than the paper's."""
    return f"{profiles} instead of {paper}: compare shapes, orders and ratios, not absolute figures."


# ---- the set-up -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setup:
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
def plan_of(setup: Setup, filtering: Filtering) -> Plan:
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
class Workload:
    """What is published: so many events, all brokers in turn, of which exactly a share match (p^e).

    ``locality`` is the share of the matching ones whose home is where they are published; None leaves it to chance.
    """

    seed: int
    events: int
    matching: float
    locality: float | None = None


def publications(setup: Setup, workload: Workload) -> list[tuple[str, Message]]:
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


class Timed(Simulator):
    """Also keeps the CPU time that each broker spends on events, without what the simulator itself does for them."""

    def __init__(self, plan: Plan, delay: Delay, *, sizes: bool = False) -> None:
        self.cpu_ns: Counter[str] = Counter()
        self._apart_ns = 0
        super().__init__(plan, delay, sizes=sizes)

    def _step(self, broker: str, happened: Input) -> None:
        if not isinstance(happened, Arrived):
            super()._step(broker, happened)
            return
        self._apart_ns = 0
        began_ns = process_time_ns()
        super()._step(broker, happened)
        self.cpu_ns[broker] += process_time_ns() - began_ns - self._apart_ns

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
    """One run. What is said of events is by published event, what is said of profiles by profile of a client."""

    notifications: float
    link_messages: float
    load_bytes: float
    duplication: float
    entries: float
    fullest: float
    efficiency: float
    """Events by CPU second of all brokers."""
    saturation: float
    """Events by CPU second of the busiest broker: what brokers on machines of their own could keep up with."""


def held(setup: Setup, filtering: Filtering) -> Held:
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

    def __init__(self, setup: Setup, filtering: Filtering, workload: Workload) -> None:
        self._setup, self._filtering, self._events = setup, filtering, workload.events
        self._simulator = Timed(plan_of(setup, filtering), lambda *_: _HOP_MS, sizes=True)
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


def measure(setup: Setup, filtering: Filtering, workload: Workload) -> Measured:
    """Run a workload through a set-up."""
    run = Run(setup, filtering, workload)
    run.advance(1)
    return run.measured()


# ---- many of them -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a figure; ``at`` names it in the rows."""

    at: Mapping[str, Cell]
    setup: Setup
    matching: float
    locality: float | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """The rows of all points, strategies and seeds."""

    rows: Sequence[Row]
    seeds: int

    def values(self, measure: str, strategy: Filtering, **at: Cell) -> list[float]:
        """One for each seed."""
        asked = {"strategy": str(strategy), **at}
        found = [row[measure] for row in self.rows if all(row[name] == cell for name, cell in asked.items())]
        if len(found) != self.seeds:
            raise ValueError(f"{len(found)} rows have {asked}, not one for each seed")
        return [float(cell) for cell in found if isinstance(cell, int | float)]

    def of(self, measure: str, strategy: Filtering, **at: Cell) -> Spread:
        return spread(self.values(measure, strategy, **at))

    def median(self, measure: str, strategy: Filtering, **at: Cell) -> float:
        return median(self.values(measure, strategy, **at))

    def ratio(self, measure: str, strategy: Filtering, over: Mapping[str, Cell], under: Mapping[str, Cell]) -> float:
        """How many times as much at one point as at the other, as a median of the seeds."""
        pairs = zip(self.values(measure, strategy, **over), self.values(measure, strategy, **under), strict=True)
        return median(one / other for one, other in pairs)

    def plot(self, title: str, axis: tuple[str, str], measure: tuple[str, str], **at: Cell) -> Plot:
        """One line for each strategy. ``axis`` and ``measure`` are a column and what is written beside it."""
        column, x_label = axis
        xs = [x for x in dict.fromkeys(row[column] for row in self._at(at)) if isinstance(x, int | float)]
        series = [
            Series.of(str(strategy), xs, [self.of(measure[0], strategy, **at, **{column: x}) for x in xs])
            for strategy in STRATEGIES
        ]
        return Plot(title=title, x_label=x_label, y_label=measure[1], series=series)

    def table(self, parameters: Mapping[str, str], measures: Mapping[str, tuple[str, str]]) -> Table:
        """One row for each point: by column what to call it, and how a measure is written."""
        points = list(dict.fromkeys(tuple((name, row[name]) for name in parameters) for row in self.rows))
        columns = [*parameters.values(), *[f"{said}, {each}" for said, _ in measures.values() for each in STRATEGIES]]
        cells = [
            [f"{cell:g}" if isinstance(cell, float) else str(cell) for _, cell in point]
            + [
                self.of(measure, strategy, **dict(point)).format(spec)
                for measure, (_, spec) in measures.items()
                for strategy in STRATEGIES
            ]
            for point in points
        ]
        return Table(columns, cells)

    def _at(self, at: Mapping[str, Cell]) -> list[Row]:
        return [row for row in self.rows if all(row[name] == cell for name, cell in at.items())]


def sweep(settings: Settings, points: Sequence[Point], events: int, seeds: Sequence[int]) -> Sweep:
    """Run all strategies at all points. ``relative`` is the efficiency, by that of event forwarding in the same run.

    All runs of a seed take turns: a slow spell of the machine then hits them alike.
    """
    rows: list[Row] = []
    runs: dict[tuple[int, Filtering], Run] = {}
    for seed, turn in settings.track(list(product(seeds, range(1, _TURNS + 1)))):
        if turn == 1:
            runs = {
                (number, strategy): Run(point.setup, strategy, Workload(seed, events, point.matching, point.locality))
                for (number, point), strategy in product(enumerate(points), STRATEGIES)
            }
        with _no_collection():
            for run in runs.values():
                run.advance(turn / _TURNS)
        if turn == _TURNS:
            rows += _rows(points, seed, {at: run.measured() for at, run in runs.items()})
    return Sweep(rows, len(seeds))


def _rows(points: Sequence[Point], seed: int, measured: Mapping[tuple[int, Filtering], Measured]) -> list[Row]:
    return [
        {
            **points[number].at,
            "strategy": str(strategy),
            "seed": seed,
            **asdict(one),
            "relative": one.efficiency / measured[number, EVENT].efficiency,
        }
        for (number, strategy), one in measured.items()
    ]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Whose turn it is when garbage is collected is chance; it looks at the objects of all runs."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


# ---- words for claims -------------------------------------------------------------------------------------------------


def each(figures: Mapping[Filtering, float], spec: str) -> str:
    """The figures of the strategies, ready to print.

    >>> each({EVENT: 3.0, PROFILE: 1.25}, ".2f")
    'event 3.00, profile 1.25'
    """
    return ", ".join(f"{strategy} {figure:{spec}}" for strategy, figure in figures.items())


def alike(a: float, b: float, within: float) -> bool:
    """Whether two figures are the same as far as can be told."""
    return abs(a - b) <= within * max(abs(a), abs(b))
