"""A town's incidents for the demo: many witnesses, each with a part of the story, most with nothing new.

Pure, like the papers' workload beside it: the same arguments give the same messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from producers.workload import Carry, SentMessage, resent
from tidings.message import Message
from tidings.values import Value

_NEWS_SHARE = 0.115
"""The share of messages that bring something new, as far as the stories go: a story has only a dozen facts to tell."""

_FACTS_MAX = 5
"""Nobody brings more news than this at a time."""

_SAYS_WHAT = 0.6
"""Most people say what it is, even when everybody knows."""

_STREETS = ("Main", "Oak", "Elm", "Market", "Church", "Mill", "Harbour", "Station", "Park", "Chapel", "Bridge", "King")
_TOWN_BLOCKS = 30
_ORDER = {"what": 0, "where": 1, "when": 2}

Fact: TypeAlias = tuple[str, Value]


@dataclass(frozen=True, slots=True)
class _Scenario:
    what: str
    mistaken_for: str
    where: tuple[str, ...]
    severity: tuple[int, int]
    details: Mapping[str, tuple[Value, ...]]
    tags: tuple[str, ...]


_SCENARIOS = (
    _Scenario(
        "fire",
        "smoke from a barbecue",
        ("kitchen", "stairwell", "roof", "bakery on the corner", "parking garage"),
        (2, 5),
        {"floor": tuple(range(9)), "smoke": ("black", "grey", "white"), "trapped": (0, 0, 1, 2)},
        ("flames", "smoke", "evacuation", "sprinklers-on", "ladder-needed"),
    ),
    _Scenario(
        "collision",
        "stalled car",
        ("northbound lane", "crosswalk", "bus lane", "middle of the junction"),
        (1, 4),
        {
            "vehicles": (2, 2, 2, 3, 4),
            "blocking": ("one lane", "both lanes", "tram tracks"),
            "bus_involved": (True, False),
        },
        ("airbags", "fuel-spill", "broken-glass", "tow-needed", "cyclist"),
    ),
    _Scenario(
        "gas leak",
        "sewer smell",
        ("basement", "laundromat", "building site", "courtyard"),
        (3, 5),
        {"floor": (-1, 0, 0, 1), "smell": ("strong", "faint"), "power_cut": (True, False)},
        ("evacuation", "no-ignition", "utility-called", "hissing"),
    ),
    _Scenario(
        "burst water main",
        "blocked drain",
        ("sidewalk", "underpass", "in front of the pharmacy", "metro entrance"),
        (1, 3),
        {"water_cm": (5, 10, 20, 40), "running_since": ("an hour", "a few minutes"), "cellars_flooded": (0, 1, 3)},
        ("sinkhole", "low-pressure", "utility-called", "pumps-needed"),
    ),
    _Scenario(
        "fallen tree",
        "collapsed scaffold",
        ("across the road", "on a parked van", "schoolyard", "tram stop"),
        (1, 3),
        {"vehicles": (0, 1, 1, 2), "wires_down": (True, False), "blocking": ("one lane", "both lanes", "sidewalk")},
        ("chainsaw-needed", "power-lines", "parked-cars", "storm"),
    ),
)

_UNSEEN_BY: Mapping[str, frozenset[str]] = {
    "cam": frozenset({"injured", "smell", "trapped", "running_since", "cellars_flooded", "power_cut"}),
    "phone": frozenset(),
    "patrol": frozenset(),
}
"""What a kind of witness cannot know: a camera neither smells nor asks."""


def incidents(
    count: int,
    witnesses: int,
    seed: int,
    spread_ms: int,
    burst_ms: int,
    *,
    topic: str = "incident",
    mistaken_share: float = 0.3,
    retry_share: float = 0.02,
) -> list[SentMessage]:
    """``count`` incidents, each at its own street corner and reported by ``witnesses`` people, cameras and patrols.

    In a ``mistaken_share`` of the incidents a witness or two take it for something else; ``retry_share`` of the reports
    are sent twice, with the same id. With 10 to 80 witnesses, 85 to 92 % of the messages bring nothing new; with more
    witnesses more, because the story is told. The tags are meant for a ``union`` register. ``at_ms`` counts
    from 0 and ``published_ms`` is left open, as in :func:`producers.workload.generate`.
    """
    _check(count, witnesses, spread_ms, burst_ms, mistaken_share, retry_share)
    rng = Random(f"{seed}/incidents")
    starts = sorted(rng.randint(0, spread_ms) for _ in range(count))
    news, retries = Carry(), Carry()
    run: list[SentMessage] = []
    for number, (start_ms, key) in enumerate(zip(starts, _corners(rng, count), strict=True)):
        arrivals, last_ms = _arrivals(rng, start_ms, burst_ms, _witnesses(rng, witnesses))
        resend = retries.take(len(arrivals) * retry_share, 0, len(arrivals))
        told = _tell(rng, arrivals, start_ms, (len(arrivals) + resend) * _NEWS_SHARE, news, mistaken_share)
        sent = [
            SentMessage(at_ms, witness, Message(topic, key, fields, witness, f"i{seed}-{number:04d}-{index:04d}"))
            for index, ((at_ms, witness), fields) in enumerate(zip(arrivals, told, strict=True))
        ]
        run += sent + resent(rng, sent, resend, last_ms)
    return sorted(run, key=lambda one: (one.at_ms, one.message.message_id))


def _check(count: int, witnesses: int, spread_ms: int, burst_ms: int, mistaken_share: float, retry_share: float) -> None:
    for name, value, least in (
        ("count", count, 1),
        ("witnesses", witnesses, 1),
        ("spread_ms", spread_ms, 0),
        ("burst_ms", burst_ms, 1),
    ):
        if value < least:
            raise ValueError(f"{name} is {value}; it must be at least {least}")
    for name, share in (("mistaken_share", mistaken_share), ("retry_share", retry_share)):
        if not 0 <= share <= 1:
            raise ValueError(f"{name} is {share}; it must be within 0..1")


def _corners(rng: Random, count: int) -> list[str]:
    """Distinct corners; the town has as many blocks as it needs."""
    blocks = max(_TOWN_BLOCKS, -(-count // len(_STREETS)))
    corners = rng.sample(range(blocks * len(_STREETS)), count)
    return [f"{_ordinal(corner // len(_STREETS) + 1)} and {_STREETS[corner % len(_STREETS)]}" for corner in corners]


def _ordinal(number: int) -> str:
    """
    >>> [_ordinal(number) for number in (1, 2, 3, 4, 11, 12, 22, 113)]
    ['1st', '2nd', '3rd', '4th', '11th', '12th', '22nd', '113th']
    """
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def _witnesses(rng: Random, count: int) -> list[str]:
    """Those near one incident: mostly phones, and never without one, or some facts would have nobody to tell them."""
    cameras, patrols = count // 4, count // 12
    return (
        [f"phone-{number}" for number in rng.sample(range(100, 400 + 3 * count), count - cameras - patrols)]
        + [f"cam-{number}" for number in rng.sample(range(1, 60 + count), cameras)]
        + [f"patrol-{number}" for number in rng.sample(range(1, 10 + count // 6), patrols)]
    )


def _arrivals(rng: Random, start_ms: int, burst_ms: int, witnesses: list[str]) -> tuple[list[tuple[int, str]], int]:
    """Who reports when: each once to three times, most of them early in the burst; and when the burst ends."""
    duration_ms = rng.randint((burst_ms + 1) // 2, burst_ms)
    arrivals = [
        (start_ms + int(rng.betavariate(1.2, 3) * (duration_ms - 1)), witness)
        for witness in witnesses
        for _ in range(rng.choices((1, 2, 3), (60, 30, 10))[0])
    ]
    return sorted(arrivals), start_ms + duration_ms


def _story(rng: Random, scenario: _Scenario, start_ms: int) -> list[Fact]:
    """What there is to tell, in the order in which it comes out: what and where first, details in any order."""
    minute = 8 * 60 + start_ms // 60_000
    details: list[Fact] = [
        ("when", f"{minute // 60 % 24:02d}:{minute % 60:02d}"),
        ("severity", rng.randint(*scenario.severity)),
        ("injured", rng.choice((0, 0, 0, 1, 1, 2, 4))),
        ("road_closed", rng.random() < 0.5),
        *((name, rng.choice(options)) for name, options in scenario.details.items()),
        *(("tags", tag) for tag in rng.sample(scenario.tags, rng.randint(2, len(scenario.tags)))),
    ]
    rng.shuffle(details)
    return [("what", scenario.what), ("where", rng.choice(scenario.where)), *details]


def _tell(
    rng: Random, arrivals: list[tuple[int, str]], start_ms: int, wanted: float, news: Carry, mistaken_share: float
) -> list[dict[str, Value]]:
    """What each report states. About ``wanted`` of them bring news; the carry evens that out over the incidents."""
    scenario = rng.choice(_SCENARIOS)
    untold, told = _story(rng, scenario, start_ms), list[Fact]()
    mistaken: list[str] = []
    others = sorted({witness for _, witness in arrivals} - {arrivals[0][1]})
    if others and rng.random() < mistaken_share:
        mistaken = rng.sample(others, min(len(others), rng.randint(1, 2)))
    # The first to be mistaken brings a new value too, whatever else it says.
    left = news.take(wanted, 1 + bool(mistaken), len(arrivals)) - bool(mistaken)
    bringing = {0, *rng.sample(range(1, len(arrivals)), left - 1)}
    stated = []
    for number, (_, witness) in enumerate(arrivals):
        unseen = _UNSEEN_BY[witness.partition("-")[0]]
        fresh: list[Fact] = []
        if number in bringing:
            share = -(-len(untold) // left)
            fresh = [fact for fact in untold if fact[0] not in unseen][: min(share, _FACTS_MAX)]
            left -= 1
        again = [fact for fact in told if fact[0] not in unseen]
        facts = fresh + rng.sample(again, min(len(again), rng.randint(0 if fresh else 1, 3)))
        if witness in mistaken:
            facts = [*facts, ("what", scenario.mistaken_for)]
        elif rng.random() < _SAYS_WHAT:
            facts = [*facts, ("what", scenario.what)]
        untold = [fact for fact in untold if fact not in fresh]
        told += fresh
        stated.append(_fields(facts))
    return stated


def _fields(facts: list[Fact]) -> dict[str, Value]:
    """The facts as a person would order them, the tags together in a list. Of two values of a field, the later."""
    ordered = sorted(facts, key=lambda fact: _ORDER.get(fact[0], len(_ORDER)))
    fields = {name: value for name, value in ordered if name != "tags"}
    tags = tuple(str(value) for name, value in facts if name == "tags")
    return {**fields, "tags": tags} if tags else fields
