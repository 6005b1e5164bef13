"""Figures 10 and 11 of DAS: how efficiency, duplication and network load depend on the number of event types."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from experiments.das import setup as das
from experiments.das import strategies
from experiments.das.setup import EVENT, PROFILE, RENDEZVOUS, STRATEGIES, TREE, DasSetup
from experiments.das.strategies import NOISE, SAME, DasPoint, DasSweep, alike, each
from experiments.harness import Experiment, PaperClaim, Result, Settings
from tidings.topic import Filtering

LOW, HIGH = 0.1, 0.9


def run(settings: Settings) -> Result:
    counts = (1, 2, 9) if settings.quick else range(1, 10)
    profiles = 162 if settings.quick else 720
    points = [
        DasPoint({"p_p": share, "types": count}, DasSetup(TREE, profiles, rendezvous=tuple(range(1, count + 1))), share)
        for share in (LOW, HIGH)
        for count in counts
    ]
    found = strategies.sweep(settings, points, events=90 if settings.quick else 120, seeds=settings.seeds(full=3, quick=1))
    axis = ("types", "event types")
    return Result(
        rows=found.rows,
        claims=claims(found, counts),
        table=found.table(
            {"p_p": "p^p", "types": "types"},
            {"duplication": ("duplication", ".2f"), "load_bytes": ("bytes per event", ".0f"), "relative": ("efficiency", ".1f")},
        ),
        seeds=found.seeds,
        plots=[
            found.plot("Duplication", axis, ("duplication", "brokers that hold a profile"), p_p=HIGH),
            found.plot(f"Load (p^p = {HIGH})", axis, ("load_bytes", "bytes per event"), p_p=HIGH),
            found.plot(f"Efficiency (p^p = {LOW})", axis, ("efficiency", "events per CPU second"), p_p=LOW),
        ],
        notes=[
            strategies.scale_note(f"{profiles} profiles in all", "180,000"),
            strategies.TREE_NOTE,
            "Broker n is the rendezvous of type n. The paper does not say so, but its loads that fall first and then rise fit.",
            "A broker asks the subscriptions of an event's type only, one after the other: with k types there are k times fewer "
            "of them, so here all strategies gain from types. DAS has a tree for each type and gains little.",
            strategies.MEMORY_NOTE,
            strategies.LOAD_NOTE,
            strategies.TIME_NOTE,
        ],
    )


def claims(found: DasSweep, counts: Sequence[int]) -> list[PaperClaim]:
    return [*_memory_claims(found, counts), *_load_claims(found, counts), *_efficiency_claims(found, counts)]


def _memory_claims(found: DasSweep, counts: Sequence[int]) -> list[PaperClaim]:
    held = {count: {s: found.median("duplication", s, p_p=HIGH, types=count) for s in STRATEGIES} for count in counts}
    rendezvous = {count: one[RENDEZVOUS] for count, one in held.items()}
    return [
        PaperClaim(
            "event and profile forwarding hold the same whatever the number of types (figure 11 a)",
            "profile 9.0, event 1.0",
            f"with {counts[-1]} types: profile {held[counts[-1]][PROFILE]:.1f}, event {held[counts[-1]][EVENT]:.1f}",
            all(one[PROFILE] == len(TREE) + 1 and one[EVENT] == 1 for one in held.values()),
        ),
        PaperClaim(
            "with more than two types, rendezvous holds more (figure 11 a)",
            "increases",
            ", ".join(f"{rendezvous[count]:.2f} with {count}" for count in counts if count in (2, 5, 9)),
            _rises(rendezvous),
        ),
    ]


def _load_claims(found: DasSweep, counts: Sequence[int]) -> list[PaperClaim]:
    loads = {s: {count: found.median("load_bytes", s, p_p=LOW, types=count) for count in counts} for s in STRATEGIES}
    spans = {s: (min(loads[s].values()), max(loads[s].values())) for s in (EVENT, PROFILE)}
    rendezvous = loads[RENDEZVOUS]
    more = {s: found.ratio("load_bytes", s, {"p_p": HIGH, "types": 1}, {"p_p": LOW, "types": 1}) for s in STRATEGIES}
    return [
        PaperClaim(
            "network load of event and profile forwarding is stable (figure 11 b; within a quarter, we say, as homes are drawn)",
            "stable",
            ", ".join(f"{s} {low:.0f} to {high:.0f} bytes" for s, (low, high) in spans.items()),
            alike(*spans[EVENT], SAME) and alike(*spans[PROFILE], 0.25),
        ),
        PaperClaim(
            "rendezvous' load falls first, then rises (figure 11 b)",
            "falls, then rises",
            ", ".join(f"{load:.0f} with {count}" for count, load in rendezvous.items() if count in (1, 2, 5, 9)) + " bytes",
            rendezvous[2] < rendezvous[1] and _rises(rendezvous),
        ),
        PaperClaim(
            "a higher p^p means more load for profile forwarding, less so for rendezvous (figure 11 b)",
            "profile > rendezvous > event",
            f"p^p = {HIGH} by {LOW}: {each(more, '.1f')}",
            more[PROFILE] > more[RENDEZVOUS] > more[EVENT] and alike(more[EVENT], 1, SAME),
        ),
    ]


def _rises(figures: dict[int, float]) -> bool:
    """Whether nine types take more than two, and each half of the way takes more than the half before."""
    some = [figures[count] for count in figures if count in (2, 5, 9)]
    return all(before < after for before, after in pairwise(some))


def _efficiency_claims(found: DasSweep, counts: Sequence[int]) -> list[PaperClaim]:
    last = counts[-1]
    gains = {s: _ratio(found, s, last, 1) for s in STRATEGIES}
    lost = {s: found.ratio("efficiency", s, {"p_p": HIGH, "types": 1}, {"p_p": LOW, "types": 1}) for s in STRATEGIES}
    relative = ", ".join(f"{found.median('relative', RENDEZVOUS, p_p=LOW, types=count):.1f}" for count in (1, 2, last))
    early, late = _ratio(found, RENDEZVOUS, 2, 1), _ratio(found, RENDEZVOUS, last, 2)
    return [
        PaperClaim(
            "profile and event forwarding are about as efficient with many types as with one (figure 10; within a quarter)",
            "nearly constant, a small increase",
            f"{last} types by one: event {gains[EVENT]:.1f}, profile {gains[PROFILE]:.1f}",
            all(alike(gains[s], 1, 0.25) for s in (EVENT, PROFILE)),
        ),
        PaperClaim(
            "a higher p^p costs profile forwarding efficiency, but hardly event forwarding (figure 10 a, b)",
            "profile falls, event hardly",
            f"p^p = {HIGH} by {LOW}: {each(lost, '.2f')}",
            lost[PROFILE] < 1 - NOISE and lost[PROFILE] < lost[EVENT] and alike(lost[EVENT], 1, 2 * NOISE),
        ),
        PaperClaim(
            "rendezvous becomes more efficient with a few types, then less with outer rendezvous brokers (figure 10 c)",
            "rises, then falls",
            f"2 types by one: {early:.1f}; {last} by 2: {late:.1f}; against event forwarding: {relative}",
            early > 1 + NOISE and late < 1 - NOISE,
        ),
    ]


def _ratio(found: DasSweep, strategy: Filtering, over: int, under: int) -> float:
    return found.ratio("efficiency", strategy, {"p_p": LOW, "types": over}, {"p_p": LOW, "types": under})


EXPERIMENT = Experiment(
    "das-types", "Event types: duplication, network load and efficiency", f"{das.PAPER}, figures 10 and 11", run
)
