"""How far a broker knows all that entered: from what services say of themselves, link by link."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streaming.broker.desk import Desk
from streaming.broker.progress import MOST_SAID, MOST_SERVICES, behind, gathered, heard_ms, note_progress, note_ways, reached_ms
from streaming.broker.state import BucketState, Rules
from streaming.model.address import Address
from streaming.model.entry import Origin
from streaming.model.event import open_event
from streaming.model.inputs import Progressed
from streaming.model.outputs import Offer, PutAside
from streaming.world.one_broker import Script
from streaming.world.records import advertisement, broker, link, plan, subscription, topic
from topology.plan import Plan

CHAIN = [*(broker(f"b{n}") for n in range(1, 6)), *(link(f"b{n}", f"b{n + 1}") for n in range(1, 5))]
MADE = plan(*CHAIN, subscription("s", broker="b1"))
AT = ("b3", "incident")
"""It gathers; b1 and b5 are two links away."""


def desk(clock_ms: int = 10_000, made: Plan = MADE) -> Desk:
    return Desk(BucketState(version=1, clock_ms=clock_ms), lambda _: made, Rules())


def said(at: Desk, append_ms: int, done_ms: int, *brokers: str, version: int = 1, service: str = "") -> None:
    note_progress(at, Progressed(append_ms, service or "-".join(brokers), frozenset(brokers), done_ms, version))


def test_a_neighbour_counts_by_its_last_word_before_our_clock() -> None:
    at = desk()
    said(at, 9_000, 8_000, "b1", "b2", "b3", "b4", "b5")
    said(at, 10_000, 9_500, "b1", "b2", "b3", "b4", "b5")  # not before our clock
    assert heard_ms(at.state, MADE, AT, Rules()) == 0, "what b2 had read by 8 s may have left b1 after b1 last said anything"
    said(at, 11_000, 10_200, "b1", "b2", "b3", "b4", "b5")
    at.state.clock_ms = 12_000
    assert heard_ms(at.state, MADE, AT, Rules()) == 9_500, "b2 was at 10.2 s by then, and b1 said 9.5 s before that"


words = st.lists(st.tuples(st.integers(1, 2_000), st.integers(1, 3_000), st.integers(0, 1)), max_size=12)


@given(
    words, st.integers(0, 12_000), st.sampled_from(["b1", "b2", "b3", "b5"]), st.sampled_from([None, "b1", "b5"]), st.booleans()
)
def test_one_service_says_what_two_would_that_say_the_same(
    spoken: list[tuple[int, int, int]], clock_ms: int, where: str, publishes: str | None, changed: bool
) -> None:
    adverts = [advertisement("a", broker=publishes)] if publishes else []
    made = plan(*CHAIN, subscription("s", broker="b1"), *adverts)
    one, two = desk(clock_ms, made), desk(clock_ms, made)
    append_ms = 0
    for after_ms, behind_ms, version in spoken:
        append_ms += after_ms
        said(one, append_ms, max(0, append_ms - behind_ms), "b1", "b2", "b3", "b4", "b5", version=version)
        for brokers in (("b1", "b4"), ("b2", "b3", "b5")):
            said(two, append_ms, max(0, append_ms - behind_ms), *brokers, version=version)
    for each in (one, two):
        each.state.ways = {"incident": 1} if changed else {}
    assert heard_ms(one.state, made, (where, "incident"), Rules()) == heard_ms(two.state, made, (where, "incident"), Rules())


def test_the_slowest_of_all_decides() -> None:
    at = desk()
    said(at, 9_000, 8_900, "b2", "b3", "b4")
    said(at, 8_000, 7_000, "b1")
    said(at, 8_500, 3_000, "b5")
    assert heard_ms(at.state, MADE, AT, Rules()) == 3_000
    assert behind(at.state, MADE, AT, 7_500) == ["b1", "b5"]


def test_nobody_waits_for_a_silent_one_for_ever() -> None:
    at = desk(clock_ms=100_000)
    said(at, 99_000, 98_000, "b1", "b2", "b3", "b4")
    assert heard_ms(at.state, MADE, AT, Rules()) == 0
    assert reached_ms(at.state, MADE, AT, Rules(patience_ms=30_000)) == 70_000


def test_alone_a_broker_is_as_far_as_its_clock() -> None:
    alone = plan(subscription("s"))
    assert heard_ms(desk(made=alone).state, alone, ("b1", "incident"), Rules()) == 10_000


def test_while_some_go_by_other_ways_nothing_is_sure() -> None:
    at = desk()
    said(at, 9_000, 8_800, "b1", "b2", "b3", "b4", "b5")
    said(at, 9_100, 8_900, "b1", "b2", "b3", "b4", "b5")
    said(at, 9_500, 9_400, "b1", "b2", "b3", "b4", "b5")
    assert heard_ms(at.state, MADE, AT, Rules()) == 8_900
    at.plan = moved = plan(*CHAIN, subscription("s", broker="b1"), subscription("t", broker="b5"))
    at.state.version = 2
    note_ways(at, MADE)
    assert heard_ms(at.state, moved, AT, Rules()) == 0, "nobody has said that it goes by the new ways"
    everybody = ("b1", "b2", "b3", "b4", "b5")
    said(at, 10_000, 9_900, *everybody, version=2)
    said(at, 11_000, 10_900, *everybody, version=2)
    at.state.clock_ms = 11_500
    assert heard_ms(at.state, moved, AT, Rules()) == 0, "what went by old ways until 10 s may not have gone on"
    said(at, 12_000, 11_900, *everybody, version=2)
    at.state.clock_ms = 12_500
    assert heard_ms(at.state, moved, AT, Rules()) == 10_900


def test_who_hears_of_a_version_that_it_does_not_know_waits_for_it() -> None:
    at = desk()
    for append_ms in (9_000, 9_500):
        said(at, append_ms, append_ms - 100, "b1", "b2", "b3", "b4", "b5")
    assert heard_ms(at.state, MADE, AT, Rules()) > 0
    said(at, 9_900, 9_800, "b9", version=2)
    assert heard_ms(at.state, MADE, AT, Rules()) == 0


def test_a_change_that_leaves_the_ways_as_they_are_makes_nobody_wait() -> None:
    at = desk()
    for append_ms in (9_000, 9_500):
        said(at, append_ms, append_ms - 100, "b1", "b2", "b3", "b4", "b5")
    at.plan = more = plan(*CHAIN, subscription("s", broker="b1"), subscription("another", broker="b1"))
    at.state.version = 2
    note_ways(at, MADE)
    assert heard_ms(at.state, more, AT, Rules()) == 8_900


def test_what_is_remembered_is_bounded() -> None:
    at = desk()
    for number in range(MOST_SAID + 50):
        said(at, number + 1, number + 1, "b1", service="one")
    for number in range(MOST_SERVICES + 50):
        said(at, 1_000 + number, 900 + number, "b2", service=f"s{number}")
    assert len(at.state.progress) == MOST_SERVICES
    assert max(len(each.said) for each in at.state.progress.values()) <= MOST_SAID
    assert f"s{MOST_SERVICES + 49}" in at.state.progress


def test_without_links_nothing_is_remembered() -> None:
    at = desk(made=plan(subscription("s")))
    said(at, 9_000, 8_000, "b1")
    assert at.state.progress == {}


def test_an_event_whose_first_report_comes_after_its_end_counts_by_when_that_entered() -> None:
    """Windows close when all events that entered a window's length before have been offered: so they must have been."""
    window = {"size_ms": 4_000, "of": {"n": "count()"}}
    script = Script(now_ms=1_000_000)
    script.control(broker("b1"), broker("b2"), link("b1", "b2"), topic(window_ms=8_000), subscription("w", window=window))
    script.pass_on({"what": "fire"}, way_ms=0)
    script.tick(8_000)
    script.wait(1)
    script.pass_on({"who": "ann"}, way_ms=8_201)
    state, outputs = script.run()
    assert [*state.ending.values()] == [1_007_800]
    assert not [output for output in outputs if isinstance(output, Offer)]
    # This entered when the event had ended, by what is known now.
    script.pass_on({"where": "bridge"}, way_ms=101, published_ms=1_005_000)
    script.progress(1_007_900)
    script.tick(1_000)
    state, outputs = script.run()
    assert not state.ending
    (offer,) = [output for output in outputs if isinstance(output, Offer)]
    assert (offer.item.entered_ms, offer.item.fields) == (999_800, {"what": "fire", "who": "ann"})
    assert [output.reason for output in outputs if isinstance(output, PutAside)] == ["window-closed"]
    assert gathered(state, script.plan_at(state.version), script.rules) == (("b1", "incident", 1_007_900),)


def test_an_event_that_ended_sooner_is_waited_for_as_long() -> None:
    at = Address("b1", "incident", "k")
    event = open_event(at, "m", 1_000, 1_000, Origin("publish.b2", 0, 5, 1_000))
    event.ended_ms, event.wait_ms = 9_000, 30_000
    for origin, ended_ms in [(Origin("publish.b2", 0, 6, 1_200), 9_000), (Origin("publish.b1", 0, 1, 700), 8_700)]:
        event.entered(origin)
        assert (event.ended_ms, event.ended_ms + event.wait_ms) == (ended_ms, 39_000)
