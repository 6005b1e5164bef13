"""The short way of news: what it does is what gathering does, and what it does not take it leaves as it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from streaming.batch.columns import is_one
from streaming.batch.desk import BatchDesk
from streaming.batch.ground import Ground
from streaming.batch.hashing import event_hash, salt_of
from streaming.batch.memory import PackedMemory
from streaming.batch.quick_join import adds, opens, restated
from streaming.batch.report import Report
from streaming.batch.rows import numbers_of
from streaming.batch.stowing import stow, unstow
from streaming.broker.desk import Desk
from streaming.broker.state import BucketState, Rules
from streaming.broker.step import take
from streaming.model.address import Address
from streaming.model.entry import Origin
from streaming.model.event import OpenEvent
from streaming.model.inputs import Arrived
from streaming.model.outputs import Decided, Tell
from streaming.wire.outgoing import written
from streaming.world.records import broker, link, plan, subscription, topic
from tidings.message import Message
from tidings.registers import Bounds, Join, Register
from topology.plan import Plan, Role

NOW_MS = 1_000_000
AT = Address("b1", "incident", "k")


@dataclass
class Desks:
    """The same bucket twice: ``slow`` gathers as `step` does, ``quick`` takes the short way."""

    plan: Plan
    rules: Rules
    now_ms: int = NOW_MS

    def __post_init__(self) -> None:
        self.shelf = PackedMemory("secret", self.rules.bounds)
        self.slow = Desk(BucketState(version=1), lambda _: self.plan, self.rules)
        self.quick = BatchDesk(BucketState(version=1, slots=self.shelf), lambda _: self.plan, self.rules, shelf=self.shelf)
        self._ground = Ground(self.plan, "secret", AT.broker, AT.topic)
        self._offset = 0

    def opens(self, message: Message) -> bool:
        """Whether the short way takes the first message about a key."""
        origin = self._origin()
        return self._both(opens(self.quick, self._ground, self._report(message, origin)) is not None, message, origin)

    def adds(self, message: Message) -> bool:
        """Whether the short way takes a message about an event that is open."""
        origin, event = self._origin(), self.event(message.key)
        new = [name for name in message.fields if name not in event.knowledge]
        return self._both(self._adds(event, new, self._report(message, origin)), message, origin)

    def _adds(self, event: OpenEvent, new: list[str], report: Report) -> bool:
        again = restated(event, report, self.rules.bounds)
        return again is not None and adds(self.quick, self._ground, event, new, again, report)

    def _both(self, taken: bool, message: Message, origin: Origin) -> bool:
        """Gathering takes it in any case; here, too, if the short way has left it, and all as it was."""
        if not taken:
            assert self.of_quick() == self.of_slow(), "it was left, but something was done"
            take(self.quick, Arrived(origin, "b1", message))
        take(self.slow, Arrived(origin, "b1", message))
        self._check_columns()
        assert self.of_quick() == self.of_slow()
        return taken

    def _check_columns(self) -> None:
        """What was packed without ever being in hand has the bytes it would have, and its columns say the same."""
        for kept in filter(None, self.shelf.packed):
            assert unstow(stow(*unstow(kept))) == unstow(kept)
        self.shelf.refresh(self.plan)
        if not self.quick.noted:  # who reported is in the table of sources when the batch ends
            self.shelf.validate(self.plan)

    def _report(self, message: Message, origin: Origin) -> Report:
        published_ms = origin.append_ms if message.published_ms is None else message.published_ms
        number, source = event_hash("secret", AT._replace(key=message.key)), numbers_of(message)[0]
        return Report(
            0,
            0,
            number,
            *structs.astuple(origin),
            published_ms,
            source,
            len(message.fields),
            1,
            0,
            published_ms,
            published_ms,
            message,
            message.message_id,
        )

    def _origin(self) -> Origin:
        self._offset += 1
        return Origin("publish.b1", 0, self._offset, self.now_ms)

    def event(self, key: str = "k") -> OpenEvent | None:
        """The one event that is open under a key."""
        row = self.shelf.row_of(event_hash("secret", AT._replace(key=key)))
        slot = self.shelf.take(row)[1] if row >= 0 else None
        return slot.open[0] if slot and is_one(slot) else None

    def of_quick(self) -> tuple[Any, ...]:
        slots = [
            (at, structs.replace(slot, open=[structs.replace(e, sources=self.quick.sources_of(e)) for e in slot.open]))
            for at, slot in self.quick.state.slots.items()
        ]
        return self._of(self.quick, slots)

    def of_slow(self) -> tuple[Any, ...]:
        return self._of(self.slow, list(self.slow.state.slots.items()))

    def _of(self, desk: Desk, slots: list[Any]) -> tuple[Any, ...]:
        # What becomes of each message is only said where it is opened as usual; the books count it in any case.
        outputs = [written(each) if isinstance(each, Tell) else each for each in desk.outputs if not isinstance(each, Decided)]
        books = {name: found.to_dict() for name, found in desk.state.books.items()}
        return slots, books, outputs, desk.state.size


def desks(rules: Rules | None = None, *records: dict, **timing: Any) -> Desks:
    timing = {"window_ms": 10_000, **timing}
    wanted = [subscription("all"), subscription("paced", every_ms=2_000), subscription("some", where="a = 1")]
    return Desks(plan(topic(**timing), *wanted, *records), rules or Rules())


def said(fields: dict[str, Any], drift_ms: int = 0, **more: Any) -> Message:
    return Message("incident", more.pop("key", "k"), fields, published_ms=NOW_MS + drift_ms, **more)


# ---- by hand ----------------------------------------------------------------------------------------------------------


def test_a_report_opens_an_event_and_another_adds_to_it():
    both = desks()
    assert both.opens(said({"a": 1}, source="ann"))
    assert both.adds(said({"a": 1, "b": 2}, 5, source="bob"))
    (event,) = both.quick.state.events()
    assert (event.reports, event.source_count, sorted(event.knowledge)) == (2, 2, ["a", "b"])
    told = [each.notification for each in both.quick.outputs if isinstance(each, Tell)]
    assert [(each.subscription, dict(each.news)) for each in told] == [
        ("all", {"a": 1}),
        ("paced", {"a": 1}),
        ("some", {"a": 1}),
        ("all", {"b": 2}),
        ("some", {"b": 2}),
    ]
    assert set(both.quick.noted.values()) == {(0, salt_of(event))}


def test_a_report_that_states_nothing_opens_an_event_too():
    both = desks()
    assert both.opens(said({}))


def test_the_oldest_event_makes_room():
    both = desks(Rules(open_events=2))
    for key in ("k", "l", "m"):
        assert both.opens(said({"a": 1}, key=key))
    assert [at.key for at in both.quick.state.slots] == ["l", "m"]


UNUSUAL = [
    pytest.param(desks, said({"a": 1}, -10_000), id="it is late"),
    pytest.param(lambda: desks(Rules(event_fields=1)), said({"a": 1, "b": 2}), id="it has too many fields"),
    pytest.param(lambda: desks(fields={"a": "last"}), said({"a": 1}), id="a field is joined otherwise"),
    pytest.param(lambda: desks(Rules(bounds=Bounds(conflicts=0))), said({"a": 1}), id="no value that disputes it can be kept"),
    pytest.param(
        lambda: desks(None, broker("b1"), broker("b2"), broker("b3"), link("b2", "b3"), subscription("away", broker="b3")),
        said({"a": 1}),
        id="somebody is cut off",
    ),
]


@pytest.mark.parametrize(("made", "message"), UNUSUAL)
def test_what_is_unusual_opens_nothing(made, message):
    assert not made().opens(message)


@pytest.mark.parametrize(
    ("rules", "timing", "message"),
    [
        pytest.param(None, {}, said({"a": 2}, 5), id="it disputes"),
        pytest.param(None, {}, said({"b": 1}, 10_000), id="it does not fit the window"),
        pytest.param(Rules(event_fields=2), {}, said({"b": 1, "c": 1}, 5), id="it would have too many fields"),
        pytest.param(None, {"fields": {"b": "union"}}, said({"b": ("x",)}, 5), id="a field is joined otherwise"),
    ],
)
def test_what_is_unusual_adds_nothing(rules, timing, message):
    both = desks(rules, **timing)
    assert both.opens(said({"a": 1}))
    assert not both.adds(message)


@pytest.mark.parametrize("drift_ms", [5, 0, -5], ids="{} ms later".format)
@pytest.mark.parametrize("message_id", ["m-1", "m-2", "m-3"])
def test_the_same_said_again_is_taken_whoever_was_first(drift_ms, message_id):
    both = desks()
    assert both.opens(said({"a": 1}, id="m-2"))
    assert both.adds(said({"a": 1}, drift_ms, id=message_id))
    assert both.adds(said({"a": 1, "b": 1}, drift_ms, id=message_id))
    first = both.event().knowledge["a"].claims[0]
    assert (first.published_ms, first.message_id) == min((NOW_MS, "m-2"), (NOW_MS + drift_ms, message_id))


# ---- as gathering does ------------------------------------------------------------------------------------------------

fields = st.dictionaries(st.sampled_from("abc"), st.sampled_from([1, 2, "x", ("x", "y"), None, True, 1.5]), max_size=3)
timings = st.fixed_dictionaries(
    {"hold_ms": st.sampled_from([0, 2_000])},
    optional={"complete": st.just(["a", "b"]), "fields": st.fixed_dictionaries({"c": st.sampled_from(sorted(Join))})},
)
rules = st.sampled_from([Rules(), Rules(sources=1), Rules(event_fields=2), Rules(bounds=Bounds(conflicts=1))])
overlays = st.sampled_from([[], [broker("b1"), broker("b2"), link("b1", "b2"), subscription("far", broker="b2")]])
more = st.lists(st.tuples(fields, st.sampled_from([-1, 0, 0, 1, 3_000]), st.sampled_from([None, "ann", "bob"])), max_size=4)


@given(rules, timings, overlays, fields, st.sampled_from([-10_000, -500, 0, 200]), more)
def test_the_short_way_ends_where_gathering_does(bounds, timing, overlay, first, drift_ms, reports):
    both = desks(bounds, *overlay, **timing)
    assert both.plan.place(*AT.place).role is Role.GATHERS
    both.opens(said(first, drift_ms, source="ann"))
    for stated, later_ms, source in reports:
        if (event := both.event()) is None:
            return
        # It repeats what is known, as of later: what disputes that, or matters when it is repeated, is not for the short way.
        known = {n: each.value for n, each in event.knowledge.items() if n in stated and _is_settled(each, both.rules.bounds)}
        both.now_ms += 1
        drift_ms += later_ms
        both.adds(said({**{n: v for n, v in stated.items() if n not in event.knowledge}, **known}, drift_ms, source=source))


def _is_settled(register: Register, bounds: Bounds) -> bool:
    return not register.kind.repeats_matter and not register.is_full(bounds)
