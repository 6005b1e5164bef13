"""Who does what for a topic."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.world.records import advertisement, broker, link, plan, subscription, topic
from tidings.topic import Placement
from topology.generators import generate
from topology.islands import PLACED
from topology.overlay import ProblemKind, to_records
from topology.plan import Plan, Role
from topology.profile import EVERYTHING
from topology.upstream import sources_of

CHAIN = [broker(f"b{n}") for n in range(1, 6)] + [link(f"b{n}", f"b{n + 1}") for n in range(1, 5)]


def way(plan: Plan, start: str, name: str = "incident") -> list[str]:
    """The brokers from one to the gatherer."""
    found = [start]
    while (toward := plan.place(found[-1], name).toward) is not None:
        found.append(toward)
    return found


def test_one_broker_needs_no_overlay() -> None:
    place = plan(subscription("s")).place("b1", "incident")
    assert (place.role, place.toward, dict(place.links)) == (Role.GATHERS, None, {})


def test_the_centre_gathers_and_the_others_pass_on() -> None:
    made = plan(*CHAIN, subscription("s", broker="b1"))
    assert [made.place(f"b{n}", "incident").role for n in range(1, 6)] == ["passes", "passes", "gathers", "passes", "passes"]
    assert way(made, "b5") == ["b5", "b4", "b3"]
    assert made.place("b3", "incident").downward.keys() == {"b2", "b4"}
    assert made.place("b2", "incident").downward.keys() == {"b1"}


def test_a_topic_nobody_subscribes_to_is_gathered_where_it_is_published() -> None:
    made = plan(*CHAIN, subscription("s", topic="other"))
    assert {made.place(f"b{n}", "incident").role for n in range(1, 6)} == {Role.GATHERS}
    assert not any(made.place(f"b{n}", "incident").links for n in range(1, 6))


def test_a_broker_that_is_not_there_is_gone() -> None:
    assert plan(*CHAIN).place("b9", "incident").role is Role.GONE


def test_an_advertised_topic_uses_the_links_between_those_who_take_part() -> None:
    made = plan(*CHAIN, advertisement("cam", broker="b1"), subscription("s", broker="b3"))
    part = made.route("incident").parts[0]
    assert part.tree.keys() == {"b1", "b2", "b3"}
    assert part.gatherer == "b2"
    assert way(made, "b5") == ["b5", "b4", "b3", "b2"]  # who did not say it would publish finds the way too


def test_a_lone_subscriber_gathers_for_itself() -> None:
    made = plan(*CHAIN, advertisement("cam", broker="b4"), subscription("s", broker="b4"))
    assert made.route("incident").parts[0].gatherer == "b4"
    assert way(made, "b1") == ["b1", "b2", "b3", "b4"]


def test_every_placement_but_nobodys_finds_a_broker() -> None:
    assert PLACED.keys() == set(Placement) - {Placement.NONE}


def test_the_median_is_where_most_of_them_are() -> None:
    crowd = [subscription(f"s{n}", broker="b5") for n in range(20)]
    made = plan(*CHAIN, topic(gatherer="median"), *crowd)
    assert made.route("incident").parts[0].gatherer == "b5"


@pytest.mark.parametrize(("named", "expected"), [("b5", {"b5"}), ("nowhere", {f"b{n}" for n in range(1, 6)})])
def test_a_rendezvous_gathers_and_one_that_is_not_there_is_replaced(named: str, expected: set[str]) -> None:
    made = plan(*CHAIN, topic(filter="rendezvous", rendezvous=named), subscription("s", broker="b1"))
    gatherer = made.route("incident").parts[0].gatherer
    assert gatherer in expected
    assert way(made, "b1")[-1] == gatherer


def test_an_advertised_rendezvous_is_part_of_the_tree() -> None:
    records = [
        *CHAIN,
        topic(filter="rendezvous", rendezvous="b5"),
        advertisement("cam", broker="b1"),
        subscription("s", broker="b2"),
    ]
    assert plan(*records).place("b5", "incident").downward.keys() == {"b4"}


def test_event_forwarding_asks_nobody() -> None:
    made = plan(*CHAIN, topic(filter="event"), subscription("s", broker="b1", where="a = 1"))
    assert set(made.place("b3", "incident").links.values()) == {EVERYTHING}


def test_where_nobody_gathers_what_a_message_does_not_say_keeps_it_not_back() -> None:
    made = plan(*CHAIN, topic(gatherer="none"), subscription("s", broker="b1", where="a = 1", missing="patient"))
    place = made.place("b3", "incident")
    assert place.role is Role.SPREADS
    assert place.links["b2"].matches("k", {"b": 2})
    assert not place.links["b2"].matches("k", {"a": 2})
    assert not place.links["b4"].matches("k", {"a": 1})


def test_a_cut_names_who_cannot_be_reached() -> None:
    cut = [record for record in CHAIN if record["name"] != "b2-b3"]
    made = plan(*cut, subscription("s", broker="b5"))
    assert made.place("b1", "incident").cut_off == ("b5",)
    assert made.place("b4", "incident").cut_off == ()
    assert [problem.kind for problem in made.problems] == [ProblemKind.CUT]
    assert "b1, b2" in made.problems[0].text
    assert {part.gatherer for part in made.route("incident").parts} == {"b4", None}


def test_brokers_that_were_never_linked_are_not_cut_off() -> None:
    made = plan(broker("b1"), broker("b2"), subscription("s", broker="b2"))
    assert made.place("b1", "incident").cut_off == ()


def closed(*names: str, records: list[dict] = CHAIN, to: str = "incident") -> list[dict]:
    """The same, with links that forbid a topic."""
    return [record | {"forbid": [to]} if record["name"] in names else record for record in records]


def test_who_cannot_be_reached_because_links_forbid_the_topic_is_cut_off_and_named() -> None:
    made = plan(*closed("b2-b3"), subscription("s", broker="b5"), subscription("t", "other", broker="b5"))
    assert made.place("b1", "incident").cut_off == made.place("b2", "incident").cut_off == ("b5",)
    assert made.place("b4", "incident").cut_off == ()
    assert made.place("b1", "other").cut_off == ()
    assert [(problem.kind, problem.text) for problem in made.problems] == [
        (
            ProblemKind.FORBIDDEN,
            "the topic 'incident' is forbidden on links and falls into 2 parts: b3, b4, b5; b1, b2 "
            "(who subscribes at b5 is not told what is published in another part)",
        )
    ]


def test_a_forbidden_link_that_there_is_a_way_round_cuts_nobody_off() -> None:
    made = plan(*closed("b2-b3"), link("b1", "b5"), subscription("s", broker="b3"))
    assert made.place("b2", "incident").cut_off == ()
    assert made.problems == ()


def test_a_forbidden_topic_that_nobody_subscribes_to_is_no_problem() -> None:
    assert plan(*closed("b2-b3"), subscription("s", "other"), subscription("t", broker="b9")).problems == ()


def test_a_topic_that_is_advertised_only_where_its_subscribers_are_is_no_problem() -> None:
    here = [*closed("b2-b3"), subscription("s", broker="b5"), advertisement("cam", "b4")]
    assert plan(*here).problems == ()
    assert [problem.kind for problem in plan(*here, advertisement("more", "b1")).problems] == [ProblemKind.FORBIDDEN]


def test_who_asks_for_aggregates_is_named_too_and_nothing_is_kept_for_them() -> None:
    window = {"size_ms": 1000, "of": {"n": "count()"}}
    made = plan(*closed("b2-b3"), subscription("s", broker="b5", window=window))
    assert [problem.kind for problem in made.problems] == [ProblemKind.FORBIDDEN]
    assert "b5 is not told" in made.problems[0].text
    assert made.place("b1", "incident").cut_off == ()


def test_what_the_overlay_cuts_and_what_a_topic_cuts_are_each_named_once() -> None:
    cut = [record for record in CHAIN if record["name"] != "b2-b3"]
    made = plan(*closed("b1-b2", records=cut), subscription("s", broker="b5"))
    assert [problem.kind for problem in made.problems] == [ProblemKind.CUT]
    made = plan(*closed("b3-b4", records=cut), subscription("s", broker="b5"))
    assert [problem.kind for problem in made.problems] == [ProblemKind.CUT, ProblemKind.FORBIDDEN]
    assert "falls into 2 parts: b4, b5; b3 (who" in made.problems[1].text
    assert made.place("b1", "incident").cut_off == made.place("b3", "incident").cut_off == ("b5",)


def test_what_a_broker_knows_comes_by_way_of_the_gatherer() -> None:
    made = plan(*CHAIN, subscription("s", broker="b1"), advertisement("cam", broker="b5"))
    assert way(made, "b1") == ["b1", "b2", "b3"]

    def upstream(at: str) -> list[tuple[str, str | None, bool]]:
        found = made.upstream(at, "incident")
        return [(each.broker, None if each.after is None else found[each.after].broker, each.publishes) for each in found]

    from_b3 = [("b2", "b3", False), ("b4", "b3", False), ("b1", "b2", False), ("b5", "b4", True)]
    assert upstream("b3") == [("b3", None, False), *from_b3]
    assert upstream("b2") == [("b2", None, False), ("b3", "b2", False), *from_b3]
    assert plan(subscription("s")).upstream("b1", "incident") == (), "without links nothing comes from elsewhere"
    assert plan(*CHAIN).upstream("b3", "incident") == (), "what nobody subscribes to is passed on to nobody"


def test_where_nobody_gathers_all_comes_straight() -> None:
    made = plan(*CHAIN, topic(gatherer="none"), subscription("s", broker="b1"))
    assert [each.broker for each in made.upstream("b1", "incident")] == ["b1", "b2", "b3", "b4", "b5"]


@given(st.integers(0, 2**16), st.integers(2, 9), st.booleans(), st.sampled_from(Placement), st.booleans())
def test_sources_in_short_are_those_of_the_list(seed: int, size: int, cut: bool, placed: Placement, advertised: bool) -> None:
    chance = Random(seed)
    names = [f"b{number}" for number in range(size)]
    links = [link(chance.choice(names[:number]), names[number]) for number in range(1, size)]
    wants = [subscription(f"s{number}", broker=chance.choice(names)) for number in range(2)]
    adverts = [advertisement(f"a{number}", broker=chance.choice(names)) for number in range(2)] if advertised else []
    made = plan(*map(broker, names), *links[cut:], topic(gatherer=str(placed)), *wants, *adverts)
    for each in names:
        assert made.sources(each, "incident") == sources_of(made.upstream(each, "incident"))


def test_the_layout_of_a_topic_is_another_when_its_ways_are() -> None:
    records = [*CHAIN, subscription("s", broker="b1")]
    before = plan(*records).layout("incident")
    assert plan(*records, subscription("t", broker="b1"), topic("other")).layout("incident") == before
    for more in (link("b1", "b5"), topic(gatherer="root"), subscription("t", broker="b2"), advertisement("cam", broker="b2")):
        assert plan(*records, more).layout("incident") != before


def test_a_change_elsewhere_does_not_route_anew() -> None:
    records = [*CHAIN, subscription("s", broker="b1")]
    before, after = plan(*records), plan(*records, subscription("t", topic="other", broker="b2"))
    assert before.route("incident") is after.route("incident")
    assert before.route("other") is not after.route("other")


@given(st.integers(0, 10_000), st.integers(5, 40), st.sampled_from([str(placement) for placement in PLACED]))
def test_every_way_leads_to_the_one_gatherer(seed: int, size: int, placement: str) -> None:
    overlay = generate("random", size, seed)
    names = overlay.brokers
    made = plan(*to_records(overlay), topic(gatherer=placement), subscription("s", broker=names[seed % size]))
    gatherers = {name for name in names if made.place(name, "incident").role is Role.GATHERS}
    assert len(gatherers) == 1
    graph = nx.Graph([(each.a, each.b) for each in overlay.links])
    for name in names:
        path = way(made, name)
        assert path[-1] in gatherers
        assert len(set(path)) == len(path)
        assert all(graph.has_edge(a, b) for a, b in pairwise(path))
        if placement == "root":
            assert len(path) - 1 == nx.shortest_path_length(graph, name, path[-1])
