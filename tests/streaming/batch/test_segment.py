"""A part of a batch: what is opened of it, what is only counted, and that both come to what one by one comes to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from msgspec import structs

from streaming.batch.brief import read_brief
from streaming.batch.desk import BatchDesk, Handling
from streaming.batch.engine import EngineSettings, Segment
from streaming.batch.memory import PackedMemory
from streaming.batch.planner import Why
from streaming.batch.rows import IS_MESSAGE, rows_of
from streaming.broker.state import BucketState, Rules
from streaming.broker.step import start
from streaming.model.outputs import Decided, Output, PutAside, Tell, WrittenTell
from streaming.wire.inputs import read
from streaming.wire.notification import decode_notification
from streaming.wire.outgoing import written
from streaming.world.buckets import LIMITS, SECRET, TICKER, columns_of, log_of, plainly
from streaming.world.one_broker import Script
from streaming.world.records import subscription, topic
from testing.engines import Restarts, check, cut, fast
from tidings.errors import Unreadable
from tidings.registers import Bounds


@dataclass
class Bench:
    """The log of a script in one batch, whose parts run when they are told to."""

    script: Script
    rerouted: bool = False
    """Whether the last message was taken for one about another key."""

    def __post_init__(self) -> None:
        self.log = log_of(self.script)
        if self.rerouted:
            self.log[-1] = structs.replace(self.log[-1], about=("incident", "another"))
        self.rows = rows_of(columns_of(self.log), LIMITS, SECRET)
        timed = [index for index, kind in enumerate(self.rows.kind.tolist()) if kind != IS_MESSAGE]
        self.inputs = {index: read(self.rows.record(index), LIMITS, TICKER) for index in timed}
        self.shelf = PackedMemory(SECRET, self.script.rules.bounds)
        state = BucketState(slots=self.shelf)
        start(state, (each for found in self.inputs.values() for each in found))
        self.desk = BatchDesk(state, self.script.plan_at, self.script.rules, shelf=self.shelf)
        self._at = 0
        self.reasons: Counter[Why] = Counter()
        self.plans: list[str] = []

    def run(self, until: int | None = None) -> Bench:
        """Take in what comes next, up to a row: in one part, under one version of the control data."""
        hi = len(self.rows) if until is None else until
        setting = EngineSettings(self.script.plan_at, self.script.rules, LIMITS, TICKER)
        part = Segment(self.desk, self.rows, self._at, hi, self.inputs, setting)
        part.run()
        self.reasons += part.course.reasons()
        self.plans.append(str(part.course))
        self._at = hi
        self.shelf.pack()
        self.shelf.validate(self.desk.plan)
        return self

    @property
    def ways(self) -> Counter[Handling]:
        return self.desk.ways

    @property
    def opened(self) -> int:
        """How many messages were opened, whichever way they then went."""
        return self.ways.total() - self.ways[Handling.COUNTED]

    @property
    def outputs(self) -> list[Any]:
        """Without what is said of each message: the books have that."""
        return _delivered(self.desk.outputs)

    def check(self) -> None:
        """All of it is what `step` makes of it."""
        state, outputs = plainly(self.script, [self.log])
        assert self.outputs == _delivered(outputs)
        found = self.desk.state
        assert {name: books.to_dict() for name, books in found.books.items()} == {
            name: books.to_dict() for name, books in state.books.items()
        }
        assert found.size == state.size
        events, wanted = list(found.events()), list(state.events())
        assert [self.desk.sources_of(event) for event in events] == [event.sources for event in wanted]
        for event in wanted:
            event.sources = set()
        assert events == wanted


def _delivered(outputs: list[Output]) -> list[Output]:
    """As it is written."""
    return [written(each) if isinstance(each, Tell) else each for each in outputs if not isinstance(each, Decided)]


def scripted(rules: Rules | None = None, pace: dict[str, int] | None = None, **timing: Any) -> Script:
    script = Script(rules=rules or Rules())
    slow = subscription("slow", **(pace or {"every_ms": 2_500}))
    script.control(topic(**{"window_ms": 10_000, **timing}), subscription("all"), slow)
    return script


def publish(script: Script, *said: dict[str, Any], after_ms: int = 1, **more: Any) -> None:
    for fields in said:
        script.wait(after_ms)
        script.publish(fields, published_ms=script.now_ms, **more)


def told(bench: Bench, name: str) -> list[tuple[dict[str, Any], int]]:
    """The news that a subscription was told, and of how many reports that came."""
    tells = [decode_notification(output.value) for output in bench.outputs if isinstance(output, WrittenTell)]
    return [(dict(each.news), each.reports) for each in tells if each.subscription == name]


# ---- what is opened ---------------------------------------------------------------------------------------------------

FAMILIES = [
    pytest.param([{"a": 1}] * 5, 1, id="what is only repeated is opened once"),
    pytest.param([{}] * 5, 1, id="an event of which nothing is said is opened once"),
    pytest.param([{"a": 1}, {"b": 1}, {"a": 1, "b": 1}, {"b": 1}], 2, id="what is put together of known facts is known"),
    pytest.param([{"a": n} for n in range(4)], 4, id="every fact is new"),
    pytest.param([{"a": 1}, {"a": 2}, {"a": 1}, {"a": 2}], 2, id="two that dispute each other, again"),
]


@pytest.mark.parametrize(("said", "count"), FAMILIES)
@pytest.mark.parametrize("parts", ["at once", "one by one"])
def test_so_many_messages_are_opened(said, count, parts):
    script = scripted()
    publish(script, *said)
    bench = Bench(script)
    first = len(bench.rows) - len(said)
    for until in range(first, len(bench.rows)) if parts == "one by one" else [first]:
        bench.run(until)
    bench.run()
    assert bench.opened == count
    bench.check()


def test_what_is_known_is_counted_in_columns_and_its_slot_stays_packed():
    script = scripted()
    publish(script, {"a": 1}, *[{"a": 1}] * 3, source="ann")
    publish(script, {"a": 1}, source="bob")
    bench = Bench(script)
    bench.run(len(bench.rows) - 4)
    (packed,) = bench.shelf.packed
    bench.run()
    assert bench.shelf.packed == [packed]
    columns = bench.shelf.columns
    assert (columns.more[0], columns.sources[0], columns.last_ms[0]) == (4, 2, script.now_ms)
    assert [int(row) for rows in bench.shelf.counted for row in rows] == [0]
    assert bench.opened == 1
    bench.check()


def test_nothing_beyond_its_end_is_taken_in():
    script = scripted()
    publish(script, {"a": 1}, {"b": 2})
    bench = Bench(script).run(3)
    assert told(bench, "all") == [({"a": 1}, 1)]
    assert len(bench.shelf.facts) == 1
    assert told(bench.run(), "all") == [({"a": 1}, 1), ({"b": 2}, 2)]
    bench.check()


@pytest.mark.parametrize(
    ("rules", "count"),
    [
        pytest.param(Rules(), 1, id="none has to make room"),
        pytest.param(Rules(open_events=1), 4, id="some may have to"),
        pytest.param(Rules(sources=2), 1, id="as many sources as are counted"),
        pytest.param(Rules(sources=1), 4, id="more sources than are counted"),
        pytest.param(Rules(bounds=Bounds(conflicts=1)), 1, id="a register has room left"),
        pytest.param(Rules(bounds=Bounds(conflicts=0)), 4, id="a register is full"),
    ],
)
def test_near_a_bound_messages_are_opened_though_they_say_nothing_new(rules, count):
    script = scripted(rules)
    for source in ("ann", "ann", "bob", "ann"):
        publish(script, {"a": 1}, source=source)
    bench = Bench(script).run()
    assert bench.opened == count
    bench.check()


def test_where_each_message_is_an_event_all_are_opened():
    script = scripted(gather=False)
    publish(script, *[{"a": 1}] * 3)
    bench = Bench(script).run()
    assert bench.opened == 3
    bench.check()


# ---- the plan ---------------------------------------------------------------------------------------------------------


def _known(script: Script) -> int:
    """An event that a batch before has opened. Returns how many rows that are."""
    publish(script, {"a": 1}, {"a": 2})
    return len(log_of(script))


def _again(script: Script) -> None:
    publish(script, {"a": 1})


def _disputed(script: Script) -> None:
    publish(script, {"a": 3})


def _ahead(script: Script) -> None:
    script.publish({"a": 1}, published_ms=script.now_ms + 700_000)


def _passed_on(script: Script) -> None:
    script.wait(1)
    script.pass_on({"a": 1}, way_ms=0)
    publish(script, {"a": 1})


def _another(script: Script) -> None:
    publish(script, {"a": 1})
    publish(script, {"a": 1}, key="another")


def _later(script: Script) -> None:
    script.wait(10_000)
    script.publish({"a": 1}, published_ms=script.now_ms - 5_000)


def _twice_as_late(script: Script) -> None:
    script.wait(50)
    script.publish({"a": 1}, published_ms=script.now_ms + 10_000)


PLANS = [
    pytest.param(_again, {}, Rules(), {Why.KNOWN: 1}, id="known"),
    pytest.param(_disputed, {}, Rules(), {Why.NEW_FACT: 1}, id="a new fact"),
    pytest.param(_ahead, {}, Rules(), {Why.AHEAD: 1}, id="ahead"),
    pytest.param(_again, {}, Rules(bounds=Bounds(conflicts=1)), {Why.UNUSUAL: 1}, id="a field is full"),
    pytest.param(_again, {"gather": False}, Rules(), {Why.NEW_FACT: 1}, id="not gathered: nothing is kept"),
    pytest.param(_passed_on, {}, Rules(), {Why.TOUCHED: 1}, id="a neighbour speaks of it, too"),
    pytest.param(_twice_as_late, {}, Rules(), {Why.NO_FIT: 1}, id="its window is shorter"),
    pytest.param(_later, {}, Rules(), {Why.TIMER: 1}, id="it ends before"),
    pytest.param(_another, {}, Rules(open_events=1), {Why.NO_ROOM: 1, Why.NEW_EVENT: 1}, id="some may have to make room"),
]


@pytest.mark.parametrize(("then", "timing", "rules", "reasons"), PLANS)
def test_the_plan_says_why_a_message_is_opened(then, timing, rules, reasons):
    script = scripted(rules, **timing)
    rows = _known(script)
    then(script)
    bench = Bench(script).run(rows)
    bench.reasons.clear()
    bench.run()
    assert bench.reasons == reasons
    bench.check()


def test_the_plan_can_be_read():
    script = scripted()
    publish(script, {"a": 1}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1})
    bench = Bench(script)
    bench.run(len(bench.rows) - 4).run()
    assert bench.plans[-1] == f"rows {len(bench.rows) - 4} to {len(bench.rows)}: 2 known, 1 new-fact, 1 new-event, 0 others"
    assert bench.ways == {Handling.COUNTED: 2, Handling.AT_ONCE: 2}


def test_what_follows_the_news_of_an_event_is_counted_in_columns():
    script = scripted(pace={"settle_ms": 100})
    publish(script, {"a": 1}, {"a": 1}, {"b": 1}, {"a": 1}, source="ann")
    publish(script, {"b": 1}, source="bob")
    bench = Bench(script).run()
    columns = bench.shelf.columns
    assert (columns.more[0], columns.sources[0], columns.last_ms[0]) == (2, 2, script.now_ms)
    assert bench.ways == {Handling.COUNTED: 3, Handling.QUICK: 2}
    bench.check()


USUAL = {
    "it opens an event": [{"a": 1}],
    "it states nothing": [{}],
    "it adds a field": [{"a": 1}, {"a": 1, "b": 2}],
    "it disputes a field": [{"a": 1}, {"a": 2}],
    "it disputes a field as somebody did": [{"a": 1}, {"a": 2}, {"a": 2, "b": 1}],
    "it disputes a field, and has news": [{"a": 1}, {"a": 2, "b": 1}, {"a": 3, "c": 1}],
}


@pytest.mark.parametrize("said", USUAL.values(), ids=USUAL)
@pytest.mark.parametrize("apart", [False, True], ids=["in one batch", "in batches of their own"])
@pytest.mark.parametrize("timing", [{}, {"hold_ms": 4_000}, {"complete": ["a", "b"]}], ids=str)
def test_what_is_usual_is_taken_in_at_once(said, apart, timing):
    script = scripted(pace={"every_ms": 60_000}, **timing)
    publish(script, *said, {"a": 1}, source="ann")
    publish(script, {"a": 1}, source="bob")
    bench = Bench(script)
    for row in range(len(bench.rows) - len(said) - 2, len(bench.rows)) if apart else ():
        bench.run(row)
    bench.run()
    assert bench.ways[Handling.AT_ONCE] >= len(said) - (said[2:] == [{"a": 2, "b": 1}]), bench.ways
    assert bench.ways.keys() <= {Handling.AT_ONCE, Handling.COUNTED}
    bench.check()


@pytest.mark.parametrize(("kind", "goes_on"), [("min", [{"a": 4}, {"a": 9}]), ("max", [{"a": 9}, {"a": 4}])])
@pytest.mark.parametrize("apart", [False, True], ids=["in one batch", "in batches of their own"])
def test_a_least_or_greatest_value_changes_at_once(kind, goes_on, apart):
    script = scripted(fields={"a": kind})
    publish(script, {"a": 5}, *goes_on, {"b": 1})
    bench = Bench(script)
    if apart:
        bench.run(len(bench.rows) - 3).run(len(bench.rows) - 1)
    bench.run()
    bench.check()
    (event,) = bench.desk.state.events()
    assert event.knowledge["a"].value == goes_on[0]["a"]
    assert len(event.ledgers["all"].told) == 2


def test_of_two_that_say_the_same_the_earlier_one_is_believed():
    script = scripted(Rules(ahead_ms=10_000))
    script.wait(1)
    for source, drift_ms in (("ann", 5), ("bob", 3), ("eve", 4)):
        script.publish({"a": 1, "b": 1}, published_ms=script.now_ms + drift_ms, source=source)
    script.publish({"c": 1}, published_ms=script.now_ms + 9, source="ann")
    bench = Bench(script).run()
    (event,) = bench.desk.state.events()
    assert {name: register.claims[0].source for name, register in event.knowledge.items()} == {"a": "bob", "b": "bob", "c": "ann"}
    bench.check()


UNUSUAL = {
    "another value, published earlier": [({"a": 1}, 0), ({"a": 2}, -5)],
    "an equal number of another type": [({"a": 1}, 0), ({"a": 1.0}, 0)],
    "a value that lost, published earlier than it was": [({"a": 1}, 0), ({"a": 2}, 5), ({"a": 2}, 3)],
    "as many disputes as are kept": [({"a": number}, number) for number in range(4)],
    "too many fields": [({"a": 1, "b": 1}, 0), ({"c": 1, "d": 1, "e": 1}, 1)],
}


@pytest.mark.parametrize("said", UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_unusual_is_looked_at_one_by_one(said):
    script = scripted(Rules(event_fields=4, bounds=Bounds(conflicts=3)))
    script.wait(100)
    for fields, drift_ms in said:
        script.publish(fields, published_ms=script.now_ms + drift_ms)
    bench = Bench(script).run()
    assert not bench.ways[Handling.AT_ONCE]
    bench.check()


@pytest.mark.parametrize("apart", [False, True], ids=["in one batch", "in batches of their own"])
def test_what_entered_before_its_event_is_looked_at_one_by_one(apart):
    """It stood in a partition that lags: from then on the event counts as entered earlier."""
    script = scripted()
    publish(script, {"a": 1})
    script.wait(-500)
    script.publish({"b": 1}, published_ms=script.now_ms)
    bench = Bench(script)
    if apart:
        bench.run(len(bench.rows) - 1)
    bench.run()
    assert bench.ways[Handling.AT_ONCE] == apart
    bench.check()


def test_a_field_that_became_a_set_is_looked_at_one_by_one():
    script = scripted()
    publish(script, {"a": "x"})
    script.wait(5)
    script.control(topic(window_ms=10_000, fields={"a": "union"}))
    publish(script, {"a": ("x", "y")})
    log = log_of(script)
    check(script, cut(log, [len(log) - 1]), Restarts())


def test_a_clock_that_goes_back_is_looked_at_one_by_one():
    """What stands later in a partition may have an earlier append time: by that, its event entered earlier."""
    script = scripted(Rules(ahead_ms=10_000), hold_ms=4_000)
    publish(script, {"a": 1}, {"b": 1}, after_ms=10)
    log = log_of(script)
    log[-1] = structs.replace(log[-1], append_ms=log[-1].append_ms - 15)
    ways: Counter[Handling] = Counter()
    check(script, [log], Restarts())
    fast(script, [log], Restarts(), ways)
    assert not ways[Handling.AT_ONCE]


def test_of_reports_that_are_not_believed_any_more_nothing_is_kept():
    script = scripted(Rules(ahead_ms=10_000))
    script.wait(100)
    for earlier_ms in range(9):
        script.publish({"a": 1, "b": 1}, published_ms=script.now_ms - earlier_ms, source=f"s{earlier_ms}")
    bench = Bench(script).run()
    assert len(read_brief(bench.shelf.packed[0] or b"").said) == 1
    bench.check()


def test_what_is_read_long_after_it_came_is_taken_in_at_once():
    """The clock is far ahead, and a partition is read up to somewhere before its mark: nothing has ended yet."""
    script = scripted()
    publish(script, {"a": 1}, {"a": 1, "b": 1}, source="ann")
    script.tick(3_600_000)
    log = log_of(script)
    marks = [record for record in log if record.append_ms == log[-1].append_ms and record.kafka_topic != "clock"]
    batches = [[record for record in log if record not in marks], marks]
    ways: Counter[Handling] = Counter()
    check(script, batches, Restarts())
    fast(script, batches, Restarts(), ways)
    assert ways == Counter({Handling.AT_ONCE: 2})


def test_what_a_cadence_lets_go_within_the_batch_is_looked_at_one_by_one():
    script = scripted()
    publish(script, {"a": 1}, {"b": 1})
    script.tick(2_400)
    publish(script, {"c": 1})
    script.tick(4_000)
    bench = Bench(script).run()
    assert not bench.ways[Handling.AT_ONCE]
    bench.check()


# ---- in which order ---------------------------------------------------------------------------------------------------


def test_what_was_counted_before_a_timer_is_in_what_the_timer_tells():
    script = scripted()
    publish(script, {"a": 1}, {"b": 1}, *[{"a": 1}] * 3)
    script.tick(5_000)
    publish(script, *[{"a": 1}] * 2)
    bench = Bench(script).run()
    assert told(bench, "slow") == [({"a": 1}, 1), ({"b": 1}, 5)]
    assert bench.opened == 2
    bench.check()


def test_when_an_event_ends_between_two_messages_the_second_opens_another():
    script = scripted()
    publish(script, {"a": 1}, {"a": 1})
    script.tick(20_000)
    publish(script, {"a": 1}, {"a": 1})
    bench = Bench(script).run()
    assert told(bench, "all") == [({"a": 1}, 1), ({"a": 1}, 1)]
    bench.check()


def test_an_event_that_ends_with_the_first_rows_of_a_part_is_not_counted_on():
    """Time passes with each of them, and only the first may bring other control data."""
    script = scripted(remember_ms=3_000)
    publish(script, {"a": 1})
    rows = len(log_of(script))
    script.tick(3_000)
    publish(script, {"a": 1}, {"a": 1}, {"a": 2}, after_ms=0)
    for until in range(rows, rows + 3):
        Bench(script).run(until).run().check()


def test_a_message_that_was_routed_by_another_key_is_refused():
    script = scripted()
    publish(script, {"a": 1}, {"a": 1})
    bench = Bench(script, rerouted=True).run()
    assert [o.reason for o in bench.outputs if isinstance(o, PutAside)] == [Unreadable.ROUTING_DIFFERS]
    assert told(bench, "all") == [({"a": 1}, 1)]
    assert [at.key for at in bench.desk.state.slots] == ["5th and Main"]


# ---- all small ones ---------------------------------------------------------------------------------------------------

MENU = [({"a": 1}, 1), ({"a": 2}, 1), ({"a": 1, "b": 1}, -20), ({"a": 1}, -20_000), ({}, 6_000)]
"""Facts, and how much later than now they were published."""


@pytest.mark.parametrize("timing", [{}, {"hold_ms": 3, "remember_ms": 5}, {"fields": {"a": "last", "b": "union"}}], ids=str)
def test_every_short_sequence_comes_to_the_same_as_one_by_one(timing):
    for sequence in product(MENU, repeat=3):
        script = scripted(**timing)
        for fields, drift_ms in sequence:
            script.wait(2)
            script.publish(fields, published_ms=script.now_ms + drift_ms)
        bench = Bench(script)
        for until in (len(bench.rows) - 2, len(bench.rows)):
            bench.run(until)
        bench.check()
        Bench(script).run().check()
