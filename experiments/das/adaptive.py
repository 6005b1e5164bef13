"""The adaptive choice, which DAS asks for and does not have, against each fixed strategy while the workload changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from statistics import median
from typing import Any
from unittest.mock import patch

from experiments.das import setup as das
from experiments.harness import Experiment, PaperClaim, Plot, Result, Row, Series, Settings, Table, spread
from streaming.broker.state import FilterMode
from streaming.model.outputs import FilterDecided
from streaming.world.simulator import Simulator
from tidings.control import Snapshot
from tidings.message import Message
from tidings.topic import Filtering
from tidings.values import Value
from topology.plan import Plan
from topology.profile import EVERYTHING, Profile

ALL = (*das.STRATEGIES, Filtering.ADAPTIVE)
MOST = 0.05
"""What the adaptive choice may send more than the best fixed one."""
RATES = (0.05, 0.995, 0.5, 1.0, 0.02)
TOPIC, WINDOW_MS = "reading", 1000
BROKERS = ("b1", "b2", "b3", "b4")
WIDE, PARTLY, UNWANTED = 1, 2, 3
"""A value that all brokers want, one that the first does not, and one that nobody does."""

Values = list[int]


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is published where: the brokers take turns, at the same distance in time."""

    values: Values
    publishers: tuple[str, ...] = BROKERS
    apart_ms: int = 5


@dataclass(frozen=True, slots=True)
class AdaptiveRun:
    """What came of a run. ``crossed`` and ``asked`` are totals at the end of each window."""

    told: int
    crossed: tuple[int, ...]
    asked: tuple[int, ...]
    decided: tuple[FilterDecided, ...]


# ---- workloads --------------------------------------------------------------------------------------------------------


def _drawn(rng: Random, rates: Iterator[float]) -> Values:
    return [WIDE if rng.random() < rate else UNWANTED for rate in rates]


def abrupt(rng: Random, phase: int) -> Traffic:
    """A phase for each rate."""
    return Traffic(_drawn(rng, (rate for rate in RATES for _ in range(phase))))


def gradual(rng: Random, phase: int) -> Traffic:
    """A phase for the way from each rate to the next."""
    ways = pairwise(RATES)
    return Traffic(_drawn(rng, (a + (b - a) * at / phase for a, b in ways for at in range(phase))))


def alternating(rng: Random, phase: int) -> Traffic:
    """All is wanted; then exactly every second event."""
    pair = [WIDE, UNWANTED] if rng.random() < 0.5 else [UNWANTED, WIDE]
    return Traffic([WIDE] * phase + pair * (phase // 2), publishers=(rng.choice(BROKERS),))


def one_side(rng: Random, phase: int) -> Traffic:
    """All is wanted; then nobody wants it beyond one of the two links of the broker where it is published."""
    extra = rng.randrange(8)
    return Traffic([WIDE] * (phase + extra) + [PARTLY] * phase, publishers=("b2",))


def by_turns(rng: Random, phase: int) -> Traffic:
    """A short window in which all is wanted, and one in which nothing is."""
    apart_ms = 20
    window = WINDOW_MS // apart_ms
    turns = [WIDE] * window + [UNWANTED] * window
    return Traffic(turns * (2 * phase // len(turns)), publishers=(rng.choice(("b1", "b4")),), apart_ms=apart_ms)


RANDOM: dict[str, Callable[[Random, int], Traffic]] = {"abrupt": abrupt, "gradual": gradual}
REGULAR: dict[str, Callable[[Random, int], Traffic]] = {
    "alternating": alternating,
    "one side": one_side,
    "by turns": by_turns,
}


# ---- a run ------------------------------------------------------------------------------------------------------------


def plan_of(filtering: Filtering) -> Plan:
    """Four brokers as a linear bus; the rendezvous is an inner one."""
    records: list[dict[str, Any]] = [{"kind": "broker", "name": name} for name in BROKERS]
    records += [{"kind": "link", "name": f"{a}-{b}", "a": a, "b": b} for a, b in pairwise(BROKERS)]
    declared = {"kind": "topic", "name": TOPIC, "gather": False, "filter": str(filtering), "window_ms": WINDOW_MS}
    declared["remember_ms"] = 0  # no message comes twice
    records.append(declared | ({"rendezvous": "b2"} if filtering is das.RENDEZVOUS else {}))
    for broker in BROKERS:
        for value in (WIDE, PARTLY) if broker != BROKERS[0] else (WIDE,):
            where, at = f"{das.ATTRIBUTE} = {value}", {"subscriber": broker, "broker": broker, "topic": TOPIC}
            records.append({"kind": "subscription", "name": f"{broker}-{value}", "where": where, **at})
    named = {f"{record['kind']}/{record['name']}": record for record in records}
    return Plan(Snapshot(1, named, since=dict.fromkeys(named, 1)))


@contextmanager
def asked_profiles() -> Iterator[list[int]]:
    """Counts how often brokers judge by the profile of a link; that everything goes is no judgement."""
    matches, count = Profile.matches, [0]

    def counted(profile: Profile, key: str, facts: Mapping[str, Value]) -> bool:
        count[0] += profile is not EVERYTHING
        return matches(profile, key, facts)

    with patch.object(Profile, "matches", counted):
        yield count


def simulate(traffic: Traffic, filtering: Filtering) -> AdaptiveRun:
    """Let one strategy carry the traffic."""
    simulator = Simulator(plan_of(filtering), lambda *_: 1)
    simulator.keep_outputs = True
    simulator.run()
    for number, value in enumerate(traffic.values):
        broker = traffic.publishers[number % len(traffic.publishers)]
        message = Message(TOPIC, f"sensor-{broker}", {das.ATTRIBUTE: value}, id=f"m{number:06d}")
        simulator.publish(WINDOW_MS + number * traffic.apart_ms, broker, message)
    windows = -(-len(traffic.values) * traffic.apart_ms // WINDOW_MS)
    crossed, asked = [], []
    with asked_profiles() as count:
        for window in range(1, windows + 1):
            # What is still on its way at the end belongs to the last window.
            simulator.run(until_ms=(window + 1) * WINDOW_MS - 1 if window < windows else None)
            crossed.append(simulator.link_messages)
            asked.append(count[0])
    decided = tuple(output for _, output in simulator.outputs if isinstance(output, FilterDecided))
    return AdaptiveRun(len(simulator.told), tuple(crossed), tuple(asked), decided)


# ---- the experiment ---------------------------------------------------------------------------------------------------

Found = Mapping[tuple[str, int, Filtering], AdaptiveRun]


def run(settings: Settings) -> Result:
    phase = 320 if settings.quick else 800
    seeds = settings.seeds(full=3, quick=1)
    workloads = RANDOM | REGULAR
    found: dict[tuple[str, int, Filtering], AdaptiveRun] = {}
    for name, seed in settings.track([(name, seed) for name in workloads for seed in seeds]):
        traffic = workloads[name](Random(f"{seed}/{name}"), phase)
        for strategy in ALL:
            found[name, seed, strategy] = simulate(traffic, strategy)
    return Result(
        rows=_rows(found),
        claims=claims(found, seeds),
        table=_table(found, seeds),
        seeds=len(seeds),
        plots=[_plot(found, name, seeds[0]) for name in RANDOM],
        notes=[
            f"Four brokers on a bus, a window of {WINDOW_MS} ms, phases of {phase} events; the abrupt and the gradual workload "
            f"go through match rates of {', '.join(f'{rate:.1%}' for rate in RATES)}.",
            "Profile forwarding always sends the least: adapting cannot send less, it saves asking profiles. `asked` is how "
            "often a broker judged by the profile of a link.",
            "The regular workloads are made to be hard: what is wanted repeats with a period of two, one of two links differs "
            "from the other, or the rate changes with every window.",
            *_examples(found, seeds[0]),
        ],
    )


def excess(found: Found, name: str, seed: int) -> float:
    """What the adaptive choice sent more than the best fixed strategy, as a share."""
    best = min(found[name, seed, strategy].crossed[-1] for strategy in das.STRATEGIES)
    return found[name, seed, Filtering.ADAPTIVE].crossed[-1] / best - 1


def saved(found: Found, name: str, seed: int) -> float:
    """The share of profiles that need not be asked."""
    return 1 - found[name, seed, Filtering.ADAPTIVE].asked[-1] / found[name, seed, das.PROFILE].asked[-1]


def _rows(found: Found) -> list[Row]:
    return [
        {
            "workload": name,
            "seed": seed,
            "strategy": str(strategy),
            "link_messages": outcome.crossed[-1],
            "asked": outcome.asked[-1],
            "told": outcome.told,
            "decisions": len(outcome.decided),
            "to_event": sum(decision.choice == FilterMode.EVENT for decision in outcome.decided),
        }
        for (name, seed, strategy), outcome in found.items()
    ]


def _table(found: Found, seeds: Sequence[int]) -> Table:
    columns = ["workload", *[f"link messages, {strategy}" for strategy in ALL], "more than the best", "asked less", "decisions"]
    rows = [
        [
            name,
            *[f"{median(found[name, seed, strategy].crossed[-1] for seed in seeds):.0f}" for strategy in ALL],
            spread(excess(found, name, seed) for seed in seeds).format(".1%"),
            spread(saved(found, name, seed) for seed in seeds).format(".0%"),
            f"{median(len(found[name, seed, Filtering.ADAPTIVE].decided) for seed in seeds):.0f}",
        ]
        for name in RANDOM | REGULAR
    ]
    return Table(columns, rows)


def claims(found: Found, seeds: Sequence[int]) -> list[PaperClaim]:
    worst = {name: max(excess(found, name, seed) for seed in seeds) for name in RANDOM | REGULAR}
    asked = {name: median(saved(found, name, seed) for seed in seeds) for name in RANDOM}
    fewer = [saved(found, name, seed) for name in RANDOM for seed in seeds]
    same = all(found[name, seed, strategy].told == found[name, seed, das.EVENT].told for name, seed, strategy in found)
    return [
        PaperClaim(
            "rates that change abruptly or gradually: at most 5 % more link messages than the best fixed strategy, in any seed",
            "none; ours to hold",
            ", ".join(f"{name} {worst[name]:.1%}" for name in RANDOM),
            all(worst[name] <= MOST for name in RANDOM),
        ),
        PaperClaim(
            "so it does when traffic is regular",
            "none; ours to hold",
            ", ".join(f"{name} {worst[name]:.1%}" for name in REGULAR),
            all(worst[name] <= MOST for name in REGULAR),
        ),
        PaperClaim(
            "it asks fewer profiles than profile forwarding does",
            "none; what it is for",
            ", ".join(f"{name} {share:.0%} fewer" for name, share in asked.items()),
            all(share >= 0 for share in fewer) and any(share > 0 for share in fewer),
        ),
        PaperClaim(
            "whatever the strategy, subscribers are told the same",
            "the same",
            f"{sum(outcome.told for outcome in found.values())} notifications, {'no' if same else 'some'} difference",
            same,
        ),
    ]


def _plot(found: Found, name: str, seed: int) -> Plot:
    series = []
    for strategy in ALL:
        crossed = (0, *found[name, seed, strategy].crossed)
        each = [after - before for before, after in pairwise(crossed)]
        series.append(Series(str(strategy), list(range(1, len(each) + 1)), each))
    return Plot(title=f"Link messages ({name})", x_label="window", y_label="link messages per window", series=series)


def _examples(found: Found, seed: int) -> list[str]:
    """A decision of either kind, as it was written."""
    decided = found["abrupt", seed, Filtering.ADAPTIVE].decided
    counts = ", ".join(f"{sum(one.choice == mode for one in decided)} to {mode}" for mode in FilterMode)
    examples = [next((one for one in decided if one.choice == mode), None) for mode in (FilterMode.EVENT, FilterMode.PROFILE)]
    said = "; ".join(f"{one.sender} at {one.end_ms} ms: {one.choice}, as {one.reason}" for one in examples if one)
    return [f"The abrupt workload, first seed, has {len(decided)} decisions ({counts}). For example, {said}."] if said else []


EXPERIMENT = Experiment(
    "das-adaptive", "Choosing how to filter while the workload changes", f"{das.PAPER}, section 5: what it leaves open", run
)
