"""Figures 3 and 4 of DAS: how efficiency and network load depend on the share of matching events and on matching profiles."""

from __future__ import annotations

from experiments.das import setup as das
from experiments.das import strategies
from experiments.das.setup import EVENT, PROFILE, RENDEZVOUS, STRATEGIES, DasSetup
from experiments.das.strategies import NOISE, SAME, DasPoint, DasSweep, against, alike, each
from experiments.harness import Experiment, PaperClaim, Result, Settings

ONE, NINE = 1, 9
SHARES = (0.05, 0.2, 0.4, 0.7, 1.0)
"""p^e in one pair of figures, p^p in the other."""


def run(settings: Settings) -> Result:
    shares = (0.05, 0.4, 1.0) if settings.quick else SHARES
    per_broker = 54 if settings.quick else 198
    setups = {covering: DasSetup(profiles=4 * per_broker, covering=covering) for covering in (ONE, NINE)}
    by_events = [*[(ONE, share) for share in shares], (NINE, shares[0]), (NINE, shares[-1])]
    by_profiles = [(NINE, share / NINE) for share in shares]
    points = [
        DasPoint({"sigma": covering, "p_e": round(share, 4), "p_p": round(share * covering, 4)}, setups[covering], share)
        for covering, share in dict.fromkeys(by_events + by_profiles)
    ]
    found = strategies.sweep(settings, points, events=100 if settings.quick else 160, seeds=settings.seeds(full=3, quick=1))
    return Result(
        rows=found.rows,
        claims=claims(found, shares),
        table=found.table(
            {"sigma": "σ", "p_e": "p^e", "p_p": "p^p"},
            {"load_bytes": ("bytes per event", ".0f"), "relative": ("efficiency", ".1f")},
        ),
        seeds=found.seeds,
        plots=[
            found.plot("Load (σ = 1)", ("p_e", "matching events p^e"), ("load_bytes", "bytes per event"), sigma=ONE),
            _by_profiles(found, shares).plot(
                "Load (σ = 9)", ("p_p", "matching profiles p^p"), ("load_bytes", "bytes per event"), sigma=NINE
            ),
            found.plot("Efficiency (σ = 1)", ("p_e", "matching events p^e"), ("efficiency", "events per CPU second"), sigma=ONE),
        ],
        notes=[
            strategies.scale_note(f"{per_broker} profiles a broker", "50,000"),
            strategies.LOAD_NOTE,
            strategies.TIME_NOTE,
            strategies.SCAN_NOTE,
        ],
    )


def _by_profiles(found: DasSweep, shares: tuple[float, ...]) -> DasSweep:
    """The points of the same p^p as those with σ = 1."""
    return DasSweep([row for row in found.rows if row["p_p"] in shares], found.seeds)


def claims(found: DasSweep, shares: tuple[float, ...]) -> list[PaperClaim]:
    return [*_load_claims(found, shares), *_efficiency_claims(found, shares)]


def _load_claims(found: DasSweep, shares: tuple[float, ...]) -> list[PaperClaim]:
    low, high = shares[0], shares[-1]
    loads = {p: {s: found.median("load_bytes", s, sigma=ONE, p_e=p) for s in STRATEGIES} for p in shares}
    covered = {s: found.ratio("load_bytes", s, {"sigma": NINE, "p_e": high}, {"sigma": ONE, "p_e": high}) for s in STRATEGIES}
    fewer = {s: found.ratio("load_bytes", s, {"sigma": NINE, "p_p": high}, {"sigma": ONE, "p_p": high}) for s in STRATEGIES}
    return [
        PaperClaim(
            "network load: event forwarding the highest, profile forwarding the least, at every p^e (figure 4 a)",
            "event > rendezvous > profile",
            f"bytes at p^e = 0.4: {each(loads[0.4], '.0f')}",
            all(load[EVENT] > load[RENDEZVOUS] > load[PROFILE] for load in loads.values()),
        ),
        PaperClaim(
            "event forwarding's load does not depend on p^e",
            "constant",
            f"{loads[low][EVENT]:.0f} to {loads[high][EVENT]:.0f} bytes",
            all(alike(load[EVENT], loads[low][EVENT], SAME) for load in loads.values()),
        ),
        PaperClaim(
            "at the same p^e, σ does not change the load (figure 4 a)",
            "σ = 9 as σ = 1",
            f"σ = 9 by σ = 1: {each(covered, '.2f')}",
            all(alike(ratio, 1, SAME) for ratio in covered.values()),
        ),
        PaperClaim(
            "at the same p^p, a higher σ lowers the load, but for event forwarding (figure 4 b)",
            "profile and rendezvous lower, event the same",
            f"σ = 9 by σ = 1, at p^p = 1: {each(fewer, '.2f')}",
            fewer[PROFILE] < 1 - SAME and fewer[RENDEZVOUS] < 1 - SAME and alike(fewer[EVENT], 1, SAME),
        ),
    ]


def _efficiency_claims(found: DasSweep, shares: tuple[float, ...]) -> list[PaperClaim]:
    low, high = shares[0], shares[-1]
    relative = {p: {s: found.median("relative", s, sigma=ONE, p_e=p) for s in STRATEGIES} for p in shares}
    kept = {s: found.ratio("efficiency", s, {"sigma": ONE, "p_e": high}, {"sigma": ONE, "p_e": low}) for s in STRATEGIES}
    gained = {s: found.ratio("efficiency", s, {"sigma": NINE, "p_p": high}, {"sigma": ONE, "p_p": high}) for s in STRATEGIES}
    return [
        PaperClaim(
            "at small p^e, profile forwarding is the most efficient (figure 3 a)",
            "profile far above the others",
            f"at p^e = {low}: {against(relative[low])}",
            relative[low][PROFILE] > (1 + NOISE) * max(relative[low][EVENT], relative[low][RENDEZVOUS]),
        ),
        PaperClaim(
            "with p^e, profile forwarding loses the most efficiency, then rendezvous, then event forwarding (figure 3 a)",
            "profile > rendezvous > event",
            f"what is left at p^e = 1: {each(kept, '.2f')}",
            kept[PROFILE] < kept[RENDEZVOUS] < kept[EVENT],
        ),
        PaperClaim(
            "rendezvous lies between event and profile forwarding (figure 3 b)",
            "between",
            f"at p^p = {high:g}: {against(relative[high])}",
            all((1 - NOISE) * one[EVENT] <= one[RENDEZVOUS] <= (1 + NOISE) * one[PROFILE] for one in relative.values()),
        ),
        PaperClaim(
            "at the same p^p, efficiency rises with σ, most of all that of profile forwarding (figure 3 b)",
            "profile rises most",
            f"σ = 9 by σ = 1, at p^p = 1: {each(gained, '.1f')}",
            gained[PROFILE] > 1 + NOISE and gained[PROFILE] > max(gained[RENDEZVOUS], gained[EVENT]),
        ),
    ]


EXPERIMENT = Experiment("das-matching", "How much matches: network load and efficiency", f"{das.PAPER}, figures 3 and 4", run)
