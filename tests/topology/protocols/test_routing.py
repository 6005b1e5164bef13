"""The routing tree of a topic: what brokers say to each other, and that they come to one result whatever happened before."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.control import Link
from tidings.errors import UnknownBroker
from tidings.predicate import Verdict, parse
from tidings.subscription import Subscription
from topology.generators import generate
from topology.overlay import Overlay
from topology.profile import EVERYTHING, NOBODY, Profile, profile_of, united
from topology.protocols.network import AnyOrder
from topology.protocols.routing import Beyond, Left, Outputs, Released, RoutingNode, TopicRouting, Withdrawn
from topology.routes import RootOffer, rank, routes_of

TOPIC = "incident"
NAMES = "abcdefghijkl"


def wanting(*wheres: str) -> Profile:
    return profile_of(subscriptions(*wheres))


def subscriptions(*wheres: str) -> list[Subscription]:
    return [Subscription(where, "someone", "b1", TOPIC, "notify.someone", parse(where)) for where in wheres]


def linked(*pairs: str, brokers: Iterable[str] = (), **costs: float) -> Overlay:
    """An overlay of links written as two letters each; ``ab=5`` is a link with a cost."""
    links = dict.fromkeys(pairs, 1.0) | costs
    return Overlay(tuple({*brokers, *"".join(links)}), tuple(Link(pair, *pair, cost=cost) for pair, cost in links.items()))


def edges(tree: Mapping[str, Iterable[str]]) -> set[str]:
    return {min(a, b) + max(a, b) for a, beside in tree.items() for b in beside}


FIRE, SMOKE, GRAVE = wanting("kind = 'fire'"), wanting("kind = 'smoke'"), wanting("severity >= 3")


# --- a tree drawn by hand -----------------------------------------------------------------------------------------------
#
# d has the lowest rank of all letters from a to f, so it is the root:    a --- b       (all cost 1, but b–c costs 3)
#                                                                         |     | 3
#                                                                         d --- c --- e

DRAWN = linked("ab", "ad", "cd", "ce", bc=3)


def test_ranks_are_the_same_in_every_version():
    assert rank(TOPIC, "a") == "5ef912b43adcb9b9b23e6de1"
    assert sorted("abcdef", key=lambda broker: rank(TOPIC, broker)) == ["d", "f", "b", "a", "c", "e"]


def test_five_brokers():
    routes = routes_of(DRAWN, TOPIC, {"b": FIRE, "e": GRAVE})
    assert routes.spanning == {"a": "d", "b": "a", "c": "d", "d": None, "e": "c"}
    assert routes.parts == (frozenset("abcde"),)
    assert routes.tree == {
        "a": {"b": FIRE, "d": GRAVE},
        "b": {"a": GRAVE},
        "c": {"d": FIRE, "e": GRAVE},
        "d": {"a": FIRE, "c": GRAVE},
        "e": {"c": FIRE},
    }
    assert TopicRouting.build(DRAWN, TOPIC, {"b": FIRE, "e": GRAVE}).routes() == routes


def test_what_several_want_beyond_a_link_is_united():
    routes = routes_of(DRAWN, TOPIC, {"a": FIRE, "b": SMOKE, "d": GRAVE, "e": FIRE})
    assert routes.tree["c"]["d"] == united([united([FIRE, SMOKE]), GRAVE])
    assert routes.tree["b"]["a"] == united([FIRE, GRAVE])


def test_only_brokers_between_participants_are_in_the_tree():
    routes = routes_of(DRAWN, TOPIC, {"b": FIRE}, publishers=["a"])
    assert routes.tree == {"a": {"b": FIRE}, "b": {"a": NOBODY}}
    assert routes.spanning["e"] == "c", "the others still know the way to the root"


def test_a_root_without_participants_stays_where_it_is_between_them():
    assert edges(routes_of(DRAWN, TOPIC, {"b": FIRE}, publishers=["e"]).tree) == {"ab", "ad", "cd", "ce"}


def test_a_chosen_root_comes_before_all_ranks():
    routes = routes_of(DRAWN, TOPIC, {"b": FIRE}, roots=["e"])
    assert routes.spanning == {"a": "d", "b": "c", "c": "e", "d": "c", "e": None}
    assert TopicRouting.build(DRAWN, TOPIC, {"b": FIRE}, roots=["e"]).routes() == routes
    assert routes_of(DRAWN, TOPIC, {}, roots="abce").spanning["b"] is None, "of several, the lowest rank"


def test_a_single_participant_is_a_tree_of_its_own():
    assert routes_of(DRAWN, TOPIC, {"b": FIRE}, publishers=[]).tree == {"b": {}}
    assert TopicRouting.build(DRAWN, TOPIC, {"b": FIRE}, publishers=[]).routes().tree == {"b": {}}


def test_without_brokers_there_is_nothing():
    nothing = routes_of(Overlay(()), TOPIC, {})
    assert (nothing.tree, nothing.spanning, nothing.parts) == ({}, {}, ())
    assert TopicRouting.build(Overlay(()), TOPIC, {}).routes() == nothing


def test_equal_costs_are_decided_by_hops_and_then_by_names():
    ring = linked("ab", "ad", "bc", "cd")
    assert routes_of(ring, TOPIC, {}).spanning == {"a": "d", "b": "a", "c": "d", "d": None}
    free = linked(ab=0, ad=0, bc=0, cd=0, bd=0)
    assert routes_of(free, TOPIC, {}).spanning == {"a": "d", "b": "d", "c": "d", "d": None}
    assert TopicRouting.build(free, TOPIC, {}).routes() == routes_of(free, TOPIC, {})


# --- changes ------------------------------------------------------------------------------------------------------------


@dataclass
class Scene:
    """A routing that changes, and what it should then come to."""

    routing: TopicRouting
    interests: dict[str, Profile] = field(default_factory=dict)
    publishers: set[str] | None = None

    def expected(self):
        return routes_of(self.routing.overlay, TOPIC, self.interests, self.publishers)


def test_when_the_root_is_lost_the_next_in_rank_takes_over():
    routing = TopicRouting.build(DRAWN, TOPIC, {"b": FIRE, "e": GRAVE})
    routing.remove_broker("d")
    routes = routing.routes()
    assert routes.spanning == {"a": "b", "b": None, "c": "b", "e": "c"}
    assert routes.tree == {
        "a": {"b": united([FIRE, GRAVE])},
        "b": {"a": NOBODY, "c": GRAVE},
        "c": {"b": FIRE, "e": GRAVE},
        "e": {"c": FIRE},
    }


def test_cut_in_two_and_healed():
    routing = TopicRouting.build(linked("ab", "bc", "cd", "de"), TOPIC, {"a": FIRE, "e": GRAVE})
    whole = routing.routes()
    routing.remove_link("bc")
    assert routing.routes().parts == (frozenset("cde"), frozenset("ab"))
    assert routing.routes().spanning == {"a": "b", "b": None, "c": "d", "d": None, "e": "d"}
    assert routing.routes().tree["c"] == {"d": GRAVE}
    routing.add_link(Link("bc", "c", "b"))
    assert routing.routes() == whole


def test_who_stops_advertising_is_pruned():
    routing = TopicRouting.build(DRAWN, TOPIC, {"b": FIRE}, publishers=["a", "e"])
    assert edges(routing.routes().tree) == {"ab", "ad", "cd", "ce"}
    assert routing.set_publishes("e", False) == routing.last_messages > 0
    assert routing.routes().tree == {"a": {"b": FIRE}, "b": {"a": NOBODY}}


def test_who_stops_subscribing_is_pruned():
    routing = TopicRouting.build(DRAWN, TOPIC, {"b": FIRE, "e": GRAVE}, publishers=["a"])
    routing.set_interest("e", NOBODY)
    assert routing.routes() == routes_of(DRAWN, TOPIC, {"b": FIRE}, publishers=["a"])


@pytest.mark.parametrize(("publishers", "links"), [(None, {"c": FIRE}), (["a"], None)], ids=["everybody", "only a"])
def test_a_new_broker_publishes_where_everybody_does(publishers, links):
    routing = TopicRouting.build(linked("ad", "cd"), TOPIC, {"d": FIRE}, publishers)
    routing.add_broker("e")
    routing.add_link(Link("ce", "c", "e"))
    assert routing.routes().tree.get("e") == links
    assert routing.routes().spanning["e"] == "c"


def test_a_broker_that_comes_back_has_no_links_and_no_subscribers():
    routing = TopicRouting.build(DRAWN, TOPIC, {"b": FIRE})
    routing.remove_broker("b")
    routing.add_broker("b")
    assert routing.routes().parts == (frozenset("acde"), frozenset("b"))
    assert all(profile == NOBODY for links in routing.routes().tree.values() for profile in links.values())


def test_a_link_can_get_dearer_cheaper_or_closed_to_the_topic():
    routing = TopicRouting.build(DRAWN, TOPIC, {"b": FIRE})
    for link in (Link("ad", "a", "d", 9), Link("ad", "a", "d", 0), Link("ad", "a", "d", 1, frozenset({TOPIC}))):
        routing.add_link(link)
        assert routing.routes() == routes_of(routing.overlay, TOPIC, {"b": FIRE})
    assert routing.routes().spanning["a"] == "b"
    assert routing.remove_link("ad") == 0


def test_one_cannot_subscribe_at_an_unknown_broker():
    routing = TopicRouting.build(DRAWN, TOPIC, {})
    with pytest.raises(UnknownBroker, match="'z'"):
        routing.set_interest("z", FIRE)
    with pytest.raises(UnknownBroker, match="'z'"):
        routing.set_publishes("z", True)


# --- what one broker says -----------------------------------------------------------------------------------------------

BY_D = RootOffer(rank(TOPIC, "d"), 0, 0, ("d",))
BY_F = RootOffer(rank(TOPIC, "f"), 0, 0, ("f",))


def node_a(*neighbours: str) -> RoutingNode:
    node = RoutingNode("a", TOPIC)
    for neighbour in neighbours:
        node.link_up(neighbour, 1)
    return node


def offers(outputs: Outputs) -> dict[str, tuple[str, ...]]:
    return {receiver: message.path for receiver, message in outputs if isinstance(message, RootOffer)}


def test_a_broker_first_offers_itself():
    assert RoutingNode("a", TOPIC).link_up("b", 1) == [("b", RootOffer(rank(TOPIC, "a"), 0, 0, ("a",)))]


def test_a_better_offer_is_passed_on_and_the_child_begins_to_tell():
    better = BY_D.extended("a", 1)
    word = Beyond(NOBODY, publishes=False, upward=True)
    assert node_a("b", "d").received("d", BY_D) == [("b", better), ("d", better), ("d", word)]


def test_a_worse_offer_is_kept_but_not_passed_on():
    node = node_a("c", "d")
    node.received("d", BY_D)
    assert node.received("c", BY_D.extended("c", 5)) == []
    assert node.parent == "d"


def test_an_offer_that_leads_through_oneself_is_no_offer():
    node = node_a("c")
    assert node.received("c", BY_D.extended("a", 1).extended("c", 1)) == []
    assert (node.parent, node.root) == (None, "a")


def test_who_changes_its_parent_leaves_the_old_one():
    node = node_a("d", "f")
    node.received("f", BY_F)
    assert node.parent == "f"
    assert ("f", Left()) in node.received("d", BY_D)
    assert (node.parent, node.root) == ("d", "d")


def test_a_lost_way_is_withdrawn_before_another_is_taken():
    node = node_a("b", "d", "f")
    node.received("d", BY_D)
    node.received("f", BY_F)
    assert node.link_down("d") == [("b", Withdrawn()), ("f", Withdrawn())]
    assert node.received("b", Released()) == []
    assert offers(node.received("f", Released())) == {"b": ("f", "a"), "f": ("f", "a")}


def test_who_relies_on_a_withdrawn_way_lets_go_after_those_behind_it():
    node = node_a("b", "d")
    node.received("d", BY_D)
    assert node.received("d", Withdrawn()) == [("b", Withdrawn())]
    assert node.received("b", Released()) == [("d", Released())]
    assert offers(node.received("b", BY_F.extended("b", 1))) == {}, "it waits for the parent"
    assert offers(node.received("d", BY_D.extended("d", 7))) == {"b": ("d", "d", "a")}


def test_who_does_not_rely_on_a_withdrawn_way_lets_go_at_once():
    node = node_a("c", "d")
    node.received("d", BY_D)
    node.received("c", BY_D.extended("c", 1))
    assert node.received("c", Withdrawn()) == [("c", Released())]
    assert node.parent == "d"


def test_who_is_lost_relies_on_nothing_any_more():
    node = node_a("b", "c", "d")
    node.received("d", BY_D)
    assert node.received("d", Withdrawn()) == [("b", Withdrawn()), ("c", Withdrawn())]
    assert node.link_down("b") == []
    assert node.link_down("c") == [("d", Released())]


def test_a_parent_that_is_lost_is_not_waited_for():
    node = node_a("b", "d")
    node.received("d", BY_D)
    node.received("d", Withdrawn())
    node.received("b", Released())
    assert offers(node.link_down("d")) == {"b": ("a",)}
    waiting = node_a("b", "d")
    waiting.received("d", BY_D)
    waiting.received("d", Withdrawn())
    assert waiting.link_down("d") == [], "b has not let go"
    assert offers(waiting.received("b", Released())) == {"b": ("a",)}


def test_a_child_that_left_is_told_anew_when_it_comes_back():
    node = node_a("b")
    word = ("b", Beyond(NOBODY, False, upward=False))
    assert node.received("b", Beyond(NOBODY, True, upward=True)) == [word]
    assert node.received("b", Left()) == []
    assert node.received("b", Beyond(NOBODY, True, upward=True)) == [word]


def test_a_child_is_told_what_is_beyond_but_not_its_own():
    node = node_a("b", "c")
    node.interest(FIRE)
    assert node.received("b", Beyond(SMOKE, True, upward=True)) == [("b", Beyond(FIRE, False, upward=False))]
    assert node.received("c", Beyond(NOBODY, False, upward=True)) == [("c", Beyond(united([FIRE, SMOKE]), True, upward=False))]
    assert node.children == {"b", "c"}
    assert node.tree_neighbours == {"b": SMOKE}, "nobody takes part behind c"


def test_what_did_not_change_is_not_said_again():
    node = node_a("b", "c")
    node.interest(EVERYTHING)
    node.received("b", Beyond(NOBODY, True, upward=True))
    node.received("c", Beyond(NOBODY, True, upward=True))
    assert node.received("b", Beyond(FIRE, True, upward=True)) == [], "c is told of everything already"
    assert node.interest(EVERYTHING) == []
    assert node.publishes(True) == []


def test_the_word_of_a_parent_that_was_left_is_not_heeded():
    node = node_a("d", "f")
    node.received("f", BY_F)
    node.received("d", BY_D)
    assert node.received("f", Beyond(FIRE, True, upward=False)) == []
    assert node.children == frozenset()
    assert node.tree_neighbours == {}


def test_what_comes_over_no_link_is_not_heeded():
    node = node_a("b")
    node.link_down("b")
    assert node.received("b", BY_D) == []
    assert node.root == "a"


# --- laws ---------------------------------------------------------------------------------------------------------------

# 1e16 + 1 is 1e16: sums of such costs do not keep their order.
COSTS = st.sampled_from([0, 0, 1, 1, 1, 2, 0.1, 0.2, 1e16])
PROFILES = [NOBODY, NOBODY, FIRE, SMOKE, GRAVE, wanting("kind = 'fire' and severity >= 5"), wanting("key = 'x'"), EVERYTHING]
profiles = st.sampled_from(PROFILES)
chances = st.integers(0, 2**32).map(random.Random)


def pair_of(brokers: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, str]]:
    return st.tuples(brokers, brokers).filter(lambda pair: pair[0] < pair[1])


@st.composite
def overlays(draw: st.DrawFn, most: int = len(NAMES), costs: st.SearchStrategy[float] = COSTS) -> Overlay:
    brokers = NAMES[: draw(st.integers(1, most))]
    pairs = draw(st.sets(pair_of(st.sampled_from(brokers)), max_size=2 * len(brokers))) if len(brokers) > 1 else set()
    forbid = st.sampled_from([frozenset()] * 6 + [frozenset({TOPIC}), frozenset({"another"})])
    return Overlay(tuple(brokers), tuple(Link(f"{a}{b}", a, b, draw(costs), draw(forbid)) for a, b in sorted(pairs)))


@st.composite
def scenes(draw: st.DrawFn) -> tuple[Overlay, dict[str, Profile], set[str] | None]:
    overlay = draw(overlays())
    brokers = st.sampled_from(overlay.brokers)
    return overlay, draw(st.dictionaries(brokers, profiles)), draw(st.none() | st.sets(brokers))


@given(scenes(), chances)
def test_brokers_agree_on_what_is_computed_directly_in_whatever_order_messages_come(scene, chance):
    routing = TopicRouting.build(*scene[:1], TOPIC, *scene[1:], AnyOrder(chance))
    assert routing.routes() == routes_of(*scene[:1], TOPIC, *scene[1:])


CHANGES = st.one_of(
    st.tuples(st.just("interest"), st.sampled_from(NAMES), profiles),
    st.tuples(st.just("publishes"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.sampled_from(["add broker", "remove broker"]), st.sampled_from(NAMES)),
    st.tuples(st.just("add link"), pair_of(st.sampled_from(NAMES)), COSTS, st.booleans()),
    st.tuples(st.just("remove link"), pair_of(st.sampled_from(NAMES))),
)


def apply(scene: Scene, change: tuple) -> None:
    routing, (what, where, *rest) = scene.routing, change
    there = where in routing.overlay.brokers
    match what:
        case "interest" if there:
            routing.set_interest(where, rest[0])
            scene.interests[where] = rest[0]
        case "publishes" if there and scene.publishers is not None:
            routing.set_publishes(where, rest[0])
            scene.publishers = scene.publishers - {where} | ({where} if rest[0] else set())
        case "add broker":
            routing.add_broker(where)
        case "remove broker":
            routing.remove_broker(where)
            scene.interests.pop(where, None)
            scene.publishers = None if scene.publishers is None else scene.publishers - {where}
        case "add link":
            routing.add_link(Link("".join(where), *where, rest[0], frozenset({TOPIC} if rest[1] else ())))
        case "remove link":
            routing.remove_link("".join(where))


@given(scenes(), st.lists(CHANGES, max_size=15), chances)
def test_after_any_changes_the_result_is_that_of_a_new_start(scene, changes, chance):
    overlay, interests, publishers = scene
    changing = Scene(TopicRouting.build(overlay, TOPIC, interests, publishers, AnyOrder(chance)), interests, publishers)
    for change in changes:
        apply(changing, change)
        assert changing.routing.routes() == changing.expected()
    again = TopicRouting.build(changing.routing.overlay, TOPIC, changing.interests, changing.publishers)
    assert again.routes() == changing.routing.routes()


class Hurried(TopicRouting):
    """The next change does not wait until all is quiet: only a few messages arrive meanwhile."""

    patience = 0

    def _settled(self, told: Iterable[tuple[str, Outputs]]) -> int:
        for broker, outputs in told:
            self.network.inject(broker, outputs)
        return sum(self.network.step() is not None for _ in range(self.patience))


@given(scenes(), st.lists(st.tuples(CHANGES, st.integers(0, 12)), max_size=25), chances)
def test_changes_may_come_while_messages_are_under_way(scene, changes, chance):
    overlay, interests, publishers = scene
    hurried = Scene(Hurried.build(overlay, TOPIC, interests, publishers, AnyOrder(chance)), interests, publishers)
    for change, patience in changes:
        hurried.routing.patience = patience
        apply(hurried, change)
    hurried.routing.network.run()
    assert hurried.routing.routes() == hurried.expected()


@given(overlays(most=6, costs=st.sampled_from([0, 1, 2, 0.5])))
def test_the_broadcast_tree_is_that_of_the_best_of_all_ways(overlay):
    graph = graph_of(overlay)
    routes = routes_of(overlay, TOPIC, {})
    assert set(routes.parts) == set(map(frozenset, nx.connected_components(graph)))
    for part in routes.parts:
        root = min(part, key=lambda broker: rank(TOPIC, broker))
        assert routes.spanning[root] is None
        for broker in part - {root}:
            ways = nx.all_simple_paths(graph, root, broker)
            best = min(ways, key=lambda way: (nx.path_weight(graph, way, "cost"), len(way), way))
            assert routes.spanning[broker] == best[-2]


@given(scenes())
def test_the_tree_spans_the_participants_and_what_is_needed_between_them(scene):
    overlay, interests, publishers = scene
    routes = routes_of(overlay, TOPIC, interests, publishers)
    participants = {broker for broker in overlay.brokers if publishers is None or broker in publishers or interests.get(broker)}
    broadcast = nx.Graph((child, parent) for child, parent in routes.spanning.items() if parent)
    broadcast.add_nodes_from(overlay.brokers)
    assert nx.is_forest(broadcast)
    while ends := [broker for broker in broadcast if broadcast.degree[broker] <= 1 and broker not in participants]:
        broadcast.remove_nodes_from(ends)
    assert {broker: set(links) for broker, links in routes.tree.items()} == {b: set(broadcast[b]) for b in broadcast}


def graph_of(overlay: Overlay) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(overlay.brokers)
    graph.add_edges_from((link.a, link.b, {"cost": link.cost}) for link in overlay.links if TOPIC not in link.forbid)
    return graph


WHERES = [
    "kind = 'fire'",
    "kind prefix 's' and severity > 2",
    "not exists(closed)",
    "key in ('x', 'y')",
    "severity < 2 or kind = 'x'",
]
FACTS = st.dictionaries(st.sampled_from(["kind", "severity", "closed"]), st.sampled_from(["fire", "smoke", "x", 1, 3, True]))


@given(overlays(), st.data())
def test_a_profile_never_misses_what_a_subscription_beyond_the_link_matches(overlay, data):
    wanted = data.draw(
        st.dictionaries(st.sampled_from(overlay.brokers), st.lists(st.sampled_from(WHERES), min_size=1, max_size=2))
    )
    routes = routes_of(overlay, TOPIC, {broker: wanting(*wheres) for broker, wheres in wanted.items()})
    tree = nx.Graph((a, b) for a, links in routes.tree.items() for b in links)
    key, facts = data.draw(st.sampled_from("xyz")), data.draw(FACTS)
    for here, links in routes.tree.items():
        for there, profile in links.items():
            far_side = nx.node_connected_component(nx.restricted_view(tree, [here], []), there)
            beyond = [subscription for broker in far_side for subscription in subscriptions(*wanted.get(broker, ()))]
            if not beyond:
                assert profile == NOBODY
            if any(subscription.judge(key, facts) is Verdict.MATCHES for subscription in beyond):
                assert profile.matches(key, facts)


@given(scenes())
def test_a_link_that_forbids_the_topic_is_never_used(scene):
    overlay, interests, publishers = scene
    open_links = {link.name for link in overlay.links if TOPIC not in link.forbid}
    routing = TopicRouting.build(overlay, TOPIC, interests, publishers)
    routes = routing.routes()
    assert edges(routes.tree) <= edges({b: [p] for b, p in routes.spanning.items() if p}) <= open_links
    assert {min(ends) + max(ends) for ends in routing.network.by_link} <= open_links


# --- what it costs ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sixty() -> Overlay:
    return generate("random", 60, seed=7)


def spread(overlay: Overlay) -> dict[str, Profile]:
    return {broker: PROFILES[number % len(PROFILES)] for number, broker in enumerate(overlay.brokers)}


def test_a_change_at_a_leaf_takes_few_messages(sixty):
    interests = spread(sixty)
    routing = TopicRouting.build(sixty, TOPIC, interests)
    built = routing.messages
    leaf = max(routing.routes().spanning.keys() - set(routing.routes().spanning.values()))
    assert 0 < routing.set_interest(leaf, wanting("key = 'new'")) < built / 10
    interests[leaf] = wanting("key = 'new'")
    assert routing.routes() == routes_of(sixty, TOPIC, interests)
    before = routing.messages
    assert routing.remove_broker(leaf) < built / 10
    assert routing.messages == before + routing.last_messages


def test_losing_a_root_takes_about_as_many_messages_as_building(sixty):
    # Brokers that just took the next best offer would need more than could ever be delivered.
    routing = TopicRouting.build(sixty, TOPIC, {}, schedule=AnyOrder(random.Random(3)))
    for _ in range(5):
        before = routing.messages
        root = next(broker for broker, parent in routing.routes().spanning.items() if parent is None)
        assert routing.remove_broker(root) < 2 * before
        assert routing.routes() == routes_of(routing.overlay, TOPIC, {})
        routing = TopicRouting.build(routing.overlay, TOPIC, {}, schedule=AnyOrder(random.Random(3)))


def test_thousands_of_brokers_are_routed_at_once():
    overlay = generate("random", 3200, seed=1)
    interests = {broker: PROFILES[number % len(PROFILES)] for number, broker in enumerate(overlay.brokers)}
    routes = routes_of(overlay, TOPIC, interests)
    assert len(routes.tree) == 3200
    assert sum(map(len, routes.tree.values())) == 2 * (3200 - len(routes.parts))
