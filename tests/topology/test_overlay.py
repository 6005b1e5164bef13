"""The overlay: what it computes, which rules it is held to, what a service makes of broken data, and how it is read."""

from __future__ import annotations

import json
import pickle

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.control import Link, Snapshot
from tidings.control.files import encode, read_text
from tidings.errors import BadOverlay, DoubleLink, NotConnected, UnknownBroker
from topology.overlay import (
    Overlay,
    ProblemKind,
    SelfLink,
    check,
    forbidden,
    of_snapshot,
    to_records,
)

NAMES = [f"b{number}" for number in range(1, 8)]

links = st.builds(
    lambda name, ends, cost, forbid: Link(name, *ends, cost, forbid),
    st.text("lm0123456789", min_size=1, max_size=3),
    st.lists(st.sampled_from([*NAMES, "stranger"]), min_size=2, max_size=2, unique=True),
    st.one_of(st.integers(0, 9), st.floats(0, 1e6)),
    st.frozensets(st.sampled_from(["incident", "medical"])),
)
overlays = st.builds(
    Overlay,
    st.lists(st.sampled_from(NAMES), min_size=1, unique=True).map(tuple),
    st.lists(links, max_size=12, unique_by=lambda link: link.name).map(tuple),
)


def overlay(brokers: str, *pairs: str) -> Overlay:
    """`overlay("a b c", "a-b", "b-c")`: each link is named after its ends."""
    return Overlay(tuple(brokers.split()), tuple(link(pair) for pair in pairs))


def link(pair: str, name: str = "", **more: object) -> Link:
    a, b = pair.split("-")
    return Link(name or pair, a, b, **more)  # type: ignore[arg-type]


def snapshot_of(records: list[dict]) -> Snapshot:
    snapshot = Snapshot()
    for record in records:
        snapshot = snapshot.apply(snapshot.version + 1, f"{record['kind']}/{record['name']}", json.dumps(record).encode())
    return snapshot


def declared(records: list[dict]) -> Overlay:
    """The overlay that control records make, as on the control topic: a later one replaces, and may delete."""
    snapshot = Snapshot()
    for key, record in read_text(json.dumps(records), "records"):
        snapshot = snapshot.apply(snapshot.version + 1, key, None if record is None else encode(record))
    return Overlay(snapshot.brokers, snapshot.links)


def problems(broken: Overlay) -> list[tuple[str, str]]:
    return [(str(problem.kind), problem.text) for problem in of_snapshot(snapshot_of(to_records(broken)))[1]]


# ---- what an overlay computes -----------------------------------------------------------------------------------------


def test_brokers_and_links_go_by_name_whatever_order_they_came_in():
    one = Overlay(("b", "a", "c"), (link("b-c"), link("a-b")))
    other = Overlay(("c", "b", "a"), (link("a-b"), link("b-c")))
    assert one.brokers == ("a", "b", "c")
    assert [found.name for found in one.links] == ["a-b", "b-c"]
    assert (one, hash(one)) == (other, hash(other))
    assert len({one, other, overlay("a b c", "a-b")}) == 2


def test_an_overlay_travels_to_other_processes_with_all_it_has_computed():
    used = overlay("a b c", "a-b", "b-c")
    assert used.is_connected
    copy = pickle.loads(pickle.dumps(used))
    assert (copy, hash(copy)) == (used, hash(used))
    assert copy.neighbours("b") == used.neighbours("b")


def test_the_neighbours_of_a_broker_by_name_with_their_links():
    star = overlay("a b c m", "m-c", "a-m", "b-m")
    assert list(star.neighbours("m").items()) == [("a", link("a-m")), ("b", link("b-m")), ("c", link("m-c"))]
    assert list(star.neighbours("c")) == ["m"]
    assert star.neighbours("m") is star.neighbours("m"), "computed once"
    with pytest.raises(UnknownBroker, match="the request names the broker 'z', which is not in the overlay"):
        star.neighbours("z")


def test_what_is_computed_leaves_out_links_that_make_no_sense():
    broken = Overlay(("a", "b"), (link("a-b", "second"), link("b-a", "first"), link("a-z"), link("a-a")))
    assert broken.neighbours("a") == {"b": link("b-a", "first")}
    assert broken.neighbours("b") == {"a": link("b-a", "first")}


def test_the_largest_part_comes_first_and_equal_ones_by_name():
    cut = overlay("a b c d e f g h", "b-h", "c-d", "d-e")
    assert cut.parts == ({"c", "d", "e"}, {"b", "h"}, {"a"}, {"f"}, {"g"})
    assert not cut.is_connected
    assert overlay("a").parts == ({"a"},)
    assert overlay("a").is_connected


@given(overlays)
def test_parts_are_those_that_networkx_finds(drawn: Overlay):
    graph = nx.Graph()
    graph.add_nodes_from(drawn.brokers)
    graph.add_edges_from((link.a, link.b) for link in drawn.links if {link.a, link.b} <= set(drawn.brokers))
    assert sorted(map(sorted, drawn.parts)) == sorted(map(sorted, nx.connected_components(graph)))
    assert list(drawn.parts) == sorted(drawn.parts, key=lambda part: (-len(part), min(part)))
    assert drawn.is_connected == nx.is_connected(graph)
    for broker in drawn.brokers:
        assert list(drawn.neighbours(broker)) == sorted(graph[broker])


def test_a_topic_has_the_links_that_do_not_forbid_it():
    whole = Overlay(("a", "b", "c"), (link("a-b", forbid=frozenset({"medical"})), link("b-c")))
    assert whole.for_topic("medical") == overlay("a b c", "b-c")
    assert whole.for_topic("medical").parts == ({"b", "c"}, {"a"})
    assert whole.for_topic("incident") is whole


# ---- the rules --------------------------------------------------------------------------------------------------------

BROKEN = [
    (
        Overlay(("a", "b", "c"), (link("y-a", "z"), link("a-x", "m"), link("a-b", "k"), link("a-b", "l"))),
        UnknownBroker,
        "the link 'm' names the broker 'x', which is not in the overlay",
    ),
    (overlay("a b", "x-y"), UnknownBroker, "the link 'x-y' names the broker 'x', which is not in the overlay"),
    (overlay("a b c", "b-b"), SelfLink, "the link 'b-b' joins 'b' to itself; a link joins two different brokers"),
    (
        Overlay(("a", "b", "c"), (link("b-a", "2"), link("a-b", "1"), link("a-b", "3"))),
        DoubleLink,
        "the links '1' and '2' both join 'a' and 'b'; one of them must go",
    ),
    (overlay("a b c d", "c-d", "a-d"), NotConnected, "the overlay falls into 2 parts: a, c, d; b"),
    (overlay("a b"), NotConnected, "the overlay falls into 2 parts: a; b"),
]


@pytest.mark.parametrize(("broken", "error", "text"), BROKEN, ids=[text for _, _, text in BROKEN])
def test_the_first_broken_rule_is_named(broken: Overlay, error: type[BadOverlay], text: str):
    with pytest.raises(error) as raised:
        check(broken)
    assert str(raised.value) == text


def test_what_is_whole_passes():
    check(overlay("a"))
    check(overlay("a b c", "a-b", "b-c", "a-c"))


# ---- the overlay of a running service ---------------------------------------------------------------------------------


def test_a_whole_overlay_has_no_problems():
    whole = Overlay(("a", "b", "c"), (link("a-b", cost=2.5), link("b-c", forbid=frozenset({"medical"}))))
    assert of_snapshot(snapshot_of(to_records(whole))) == (whole, ())


def test_without_any_records_there_is_one_broker_and_no_problem():
    assert of_snapshot(Snapshot()) == (Overlay(("b1",)), ())


def test_links_to_unknown_brokers_are_left_out_and_every_stranger_is_named():
    broken = Overlay(("a", "b"), (link("a-b"), link("x-y"), link("b-x")))
    found, _ = of_snapshot(snapshot_of(to_records(broken)))
    assert found == overlay("a b", "a-b")
    left_out = "which is not in the overlay; the link is left out"
    assert problems(broken) == [
        ("unknown-broker", f"the link 'b-x' names the broker 'x', {left_out}"),
        ("unknown-broker", f"the link 'x-y' names the broker 'x', {left_out}"),
        ("unknown-broker", f"the link 'x-y' names the broker 'y', {left_out}"),
    ]


def test_of_several_links_between_a_pair_the_first_by_name_stays():
    broken = Overlay(("a", "b"), (link("a-b", "n"), link("b-a", "m", cost=7), link("a-b", "o")))
    found, _ = of_snapshot(snapshot_of(to_records(broken)))
    assert found.links == (link("b-a", "m", cost=7),)
    assert problems(broken) == [
        ("double-link", "the links 'm' and 'n' both join 'a' and 'b'; one of them must go; until then, 'm' is used"),
        ("double-link", "the links 'm' and 'o' both join 'a' and 'b'; one of them must go; until then, 'm' is used"),
    ]


def test_a_cut_overlay_is_a_problem_that_names_the_parts():
    assert problems(overlay("a b c d", "c-d", "a-d")) == [("cut", "the overlay falls into 2 parts: a, c, d; b")]


def test_brokers_that_only_a_broken_link_joins_are_cut_off():
    assert [kind for kind, _ in problems(overlay("a b", "a-x"))] == ["unknown-broker", "cut"]


def test_thousands_of_brokers_are_not_all_named():
    large = Overlay(tuple(f"b{number:04}" for number in range(3000)), tuple(link(f"b0000-b{n:04}") for n in range(1, 2000)))
    ((kind, text),) = problems(large)
    assert (kind, text[:50]) == ("cut", "the overlay falls into 1001 parts: b0000, b0001, b")
    assert "b0004, and 1995 more brokers; b2000; b2001;" in text
    assert text.endswith("; b2008; and 991 more parts")


def test_brokers_without_any_links_stand_alone_and_are_not_cut():
    assert problems(overlay("a b c")) == [
        ("unlinked", "there are 3 brokers and no links: each stands alone until links are declared")
    ]


def test_a_topic_that_links_cut_is_a_problem_that_names_its_parts_and_who_is_not_told():
    cut = Overlay(("a", "b", "c"), (link("a-b"), link("b-c", forbid=frozenset({"incident"}))))
    problem = forbidden(cut, "incident", frozenset({"c"}), None)
    assert problem is not None
    assert (str(problem.kind), problem.text) == (
        "forbidden",
        "the topic 'incident' is forbidden on links and falls into 2 parts: a, b; c "
        "(who subscribes at c is not told what is published in another part)",
    )
    assert forbidden(cut, "medical", frozenset({"c"}), None) is None
    assert forbidden(cut, "incident", frozenset(), None) is None, "nobody subscribes"


def test_of_a_topic_that_falls_into_many_parts_not_all_are_named():
    nowhere = tuple(link(f"b0000-b{n:04}", forbid=frozenset({"incident"})) for n in range(1, 3000))
    large = Overlay(tuple(f"b{number:04}" for number in range(3000)), nowhere)
    problem = forbidden(large, "incident", frozenset(large.brokers), None)
    assert problem is not None
    assert "falls into 3000 parts: b0000; b0001; " in problem.text
    assert (
        "b0009; and 2990 more parts (who subscribes at b0000, b0001, b0002, b0003, b0004, and 2995 more brokers" in problem.text
    )


@given(
    overlays,
    st.frozensets(st.sampled_from(NAMES)),
    st.one_of(st.none(), st.frozensets(st.sampled_from([*NAMES, "stranger"]))),
)
def test_a_topic_is_named_exactly_if_somebody_could_be_told_but_for_what_links_forbid(
    drawn: Overlay, subscribers: frozenset[str], publishers: frozenset[str] | None
):
    found, _ = of_snapshot(snapshot_of(to_records(drawn)))
    usable = found.for_topic("incident")

    def reached(where: Overlay, start: str, end: str) -> bool:
        return any({start, end} <= part for part in where.parts)

    away = {
        subscriber
        for subscriber in subscribers & set(found.brokers)
        for publisher in (found.brokers if publishers is None else publishers)
        if reached(found, publisher, subscriber) and not reached(usable, publisher, subscriber)
    }
    problem = forbidden(found, "incident", subscribers & set(found.brokers), publishers)
    assert (problem is not None) == bool(away)
    if problem is not None and len(away) <= 5:
        assert f"(who subscribes at {', '.join(sorted(away))} is not told" in problem.text


@given(overlays)
def test_what_a_service_uses_keeps_the_rules_and_what_it_leaves_out_is_named(drawn: Overlay):
    found, named = of_snapshot(snapshot_of(to_records(drawn)))
    assert found.brokers == drawn.brokers
    kinds = [problem.kind for problem in named]
    if found.is_connected:
        check(found)
    else:
        with pytest.raises(NotConnected):
            check(found)
    apart = [kind for kind in kinds if kind in (ProblemKind.CUT, ProblemKind.UNLINKED)]
    assert apart == ([] if found.is_connected else [ProblemKind.CUT if drawn.links else ProblemKind.UNLINKED])
    for link in set(drawn.links) - set(found.links):
        assert any(repr(link.name) in problem.text for problem in named)
    # Nothing that could be used is left out.
    usable = {frozenset((link.a, link.b)) for link in drawn.links if {link.a, link.b} <= set(drawn.brokers)}
    assert {frozenset((link.a, link.b)) for link in found.links} == usable
    # And the neighbours of the broken overlay are those of the one put right.
    assert all(found.neighbours(broker) == drawn.neighbours(broker) for broker in drawn.brokers)


# ---- control records --------------------------------------------------------------------------------------------------


@given(overlays)
def test_records_bring_the_same_overlay_back_through_a_snapshot(drawn: Overlay):
    assert declared(to_records(drawn)) == drawn


def test_records_say_only_what_is_not_as_by_default():
    assert to_records(Overlay(("b", "a"), (link("a-b", cost=3, forbid=frozenset({"z", "m"})), link("b-c")))) == [
        {"kind": "broker", "name": "a"},
        {"kind": "broker", "name": "b"},
        {"kind": "link", "name": "a-b", "a": "a", "b": "b", "cost": 3, "forbid": ["m", "z"]},
        {"kind": "link", "name": "b-c", "a": "b", "b": "c"},
    ]


def test_records_are_read_as_on_the_control_topic():
    records = [
        {"kind": "broker", "name": "a"},
        {"kind": "broker", "name": "gone"},
        {"kind": "link", "name": "l", "a": "a", "b": "gone"},
        {"kind": "topic", "name": "incident", "early": True},
        {"kind": "broker", "name": "b"},
        {"kind": "link", "name": "l", "a": "a", "b": "b", "cost": 4},
        {"kind": "broker", "name": "gone", "delete": True},
    ]
    assert declared(records) == Overlay(("a", "b"), (Link("l", "a", "b", 4),))
    assert declared([]) == Overlay(("b1",)), "without any there is b1"
