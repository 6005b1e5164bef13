"""Whatever is cut, healed, moved and subscribed to meanwhile: in the end everybody knows all, or `late` says what is not known.

Every broker is a process of its own here: it takes up a version later than others do, or never, if the next one comes first.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streaming.broker.state import Rules
from streaming.model.books import Books
from streaming.model.outputs import PutAside, Tell
from streaming.wire.message import MessageLimits, decode_message
from streaming.world.records import broker, link, subscription, topic
from streaming.world.simulator import Simulator
from streaming.world.world import World
from tidings import event as events
from tidings.control import Snapshot
from tidings.message import Message
from tidings.notification import Notification
from tidings.predicate import Everything, Verdict
from tidings.topic import Filtering
from topology.islands import PLACED
from topology.plan import Plan

NAMES = ["b1", "b2", "b3", "b4"]
LINKS = [("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b1", "b3"), ("b2", "b4")]
JOINS = {"f0": "min", "f1": "last", "f2": "first", "f3": "union"}
RULES = Rules()

values = st.integers(0, 4)
fields = st.dictionaries(st.sampled_from(["f0", "f1", "f2"]), values, max_size=3)
unions = st.lists(st.sampled_from("abcd"), max_size=2, unique=True).map(tuple)
stated = st.builds(lambda some, more: {**some, **({"f3": more} if more else {})}, fields, unions)
publishes = st.tuples(st.just("publish"), st.sampled_from(NAMES), st.sampled_from(["k0", "k1"]), stated)
cuts = st.tuples(st.sampled_from(["cut", "heal", "forbid"]), st.sampled_from(LINKS))
leaves = st.tuples(st.sampled_from(["leave", "join"]), st.sampled_from(NAMES[1:]))
subscribes = st.tuples(
    st.just("subscribe"),
    st.sampled_from(["s0", "s1"]),
    st.sampled_from(NAMES),
    st.sampled_from([{}, {}, {"fields": ["f0", "f1"]}, {"where": "f0 <= 1", "missing": "patient"}, {"every_ms": 3000}]),
)
unsubscribes = st.tuples(st.just("unsubscribe"), st.sampled_from(["s0", "s1"]), st.sampled_from(NAMES))
manners = st.tuples(
    st.just("declare"),
    st.fixed_dictionaries(
        {
            "hold_ms": st.sampled_from([0, 2_000]),
            "gatherer": st.sampled_from([str(placement) for placement in PLACED]),
            "filter": st.sampled_from([str(filtering) for filtering in Filtering]),
            "early": st.booleans(),
        },
    ),
)
nobody = st.tuples(st.just("declare"), st.just({"gatherer": "none"}))
changes = st.one_of(publishes, publishes, publishes, cuts, cuts, subscribes, subscribes, unsubscribes, manners, leaves)
waits = st.sampled_from([1, 1, 100, 1_500, 4_000])
lags = st.lists(st.sampled_from([0, 0, 30, 700, 2_500]), min_size=4, max_size=4)
scripts = st.lists(st.tuples(waits, changes, lags), min_size=4, max_size=30)
one_hop = st.sampled_from([0, 0, 20, 400, 1_200])
hops = one_hop.map(lambda ms: [ms] * len(LINKS)) | st.lists(one_hop, min_size=len(LINKS), max_size=len(LINKS))
"""How long each link takes: all the same, or each as it likes."""


def in_turn(simulator: Simulator, snapshot: Snapshot, records: dict[str, Any], at_ms: int, lag: list[int]) -> Snapshot:
    """What is different in the records holds from then on, at each broker a little later."""
    version = snapshot.version
    gone = [key for key in snapshot.records if key not in records]
    for key in [*gone, *(key for key, record in records.items() if snapshot.records.get(key) != record)]:
        version += 1
        value = json.dumps(records[key]).encode() if key in records else None
        snapshot = snapshot.apply(version, key, value)
    simulator.adopt(Plan(snapshot), at_ms, lag=lambda name: lag[NAMES.index(name)])
    return snapshot


class Story:
    """A script, played over an overlay that is whole again in the end."""

    def __init__(
        self, script: list[tuple], hops_ms: list[int], window_ms: int, *, heals: bool = True, unions: bool = False
    ) -> None:
        self.window_ms = window_ms
        self._unions = unions
        self.left: set[str] = set()
        """Brokers that were away for a while, and have forgotten what they told."""
        self.since_ms: dict[str, int] = {"s0-b1-0": 0}
        self.published: list[tuple[int, str, Message]] = []
        self._made: Counter[tuple[str, str]] = Counter()
        everything = [
            *map(broker, NAMES),
            *(link(a, b) for a, b in LINKS),
            topic("t", window_ms=window_ms, hold_ms=0, fields=JOINS),
        ]
        self.records = {f"{r['kind']}/{r['name']}": r for r in [*everything, subscription("s0-b1-0", "t", broker="b1")]}
        self.snapshot = Snapshot()
        delays = {frozenset(ends): ms for ends, ms in zip(LINKS, hops_ms, strict=True)}
        self.simulator = Simulator(Plan(Snapshot()), lambda *ends: delays[frozenset(ends)], rules=RULES)
        self.simulator.keep_outputs = True
        self.apart = False
        """Whether no two brokers were linked for a while: they are separate on purpose then."""
        self.forgotten = False
        """Whether a broker was away while nobody asked for anything: then nobody wants to know what it knew."""
        now_ms = 0
        self._change(now_ms, [0, 0, 0, 0])
        for wait_ms, action, lag in script:
            now_ms += wait_ms
            self._take(now_ms, action, lag)
        self.end_ms = now_ms + 3_000
        for record in everything[:-1] if heals else ():
            if record["kind"] == "broker":
                self._join(record["name"], self.end_ms)
            self.records[f"{record['kind']}/{record['name']}"] = record
        self._change(self.end_ms, [0, 0, 0, 0])
        self._settle()

    def _take(self, now_ms: int, action: tuple, lag: list[int]) -> None:
        records = self.records
        match action:
            case ("publish", at, key, said):
                at = at if f"broker/{at}" in records else "b1"
                name = f"m{len(self.published)}"
                said = {"f3": (name,)} if self._unions else said
                message = Message("t", key, said, id=name, published_ms=now_ms)
                self.published.append((now_ms, at, message))
                self._publish(now_ms, at, message)
                return
            case ("cut", (a, b)):
                records.pop(f"link/{a}-{b}", None)
            case ("heal", (a, b)):
                records[f"link/{a}-{b}"] = link(a, b)
            case ("forbid", (a, b)):
                records[f"link/{a}-{b}"] = link(a, b, forbid=["t"])
            case ("leave", name):
                records.pop(f"broker/{name}", None)
                self.left.add(name)
            case ("join", name):
                self._join(name, now_ms + max(lag))
            case ("subscribe", name, at, more):
                # Where it lags, the broker that a subscription has left may tell it something old.
                name = f"{name}-{at}-{self._made[name, at]}"
                records[f"subscription/{name}"] = subscription(name, "t", broker=at, **more)
                self.since_ms[name] = now_ms + max(lag)
            case ("unsubscribe", name, at):
                records.pop(f"subscription/{name}-{at}-{self._made[name, at]}", None)
                self._made[name, at] += 1
            case ("records", record):
                records[f"{record['kind']}/{record['name']}"] = record
            case ("declare", manner):
                records["topic/t"] = topic("t", window_ms=self.window_ms, fields=JOINS, **manner)
        self._change(now_ms, lag)

    def _join(self, name: str, now_ms: int) -> None:
        """What comes is a new broker, and its subscriptions are new ones."""
        if f"broker/{name}" not in self.records:
            self.since_ms |= {each: now_ms for each in self.since_ms if each.split("-")[1] == name}
        self.records[f"broker/{name}"] = broker(name)

    def _publish(self, now_ms: int, at: str, message: Message) -> None:
        self.simulator.publish(now_ms, at, message)

    def _settle(self) -> None:
        self.simulator.run()

    def _change(self, now_ms: int, lag: list[int]) -> None:
        self._look()
        self.snapshot = in_turn(self.simulator, self.snapshot, self.records, now_ms, lag)

    def _look(self) -> None:
        there = {name for name in NAMES if f"broker/{name}" in self.records}
        of_kind = {kind: [r for r in self.records.values() if r["kind"] == kind] for kind in ("link", "subscription")}
        self.apart |= not any({each["a"], each["b"]} <= there for each in of_kind["link"])
        self.forgotten |= len(there) < len(NAMES) and not any(each["broker"] in there for each in of_kind["subscription"])

    # ---- what came of it ----------------------------------------------------------------------------------------------

    def put_aside(self) -> list[PutAside]:
        return [output for _, output in self.simulator.outputs if isinstance(output, PutAside)]

    def books(self) -> Iterable[Books]:
        return self.simulator.books.values()

    def names_in(self, aside: PutAside) -> set[str]:
        """The messages that something put aside speaks of: one that was published, or several that were merged."""
        if aside.entry is not None and aside.entry.value is not None:
            return set(decode_message(aside.entry.value, MessageLimits()).fields.get("f3", ()))
        return {message.message_id for at_ms, _, message in self.published if at_ms == aside.origin.append_ms}

    def notifications(self, subscription: str) -> list[Notification]:
        tells = (output.notification for _, output in self.simulator.outputs if isinstance(output, Tell))
        return [each for each in tells if each.subscription == subscription]

    def knowledge(self) -> dict[str, dict[str, Any]]:
        declared = self.snapshot.topic("t")
        found: dict[str, dict] = defaultdict(dict)
        for at_ms, _, message in self.published:
            found[message.key] = events.join(
                found[message.key], events.report(message, at_ms, declared, RULES.bounds), RULES.bounds
            )
        return {key: events.facts(known) for key, known in found.items()}


def check_all_known(story: Story) -> None:
    """Every subscription that matches in the end knows all of what it wants."""
    truth = story.knowledge()
    for name, wants in story.snapshot.subscriptions.items():
        told: dict[str, dict[str, Any]] = defaultdict(dict)
        for each in story.notifications(name):
            told[each.key].update(each.news)
        for key, facts in truth.items():
            if wants.judge(key, facts) is Verdict.MATCHES:
                known = {field: value for field, value in told[key].items() if wants.wants(field)}
                assert known == {field: value for field, value in facts.items() if wants.wants(field)}, f"{name}: {key}"
    assert all(books.balanced for books in story.books())


def law_all_known(story: Story) -> None:
    assume(not story.forgotten)
    assume(not story.put_aside())  # published at a broker that did not know yet that it is there
    check_all_known(story)


@given(scripts, hops)
def test_when_all_is_joined_again_everybody_knows_all_there_is(script, hops_ms):
    law_all_known(Story(script, hops_ms, window_ms=3_600_000))


def check_told_or_late(story: Story, *, once: bool = False) -> None:
    """Every message says its own name, so that each can be looked for."""
    aside = {name for each in story.put_aside() for name in story.names_in(each)}
    for name, wants in story.snapshot.subscriptions.items():
        if f"broker/{wants.broker}" not in story.records or not isinstance(wants.where, Everything) or not wants.wants("f3"):
            continue
        told = Counter(said for each in story.notifications(name) for said in each.news.get("f3", ()))
        assert not once or wants.broker in story.left or max(told.values(), default=0) <= 1
        for entered_ms, at, message in story.published:
            if entered_ms > story.since_ms[name]:
                assert message.message_id in told.keys() | aside, f"{name}: {message.message_id}, entered at {at} at {entered_ms}"
    assert all(books.balanced for books in story.books())


def law_told_or_late(story: Story, *, once: bool = False) -> None:
    assume(not story.apart)
    check_told_or_late(story, once=once)


short_windows = st.sampled_from([6_000, 15_000])


@given(scripts, hops, st.booleans(), short_windows)
def test_whatever_is_not_told_stands_in_late(script, hops_ms, heals, window_ms):
    law_told_or_late(Story(script, hops_ms, window_ms, heals=heals, unions=True))


@given(st.lists(st.tuples(waits, st.one_of(changes, nobody), lags), min_size=4, max_size=30), hops, st.booleans(), short_windows)
def test_so_it_is_where_nobody_gathers_for_a_while(script, hops_ms, heals, window_ms):
    law_told_or_late(Story(script, hops_ms, window_ms, heals=heals, unions=True))


@given(scripts, hops, st.sampled_from(["profile", "event", "adaptive"]))
def test_a_measurement_is_told_once_or_stands_in_late(script, hops_ms, filtering):
    """What is on its way when a change comes meets other ways, and brokers that do not know them yet."""
    declared = topic("t", gather=False, window_ms=600_000, filter=filtering)
    actions = [each for each in script if each[1][0] != "declare"]
    story = Story([(1, ("records", declared), [0, 0, 0, 0]), *actions], hops_ms, 600_000, heals=False, unions=True)
    law_told_or_late(story, once=True)


staying = st.one_of(publishes, publishes, cuts, subscribes, unsubscribes, manners)
"""No broker leaves: one that does forgets what it told."""


@given(st.lists(st.tuples(waits, staying, lags), min_size=4, max_size=30), hops, short_windows, st.booleans())
def test_nothing_is_told_twice_of_an_event(script, hops_ms, window_ms, heals):
    story = Story(script, hops_ms, window_ms, heals=heals)
    for name in story.snapshot.subscriptions:
        told: dict[tuple[str, str], Any] = {}
        for each in story.notifications(name):
            for field, value in each.news.items():
                assert told.get((each.event, field), "nothing") != value, f"{name}: {field} of {each.key}"
                told[each.event, field] = value


# ---- what the laws have found ------------------------------------------------------------------------------------------

NOW = [0, 0, 0, 0]
"""Everybody takes up a change at once."""


def at_once(*actions: tuple) -> list[tuple]:
    return [(1, action, NOW) for action in actions]


def said(at: str) -> tuple:
    return "publish", at, "k0", {}


NOBODY = ("declare", {"gatherer": "none"})
HOLDS = ("declare", {"hold_ms": 2_000})
AT_B4 = ("declare", {"filter": "rendezvous", "rendezvous": "b4"})
ALONE_B1 = [("cut", ("b1", "b2")), ("cut", ("b1", "b3"))]


@pytest.mark.parametrize(
    ("script", "hop_ms"),
    [
        pytest.param(
            at_once(*ALONE_B1, said("b2"), ("leave", "b2")),
            20,
            id="what was kept leaves with its broker",
        ),
        pytest.param(
            at_once(("cut", ("b1", "b3")), HOLDS, ("subscribe", "s0", "b3", {}), said("b1"), ("leave", "b2")),
            0,
            id="what was held leaves with its broker, which was the only link",
        ),
        pytest.param(
            [*at_once(("cut", ("b1", "b2")), ("cut", ("b3", "b4")), AT_B4, said("b1")), (3_700, ("leave", "b2"), NOW)],
            1_200,
            id="news is on its way to a broker that leaves",
        ),
        pytest.param(
            at_once(*ALONE_B1, said("b4"), NOBODY, ("heal", ("b1", "b3"))), 20, id="kept, until nobody gathers and the cut heals"
        ),
        pytest.param(
            at_once(*ALONE_B1, NOBODY, said("b4"), ("heal", ("b1", "b3"))),
            20,
            id="kept where nobody gathers, until the cut heals",
        ),
        pytest.param(
            at_once(("cut", ("b3", "b4")), ("cut", ("b1", "b2")), ("leave", "b2"), said("b4"), ("join", "b2"), NOBODY),
            20,
            id="handed over to where nobody gathers",
        ),
    ],
)
def test_what_the_laws_have_found(script, hop_ms):
    check_told_or_late(Story(script, [hop_ms] * len(LINKS), 6_000, heals=False, unions=True))


# ---- cut into batches -------------------------------------------------------------------------------------------------


class Batches(Story):
    """The same for one process of several buckets, whose batches read on a little here and there."""

    def __init__(self, script: list[tuple], buckets: int, seed: int, *, hands_on: bool = False) -> None:
        self._world: World | None = None
        self._buckets, self._seed, self._hands_on = buckets, seed, hands_on
        super().__init__(script, [0] * len(LINKS), 3_600_000)

    def _publish(self, now_ms: int, at: str, message: Message) -> None:
        assert self._world is not None
        self._world.publish(at, message.fields, after_ms=max(0, now_ms - self._world.now_ms), **_said(message))
        self._world.run(crashes=True)

    def _change(self, now_ms: int, lag: list[int]) -> None:
        del lag
        if self._world is None:
            self._world = World(
                list(self.records.values()), self._buckets, seed=self._seed, now_ms=now_ms, hands_on=self._hands_on
            )
            return
        self._look()
        world = self._world
        world.now_ms = max(now_ms, world.now_ms)
        world.control(*self.records.values(), delete=[key for key in world.records_now if key not in self.records])
        world.run(crashes=True)

    def _settle(self) -> None:
        assert self._world is not None
        self._world.settle(20)
        self.snapshot = self._world.plan.snapshot

    def put_aside(self) -> list[PutAside]:
        assert self._world is not None
        return self._world.put_aside

    def books(self) -> Iterable[Books]:
        assert self._world is not None
        return [self._world.books(name) for name in NAMES]

    def notifications(self, subscription: str) -> list[Notification]:
        assert self._world is not None
        return [each for each in self._world.told if each.subscription == subscription]


def _said(message: Message) -> dict[str, Any]:
    return {"topic": message.topic, "key": message.key, "id": message.id, "published_ms": message.published_ms}


@given(scripts, st.integers(1, 3), st.integers(0, 10**6), st.booleans())
def test_so_it_is_however_the_stream_is_cut_into_batches(script, buckets, seed, hands_on):
    law_all_known(Batches(script, buckets, seed, hands_on=hands_on))


def test_who_hands_over_tells_those_beyond_who_are_new():
    """Nobody subscribed where it entered, so each broker there gathered for itself; then the way to a new one leads by it."""
    script = at_once(("cut", ("b1", "b2")), ("leave", "b3"), ("subscribe", "s0", "b3", {}), ("publish", "b4", "k0", {"f0": 1}))
    check_all_known(Batches(script, buckets=1, seed=0))
