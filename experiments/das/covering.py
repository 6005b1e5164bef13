"""Figures 8 and 9 of DAS: how efficiency, network load and duplication depend on how many profiles are covered."""

from __future__ import annotations

from itertools import pairwise

from experiments.das import setup as das
from experiments.das import strategies
from experiments.das.setup import EVENT, PROFILE, RENDEZVOUS, STRATEGIES, DasSetup
from experiments.das.strategies import NOISE, SAME, DasPoint, DasSweep, against, alike, each
from experiments.harness import Cell, Experiment, PaperClaim, Result, Settings
from tidings.topic import Filtering

LOW, HIGH = 0.1, 0.9
EVENTS, PROFILES = "p^e", "p^p"
"""What stays the same while σ grows."""


def run(settings: Settings) -> Result:
    coverings = (1, 5, 20) if settings.quick else (1, 2, 5, 20, 40)
    per_broker = 60 if settings.quick else 200
    points = [
        DasPoint(
            {"fixed": fixed, "share": share, "sigma": covering},
            DasSetup(profiles=4 * per_broker, covering=covering),
            share if fixed == EVENTS else share / covering,
        )
        for fixed in (EVENTS, PROFILES)
        for share in (LOW, HIGH)
        for covering in coverings
    ]
    found = strategies.sweep(settings, points, events=80 if settings.quick else 160, seeds=settings.seeds(full=2, quick=1))
    axis, load = ("sigma", "profiles for each value σ"), ("load_bytes", "bytes per event")
    return Result(
        rows=found.rows,
        claims=claims(found, coverings),
        table=found.table(
            {"fixed": "fixed", "share": "at", "sigma": "σ"},
            {"duplication": ("duplication", ".2f"), "load_bytes": ("bytes per event", ".0f"), "relative": ("efficiency", ".1f")},
        ),
        seeds=found.seeds,
        plots=[
            found.plot("Duplication", axis, ("duplication", "brokers that hold a profile"), fixed=EVENTS, share=LOW),
            found.plot(f"Load (p^e = {HIGH})", axis, load, fixed=EVENTS, share=HIGH),
            found.plot(f"Load (p^p = {HIGH})", axis, load, fixed=PROFILES, share=HIGH),
            found.plot(f"Efficiency (p^p = {HIGH})", axis, ("efficiency", "events per CPU second"), fixed=PROFILES, share=HIGH),
        ],
        notes=[
            strategies.scale_note(f"{per_broker} profiles a broker", "50,000"),
            "Profiles that ask for the same value are at the same broker, as in the paper.",
            strategies.SCAN_NOTE,
            "Also at p^e = 0.9 an event matches at one broker only, so profile forwarding still spares some of the others. The "
            "paper says that nearly all events have to be flooded then; with one home for each value they have not.",
            strategies.MEMORY_NOTE,
            strategies.LOAD_NOTE,
            strategies.TIME_NOTE,
        ],
    )


def claims(found: DasSweep, coverings: tuple[int, ...]) -> list[PaperClaim]:
    return [*_memory_claims(found, coverings), *_load_claims(found, coverings), *_efficiency_claims(found, coverings)]


def _memory_claims(found: DasSweep, coverings: tuple[int, ...]) -> list[PaperClaim]:
    held = {c: {s: found.median("duplication", s, fixed=EVENTS, share=LOW, sigma=c) for s in STRATEGIES} for c in coverings}
    ordered = list(held.values())
    return [
        PaperClaim(
            "duplication falls with more coverings; that of profile forwarding is the largest (figure 9 c)",
            "profile > rendezvous > event, falling",
            f"σ = 1: {each(ordered[0], '.2f')}",
            all(one[PROFILE] > one[RENDEZVOUS] > one[EVENT] for one in ordered)
            and all(before[s] > after[s] for before, after in pairwise(ordered) for s in (PROFILE, RENDEZVOUS)),
        ),
        PaperClaim(
            "with many coverings, profile forwarding and rendezvous come down to event forwarding (figure 9 c)",
            "converge",
            f"σ = {coverings[-1]}: {each(ordered[-1], '.2f')}",
            all(alike(ordered[-1][s], ordered[-1][EVENT], 0.25) for s in (PROFILE, RENDEZVOUS)),
        ),
    ]


def _load_claims(found: DasSweep, coverings: tuple[int, ...]) -> list[PaperClaim]:
    first, last = coverings[0], coverings[-1]
    by_events = {s: _change(found, "load_bytes", s, EVENTS, HIGH, first, last) for s in STRATEGIES}
    by_profiles = {s: _change(found, "load_bytes", s, PROFILES, HIGH, first, last) for s in STRATEGIES}
    falls = [found.median("load_bytes", PROFILE, fixed=PROFILES, share=HIGH, sigma=c) for c in coverings]
    steps = [(a - b) / (d - c) for a, b, c, d in zip(falls, falls[1:], coverings, coverings[1:], strict=False)]
    high = {
        s: (
            found.median("load_bytes", s, fixed=PROFILES, share=LOW, sigma=first),
            found.median("load_bytes", s, fixed=PROFILES, share=HIGH, sigma=first),
        )
        for s in STRATEGIES
    }
    return [
        PaperClaim(
            "at the same p^e, the load does not depend on σ (figure 9 a)",
            "constant",
            f"σ = {last} by σ = 1: {each(by_events, '.2f')}",
            all(alike(ratio, 1, SAME) for ratio in by_events.values()),
        ),
        PaperClaim(
            "at the same p^p, the load falls with σ, but for event forwarding (figure 9 b)",
            "profile and rendezvous fall",
            f"σ = {last} by σ = 1: {each(by_profiles, '.2f')}",
            by_profiles[PROFILE] < 1 and by_profiles[RENDEZVOUS] < 1 and alike(by_profiles[EVENT], 1, SAME),
        ),
        PaperClaim(
            "that effect becomes weaker as σ grows",
            "weaker",
            f"profile forwarding: {', '.join(f'{load:.0f}' for load in falls)} bytes",
            all(before > after for before, after in pairwise(steps)),
        ),
        PaperClaim(
            "a high p^p means more load, but for event forwarding (figure 9 b)",
            "profile and rendezvous more",
            ", ".join(f"{s} {low:.0f} to {more:.0f}" for s, (low, more) in high.items()) + " bytes",
            all(high[s][0] < high[s][1] for s in (PROFILE, RENDEZVOUS)) and alike(*high[EVENT], SAME),
        ),
    ]


def _efficiency_claims(found: DasSweep, coverings: tuple[int, ...]) -> list[PaperClaim]:
    first, last = coverings[0], coverings[-1]
    kept = {s: _change(found, "efficiency", s, EVENTS, HIGH, first, last) for s in STRATEGIES}
    gained = {s: _change(found, "efficiency", s, PROFILES, HIGH, first, last) for s in STRATEGIES}
    relative = {
        share: {s: found.median("relative", s, fixed=EVENTS, share=share, sigma=first) for s in STRATEGIES}
        for share in (LOW, HIGH)
    }
    return [
        PaperClaim(
            "at the same p^e, all become less efficient with more coverings: there is more to tell (figure 8 a)",
            "all fall",
            f"σ = {last} by σ = 1, p^e = {HIGH}: {each(kept, '.2f')}",
            all(ratio < 1 for ratio in kept.values()),
        ),
        PaperClaim(
            "at high p^e the three hardly differ (within a quarter, we say; figure 8 a)",
            "marginal",
            f"p^e = {HIGH}: {against(relative[HIGH])}",
            all(alike(ratio, 1, 0.25) for ratio in relative[HIGH].values()),
        ),
        PaperClaim(
            "at small p^e profile forwarding is by far the most efficient (figure 8 a)",
            "by far",
            f"p^e = {LOW}: {against(relative[LOW])}",
            relative[LOW][PROFILE] > (1 + NOISE) * max(relative[LOW][EVENT], relative[LOW][RENDEZVOUS]),
        ),
        PaperClaim(
            "at the same p^p, profile forwarding gains the most efficiency with σ, event none (figure 8 b; within a fifth)",
            "profile > rendezvous > event",
            f"σ = {last} by σ = 1, p^p = {HIGH}: {each(gained, '.2f')}",
            gained[PROFILE] > gained[RENDEZVOUS] > gained[EVENT] and alike(gained[EVENT], 1, 2 * NOISE),
        ),
    ]


def _change(found: DasSweep, measure: str, strategy: Filtering, fixed: str, share: float, first: int, last: int) -> float:
    at: dict[str, Cell] = {"fixed": fixed, "share": share}
    return found.ratio(measure, strategy, {**at, "sigma": last}, {**at, "sigma": first})


EXPERIMENT = Experiment(
    "das-covering", "Covered profiles: duplication, network load and efficiency", f"{das.PAPER}, figures 8 and 9", run
)
