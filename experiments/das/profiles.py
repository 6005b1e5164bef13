"""Figure 14 of DAS: how efficiency depends on the number of profiles."""

from __future__ import annotations

from dataclasses import replace

from experiments.das import setup as das
from experiments.das import strategies
from experiments.das.setup import EVENT, PROFILE, RENDEZVOUS, STRATEGIES, DasSetup
from experiments.das.strategies import NOISE, DasPoint, DasSweep, against, each
from experiments.harness import Experiment, PaperClaim, Result, Settings

MATCHING = 0.8


def run(settings: Settings) -> Result:
    sizes = (100, 200, 400) if settings.quick else (200, 400, 800, 1600, 3200)
    points = [DasPoint({"profiles": size}, DasSetup(profiles=size), MATCHING) for size in sizes]
    found = strategies.sweep(settings, points, events=60 if settings.quick else 100, seeds=settings.seeds(full=3, quick=1))
    return Result(
        rows=found.rows,
        claims=claims(found, sizes),
        table=found.table(
            {"profiles": "profiles"},
            {"efficiency": ("events per CPU second", ",.0f"), "relative": ("efficiency", ".1f"), "fullest": ("fullest", ".2f")},
        ),
        seeds=found.seeds,
        plots=[
            replace(
                found.plot("Efficiency", ("profiles", "profiles"), ("efficiency", "events per CPU second")),
                x_log=True,
                y_log=True,
            ),
            replace(found.plot("Memory", ("profiles", "profiles"), ("fullest", "share at the fullest broker")), x_log=True),
        ],
        notes=[
            strategies.scale_note(f"{sizes[0]} to {sizes[-1]} profiles", "up to 400,000"),
            "The plunge of figure 14 is where a broker's 256 MB were full; that is not measured. What it follows from is: "
            "`fullest` is the share of all profiles that the broker with the most has to hold.",
            "In DAS the rendezvous broker filters every event by all profiles. In ours it asks each link by one look into a set, "
            "and fewer brokers see the event than with event forwarding: so rendezvous has no reason to be the slowest.",
            strategies.SCAN_NOTE,
            strategies.TIME_NOTE,
        ],
    )


def claims(found: DasSweep, sizes: tuple[int, ...]) -> list[PaperClaim]:
    first, last = sizes[0], sizes[-1]
    kept = {s: found.ratio("efficiency", s, {"profiles": last}, {"profiles": first}) for s in STRATEGIES}
    relative = {size: {s: found.median("relative", s, profiles=size) for s in STRATEGIES} for size in sizes}
    fullest = {s: found.median("fullest", s, profiles=last) for s in STRATEGIES}
    return [
        PaperClaim(
            "efficiency falls with the number of profiles",
            "rapidly",
            f"with {last // first} times as many, what is left: {each(kept, '.2f')}",
            all(ratio < 0.5 for ratio in kept.values()),
        ),
        PaperClaim(
            "profile forwarding is the most efficient, as long as memory lasts",
            "profile best",
            f"with {last}: {against(relative[last])}",
            all(one[PROFILE] > max(one[EVENT], one[RENDEZVOUS]) for one in relative.values()),
        ),
        PaperClaim(
            "at p^e = 0.8 rendezvous is the least efficient",
            "event > rendezvous",
            f"with {last}: {against({RENDEZVOUS: relative[last][RENDEZVOUS]})}",
            all(one[RENDEZVOUS] < one[EVENT] * (1 - NOISE) for one in relative.values()),
        ),
        PaperClaim(
            "event forwarding can hold more profiles before a broker is full; the other two are full at the same number",
            "350,000 and 100,000: 3.5 times",
            f"{fullest[PROFILE] / fullest[EVENT]:.1f} times; at the fullest broker: {each(fullest, '.2f')} of all",
            fullest[PROFILE] == fullest[RENDEZVOUS] and 3 <= fullest[PROFILE] / fullest[EVENT] <= 4,
        ),
    ]


EXPERIMENT = Experiment("das-profiles", "Efficiency over the number of profiles", f"{das.PAPER}, figure 14", run)
