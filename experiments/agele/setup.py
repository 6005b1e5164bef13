"""The set-up of Agele's experiments (section 6.1), and what is measured in it.

What the paper leaves open is fixed here once, for all figures: a link takes one time unit, random overlays have a mean degree of
four, there are ten events, which start within six times T_b, and every broker subscribes to one of them, drawn uniformly. A
publisher of an event sends about it by a Poisson process with a mean of one message. That it publishes means that it sends at
least one, so it sends 1.58 on average.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from producers.workload import SentMessage, Workload, generate
from streaming.model.outputs import MessageReason, Outcome, Tell
from streaming.world.simulator import Simulator
from tidings.control import Snapshot
from topology.generators import generate as generate_overlay
from topology.overlay import Overlay, to_records
from topology.plan import Plan

UNIT_MS = 1000
TOPIC = "workload"


@dataclass(frozen=True, slots=True)
class AgeleSetup:
    """One point of a figure. Times are in the paper's time units."""

    seed: int
    brokers: int = 500
    overlay: str = "random"
    merge: float = 4
    """T_m"""
    redundant: float = 10
    """T_r; as long as the window or longer means the whole window."""
    burst: float = 100
    """T_b"""
    events: int = 10
    messages_per_publisher: float = 1.0
    gatherer: str = "centre"
    rendezvous: str | None = None
    """The broker that gathers, where it is not to be found by the brokers themselves."""
    early: bool = False
    """Whether brokers on the way to the gatherer drop what they know already."""

    @property
    def window(self) -> float:
        """W: longer than any event takes, and its messages to arrive."""
        return 4 * self.burst


@dataclass(frozen=True, slots=True)
class Times:
    """From an event's first publication, in time units, as a mean over subscribers and events.

    The paper measures until "the event is fully received by the subscriber", which can be read in two ways: until the last of
    what is sent about it has come in, and until nothing that is said about it is unknown any more.
    """

    received: float
    known: float

    def over(self, other: Times) -> Times:
        """How much longer, as a share."""
        return Times(self.received / other.received - 1, self.known / other.known - 1)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What came of a run: shares of the messages that were published, and mean times of an event."""

    messages: int
    duplicates: float
    merged: float
    times: Times
    link_messages: int

    @property
    def suppressed(self) -> float:
        """What does not leave the gatherer."""
        return self.duplicates + self.merged


def overlay_of(setup: AgeleSetup) -> Overlay:
    return generate_overlay(setup.overlay, setup.brokers, setup.seed)


def publications(setup: AgeleSetup) -> tuple[SentMessage, ...]:
    """What is published, the same whatever is done with it."""
    return _generated(
        Workload(
            events=setup.events,
            publishers=setup.brokers,
            messages_per_publisher=setup.messages_per_publisher,
            burst_ms=round(setup.burst * UNIT_MS),
            spread_ms=round(6 * setup.burst * UNIT_MS),
            topic=TOPIC,
            seed=setup.seed,
        )
    )


@lru_cache(maxsize=1)
def _generated(workload: Workload) -> tuple[SentMessage, ...]:
    """Many runs in a row have the same."""
    return tuple(generate(workload))


def publisher_of(published: SentMessage) -> int:
    """At which broker of the overlay it is published, by number."""
    return int(published.publisher.removeprefix("p-"))


def interests(setup: AgeleSetup, overlay: Overlay) -> dict[str, str]:
    """Each broker with the key of the event it subscribes to."""
    rng = Random(f"{setup.seed}/subscriptions")
    return {broker: f"event-{rng.randrange(setup.events):06d}" for broker in overlay.brokers}


def plan_of(setup: AgeleSetup, overlay: Overlay) -> Plan:
    """Every broker subscribes once, to an event drawn uniformly."""
    return planned(setup, overlay, {broker: {"where": f"key = '{key}'"} for broker, key in interests(setup, overlay).items()})


def planned(setup: AgeleSetup, overlay: Overlay, wants: Mapping[str, Mapping[str, str]]) -> Plan:
    """The plan with a subscription at each broker that wants something."""
    declared = {
        "kind": "topic",
        "name": TOPIC,
        "window_ms": round(setup.window * UNIT_MS),
        "hold_ms": 0 if setup.gatherer == "none" else round(setup.merge * UNIT_MS),
        "remember_ms": round(min(setup.redundant, setup.window) * UNIT_MS),
        "complete": [f"f{number:02d}" for number in range(1, 20)],
        "gatherer": setup.gatherer,
        "early": setup.early,
    }
    if setup.rendezvous:
        declared |= {"filter": "rendezvous", "rendezvous": setup.rendezvous}
    subscriptions = [
        {"kind": "subscription", "name": f"at-{broker}", "subscriber": broker, "broker": broker, "topic": TOPIC, **want}
        for broker, want in wants.items()
    ]
    records = {f"{record['kind']}/{record['name']}": record for record in (*to_records(overlay), declared, *subscriptions)}
    return Plan(Snapshot(1, records, since=dict.fromkeys(records, 1)))


def simulate(setup: AgeleSetup, overlay: Overlay | None = None, *, sizes: bool = False) -> Simulator:
    """The run itself."""
    overlay = overlay or overlay_of(setup)
    simulator = Simulator(plan_of(setup, overlay), lambda *_: UNIT_MS, sizes=sizes)
    for one in publications(setup):
        simulator.publish(one.at_ms, overlay.brokers[publisher_of(one)], one.message)
    simulator.run()
    return simulator


def measure(setup: AgeleSetup, overlay: Overlay | None = None) -> Outcomes:
    """Run a set-up with a gatherer and read its books."""
    simulator = simulate(setup, overlay)
    published = publications(setup)
    books = simulator.books[gatherer_of(simulator.plan)]
    dropped_before = len(published) - books.received
    return Outcomes(
        messages=len(published),
        duplicates=(dropped_before + books.total(Outcome.REDUNDANT)) / len(published),
        merged=books.outcomes[Outcome.MERGED, MessageReason.JOINED] / len(published),
        times=event_times(published, (tell for _, tell in simulator.told)),
        link_messages=simulator.link_messages,
    )


def gatherer_of(plan: Plan) -> str:
    """The broker that gathers."""
    return next(part.gatherer for part in plan.route(TOPIC).parts if part.gatherer)


def first_times(published: Iterable[SentMessage]) -> dict[str, int]:
    """When the first message about each event is published."""
    first_ms: dict[str, int] = {}
    for one in published:
        first_ms.setdefault(one.message.key, one.at_ms)
    return first_ms


def event_times(published: Iterable[SentMessage], told: Iterable[Tell]) -> Times:
    """The times of what was told."""
    first_ms = first_times(published)

    def mean(last_ms: Mapping[tuple[str, str], int]) -> float:
        return sum(ms - first_ms[key] for (_, key), ms in last_ms.items()) / len(last_ms) / UNIT_MS

    return Times(*(mean(last_ms) for last_ms in last_times(told)))


def last_times(told: Iterable[Tell]) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], int]]:
    """For each subscription and event when the last came, and when the last came that was not known before."""
    received: dict[tuple[str, str], int] = {}
    known: dict[tuple[str, str], int] = {}
    facts: dict[tuple[str, str], set[str]] = defaultdict(set)
    for tell in told:
        at, news = (tell.notification.subscription, tell.notification.key), tell.notification.news.keys()
        received[at] = tell.at_ms
        if news - facts[at]:
            facts[at].update(news)
            known[at] = tell.at_ms
    return received, known
