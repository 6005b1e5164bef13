"""Figures 6 and 7 of DAS: how efficiency, duplication and network load depend on the number of brokers."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.das import setup as das
from experiments.das import strategies
from experiments.das.setup import EVENT, PROFILE, RENDEZVOUS, STRATEGIES, TREE, DasSetup
from experiments.das.strategies import NOISE, SAME, DasPoint, DasSweep, alike, each
from experiments.harness import Experiment, PaperClaim, Result, Settings
from tidings.topic import Filtering

LOW, HIGH = 0.1, 0.9
"""p^p, which is p^e here: all profiles are unique."""


def run(settings: Settings) -> Result:
    sizes = (1, 5, 9) if settings.quick else range(1, 10)
    profiles = 180 if settings.quick else 720
    points = [
        DasPoint({"p_p": share, "brokers": size}, DasSetup(TREE[: size - 1], profiles), share)
        for share in (LOW, HIGH)
        for size in sizes
    ]
    found = strategies.sweep(settings, points, events=90, seeds=settings.seeds(full=3, quick=1))
    return Result(
        rows=found.rows,
        claims=claims(found, sizes),
        table=found.table(
            {"p_p": "p^p", "brokers": "brokers"},
            {"duplication": ("duplication", ".2f"), "load_bytes": ("bytes per event", ".0f"), "relative": ("efficiency", ".1f")},
        ),
        seeds=found.seeds,
        plots=[
            found.plot("Duplication", ("brokers", "brokers"), ("duplication", "brokers that hold a profile"), p_p=HIGH),
            found.plot(f"Load (p^p = {LOW})", ("brokers", "brokers"), ("load_bytes", "bytes per event"), p_p=LOW),
            found.plot(f"Load (p^p = {HIGH})", ("brokers", "brokers"), ("load_bytes", "bytes per event"), p_p=HIGH),
            found.plot(f"Efficiency (p^p = {LOW})", ("brokers", "brokers"), ("efficiency", "events per CPU second"), p_p=LOW),
        ],
        notes=[
            strategies.scale_note(f"{profiles} profiles in all", "200,000"),
            strategies.TREE_NOTE,
            "Parallel efficiency takes what the busiest broker can keep up with, by the number of brokers and what one broker "
            "alone can. More brokers have fewer clients each, and ours asks those one by one: so it can be above 1.",
            strategies.SCAN_NOTE,
            strategies.MEMORY_NOTE,
            strategies.LOAD_NOTE,
            strategies.TIME_NOTE,
        ],
    )


def claims(found: DasSweep, sizes: Sequence[int]) -> list[PaperClaim]:
    return [*_memory_claims(found, sizes), *_load_claims(found, sizes), *_efficiency_claims(found, sizes)]


def _memory_claims(found: DasSweep, sizes: Sequence[int]) -> list[PaperClaim]:
    held = {size: {s: found.median("duplication", s, p_p=HIGH, brokers=size) for s in STRATEGIES} for size in sizes}
    largest = held[sizes[-1]]
    return [
        PaperClaim(
            "unique profiles: profile forwarding holds each at every broker, event forwarding once (figure 7 a)",
            "profile: the number of brokers; event: 1.0",
            f"with {sizes[-1]} brokers: {each(largest, '.2f')}",
            all(one[PROFILE] == size and one[EVENT] == 1 for size, one in held.items()),
        ),
        PaperClaim(
            "rendezvous lies between, below 2.5 (figure 7 a)",
            "< 2.5",
            f"at most {max(one[RENDEZVOUS] for one in held.values()):.2f}",
            all(one[EVENT] <= one[RENDEZVOUS] <= one[PROFILE] and one[RENDEZVOUS] < 2.5 for one in held.values()),
        ),
    ]


def _load_claims(found: DasSweep, sizes: Sequence[int]) -> list[PaperClaim]:
    loads = {size: {s: found.median("load_bytes", s, p_p=HIGH, brokers=size) for s in STRATEGIES} for size in sizes}
    crossings = [found.median("link_messages", EVENT, p_p=HIGH, brokers=size) for size in sizes]
    wide = loads[sizes[-1]]
    more = {size: one[RENDEZVOUS] / one[PROFILE] - 1 for size, one in loads.items() if size > 1}
    worst = max(more, key=more.__getitem__)
    return [
        PaperClaim(
            "network load: event forwarding's grows by the same with every broker (figure 7 b)",
            "constant increase",
            f"{crossings[-1]:g} link messages per event with {sizes[-1]} brokers",
            all(alike(crossed, size - 1, SAME) for size, crossed in zip(sizes, crossings, strict=True)),
        ),
        PaperClaim(
            "the order is the reverse of the duplication's",
            "event > rendezvous > profile",
            f"with {sizes[-1]} brokers, p^p = {HIGH}: {each(wide, '.0f')} bytes",
            all(one[EVENT] >= one[RENDEZVOUS] >= one[PROFILE] for one in loads.values()),
        ),
        PaperClaim(
            "at high p^p the loads of rendezvous and profile forwarding are very similar (within a quarter, we say)",
            "very similar",
            f"rendezvous has {more[sizes[-1]]:.0%} more with {sizes[-1]} brokers, at most {more[worst]:.0%}, with {worst}",
            more[worst] <= 0.25,
        ),
    ]


def _efficiency_claims(found: DasSweep, sizes: Sequence[int]) -> list[PaperClaim]:
    last = sizes[-1]
    gains = {share: {s: _gain(found, "efficiency", s, share, last) for s in STRATEGIES} for share in (LOW, HIGH)}
    parallel = {size: {s: _gain(found, "saturation", s, LOW, size) / size for s in STRATEGIES} for size in sizes}
    return [
        PaperClaim(
            "profile forwarding becomes far more efficient with more brokers, most at low p^p (figure 6 a)",
            "steep increase",
            f"{last} brokers by one: {gains[LOW][PROFILE]:.1f} times at p^p = {LOW}, {gains[HIGH][PROFILE]:.1f} at {HIGH}",
            gains[LOW][PROFILE] >= 2 and gains[LOW][PROFILE] > gains[HIGH][PROFILE],
        ),
        PaperClaim(
            "event forwarding becomes less efficient (figure 6 b)",
            "decreases",
            f"{last} brokers by one: {gains[LOW][EVENT]:.2f} times",
            gains[LOW][EVENT] < 1,
        ),
        PaperClaim(
            "rendezvous hardly changes (figure 6 c; within a quarter, we say)",
            "nearly unchanged",
            f"{last} brokers by one: {gains[LOW][RENDEZVOUS]:.1f} times",
            alike(gains[LOW][RENDEZVOUS], 1, 0.25),
        ),
        PaperClaim(
            "parallel efficiency is best with profile forwarding (figure 6 d)",
            "profile best",
            f"with {last} brokers: {each(parallel[last], '.2f')}",
            parallel[last][PROFILE] > max(parallel[last][EVENT], parallel[last][RENDEZVOUS]),
        ),
        PaperClaim(
            "parallel efficiency decreases with the number of brokers (figure 6 d)",
            "decreases",
            f"profile: {', '.join(f'{parallel[size][PROFILE]:.2f} with {size}' for size in sizes if size in (1, 5, 9))}",
            all(parallel[last][s] < 1 - NOISE for s in STRATEGIES),
        ),
    ]


def _gain(found: DasSweep, measure: str, strategy: Filtering, share: float, size: int) -> float:
    return found.ratio(measure, strategy, {"p_p": share, "brokers": size}, {"p_p": share, "brokers": 1})


EXPERIMENT = Experiment(
    "das-brokers", "One to nine brokers: duplication, network load and efficiency", f"{das.PAPER}, figures 6 and 7", run
)
